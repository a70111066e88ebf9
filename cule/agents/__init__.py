"""Agents: reinforcement learning on `cule.AtariVectorEnv`.

    A2C     advantage actor-critic                            algorithms/a2c.py
    VTrace  A2C with V-trace and CuLE's multi-batch strategy  algorithms/vtrace.py
    PPO     proximal policy optimisation                      algorithms/ppo.py
    PQN     parallelised Q-learning, without replay           algorithms/pqn.py
    DQN     Q-learning with replay, extensions by option      algorithms/dqn.py
    Rainbow DQN with all extensions                           algorithms/dqn.py
    IQN     implicit quantile networks                        algorithms/iqn.py
    ApexDQN many actors and prioritised replay                algorithms/apex.py
    ApexDPG the same on the continuous action interface       algorithms/apex_dpg.py

You make an agent from its config and, if you like, your own environments. It trains while you
iterate over `train`, and has `save`, `load` and `evaluate`. `start_run` adds a folder with logs,
checkpoints and evaluations, as ``cule train`` does; that part is in `cule.agents.training`.

Requires torch; `import cule` does not import this package.
"""

from __future__ import annotations

from cule.agents.agent import Agent, Progress
from cule.agents.algorithms.a2c import A2C, A2CConfig
from cule.agents.algorithms.apex import ApexConfig, ApexDQN
from cule.agents.algorithms.apex_dpg import ApexDPG, ApexDPGConfig
from cule.agents.algorithms.config import AgentConfig
from cule.agents.algorithms.dqn import DQN, DQNConfig, Rainbow, RainbowConfig
from cule.agents.algorithms.iqn import IQN, IQNConfig
from cule.agents.algorithms.ppo import PPO
from cule.agents.algorithms.ppo_config import PPOConfig
from cule.agents.algorithms.pqn import PQN, PQNConfig
from cule.agents.algorithms.vtrace import VTrace, VTraceConfig
from cule.agents.training.evaluation import Evaluation, evaluate
from cule.agents.training.presets import AGENTS, PRESETS
from cule.agents.training.runner import Run, RunOptions, start_run
from cule.agents.training.self_play import Opponent, RandomOpponent, SelfPlayEnv
from cule.errors import CheckpointError, DivergedError, TrainingMemoryError, VideoError

__all__ = [
    "A2C",
    "AGENTS",
    "DQN",
    "IQN",
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
    "IQNConfig",
    "Opponent",
    "PPOConfig",
    "PQNConfig",
    "Progress",
    "Rainbow",
    "RainbowConfig",
    "RandomOpponent",
    "Run",
    "RunOptions",
    "SelfPlayEnv",
    "TrainingMemoryError",
    "VTrace",
    "VTraceConfig",
    "VideoError",
    "evaluate",
    "start_run",
]
