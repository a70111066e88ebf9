"""OpenEnv: one environment a session, played by clients over a WebSocket."""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from cule.envs import AtariVectorEnv
from cule.envs.errors import ActionShapeError
from cule.errors import InvalidArgumentError, shown
from cule.lazy import needs
from cule.option_fields import Bounds, Option
from cule.wrappers.options import SINGLE, with_fixed

if TYPE_CHECKING:
    from fastapi import FastAPI

with needs("openenv"):
    import uvicorn
    from fastapi.datastructures import Headers
    from fastapi.responses import PlainTextResponse
    from openenv.core.env_server import (
        Action,
        Environment,
        Observation,
        State,
        create_fastapi_app,
    )
    from pydantic import Field

#: Most bytes of a message of a client, which is an action or a few words.
_MAX_MESSAGE_BYTES = 65_536

#: Most characters of the name of an episode, as in OpenEnv's `ResetRequest`.
_MAX_NAME_CHARS = 255

#: Time that requests under way have to end, when a server ends.
_SHUTDOWN_S = 5


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
            `device` cpu, `continuous` False, `num_envs` 1.

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
        self.env = AtariVectorEnv(game, **with_fixed("OpenEnv", options, SINGLE))
        self._state = State(game=game)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **_: Any
    ) -> AtariObservation:
        """Begin an episode.

        Args:
            seed: Of its random streams. None: they continue, after the first reset.
            episode_id: Name of the episode in `state`, at most 255 characters. None: a random one.

        Raises:
            InvalidArgumentError: Another seed or name; nothing has changed.
        """
        if episode_id is not None and not _is_name(episode_id):
            raise InvalidArgumentError(
                f"episode_id is {shown(episode_id)}; it must be None or a str of at most "
                f"{_MAX_NAME_CHARS} characters"
            )
        obs, _info = self.env.reset(seed=seed)
        self._state = State(
            episode_id=episode_id or str(uuid.uuid4()), step_count=0, game=self._state.game
        )
        return self._observation(obs[0])

    def step(
        self, action: AtariAction, timeout_s: float | None = None, **_: Any
    ) -> AtariObservation:
        """One step of ``frameskip`` frames; `timeout_s` is ignored.

        Raises:
            InvalidActionError: An action outside the action space, or no `AtariAction`; nothing
                has moved.
            NotResetError: The episode has ended, or none has begun.
        """
        if not isinstance(action, AtariAction):
            raise ActionShapeError(f"action is {shown(action)}; it must be an AtariAction")
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


def _is_name(value: object) -> bool:
    """Whether a value is a short str that can be sent as UTF-8."""
    return (
        isinstance(value, str)
        and len(value) <= _MAX_NAME_CHARS
        and value.encode(errors="replace").decode() == value  # no lone surrogate
    )


class _ProgramsOnly:
    """Middleware that refuses requests of web pages, and large ones.

    A browser sends an Origin with a WebSocket or POST, also from pages of a name that leads here.
    """

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        answer, headers = self.app, Headers(raw=scope.get("headers", []))
        if "origin" in headers:
            answer = PlainTextResponse(
                "web pages, whose requests have an Origin header, cannot play", 403
            )
        elif (
            "transfer-encoding" in headers
            or int(headers.get("content-length", 0)) > _MAX_MESSAGE_BYTES
        ):
            allowed = f"a Content-Length of at most {_MAX_MESSAGE_BYTES}, and no Transfer-Encoding"
            answer = PlainTextResponse(f"the request must have {allowed}", 413)
        await answer(scope, receive, send)


def make_app(game: str, max_concurrent_envs: int = 8, **options: Any) -> FastAPI:
    """Make a server of a game, for `serving`, or for uvicorn with ``ws_max_size=65536``.

    It refuses WebSockets and POSTs of web pages, which have an Origin header, and bodies of more
    than 65,536 bytes.

    Args:
        game: Name of the game.
        max_concurrent_envs: Sessions at a time, at least 1. Each has an environment of its own.
        **options: As for `OpenEnvEnvironment`.

    Raises:
        InvalidArgumentError: As for `OpenEnvEnvironment`, or sessions fewer than 1.
    """
    max_envs = Option(int, bounds=Bounds(1)).parse("max_concurrent_envs", max_concurrent_envs)
    OpenEnvEnvironment(game, **options).close()  # a wrong option is refused here, not in a session
    app = create_fastapi_app(
        lambda: OpenEnvEnvironment(game, **options),
        AtariAction,
        AtariObservation,
        max_concurrent_envs=max_envs,
        env_name="cule",
    )
    app.add_middleware(_ProgramsOnly)
    return app


@contextmanager
def serving(app: FastAPI, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve an application in a thread of this process, until the block ends.

    Requests under way then have five seconds to end.

    Args:
        app: From `make_app`. It can be served again, but not twice at a time.
        host: Name or address to listen at. Everyone who reaches it can play.
        port: Number of the port. 0: any free port.

    Yields:
        The address for clients, ``http://HOST:PORT``.

    Raises:
        InvalidArgumentError: cule cannot listen there, or `app` is no application.
    """
    if not callable(app):
        raise InvalidArgumentError(f"app is {shown(app)}; it must be an application of make_app()")
    if not host:
        raise InvalidArgumentError(
            f"host is {shown(host)}; it must be a name or address, such as 127.0.0.1, or 0.0.0.0 "
            "for all"
        )
    try:
        is_ipv6 = ":" in host
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if is_ipv6 else socket.AF_INET
        )
    except (OSError, OverflowError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"host is {shown(host)} and port {shown(port)}; cule cannot listen there: "
            f"{getattr(error, 'strerror', None) or error}"
        ) from None
    config = uvicorn.Config(
        app,
        log_level="warning",
        ws_max_size=_MAX_MESSAGE_BYTES,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    with listener:
        address = f"http://{f'[{host}]' if is_ipv6 else host}:{listener.getsockname()[1]}"
        thread.start()
        try:
            while not server.started:
                thread.join(0.02)
                if not thread.is_alive():
                    raise InvalidArgumentError("app cannot be served; the log says why")
            yield address
        finally:
            server.should_exit = True
            thread.join()
