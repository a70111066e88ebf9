"""Networks: sizes, scaling of pixels, heads, noise, normalization."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from torch.nn.utils.parametrize import is_parametrized  # noqa: E402

from cule import nets  # noqa: E402
from cule.errors import InvalidArgumentError  # noqa: E402
from cule.kernels import gather_blocks  # noqa: E402
from cule.nets.initialization import initialize  # noqa: E402
from cule.nets.torsos import ImageNorm, float_images  # noqa: E402

IMAGE = (4, 84, 84)


def pictures(count: int = 3, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, *IMAGE), dtype=torch.uint8, generator=generator)


def size_of(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("name", "features", "parameters"),
    [
        # weights and biases of the convolutions and the linear layer, counted by hand
        ("nature", 512, 8_224 + 32_832 + 36_928 + 1_606_144),
        ("nature32", 512, 8_224 + 32_832 + 18_464 + 803_328),
        ("nips", 256, 4_112 + 8_224 + 663_808),
        ("impala", 256, 592 + 9_280 + 4_640 + 36_992 + 9_248 + 36_992 + 991_488),
        ("btr_small", 256, 592 + 9_280 + 4_640 + 36_992 + 9_248 + 36_992 + 1_152 * 256 + 256),
        ("btr", 256, 1_184 + 36_992 + 18_496 + 147_712 + 36_928 + 147_712 + 2_304 * 256 + 256),
        ("mlp", 128, 28_224 * 128 + 128 + 128 * 128 + 128),
    ],
)
def test_torsos(name: str, features: int, parameters: int) -> None:
    torso = nets.make_torso(name, IMAGE)
    assert torso(pictures()).shape == (3, features)
    assert torso.num_features == features
    assert size_of(torso) == parameters


@pytest.mark.parametrize("rule", ["torch", "orthogonal", "he"])
def test_residual_layers_of_btr_are_normalized(rule: str) -> None:
    """12 convolutions have the largest singular value 1; the first of each section does not."""
    torch.manual_seed(0)
    torso = nets.make_torso("btr_small", (2, 42, 42))
    before = {name: p.clone() for name, p in torso.named_parameters()}
    initialize(torso, rule)
    changed = {name for name, p in torso.named_parameters() if not torch.equal(before[name], p)}
    assert changed == (set() if rule == "torch" else set(before))
    images = torch.zeros(1, 2, 42, 42, dtype=torch.uint8)
    for _ in range(300):  # the power iteration
        torso(images)
    torso.eval()
    layers = [m for m in torso.modules() if isinstance(m, torch.nn.Conv2d)]
    norms = [float(torch.linalg.matrix_norm(m.weight.detach().flatten(1), 2)) for m in layers]
    is_residual = [m.kernel_size == (3, 3) and m.in_channels == m.out_channels for m in layers]
    is_residual[10] = False  # the first of the third section
    assert sum(is_residual) == 12
    ones = [abs(norm - 1.0) < 1e-3 for norm in norms]
    assert ones == is_residual


@pytest.mark.parametrize("name", ["nature", "small", "impala"])
def test_stacks_of_another_size_are_refused_by_their_number_of_frames(name: str) -> None:
    with pytest.raises(RuntimeError, match="to have 4 channels, but got 3"):
        nets.make_torso(name, (4, 84, 84))(torch.zeros(1, 3, 84, 84))


@pytest.mark.parametrize("rule", nets.INITIALIZATIONS)
def test_new_networks_are_normalized_before_they_are_trained(rule: str) -> None:
    torch.manual_seed(0)
    network = nets.ActorCritic((2, 42, 42), 6, torso="btr_small", initialization=rule).eval()
    for layer in network.modules():
        if is_parametrized(layer, "weight"):
            norm = torch.linalg.matrix_norm(layer.weight.detach().flatten(1), 2)
            assert float(norm) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("name", nets.TORSOS)
def test_batches_without_observations(name: str) -> None:
    shape = (1, 3, 6) if name in nets.OBJECT_TORSOS else (1, 36, 36)
    torso = nets.make_torso(name, shape)
    assert torso(torch.zeros(0, *shape, dtype=torch.uint8)).shape == (0, torso.num_features)


def test_pixels_of_any_size_give_btr_as_many_features() -> None:
    sizes = {nets.make_torso("btr_small", (1, n, n)).body[-2].in_features for n in (42, 64, 84)}
    assert sizes == {6 * 6 * 32}


@pytest.mark.parametrize("noisy", [False, True])
def test_dueling_quantiles(noisy: bool) -> None:
    """The mean over actions is the stream of the state."""
    network = nets.ImplicitQuantileNetwork((8,), 5, torso="vector", dueling=True, noisy=noisy)
    nets.sample_noise(network, torch.Generator().manual_seed(0))
    obs = torch.randint(0, 256, (4, 8), dtype=torch.uint8)
    quantiles = network(obs, torch.rand(4, 3))
    assert quantiles.shape == (4, 3, 5)
    plain = nets.ImplicitQuantileNetwork((8,), 5, torso="vector")
    hidden = 128 * 512 + 512
    assert size_of(network) - size_of(plain) == (
        hidden + 513 + (hidden + 513 * 5 + hidden + 513 if noisy else 0)
    )
    assert network.value is not None
    cosines = torch.cos(torch.full((4, 3, 1), 0.25) * network.harmonics)
    features = network.features(obs).unsqueeze(1) * network.embedding(cosines).relu()
    torch.testing.assert_close(
        network(obs, torch.full((4, 3), 0.25)).mean(-1, keepdim=True), network.value(features)
    )


def test_nature_network_has_the_published_size() -> None:
    # 1.69 million parameters with a policy of 18 actions and a value.
    assert size_of(nets.ActorCritic(IMAGE, 18)) == 1_684_128 + 513 * 18 + 513


def test_numbers_of_objects_have_a_scale_of_their_own() -> None:
    torso = nets.make_torso("mlp", (2, 3, 6))
    obs = torch.randint(1, 200, (4, 2, 3, 6), dtype=torch.int16)
    expected = torso(obs.float() * (255.0 / nets.OBJECT_SCALE))
    assert not torch.allclose(torso(obs), expected)
    nets.read_floats(torso, nets.OBJECT_SCALE)
    torch.testing.assert_close(torso(obs), expected)


def features_of(rows: torch.Tensor, k: int) -> list[float]:
    """What torsos are given of object k, from rows ``[S, K, F]`` of two frames, in plain Python."""
    (old, new), first = rows[:, k].tolist(), rows[1, 0].tolist()
    distance = [new[axis] - first[axis] for axis in (0, 1)]
    if new[4] <= 0 or first[4] <= 0:
        distance = [0.0, 0.0]
    movement = [new[axis] - old[axis] for axis in (0, 1)]
    if new[4] <= 0 or old[4] <= 0:
        movement = [0.0, 0.0]
    return [
        *(number / 24 for number in (*old, *new)),
        *(number / 16 for number in distance),
        *(math.tanh(number / 6) for number in distance),
        *(number / 4 for number in movement),
    ]


def test_relations_against_loops() -> None:
    torch.manual_seed(0)
    torso = nets.make_torso("relations", (2, 3, 6))
    obs = torch.randint(-20, 200, (9, 2, 3, 6), dtype=torch.int16)
    obs[..., 4] = torch.randint(0, 2, (9, 2, 3))
    body = torso.body
    for rows, found in zip(obs, torso(obs), strict=True):
        given = torch.tensor([number for k in range(3) for number in features_of(rows, k)])
        expected = torch.relu(body.second(torch.relu(body.first(given))))
        torch.testing.assert_close(found, expected)
    # Two bricks share the weight of one ball.
    nets.name_rows(torso, ["brick", "ball", "brick"])
    part = torch.tensor([0.5**0.5, 1.0, 0.5**0.5]).repeat_interleave(18)
    for rows, found in zip(obs, torso(obs), strict=True):
        given = part * torch.tensor([number for k in range(3) for number in features_of(rows, k)])
        expected = torch.relu(body.second(torch.relu(body.first(given))))
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", nets.TORSOS)
def test_a_stack_of_one_frame_may_have_no_axis(name: str) -> None:
    """That of objects has no movements, as if the frame before were the same."""
    shape = (1, 3, 6) if name in nets.OBJECT_TORSOS else (1, 36, 36)
    for network in (nets.make_torso(name, shape), nets.Novelty(shape, torso=name)):
        obs = torch.randint(0, 9, (2, *shape), dtype=torch.int16)
        features = network.eval()(obs)
        assert len(features) == 2
        assert torch.equal(network(obs[:, 0]), features)


def test_objects_against_loops() -> None:
    """Attention of four heads among the visible objects, one at a time, in float64."""
    torch.manual_seed(0)
    torso = nets.make_torso("objects", (2, 3, 6))
    obs = torch.randint(-20, 200, (4, 2, 3, 6), dtype=torch.int16)
    shown = torch.tensor([[1, 1, 1], [1, 0, 1], [0, 1, 0], [0, 0, 0]])
    obs[:, -1, :, 4] = shown.to(torch.int16)
    features = torso(obs)
    assert features.shape == (4, torso.num_features)
    body = torso.body.double()

    def layer(linear: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
        return linear.weight @ x + linear.bias

    for rows, seen, found in zip(obs.double(), shown.tolist(), features, strict=True):
        given = [torch.tensor(features_of(rows, k), dtype=torch.float64) for k in range(3)]
        tokens = [torch.relu(layer(body.embed, given[k]) + body.names[k]) for k in range(3)]
        parts = [layer(body.queries, token).reshape(3, 4, 16) for token in tokens]
        results = [torch.zeros(128, dtype=torch.float64)]
        for k in range(3):
            heads = []
            for head in range(4):
                others = [j for j in range(3) if seen[j]]
                scores = [parts[k][0, head] @ parts[j][1, head] / 4 for j in others]
                weights = torch.softmax(torch.stack(scores), 0) if scores else []
                heads.append(
                    sum(
                        (w * parts[j][2, head] for w, j in zip(weights, others, strict=True)),
                        torch.zeros(16, dtype=torch.float64),
                    )
                )
            if seen[k]:
                mixed = tokens[k] + layer(body.merge, torch.cat(heads))
                results.append(torch.relu(layer(body.out, mixed)))
        torch.testing.assert_close(found, torch.stack(results).amax(0).float())


def test_torsos_that_do_not_fit_are_refused() -> None:
    for name, shape in (
        ("resnet", IMAGE),
        ("nature", (4, 10, 10)),
        ("nature", (128,)),
        ("objects", (9,)),
    ):
        with pytest.raises(InvalidArgumentError, match="network"):
            nets.make_torso(name, shape)
    for make, allowed in (
        (nets.ActorCritic, "'mlp' or 'impala'"),
        (nets.NormalizedQNetwork, "'mlp'"),
    ):
        with pytest.raises(InvalidArgumentError, match=f"must be {allowed}$"):
            make((4, 10, 10), 6)
    assert nets.make_torso("vector", (128,))(torch.zeros(2, 128, dtype=torch.uint8)).shape == (
        2,
        128,
    )


@pytest.mark.parametrize("name", ["nature", "impala", "mlp"])
def test_bytes_are_scaled_inside_the_first_layer(name: str) -> None:
    torso = nets.make_torso(name, IMAGE)
    plain = torch.nn.Sequential(*list(torso.body))
    first = next(m for m in plain if isinstance(m, torch.nn.Conv2d | torch.nn.Linear))
    kind = torch.nn.Conv2d if isinstance(first, torch.nn.Conv2d) else torch.nn.Linear
    features = torso(pictures())
    first.__class__ = kind  # without the factor
    torch.testing.assert_close(features, plain(pictures().float() / 255.0), atol=1e-4, rtol=1e-4)


def test_initializations() -> None:
    torch.manual_seed(0)
    network = nets.ActorCritic(IMAGE, 6)
    weight = network.policy.weight
    torch.testing.assert_close(weight @ weight.T, 1e-4 * torch.eye(6), atol=1e-7, rtol=0)
    weight = network.torso.body[2].weight.flatten(1)
    torch.testing.assert_close(weight @ weight.T, 2.0 * torch.eye(64), atol=1e-4, rtol=0)
    assert not network.value.bias.any()
    network = nets.ActorCritic(IMAGE, 6, initialization="he")
    deviation = network.torso.body[7].weight.detach().std() * math.sqrt(3136)
    assert float(deviation) == pytest.approx(math.sqrt(2), rel=0.01)
    with pytest.raises(InvalidArgumentError, match="initialization"):
        nets.ActorCritic(IMAGE, 6, initialization="xavier")


def test_actor_critic_shapes() -> None:
    logits, values = nets.ActorCritic(IMAGE, 6, torso="nips", normalize_obs=True)(pictures())
    assert (logits.shape, values.shape) == ((3, 6), (3,))
    assert (logits.dtype, values.dtype) == (torch.float32, torch.float32)


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("num_atoms", [1, 51])
def test_q_network_shapes(dueling: bool, noisy: bool, num_atoms: int) -> None:
    network = nets.QNetwork(IMAGE, 6, dueling=dueling, noisy=noisy, num_atoms=num_atoms)
    values = network(pictures())
    assert values.shape == ((3, 6) if num_atoms == 1 else (3, 6, 51))
    hidden = 3136 * 512 + 512
    convolutions = 8_224 + 32_832 + 36_928
    head = hidden + 513 * 6 * num_atoms + ((hidden + 513 * num_atoms) if dueling else 0)
    if noisy:
        head *= 2
    assert size_of(network) == convolutions + head


def test_dueling_streams_are_identified() -> None:
    network = nets.QNetwork((8,), 5, torso="vector", dueling=True, num_atoms=3)
    assert network.value is not None
    obs = torch.randint(0, 256, (4, 8), dtype=torch.uint8)
    features = network.torso(obs)
    # The mean over actions is the value stream, atom by atom.
    torch.testing.assert_close(network(obs).mean(1), network.value(features))


def test_noisy_layer_is_a_perturbed_linear_layer() -> None:
    torch.manual_seed(0)
    layer = nets.NoisyLinear(7, 5)
    x = torch.randn(4, 7)
    assert torch.equal(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias))
    layer.sample_noise(torch.Generator().manual_seed(1))
    outer = torch.outer(layer.noise_out[0], layer.noise_in[0])
    weight = layer.weight + layer.weight_sigma * outer
    bias = layer.bias + layer.bias_sigma * layer.noise_out[0]
    torch.testing.assert_close(layer(x), torch.nn.functional.linear(x, weight, bias))
    layer.eval()
    torch.testing.assert_close(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias))
    assert float(layer.weight_sigma[0, 0].detach()) == pytest.approx(0.5 / math.sqrt(7))


def test_groups_of_a_batch_have_noise_of_their_own() -> None:
    layer = nets.NoisyLinear(6, 3, groups=2)
    layer.sample_noise(torch.Generator().manual_seed(0))
    out = layer(torch.ones(4, 6))
    torch.testing.assert_close(out[0], out[1])
    torch.testing.assert_close(out[2], out[3])
    assert not torch.allclose(out[0], out[2])
    assert layer(torch.ones(3, 6)).shape == (3, 3)


def test_noise_has_unit_scale_and_moves_the_output() -> None:
    layer = nets.NoisyLinear(20_000, 2)
    layer.sample_noise(torch.Generator().manual_seed(0))
    # f(x) = sign(x) sqrt(|x|): mean 0, mean square E|x| = sqrt(2 / pi).
    assert float(layer.noise_in.square().mean()) == pytest.approx(math.sqrt(2 / math.pi), abs=0.02)
    assert float(layer.noise_in.mean()) == pytest.approx(0.0, abs=0.03)
    network = nets.QNetwork((8,), 3, torso="vector", noisy=True)
    obs = torch.ones(1, 8, dtype=torch.uint8)
    before = network(obs)
    nets.sample_noise(network, torch.Generator().manual_seed(0))
    assert not torch.allclose(before, network(obs))


def test_normalized_q_network() -> None:
    network = nets.NormalizedQNetwork(IMAGE, 6)
    assert network(pictures()).shape == (3, 6)
    kinds = [
        type(layer).__name__ for layer in network.body if not isinstance(layer, torch.nn.Flatten)
    ]
    assert [kinds.count(kind) for kind in ("ImageNorm", "LayerNorm")] == [3, 1]
    assert all(kinds[i + 1] == "ReLU" for i, kind in enumerate(kinds) if kind.endswith("Norm"))
    assert nets.NormalizedQNetwork((2, 10, 10), 3, torso="mlp")(
        torch.zeros(2, 2, 10, 10)
    ).shape == (2, 3)
    with pytest.raises(InvalidArgumentError, match="network"):
        nets.NormalizedQNetwork(IMAGE, 6, torso="impala")
    for torso in ("nature", "vector"):
        with pytest.raises(InvalidArgumentError, match=r"shape \(128,\) it must be one of mlp"):
            nets.NormalizedQNetwork((128,), 6, torso=torso)


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_image_norm_is_layer_norm(memory: torch.memory_format) -> None:
    torch.manual_seed(0)
    norms = torch.nn.LayerNorm((3, 4, 5)), ImageNorm((3, 4, 5))
    torch.nn.init.normal_(norms[0].weight)
    torch.nn.init.normal_(norms[0].bias)
    norms[1].load_state_dict(norms[0].state_dict())
    images = torch.randn(6, 3, 4, 5).contiguous(memory_format=memory)
    weights = torch.randn(6, 3, 4, 5)
    found = []
    for norm in norms:
        x = images.clone().requires_grad_()
        result = norm(x)
        (result * weights).sum().backward()
        found.append((result, x.grad, norm.weight.grad, norm.bias.grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_pixel_statistics_are_those_of_all_that_was_shown() -> None:
    statistics = nets.PixelStatistics((2, 3))
    generator = torch.Generator().manual_seed(0)
    shown = torch.randint(0, 256, (5000, 2, 3), generator=generator).to(torch.uint8)
    for part in shown.split(700):
        statistics.update(part)
    # The count of one that it starts with moves mean and variance by about 1/5000.
    torch.testing.assert_close(statistics.mean, shown.float().mean(0), rtol=1e-3, atol=0)
    variance = shown.float().var(0, correction=0)
    torch.testing.assert_close(statistics.variance, variance, rtol=3e-3, atol=0)
    floats = shown[:7].float()
    before = floats.clone()
    statistics.update(floats)
    assert torch.equal(floats, before)
    normed = statistics(shown) / 255.0
    assert float(normed.mean()) == pytest.approx(0.0, abs=0.01)
    assert float(normed.std()) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("shape", [(3, 1, 4, 5), (1, 4, 84, 84), (2, 2, 1, 1), (5, 12, 6, 6)])
def test_float_images_are_those_of_torch(shape: tuple[int, ...]) -> None:
    plain = torch.randint(0, 256, shape, dtype=torch.uint8)
    for obs in (plain, plain.flip(0), plain.transpose(2, 3), plain.short(), plain.float()):
        found, expected = (
            float_images(obs),
            obs.to(torch.float32, memory_format=torch.channels_last),
        )
        assert torch.equal(found, expected)
        assert found.stride() == expected.stride()


def test_copies_of_networks() -> None:
    torch.manual_seed(0)
    source, target = (nets.ActorCritic((8,), 3, torso="vector") for _ in range(2))
    before = target.policy.weight.clone()
    nets.soft_copy(target, source, 0.25)
    torch.testing.assert_close(target.policy.weight, 0.75 * before + 0.25 * source.policy.weight)
    nets.soft_copy(target, source)
    assert torch.equal(target.policy.weight, source.policy.weight)
    values = torch.arange(12.0).reshape(2, 3, 2)
    assert nets.gather_actions(values, torch.tensor([2, 0])).tolist() == [[4, 5], [6, 7]]


def test_actor_does_not_train_the_torso_and_critic_does() -> None:
    network = nets.DeterministicActorCritic(IMAGE)
    features = network.features(pictures())
    raw = network.raw_actions(features)
    assert raw.shape == (3, 3)
    raw.sum().backward()
    assert all(parameter.grad is None for parameter in network.torso.parameters())
    values = network.values(network.features(pictures()), torch.zeros(3, 3))
    assert values.shape == (3,)
    values.sum().backward()
    assert all(parameter.grad is not None for parameter in network.torso.parameters())


def test_gaussian_policy_starts_as_asked() -> None:
    network = nets.GaussianActorCritic(IMAGE, initial_sigma=0.5)
    means, values = network(pictures())
    assert means.shape == (3, 3)
    assert values.shape == (3,)
    assert float(means.detach().abs().max()) < 0.5  # near the centre
    assert network.log_sigma.detach().exp().tolist() == pytest.approx([0.5] * 3)
    assert "log_sigma" in dict(network.named_parameters())


@pytest.mark.parametrize("name", ["nature", "nature32", "nips"])
def test_blocks_of_pixels_are_read_as_pixels(name: str) -> None:
    """Features and gradients, up to the order of sums in float64."""
    torso = nets.make_torso(name, (4, 84, 84)).double()
    assert nets.reads_blocks(torso)
    generator = torch.Generator().manual_seed(0)
    frames = torch.randint(256, (9, 84, 84), dtype=torch.uint8, generator=generator)
    index = torch.randint(9, (5, 4), generator=generator)
    results = []
    for obs in (frames[index].double(), gather_blocks(frames, index).double()):
        torso.zero_grad()
        features = torso(obs)
        features.square().sum().backward()
        results.append([features.detach(), *(p.grad.clone() for p in torso.parameters())])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "shape"), [("small", (2, 42, 42)), ("impala", (4, 84, 84)),
                                             ("mlp", (4, 84, 84))])  # fmt: skip
def test_other_networks_read_no_blocks(name: str, shape: tuple[int, ...]) -> None:
    assert not nets.reads_blocks(nets.make_torso(name, shape))
    assert not nets.reads_blocks(nets.ActorCritic((4, 84, 84), 3, normalize_obs=True))
