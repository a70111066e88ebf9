"""``cule watch``: many environments in a browser, played by a policy and by people at a keyboard.

* `command`: the command line, and the resources of a session;
* `policies`: random actions, or the policy of a checkpoint;
* `environments`: the vector environment with its policy, the keys of players, scores and lives;
* `keys`: from held keys to an action of the environment's own set;
* `camera`: all screens as one picture, an indexed-colour PNG;
* `players`: which viewer plays which environment, with which keys;
* `session`: the stepping loop, and requests to it from other threads; `pace`: its timing;
* `messages`: messages of viewers, checked;
* `server`: HTTP around a session; ``page.html`` is all that a browser loads.

Only the main thread uses the environments: it steps, resets and renders them. The server's threads
leave requests in the session and wait for results. Only checkpoints need torch.
"""
