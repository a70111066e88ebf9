"""Environment ids: ``cule/<Title>-v5`` for every game, with the arguments of ``ALE/<Title>-v5``."""

from __future__ import annotations

import gymnasium

from cule.games import list_games, load_games

NAMESPACE = "cule"

_V5 = {
    "repeat_action_probability": 0.25,
    "full_action_space": False,
    "frameskip": 4,
    "max_num_frames_per_episode": 108_000,
}


def register_envs() -> None:
    """Register every game with Gymnasium; what is registered already stays."""
    games = load_games()
    for game_id in list_games():
        env_id = f"{NAMESPACE}/{games[game_id].title}-v5"
        if env_id not in gymnasium.registry:
            gymnasium.register(
                id=env_id,
                entry_point="cule.envs.gym_env:AtariEnv",
                vector_entry_point="cule.envs.vector_env:AtariVectorEnv",
                kwargs={"game": game_id, **_V5},
            )
