"""Environments: what users of ale-py and Gymnasium know, over the native module.

What is where:

* `vector_env`: `AtariVectorEnv`, many consoles; `options` and `presets` define its keywords, `plan`
  turns them into a native batch, `actions` and `requests` check what comes in, `results` and
  `output` are what goes out, in memory that `memory` lends;
* `backend` makes the batch: `cule._core.Batch`, or `cuda_batch` with `device_memory`, `launch` (how
  consoles are spread over warps) and `translation` (a game's own kernel);
* `ale_interface`: `ALEInterface`, one console; with `settings`, `ale_state`, `png`;
* `gym_env`: `AtariEnv`, one console as a Gymnasium environment; `registration` gives it its ids;
* `action`: the 18 actions; `spaces`: shapes; `checks`, `compat_errors`, `native`: errors.

Data flows one way: keywords -> `EnvOptions` -> `BatchPlan` -> ``cule._core.Batch`` -> arrays.
Nothing here loops over consoles in a step.
"""

from __future__ import annotations

from cule.envs.action import Action
from cule.envs.ale_interface import ALEInterface, LoggerMode
from cule.envs.ale_state import ALEState
from cule.envs.gym_env import AtariEnv
from cule.envs.options import EnvOptions
from cule.envs.registration import register_envs
from cule.envs.results import FrameStep
from cule.envs.vector_env import AtariVectorEnv

__all__ = [
    "ALEInterface",
    "ALEState",
    "Action",
    "AtariEnv",
    "AtariVectorEnv",
    "EnvOptions",
    "FrameStep",
    "LoggerMode",
    "register_envs",
]
