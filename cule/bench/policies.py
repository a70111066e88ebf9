"""Players: prepared random actions, or a network that chooses actions inside the clock.

A player prepares a number of calls of `Engine.step` outside the clock; what it returns then runs
inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cule.bench.engines import Actions, Array, Engine, Result

#: Runs inside the clock. Returns the result of each call of `step`, with None for observations that
#: are not kept, followed by the actions if a network chose them.
Play = Callable[[], list[Result]]


class Player(Protocol):
    """Steps an engine."""

    def prepare(self, actions: Actions, keep_all: bool) -> Play:
        """Prepare a round.

        Args:
            actions: Random actions ``[calls, batch_size]``; a network uses only their number.
            keep_all: Keep the observations of every call instead of only the last.
        """


class RandomPlayer:
    """Plays random actions: emulation only."""

    def __init__(self, engine: Engine) -> None:
        """Play an engine."""
        self._engine = engine

    def prepare(self, actions: Actions, keep_all: bool) -> Play:
        """As `Player.prepare`."""
        prepared = [self._engine.to_device(row) for row in actions]
        first_kept = 0 if keep_all else len(prepared) - 1
        step = self._engine.step

        def play() -> list[Result]:
            if not first_kept:
                return [step(row) for row in prepared]
            returned = []
            for number, row in enumerate(prepared):
                obs, *rest = step(row)
                returned.append((obs if number >= first_kept else None, *rest))
            return returned

        return play


class NetworkPlayer:
    """Inference: a Nature CNN with random weights samples each action from its policy.

    Engines with the same seed have the same weights and random numbers, so that engines with equal
    observations play equal actions.
    """

    def __init__(self, engine: Engine, obs: Array, *, seed: int, device: str = "") -> None:
        """Make the network.

        Args:
            engine: The engine to play.
            obs: Its latest observations.
            seed: Seed of weights and actions.
            device: Device of the network; empty: the device of the engine's results.
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

        @torch.inference_mode()
        def choose(obs: Array) -> Array:
            logits, _ = network(torch.as_tensor(obs, device=network_device))
            actions = sample_categorical(logits, generator).int()
            return actions if engine.device != "cpu" else actions.cpu().numpy()

        self._choose = choose

    def prepare(self, actions: Actions, keep_all: bool) -> Play:
        """As `Player.prepare`."""
        calls = len(actions)
        step, choose = self._engine.step, self._choose

        def play() -> list[Result]:
            returned = []
            obs = self._obs
            for number in range(calls):
                chosen = choose(obs)
                obs, *rest = step(chosen)
                is_kept = keep_all or number == calls - 1
                returned.append((obs if is_kept else None, *rest, chosen))
            self._obs = obs
            return returned

        return play
