"""Adapters: the batched environments, as other libraries expect theirs.

One module for each library, which you import by its name; importing this package imports none of
them. docs/frameworks.md shows each in use.

* `cule.wrappers.sb3`: Stable-Baselines3 ``VecEnv``
* `cule.wrappers.torchrl`: TorchRL ``EnvBase``
* `cule.wrappers.dm_env`: dm_env ``Environment``
* `cule.wrappers.envpool`: EnvPool's ``make``
* `cule.wrappers.openenv`: OpenEnv ``Environment``, and a server of it
* `cule.wrappers.rllib`: names for RLlib's ``AlgorithmConfig.environment``

`cule.wrappers.objects` makes masks, planes and crops of observations of objects.
"""
