"""Who chooses the actions inside the clock: nobody (they are drawn before), or a network.

A player is asked for a number of calls of `Engine.step` and prepares them outside the clock; what
it returns then runs inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cule.bench.engines import Engine, Result

#: Runs inside the clock; what each call of `step` returned, observations None where not kept, and
#: after it the actions that a network chose.
Play = Callable[[], list[Result]]


class Player(Protocol):
    """Steps an engine."""

    def prepare(self, rows: NDArray[np.int32], keep_all: bool) -> Play:
        """Get ready to step.

        Args:
            rows: Random actions ``[calls, batch_size]``, for who wants them.
            keep_all: Keep the observations of every call, not only of the last.
        """


class RandomPlayer:
    """Emulation only: the actions are there already."""

    def __init__(self, engine: Engine) -> None:
        """Play an engine."""
        self._engine = engine

    def prepare(self, rows: NDArray[np.int32], keep_all: bool) -> Play:
        """As `Player.prepare`."""
        actions = [self._engine.to_device(row) for row in rows]
        first_kept = 0 if keep_all else len(actions) - 1
        step = self._engine.step

        def play() -> list[Result]:
            if not first_kept:
                return [step(row) for row in actions]
            returned = []
            for number, row in enumerate(actions):
                obs, *rest = step(row)
                returned.append((obs if number >= first_kept else None, *rest))
            return returned

        return play


class NetworkPlayer:
    """Inference: a Nature CNN with random weights draws each action from its policy.

    Engines with the same seed have the same weights and random numbers, so that engines with equal
    observations play equal actions.
    """

    def __init__(self, engine: Engine, obs: Any, *, seed: int, device: str = "") -> None:
        """Make the network.

        Args:
            engine: What to play.
            obs: Its newest observations.
            seed: Of weights and actions.
            device: Of the network; empty: where the engine's results land.
        """
        import torch

        from cule.algos import sample_categorical
        from cule.nets import ActorCritic

        self._engine = engine
        self._obs = obs
        network_device = torch.device(device or engine.device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = ActorCritic(tuple(obs.shape[1:]), engine.num_actions).to(network_device)
        network.eval().requires_grad_(False)
        generator = torch.Generator(device=network_device).manual_seed(seed)
        stays = engine.device != "cpu"

        @torch.inference_mode()
        def choose(obs: Any) -> Any:
            logits, _ = network(torch.as_tensor(obs, device=network_device))
            actions = sample_categorical(logits, generator).int()
            return actions if stays else actions.cpu().numpy()

        self._choose = choose

    def prepare(self, rows: NDArray[np.int32], keep_all: bool) -> Play:
        """As `Player.prepare`; only the number of rows counts."""
        calls = len(rows)
        first_kept = 0 if keep_all else calls - 1
        step, choose = self._engine.step, self._choose

        def play() -> list[Result]:
            returned = []
            obs = self._obs
            for number in range(calls):
                actions = choose(obs)
                obs, *rest = step(actions)
                returned.append((obs if number >= first_kept else None, *rest, actions))
            self._obs = obs
            return returned

        return play
