"""The mock CUDA device refuses and records what a GPU would."""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Callable, Iterator

import pytest

torch = pytest.importorskip("torch")

from cule import AtariVectorEnv  # noqa: E402
from tests.support.fake_cuda import FakeCuda, OnGpu, fake_cuda  # noqa: E402


@pytest.fixture
def gpu() -> Iterator[FakeCuda]:
    """The mock device."""
    with fake_cuda() as found:
        yield found


@pytest.mark.usefixtures("gpu")
def test_tensors_say_where_they_are() -> None:
    made = [
        torch.zeros(3, device="cuda"),
        torch.tensor([1.0, 2.0], device="cuda"),
        torch.as_tensor([1, 2], device="cuda:0"),
        torch.ones(2).to("cuda"),
        torch.ones(2).cuda()[0],
        torch.ones(2, device="cuda").new_zeros(3),
        torch.zeros(2).to(torch.ones(1, device="cuda")),
        torch.nn.Linear(2, 3).to("cuda").weight,
        copy.deepcopy(torch.nn.Linear(2, 3, device="cuda")).bias,
        torch.rand(2, device="cuda", generator=torch.Generator("cuda")),
    ]
    for tensor in made:
        assert isinstance(tensor, OnGpu)
        assert tensor.device == torch.device("cuda:0")
        assert tensor.cpu().device.type == "cpu"
    assert made[0].to("cuda") is made[0]
    made[0].add_(1)
    made[0][1:].mul_(3)
    assert made[0].tolist() == [1, 3, 3]


@pytest.mark.usefixtures("gpu")
def test_gradients_are_those_of_a_cpu() -> None:
    torch.manual_seed(0)
    here = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(8, 3))
    there = copy.deepcopy(here).to("cuda")
    pictures = torch.rand(5, 1, 4, 4)
    optimizers = [torch.optim.Adam(module.parameters(), foreach=True) for module in (here, there)]
    for module, device, optimizer in zip((here, there), ("cpu", "cuda"), optimizers, strict=True):
        module(pictures.to(device)).pow(2).mean().backward()
        assert module[0].weight.grad.device.type == device
        torch.nn.utils.clip_grad_norm_(module.parameters(), 0.1)
        optimizer.step()
    for mine, theirs in zip(here.parameters(), there.parameters(), strict=True):
        assert torch.equal(mine, theirs.cpu())


