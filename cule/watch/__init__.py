"""``cule watch``: many consoles at once in a browser, played by a policy and by whoever looks on.

What is where:

* `command`: the words of the command line, and what is opened and closed around a session;
* `policies`: who plays when nobody does: random actions, or a checkpoint's policy;
* `consoles`: the environment with its policy, stepped with the keys of people; scores and lives;
* `keys`: from held keys to an action of the environment's own set;
* `camera`: all screens as one picture, an indexed-colour PNG;
* `players`: which viewer plays which console, and with what keys;
* `session`: the stepping loop, and what viewers ask of it from other threads; `pace`: when it runs;
* `messages`: what viewers may send, checked; `errors`: how they are refused;
* `server`: HTTP around a session; ``page.html`` is all that a browser gets.

One thread, the main one, owns the environment: it alone steps, resets and takes pictures. The
server's threads leave orders in the session and wait for what comes of them. Nothing here needs
torch but a checkpoint.
"""
