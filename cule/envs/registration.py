"""The ids ``cule/<Title>-v5`` of every game, as Gymnasium has them."""

from __future__ import annotations

import gymnasium

from cule.games import list_games, load_games

#: Prefix of the attributes of `cule.envs.gym_env` that make environments of a game.
VECTOR_PREFIX = "vector_"

#: Arguments of ``ALE/<Title>-v5``.
_V5 = {
    "repeat_action_probability": 0.25,
    "full_action_space": False,
    "frameskip": 4,
    "max_num_frames_per_episode": 108_000,
}


def register_envs() -> None:
    """Register ``cule/<Title>-v5`` of every game with Gymnasium, unless it is registered."""
    games = load_games()
    for game_id in list_games():
        env_id = f"cule/{games[game_id].title}-v5"
        if env_id not in gymnasium.registry:
            gymnasium.register(
                id=env_id,
                entry_point="cule.envs.gym_env:AtariEnv",
                vector_entry_point=f"cule.envs.gym_env:{VECTOR_PREFIX}{game_id}",
                kwargs={"game": game_id, **_V5},
            )
