"""The kernels of `cule.kernels` against the tensor operations that they replace, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cule import kernels  # noqa: E402
from cule.agents import AGENTS  # noqa: E402
from cule.replay import ReplayOptions, UniformReplay  # noqa: E402
from tests.support.cases import long_except  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("shape", "stacks", "stack"),
    [((84, 84), 37, 4), ((84, 84), 1, 1), ((8, 4), 300, 3), ((44, 84), 5, 2)],
)
def test_blocks(shape: tuple[int, int], stacks: int, stack: int) -> None:
    generator = torch.Generator().manual_seed(1)
    frames = torch.randint(256, (50, *shape), dtype=torch.uint8, generator=generator)
    index = torch.randint(50, (stacks, stack), generator=generator)
    expected = kernels.gather_blocks(frames, index)
    found = kernels.gather_blocks(frames.cuda(), index.cuda())
    assert found.dtype == torch.bfloat16
    assert torch.equal(found.cpu(), expected)
    assert found.is_contiguous(memory_format=torch.channels_last)
    height, width = shape
    assert found.shape == (stacks, 16 * stack, height // 4, width // 4)


def test_no_stacks() -> None:
    frames = torch.zeros((1, 8, 8), dtype=torch.uint8, device="cuda")
    index = torch.zeros((0, 2), dtype=torch.int64, device="cuda")
    assert kernels.gather_blocks(frames, index).shape == (0, 32, 2, 2)


def test_sides_of_blocks() -> None:
    native = kernels.cuda_module()
    assert native is not None
    assert native.BLOCK_SIDE == kernels.BLOCK_SIDE


def test_every_byte_is_exact() -> None:
    frames = torch.arange(256, dtype=torch.uint8).view(1, 16, 16)
    blocks = kernels.gather_blocks(frames.cuda(), torch.zeros((1, 1), dtype=torch.int64).cuda())
    assert sorted(blocks.float().cpu().flatten().tolist()) == list(range(256))


@pytest.mark.parametrize("shape", [(1, 1), (20, 60), (128, 8), (5, 1000)])
def test_recurrences(shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(2)
    added, factors = torch.randn((2, *shape), generator=generator).unbind()
    expected = kernels.linear_recurrence(added, factors)
    found = kernels.linear_recurrence(added.cuda(), factors.cuda())
    assert torch.equal(found.cpu(), expected)
    # Not contiguous, as a part of the environments is not.
    found = kernels.linear_recurrence(added.cuda().t(), factors.cuda().t())
    assert torch.equal(found.cpu(), kernels.linear_recurrence(added.t(), factors.t()))


def test_samples_are_those_of_a_cpu() -> None:
    """A ring with ends of episodes and padding, read as blocks on both."""
    rings = []
    for device in ("cuda", "cpu"):
        options = ReplayOptions(
            capacity=4_000, num_envs=4, obs_shape=(8, 8), stack=3, n_step=2, pixel_blocks=True,
            device=device, max_episode_steps=40,
        )  # fmt: skip
        ring = UniformReplay(options)
        generator = torch.Generator().manual_seed(3)
        ring.start(torch.zeros((4, 8, 8), dtype=torch.uint8))
        ring.append_block(
            frames=torch.randint(256, (60, 4, 8, 8), dtype=torch.uint8, generator=generator),
            actions=torch.zeros((60, 4), dtype=torch.int64),
            rewards=torch.rand((60, 4), generator=generator),
            terminated=torch.rand((60, 4), generator=generator) < 0.1,
        )
        rings.append(ring)
    there, here = rings
    ids = torch.arange(0, 4 * 58)
    found, expected = there.sample_at(ids.cuda()), here.sample_at(ids)
    for name in ("obs", "next_obs", "returns", "discounts"):
        assert torch.equal(getattr(found, name).cpu(), getattr(expected, name)), name
    assert found.obs.shape == (len(ids), 48, 2, 2)
    assert torch.equal(there.observe().cpu(), here.observe())


@pytest.mark.parametrize("name", long_except(["ppo", "dqn"], "dqn"))
def test_learners_read_blocks(name: str) -> None:
    """With bfloat16 a round from the input path to the optimizer, captured."""
    changes: dict[str, Any] = {"total_steps": 10_000, "cuda_graphs": True, "precision": "bf16"}
    changes |= {"num_steps": 4, "num_minibatches": 1, "num_epochs": 1} if name == "ppo" else {
        "memory": 8_000, "learning_starts": 8, "samples_per_insert": 8.0, "batch_size": 8,
    }  # fmt: skip
    config = AGENTS[name].config_class(
        game="pong", num_envs=4, device="cuda", network="nature", decorrelate_steps=0, **changes
    )
    agent: Any = AGENTS[name](config)
    agent.begin()
    assert agent.setup.reads_blocks(agent.network)
    for _ in agent.train():
        if agent.learn_once.captures and agent.updates > 5:
            break
    buffer = agent.buffer if name == "ppo" else agent.replay
    assert buffer.observe().shape == (4, 64, 21, 21)
    agent.check_finite()
    agent.env.close()
