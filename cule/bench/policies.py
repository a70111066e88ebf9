"""A network that chooses actions inside the clock."""

from __future__ import annotations

from collections.abc import Callable

from cule.bench.engines import Array, Engine
from cule.errors import InvalidArgumentError, shown


def check_network_device(device: str) -> None:
    """Raise an InvalidArgumentError unless torch can use a device here."""
    import torch

    try:
        torch.Generator(device=device)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidArgumentError(
            f"network_device is {shown(device)}; it must be a device that torch can use here: "
            f"{reason}"
        ) from None


def network_policy(
    engine: Engine, obs: Array, *, seed: int, device: str
) -> Callable[[Array], Array]:
    """A Nature CNN with random weights that samples each action from its policy.

    Engines with the same seed have the same weights and random numbers, so that engines with equal
    observations play equal actions. `obs` has the shape of observations; an empty `device` is that
    of the engine's results.
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

    return choose
