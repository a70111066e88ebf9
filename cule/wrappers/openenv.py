"""OpenEnv: one environment a session, played by clients over a WebSocket."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from cule.envs import AtariVectorEnv
from cule.errors import InvalidArgumentError
from cule.lazy import needs
from cule.wrappers.options import SINGLE, with_fixed

if TYPE_CHECKING:
    from fastapi import FastAPI

with needs("openenv"):
    import uvicorn
    from openenv.core.env_server import (
        Action,
        Environment,
        Observation,
        State,
        create_fastapi_app,
    )
    from pydantic import Field


class AtariAction(Action):  # type: ignore[misc]  # the library is optional
    """Action that a client sends. The names are those of OpenEnv's own Atari environment."""

    action_id: int = Field(description="Index into AtariVectorEnv.action_set")


class AtariObservation(Observation):  # type: ignore[misc]  # the library is optional
    """Observation that a client receives. The names are those of OpenEnv's own Atari environment.

    ``reward`` is None after a reset; ``metadata`` says how an episode has ended, as ``terminated``
    and ``truncated``.
    """

    screen: list[int] = Field(description="The observation, flattened")
    screen_shape: list[int] = Field(description="Its shape, [4, 84, 84] with default options")
    legal_actions: list[int] = Field(description="Values of action_id")
    lives: int = Field(description="Lives that are left")
    episode_frame_number: int = Field(description="Emulated frames since the reset")


class OpenEnvEnvironment(Environment):  # type: ignore[misc]  # the library is optional
    """One Atari 2600 environment as an OpenEnv `Environment`.

    Args:
        game: Name of the game.
        **options: The other fields of `EnvOptions`. `autoreset_mode` is Disabled, `output` numpy,
            `device` cpu, `continuous` False.

    Raises:
        InvalidArgumentError: An option is outside its allowed values, or another value of one that
            OpenEnv fixes.
        MissingPackageError: On import, where OpenEnv is not installed.

    Example:
        >>> from cule.wrappers.openenv import AtariAction, OpenEnvEnvironment
        >>> env = OpenEnvEnvironment("pong")
        >>> env.reset(seed=0).screen_shape
        [4, 84, 84]
        >>> env.step(AtariAction(action_id=0)).reward
        0.0
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, game: str, **options: Any) -> None:
        """Make the environment."""
        super().__init__()
        self.env = AtariVectorEnv(game, 1, **with_fixed("OpenEnv", options, SINGLE))
        self._state = State(game=game)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **_: Any
    ) -> AtariObservation:
        """Begin an episode.

        Args:
            seed: Of its random streams. None: they continue, after the first reset.
            episode_id: Name of the episode in `state`. None: a random one.
        """
        obs, _info = self.env.reset(seed=seed)
        self._state.episode_id = episode_id or str(uuid.uuid4())
        self._state.step_count = 0
        return self._observation(obs[0])

    def step(
        self, action: AtariAction, timeout_s: float | None = None, **_: Any
    ) -> AtariObservation:
        """One step of ``frameskip`` frames; `timeout_s` is ignored.

        Raises:
            ActionRangeError: An action outside the action space; nothing has moved.
            NotResetError: The episode has ended, or none has begun.
        """
        obs, reward, terminated, truncated, _info = self.env.step(np.array([action.action_id]))
        self._state.step_count += 1
        return self._observation(
            obs[0],
            reward=float(reward[0]),
            done=bool(terminated[0] or truncated[0]),
            metadata={"terminated": bool(terminated[0]), "truncated": bool(truncated[0])},
        )

    @property
    def state(self) -> State:
        """``episode_id``, ``step_count`` (steps in the episode) and ``game``."""
        return self._state

    def close(self) -> None:
        """Free the environment."""
        self.env.close()

    def _observation(self, obs: Any, **fields: Any) -> AtariObservation:
        return AtariObservation(
            screen=obs.ravel().tolist(),
            screen_shape=list(obs.shape),
            legal_actions=list(range(len(self.env.action_set))),
            lives=int(self.env.lives[0]),
            episode_frame_number=int(self.env.episode_frames[0]),
            **fields,
        )


def make_app(game: str, max_concurrent_envs: int = 8, **options: Any) -> FastAPI:
    """Make a server of a game, for uvicorn.

    Args:
        game: Name of the game.
        max_concurrent_envs: Sessions at a time. Each has an environment of its own.
        **options: As for `OpenEnvEnvironment`.

    Raises:
        InvalidArgumentError: As for `OpenEnvEnvironment`.
    """
    OpenEnvEnvironment(game, **options).close()  # a wrong option is refused here, not in a session
    return create_fastapi_app(
        lambda: OpenEnvEnvironment(game, **options),
        AtariAction,
        AtariObservation,
        max_concurrent_envs=max_concurrent_envs,
        env_name="cule",
    )


@contextmanager
def serving(app: FastAPI, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve an application in a thread of this process, until the block ends.

    Args:
        app: From `make_app`.
        host: Address to listen at.
        port: Number of the port. 0: any free port.

    Yields:
        The address for clients, ``http://HOST:PORT``.

    Raises:
        InvalidArgumentError: The server cannot listen there; its log says why.
    """
    server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            thread.join(0.02)
            if not thread.is_alive():
                raise InvalidArgumentError(f"no server can listen on host {host!r}, port {port}")
        name = f"[{host}]" if ":" in host else host
        yield f"http://{name}:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
