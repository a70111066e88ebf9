"""What an agent needs of a network and of environments that are not its own, checked at once."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from cule.errors import InvalidArgumentError

#: What `cule.agents.training.environment.FrameEnv` has.
_ENV_NAMES = (
    *("num_envs", "metadata", "single_observation_space", "single_action_space"),
    *("reset", "step_frames", "get_state", "set_state", "close"),
)


@torch.no_grad()
def check_network(
    network: nn.Module,
    obs_shape: tuple[int, ...],
    obs_dtype: torch.dtype,
    outputs: Mapping[str, tuple[int, ...]],
    device: torch.device,
) -> None:
    """Require that a network turns observations into what an algorithm reads.

    Args:
        network: A module; called once with two observations, in evaluation mode.
        obs_shape: Shape of an observation.
        obs_dtype: Its type.
        outputs: Shape of each output for one observation; float32. Several are a tuple.
        device: Device of the network.

    Raises:
        InvalidArgumentError: It does not.
    """
    obs = torch.zeros((2, *obs_shape), dtype=obs_dtype, device=device)
    was_training = network.training
    network.eval()
    try:
        result = network(obs)
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        raise InvalidArgumentError(
            f"the network cannot read observations, {str(obs_dtype).removeprefix('torch.')} "
            f"{_batch(obs_shape)}: {error}"
        ) from error
    finally:
        network.train(was_training)
    given = result if isinstance(result, tuple) else (result,)
    wanted = [(2, *shape) for shape in outputs.values()]
    is_right = len(given) == len(wanted) and all(
        isinstance(value, Tensor) and value.dtype == torch.float32 and value.shape == shape
        for value, shape in zip(given, wanted, strict=True)
    )
    if not is_right:
        shapes = (f"{name} {_batch(shape)}" for name, shape in outputs.items())
        raise InvalidArgumentError(
            f"the network returns {' and '.join(map(_words, given))} for 2 observations; it must "
            f"return {' and '.join(shapes)}, float32"
        )


def check_env(env: object) -> None:
    """Require that environments have what an agent uses, give tensors, and reset themselves.

    Raises:
        InvalidArgumentError: They do not.
    """
    missing = [name for name in _ENV_NAMES if not hasattr(env, name)]
    if missing:
        raise InvalidArgumentError(
            f"the environment, a {type(env).__name__}, has no {', '.join(missing)}; agents need "
            "what cule.AtariVectorEnv has under these names"
        )
    output = getattr(getattr(env, "config", None), "output", "torch")
    if output != "torch":
        raise InvalidArgumentError(
            f"output of the environment is {output!r}; an agent needs output='torch'"
        )
    mode = env.metadata.get("autoreset_mode")  # type: ignore[attr-defined]  # it has one
    name = getattr(mode, "value", mode)
    if name not in ("SameStep", "NextStep"):
        raise InvalidArgumentError(
            f"autoreset_mode of the environment is {name!r}; it must be 'SameStep' or 'NextStep'"
        )


def check_tensor(name: str, value: object) -> Tensor:
    """A result of the environments, which must be a tensor.

    Raises:
        InvalidArgumentError: It is something else, such as an array.
    """
    if not isinstance(value, Tensor):
        raise InvalidArgumentError(
            f"{name} of the environment is a {type(value).__name__}; an agent needs tensors "
            "(output='torch' of cule.AtariVectorEnv)"
        )
    return value


def _batch(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, ('B', *shape)))}]"


def _words(value: object) -> str:
    if isinstance(value, Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype} {list(value.shape)}"
    return f"a {type(value).__name__}"
