"""Ids of every game for Gymnasium: ``cule/<Title>-v5``, and those of ale-py with -v0 and -v4."""

from __future__ import annotations

from collections.abc import Mapping

import gymnasium

from cule.games import list_games, load_games

#: Prefix of the attributes of `cule.envs.gym_env` that make environments of a game.
VECTOR_PREFIX = "vector_"

#: Arguments by the end of an id, as of ``ALE/<Title>-v5`` and of ``<Title>-v0``,
#: ``<Title>NoFrameskip-v4`` and so on: v0 has sticky actions, v4 has none.
_ARGUMENTS: Mapping[str, Mapping[str, object]] = {
    "-v5": {"repeat_action_probability": 0.25, "frameskip": 4},
    "-v0": {"repeat_action_probability": 0.25, "frameskip": (2, 5)},
    "-v4": {"repeat_action_probability": 0.0, "frameskip": (2, 5)},
    "NoFrameskip-v0": {"repeat_action_probability": 0.25, "frameskip": 1},
    "NoFrameskip-v4": {"repeat_action_probability": 0.0, "frameskip": 1},
}
_SAME = {"full_action_space": False, "max_num_frames_per_episode": 108_000}


def register_envs() -> None:
    """Register the ids of every game with Gymnasium, unless they are registered.

    As in ale-py, only ids with -v5 make an `AtariVectorEnv` in ``gymnasium.make_vec``.
    """
    games = load_games()
    for game_id in list_games():
        for end, arguments in _ARGUMENTS.items():
            env_id = f"cule/{games[game_id].title}{end}"
            if env_id in gymnasium.registry:
                continue
            vector = f"cule.envs.gym_env:{VECTOR_PREFIX}{game_id}" if end == "-v5" else None
            gymnasium.register(
                id=env_id,
                entry_point="cule.envs.gym_env:AtariEnv",
                vector_entry_point=vector,
                kwargs={"game": game_id, **arguments, **_SAME},
            )