@pytest.mark.parametrize(
    "mistake",
    [
        lambda x: x + torch.ones(3),
        lambda x: torch.where(torch.ones(3, dtype=torch.bool), x, 0.0),
        lambda x: torch.stack([x, torch.ones(3)]),
        lambda x: torch.ones(3).mul_(x),
        lambda x: torch.ones(3)[x.long()],
        lambda x: torch.nn.Linear(3, 1)(x),
        lambda x: torch.rand(3, device="cuda", generator=torch.Generator()),
        lambda x: x.random_(generator=torch.Generator()),
    ],
)
@pytest.mark.usefixtures("gpu")
def test_devices_do_not_mix(mistake: Callable[[torch.Tensor], object]) -> None:
    with pytest.raises(RuntimeError, match=r"same device|device type for generator"):
        mistake(torch.ones(3, device="cuda"))


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: bool(x[0] > 0),
        lambda x: x.cpu(),
        lambda x: x.tolist(),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.copy_(torch.ones(3)),
        lambda x: torch.ones(3).copy_(x),
        lambda x: torch.tensor([1.0], device="cuda"),
        lambda x: torch.ones(3).to("cuda"),
        lambda x: x[torch.tensor([0, 1])],
        lambda x: torch.cuda.synchronize(),
    ],
)
def test_waits_are_noted(gpu: FakeCuda, wait: Callable[[torch.Tensor], object]) -> None:
    values = torch.ones(3, device="cuda")
    assert not gpu.waits
    wait(values)
    assert len(gpu.waits) == 1
    torch.cuda.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
        wait(values)
    with (
        pytest.raises(RuntimeError, match=r"called a synchron|reads a value"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        wait(values)


def test_what_does_not_wait(gpu: FakeCuda) -> None:
    values = torch.ones(3, device="cuda")
    values[1].fill_(3.0)
    (values * 2 + torch.tensor(1.0)).float().half().to(torch.float64)
    values.to("cpu", non_blocking=True)
    values[values.long().clamp(0, 2)].sum()
    torch.where(values > 1, values, 0.0)
    assert not gpu.waits


@pytest.mark.usefixtures("gpu")
def test_graphs_run_again_in_the_same_memory() -> None:
    values = torch.zeros(3, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        values += 1
        doubled = values * 2
    for count in (1, 2, 3):
        graph.replay()
        assert doubled.tolist() == [2 * count] * 3


def test_files_and_the_end() -> None:
    file = io.BytesIO()
    with fake_cuda():
        values = torch.arange(3, device="cuda")
        torch.save({"values": values, "weights": torch.nn.Linear(1, 1).cuda().state_dict()}, file)
        assert torch.cuda.memory_allocated() >= 24
    file.seek(0)
    content = torch.load(file, weights_only=True)
    assert type(content["values"]) is torch.Tensor
    assert content["values"].tolist() == [0, 1, 2]
    assert type(content["weights"]["bias"]) is torch.Tensor
    assert not isinstance(torch.ones(3), OnGpu)
    assert torch.Generator is torch._C.Generator


def add_beside(values: torch.Tensor, side: torch.cuda.Stream) -> torch.Tensor:
    with torch.cuda.stream(side):
        return values.add_(1)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 1,
        lambda x: x[1:].mul_(2),
        lambda x: torch._foreach_add_([x], 1.0),
        lambda x: torch.stack([x, x]),
        lambda x: x.sum().item(),
    ],
)
@pytest.mark.usefixtures("gpu")
def test_streams_that_do_not_wait_are_refused(use: Callable[[torch.Tensor], object]) -> None:
    values, side = torch.ones(3, device="cuda"), torch.cuda.Stream()
    with pytest.raises(RuntimeError, match="race: aten::add_ writes"):
        add_beside(values, side)
    side.wait_stream(torch.cuda.current_stream())
    add_beside(values, side)
    use(torch.ones(3, device="cuda"))
    values[1:]  # looks at nothing
    with pytest.raises(RuntimeError, match="race: "):
        use(values)
    torch.cuda.current_stream().wait_stream(side)
    use(values)


@pytest.mark.usefixtures("gpu")
def test_streams_may_read_at_the_same_time() -> None:
    values, side = torch.ones(3, device="cuda"), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        values + 1
    values + 2
    with pytest.raises(RuntimeError, match="race: aten::add_ writes"):
        values.add_(1)
    torch.cuda.synchronize()
    values.add_(1)


@pytest.mark.usefixtures("gpu")
def test_a_host_that_waits_orders_streams() -> None:
    values, side = torch.ones(3, device="cuda"), torch.cuda.Stream()
    assert values.sum().item() == 3
    add_beside(values, side)
    with torch.cuda.stream(side):
        assert values.tolist() == [2, 2, 2]
    values.add_(1)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("waits", [True, False])
def test_memory_that_another_stream_uses_is_not_given_away(waits: bool) -> None:
    values, side = torch.ones(3, device="cuda"), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    add_beside(values, side)
    del values
    if waits:
        torch.cuda.current_stream().wait_stream(side)
        torch.ones(3, device="cuda")
    else:
        with pytest.raises(RuntimeError, match="may get memory that another stream uses still"):
            torch.ones(3, device="cuda")


def captured(stream: torch.cuda.Stream, generators: list[torch.Generator]) -> torch.cuda.CUDAGraph:
    values, graph = torch.zeros(3, device="cuda"), torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.graph(graph, stream=stream):
        for generator in generators:
            values.copy_(torch.rand(3, generator=generator, device="cuda"))
    return graph


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("shared", ["nothing", "a stream", "a generator"])
def test_graphs_that_share_something_are_not_replayed_at_the_same_time(shared: str) -> None:
    generators = [torch.Generator(device="cuda") for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in range(2)]
    mine = captured(streams[0], generators[:1])
    other = captured(streams[shared != "a stream"], [generators[shared != "a generator"]])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    mine.replay()
    with torch.cuda.stream(side):
        if shared == "nothing":
            other.replay()
            return
        with pytest.raises(RuntimeError, match="race: a replay writes"):
            other.replay()


@pytest.mark.usefixtures("gpu")
def test_a_graph_draws_from_generators_that_it_knows() -> None:
    stranger = torch.Generator(device="cuda")
    with (
        torch.cuda.graph(torch.cuda.CUDAGraph(), stream=torch.cuda.Stream()),
        pytest.raises(RuntimeError, match="not in capture mode"),
    ):
        torch.rand(3, generator=stranger, device="cuda")


@pytest.mark.ale
@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    "use",
    [
        lambda env: env.step_frames(torch.zeros(2, dtype=torch.int64, device="cuda")),
        lambda env: env.get_state(),
        lambda env: env.screens("gray", [0]),
    ],
)
def test_consoles_are_on_one_stream_at_a_time(use: Callable[[AtariVectorEnv], object]) -> None:
    side = torch.cuda.Stream()
    env = AtariVectorEnv("pong", 2, device="cuda", num_reset_states=1)
    with contextlib.closing(env):
        env.reset(seed=1)
        use(env)
        with torch.cuda.stream(side):
            with pytest.raises(RuntimeError, match="race: CudaBatch"):
                use(env)
            side.wait_stream(torch.cuda.default_stream())
            use(env)
        torch.cuda.synchronize()
