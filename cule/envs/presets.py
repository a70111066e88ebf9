"""Named sets of environment options, as papers and libraries define them.

A preset gives values to some options; options given by name win over it.

* ``ale``: the defaults of ``ale_py.vector_env.AtariVectorEnv`` 0.12.1.
* ``v5``: what ``gymnasium.make_vec("ALE/<Title>-v5")`` passes to it: sticky actions, as recommended
  by Machado et al. 2018, section 5.
* ``dqn``: training of Mnih et al. 2015 ("Human-level control through deep reinforcement learning"),
  Methods and Extended Data Table 1: frame skip 4, maximum of two frames, 84x84 gray, 4 frames,
  fewer than 30 no-ops as in ale-py (the paper: up to 30), rewards clipped, no sticky actions; the
  loss of a life is reported as termination while the game goes on.
* ``baselines``: ``wrap_deepmind(make_atari(...NoFrameskip-v4))`` of OpenAI Baselines (2017): as
  ``dqn``, but FIRE starts the game and the loss of a life ends the episode.
* ``machado``: Machado et al. 2018 ("Revisiting the Arcade Learning Environment"), section 5 and the
  tables of its DQN runs: sticky actions 0.25, all 18 actions, frame skip 5, episodes of at most
  18,000 frames (5 minutes), only game over ends an episode, no random start.
* ``envpool``: the defaults of EnvPool 1.2.5: rewards are not clipped, everything else as ``ale``.
  Its first stack repeats the reset frame; here, as in ale-py, zeros come before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "ale": {},
        "v5": {"repeat_action_probability": 0.25},
        "dqn": {"life_loss_info": True, "use_fire_reset": False},
        "baselines": {"episodic_life": True},
        "machado": {
            "frameskip": 5,
            "repeat_action_probability": 0.25,
            "full_action_space": True,
            "max_num_frames_per_episode": 18_000,
            "noop_max": 0,
            "use_fire_reset": False,
        },
        "envpool": {"reward_clipping": False},
    }
)
