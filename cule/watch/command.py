"""``cule watch``: from the command line to a session in the browser."""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import math
import secrets
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from cule.envs.vector_env import BatchEnv
from cule.errors import InvalidArgumentError, shown
from cule.familiar_names import Parser
from cule.watch.environments import Environments
from cule.watch.policies import DEFAULT_PROTOCOL, MAX_SEED, Policy, open_random, open_requested
from cule.watch.server import WatchServer
from cule.watch.session import MOST_FPS, Session
from cule.watch.signals import signals_call

#: Most environments: the sides of the picture stay below the 16,384 pixels that browsers draw.
MAX_ENVS = 1024

#: Least characters of a token.
MIN_TOKEN = 8

DEFAULT_GAME = "pong"


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments after ``cule watch``.

    Raises:
        InvalidArgumentError: A number outside its range, or options that contradict each other.
    """
    parser = Parser(
        prog="cule watch",
        description="Watch many environments in the browser, and play them. Ctrl-C ends it.",
    )
    parser.add_argument(
        "checkpoint",
        nargs="?",
        type=Path,
        metavar="CHECKPOINT",
        help="policy: NAME.pt, weights NAME.safetensors, or a run's folder; "
        "default: random actions",
    )
    parser.add_argument("--game", help=f"game; default: that of the checkpoint, or {DEFAULT_GAME}")
    parser.add_argument("--rom-path", help="ROM file of a game of your own")
    parser.add_argument("--rules", help="TOML file with the rules of a game of your own")
    parser.add_argument("--num-envs", type=int, default=16, help="environments (%(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port; 0: a free one (%(default)s)")
    parser.add_argument(
        "--token",
        help="secret in the address of the page; default: a random one where other machines can "
        "connect, else none",
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument(
        "--speed", type=float, default=1.0, help="1: real time; 0: as fast as possible"
    )
    parser.add_argument(
        "--fps", type=float, default=MOST_FPS, help="most pictures per second (%(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of environments, actions (%(default)s)"
    )
    parser.add_argument("--device", default="cpu", help="of environments, network (%(default)s)")
    alone = parser.add_argument_group("without a checkpoint")
    alone.add_argument("--mode", type=int, help="the game's default")
    alone.add_argument(
        "--num-players",
        type=int,
        help="players of each environment: 2 or 4 in games that have such modes; as many viewers "
        "can play it (1)",
    )
    alone.add_argument("--difficulty", type=int, help="the game's default")
    trained = parser.add_argument_group("with a checkpoint")
    trained.add_argument(
        "--protocol", help=f"as in cule eval: noop, sticky or as-trained ({DEFAULT_PROTOCOL})"
    )
    trained.add_argument("--agent", help="MODULE:CLASS of an agent of your own, with its network")
    trained.add_argument("--greedy", action="store_true", help="choose the best actions")
    options = parser.parse_args(words)
    _check(options)
    return options


def watch(options: argparse.Namespace) -> int:
    """Run ``cule watch`` with the result of `parse` until a signal stops it; return 0.

    Raises:
        CuleError: The game, ROM, checkpoint, device, host or port is not available.
    """
    env, policy = _open(options)
    with contextlib.closing(env):
        session = Session(
            Environments(env, policy, seed=options.seed), speed=options.speed, fps=options.fps
        )
        server = WatchServer(options.host, options.port, session, _token(options))
        with signals_call(session.stop), server.serving():
            if server.token is not None and options.token is None:
                print("other machines can reach this address, so it has a token")
            print(f"{server.url} (Ctrl-C ends it)", flush=True)
            if options.open:
                webbrowser.open(server.url)
            session.run()
    return 0


def _token(options: argparse.Namespace) -> str | None:
    """Secret that viewers must know; None: nothing, where they are on this machine."""
    token: str | None = options.token
    if token is None and not _is_loopback(options.host):
        token = secrets.token_urlsafe()
    return token


def _is_loopback(host: str) -> bool:
    """Whether no other machine can connect to an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _open(options: argparse.Namespace) -> tuple[BatchEnv, Policy]:
    if options.checkpoint is None:
        return open_random(
            options.game or DEFAULT_GAME,
            options.num_envs,
            rom_path=options.rom_path,
            rules=options.rules,
            seed=options.seed,
            device=options.device,
            mode=options.mode,
            difficulty=options.difficulty,
            num_players=1 if options.num_players is None else options.num_players,
        )
    return open_requested(options)


def _check(options: argparse.Namespace) -> None:
    for name, low, high in (("num_envs", 1, MAX_ENVS), ("port", 0, 65_535), ("seed", 0, MAX_SEED)):
        value = getattr(options, name)
        if not low <= value <= high:
            raise InvalidArgumentError(f"{name} is {value}; it must be in {low}..{high}")
    if options.token is not None and len(options.token) < MIN_TOKEN:
        raise InvalidArgumentError(
            f"token has {len(options.token)} characters; it must have at least {MIN_TOKEN}"
        )
    if not 0.0 <= options.speed < math.inf:
        raise InvalidArgumentError(f"speed is {options.speed}; it must be at least 0, and finite")
    if not 0.0 < options.fps < math.inf:
        raise InvalidArgumentError(f"fps is {options.fps}; it must be above 0, and finite")
    has_checkpoint = options.checkpoint is not None
    misplaced = (
        ("mode", "difficulty", "num_players") if has_checkpoint else ("protocol", "agent", "greedy")
    )
    for name in misplaced:
        value = getattr(options, name)
        if value is not None and value is not False:
            raise InvalidArgumentError(
                f"{name} is {shown(value)}; it must be used "
                f"{'without' if has_checkpoint else 'with'} a CHECKPOINT"
            )
