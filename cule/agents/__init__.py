"""Agents: reinforcement learning on `cule.AtariVectorEnv`.

    ppo.py       PPO: proximal policy optimisation; the place to start reading
    ppo_lstm.py  RecurrentPPO: PPO with an LSTM
    ppo_rnd.py   RNDPPO: PPO with a reward of novelty
    a2c.py       A2C: advantage actor-critic
    vtrace.py    VTrace: A2C with V-trace and CuLE's multi-batch strategy
    vtrace_lstm.py RecurrentVTrace: V-trace with an LSTM
    pqn.py       PQN: parallelised Q-learning, without replay
    dqn.py       DQN: Q-learning with replay; Rainbow and IQN
    apex.py      ApexDQN: many actors and prioritised replay
    apex_dpg.py  ApexDPG: the same on the continuous action interface
    self_play.py the seats of games for several players as environments
    parts/       what these share: functions and small classes
    run/         what runs them: folders, checkpoints, logs, evaluations, the command line

A file of an algorithm holds its options, its loop (`train`), acting, its loss and its state. You
make an agent from its config and, if you like, your own environments. It trains while you iterate
over `train`, and has `save`, `load` and `evaluate`. `start_run` adds a folder with logs,
checkpoints and evaluations, as ``cule train`` does.

Requires torch; `import cule` does not import this package. A name imports its module when it is
first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cule.errors import CheckpointError, DivergedError, TrainingMemoryError, VideoError
from cule.lazy import lazy_names

if TYPE_CHECKING:
    from cule.agents.a2c import A2C, A2CConfig
    from cule.agents.apex import ApexConfig, ApexDQN
    from cule.agents.apex_dpg import ApexDPG, ApexDPGConfig
    from cule.agents.dqn import DQN, IQN, DQNConfig, IQNConfig, Rainbow, RainbowConfig
    from cule.agents.parts.config import AgentConfig
    from cule.agents.parts.learner import Learner, Progress
    from cule.agents.ppo import PPO, PPOConfig
    from cule.agents.ppo_lstm import RecurrentPPO, RecurrentPPOConfig
    from cule.agents.ppo_rnd import RNDPPO, RNDPPOConfig
    from cule.agents.pqn import PQN, PQNConfig
    from cule.agents.run.evaluation import Evaluation, evaluate
    from cule.agents.run.presets import AGENTS, PRESETS, load
    from cule.agents.run.run import Run, RunOptions, start_run
    from cule.agents.self_play import Opponent, RandomOpponent, SelfPlayEnv
    from cule.agents.vtrace import VTrace, VTraceConfig
    from cule.agents.vtrace_lstm import RecurrentVTrace, RecurrentVTraceConfig

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "a2c": ("A2C", "A2CConfig"),
        "apex": ("ApexConfig", "ApexDQN"),
        "apex_dpg": ("ApexDPG", "ApexDPGConfig"),
        "dqn": ("DQN", "DQNConfig", "IQN", "IQNConfig", "Rainbow", "RainbowConfig"),
        "parts.config": ("AgentConfig",),
        "parts.learner": ("Learner", "Progress"),
        "ppo": ("PPO", "PPOConfig"),
        "ppo_lstm": ("RecurrentPPO", "RecurrentPPOConfig"),
        "ppo_rnd": ("RNDPPO", "RNDPPOConfig"),
        "pqn": ("PQN", "PQNConfig"),
        "run.evaluation": ("Evaluation", "evaluate"),
        "run.presets": ("AGENTS", "PRESETS", "load"),
        "run.run": ("Run", "RunOptions", "start_run"),
        "self_play": ("Opponent", "RandomOpponent", "SelfPlayEnv"),
        "vtrace": ("VTrace", "VTraceConfig"),
        "vtrace_lstm": ("RecurrentVTrace", "RecurrentVTraceConfig"),
    },
)

__all__ = [
    "A2C",
    "AGENTS",
    "DQN",
    "IQN",
    "PPO",
    "PQN",
    "PRESETS",
    "RNDPPO",
    "A2CConfig",
    "AgentConfig",
    "ApexConfig",
    "ApexDPG",
    "ApexDPGConfig",
    "ApexDQN",
    "CheckpointError",
    "DQNConfig",
    "DivergedError",
    "Evaluation",
    "IQNConfig",
    "Learner",
    "Opponent",
    "PPOConfig",
    "PQNConfig",
    "Progress",
    "RNDPPOConfig",
    "Rainbow",
    "RainbowConfig",
    "RandomOpponent",
    "RecurrentPPO",
    "RecurrentPPOConfig",
    "RecurrentVTrace",
    "RecurrentVTraceConfig",
    "Run",
    "RunOptions",
    "SelfPlayEnv",
    "TrainingMemoryError",
    "VTrace",
    "VTraceConfig",
    "VideoError",
    "evaluate",
    "load",
    "start_run",
]
