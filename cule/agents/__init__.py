"""Learners: one file an algorithm, each with a dataclass of options and one readable loop.

    A2C     advantage actor-critic                          a2c.py
    VTrace  A2C with V-trace on CuLE's multi-batch strategy vtrace.py
    PPO     proximal policy optimisation                    ppo.py
    PQN     parallelised Q-learning, without replay         pqn.py
    DQN     Q-learning from replay, extensions by switch    dqn.py
    Rainbow DQN with every extension                        dqn.py
    ApexDQN many explorers and prioritised replay           apex.py
    ApexDPG the same on the continuous action interface     apex_dpg.py

A learner is made of its options (and, if wanted, environments of one's own), learns while `train`
is iterated over, and has `save`, `load` and `evaluate`. `start_run` adds a folder with logs,
checkpoints and evaluations; it is what ``cule train`` does.

Needs torch; `import cule` does not import this.
"""

from __future__ import annotations

from cule.agents.a2c import A2C, A2CConfig
from cule.agents.apex import ApexConfig, ApexDQN
from cule.agents.apex_dpg import ApexDPG, ApexDPGConfig
from cule.agents.base import Agent, Progress
from cule.agents.dqn import DQN, DQNConfig, Rainbow, RainbowConfig
from cule.agents.errors import DivergedError, TrainingMemoryError, VideoError
from cule.agents.evaluation import Evaluation, evaluate
from cule.agents.options import AgentConfig
from cule.agents.ppo import PPO, PPOConfig
from cule.agents.pqn import PQN, PQNConfig
from cule.agents.presets import AGENTS, PRESETS
from cule.agents.runner import Run, RunOptions, start_run
from cule.agents.vtrace import VTrace, VTraceConfig
from cule.errors import CheckpointError

__all__ = [
    "A2C",
    "AGENTS",
    "DQN",
    "PPO",
    "PQN",
    "PRESETS",
    "A2CConfig",
    "Agent",
    "AgentConfig",
    "ApexConfig",
    "ApexDPG",
    "ApexDPGConfig",
    "ApexDQN",
    "CheckpointError",
    "DQNConfig",
    "DivergedError",
    "Evaluation",
    "PPOConfig",
    "PQNConfig",
    "Progress",
    "Rainbow",
    "RainbowConfig",
    "Run",
    "RunOptions",
    "TrainingMemoryError",
    "VTrace",
    "VTraceConfig",
    "VideoError",
    "evaluate",
    "start_run",
]
