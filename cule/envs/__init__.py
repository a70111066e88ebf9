"""Environments: what users of ale-py and Gymnasium know, over the native module.

* `single_agent`: `AtariVectorEnv`; `multi_agent`: `MultiAgentVectorEnv`; both are a `BatchEnv` of
  `vector_env`, with a `flight` for `send` and `recv`, and `xla` for JAX;
* `options` defines the keywords, `plan` turns them into a native batch and Gymnasium spaces,
  `actions` and `requests` check what comes in, `results` is what goes out;
* `backend`: what a back end is, with its memory. On the CPU ``cule._core.Batch``; on a GPU
  `cuda_batch` with `device_memory`, `launch` (how environments are spread over warps) and
  `translation` (a kernel compiled for a game, with `nvrtc` and `kernel_cache`);
* `gym_env`: `AtariEnv`, one environment; `registration`: the ids that Gymnasium knows;
* `ale_interface`: `ALEInterface`, one console; with `settings`, `ale_state`, `recording`, `png`;
* `packing`: compressed snapshots;
* `concurrency`: threads and fork safety;
* `checks`, `errors`: single arguments and arrays, kinds of errors.

Data flows one way: keywords -> `EnvOptions` -> `BatchPlan` -> `Backend` -> arrays. Nothing here
loops over environments in a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cule.envs.actions import Action
from cule.envs.options import EnvOptions
from cule.envs.registration import register_envs
from cule.envs.results import FrameStep, RunningKernel
from cule.envs.single_agent import AtariVectorEnv
from cule.lazy import lazy_names

if TYPE_CHECKING:
    from cule.envs.ale_interface import ALEInterface, LoggerMode
    from cule.envs.ale_state import ALEState
    from cule.envs.gym_env import AtariEnv
    from cule.envs.multi_agent import MultiAgentOptions, MultiAgentVectorEnv
    from cule.envs.packing import pack_states, unpack_states

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ale_interface": ("ALEInterface", "LoggerMode"),
        "ale_state": ("ALEState",),
        "gym_env": ("AtariEnv",),
        "multi_agent": ("MultiAgentOptions", "MultiAgentVectorEnv"),
        "packing": ("pack_states", "unpack_states"),
    },
)

__all__ = [
    "ALEInterface",
    "ALEState",
    "Action",
    "AtariEnv",
    "AtariVectorEnv",
    "EnvOptions",
    "FrameStep",
    "LoggerMode",
    "MultiAgentOptions",
    "MultiAgentVectorEnv",
    "RunningKernel",
    "pack_states",
    "register_envs",
    "unpack_states",
]
