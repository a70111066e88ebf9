"""Players: prepared random actions, or a network that chooses actions inside the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from cule.bench.engines import Actions, Array, Engine, Result

#: Runs inside the clock. Returns the result of each call of `Engine.step`, with None for
#: observations that are not kept, followed by the actions if a network chose them.
Play: TypeAlias = Callable[[], list[Result]]

#: Prepares a round outside the clock, from random actions ``[calls, batch_size]`` (a network uses
#: only their number) and whether to keep the observations of every call instead of only the last.
Player: TypeAlias = Callable[[Actions, bool], Play]


def random_player(engine: Engine) -> Player:
    """Random actions: emulation only."""

    def prepare(actions: Actions, keep_all: bool) -> Play:
        prepared = [engine.to_device(row) for row in actions]

        def play() -> list[Result]:
            returned = []
            for number, row in enumerate(prepared, 1):
                obs, *rest = engine.step(row)
                returned.append((obs if keep_all or number == len(prepared) else None, *rest))
            return returned

        return play

    return prepare


def network_player(engine: Engine, obs: Array, *, seed: int, device: str = "") -> Player:
    """Inference: a Nature CNN with random weights samples each action from its policy.

    Engines with the same seed have the same weights and random numbers, so that engines with equal
    observations play equal actions.

    Args:
        engine: The engine to play.
        obs: Its latest observations.
        seed: Seed of weights and actions.
        device: Device of the network; empty: the device of the engine's results.
    """
    import torch

    from cule.algos import sample_categorical
    from cule.nets import ActorCritic

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

    def prepare(actions: Actions, keep_all: bool) -> Play:
        calls = len(actions)

        def play() -> list[Result]:
            nonlocal obs
            returned = []
            for number in range(1, calls + 1):
                chosen = choose(obs)
                obs, *rest = engine.step(chosen)
                returned.append((obs if keep_all or number == calls else None, *rest, chosen))
            return returned

        return play

    return prepare
