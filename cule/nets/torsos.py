"""Torsos: modules that turn observations into `num_features` features.

nature      Mnih et al. 2015: 32 8x8/4, 64 4x4/2, 64 3x3/1, linear 512; 84 x 84 observations
nature32    the same with 32 filters in the third convolution, as in the experiments of CuLE
small       16 6x6/3, 32 4x4/2, linear 256; for 42 x 42 observations, on CPUs
nips        Mnih et al. 2013: 16 8x8/4, 32 4x4/2, linear 256; a third of the work, for CPUs
impala      Espeholt et al. 2018: three residual sections of 16, 32, 32 channels, linear 256
impala2     the same, twice as wide
btr         impala2 with spectral normalization of the residual layers (Miyato et al. 2018) and
            adaptive max-pooling to 6 x 6 after them (Clark et al. 2024)
btr_small   the same, as wide as impala
vector      linear 128 and ReLU; for RAM and other vectors
mlp         flatten, linear 128 twice; for small images and tests
relations   rows, movements and distances of objects, linear 128 twice; for objects
objects     the same for each object, linear 64, attention among objects, linear 128, maximum
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from cule.errors import InvalidArgumentError, shown

#: Largest value of an observation byte.
WHITE = 255.0

#: (filters, kernel, stride) of each convolution, and the width of the linear layer.
CONVOLUTIONS: dict[str, tuple[tuple[tuple[int, int, int], ...], int]] = {
    "nature": (((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512),
    "nature32": (((32, 8, 4), (64, 4, 2), (32, 3, 1)), 512),
    "nips": (((16, 8, 4), (32, 4, 2)), 256),
    "small": (((16, 6, 3), (32, 4, 2)), 256),
}

#: Factor on the channels of the residual networks, and whether they are those of BTR.
IMPALAS = {
    "impala": (1, False),
    "impala2": (2, False),
    "btr": (2, True),
    "btr_small": (1, True),
}

#: Torsos that read images.
IMAGE_TORSOS = (*CONVOLUTIONS, *IMPALAS, "mlp")

#: Torsos that read rows of objects, and nothing else.
OBJECT_TORSOS = ("relations", "objects")

#: Names of the torsos.
TORSOS = (*CONVOLUTIONS, *IMPALAS, "vector", "mlp", *OBJECT_TORSOS)


class ByteConv2d(nn.Conv2d):
    """A convolution of bytes: ``conv(x / 255)``, with the factor on the weights."""

    white = WHITE  # 1 for observations that are not bytes

    def forward(self, input: Tensor) -> Tensor:
        """Convolve bytes scaled to 0..1, or the same as `reads_blocks` says."""
        weight, side = self.weight * (1.0 / self.white), self.stride[0]
        if side == 1 or input.shape[1] != self.in_channels * side**2:
            result: Tensor = self._conv_forward(input, weight, self.bias)
            return result
        return F.conv2d(input, F.pixel_unshuffle(weight, side), self.bias)


class ByteLinear(nn.Linear):
    """A linear layer of bytes: ``linear(x / 255)``, with the factor on the weights."""

    white = WHITE

    def forward(self, input: Tensor) -> Tensor:
        """Apply to bytes scaled to 0..1."""
        result: Tensor = F.linear(input, self.weight * (1.0 / self.white), self.bias)
        return result


def reads_blocks(network: nn.Module) -> bool:
    """Whether a network of `cule.nets` reads images with blocks of 4 x 4 pixels as channels.

    Their first convolution, 8 x 8 with stride 4, is then one of 2 x 2 with stride 1 on
    ``[B, 16 S, H / 4, W / 4]``, the result of `torch.nn.functional.pixel_unshuffle`: the same
    products and sums in another order.
    """
    first = [layer for layer in network.modules() if isinstance(layer, ByteConv2d)]
    shapes = {(layer.kernel_size, layer.stride) for layer in first}
    return shapes == {((8, 8), (4, 4))} and getattr(network, "statistics", None) is None


def channels_last(module: nn.Module) -> None:
    """Convert the weights of all convolutions to channels-last, in place."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last)


def float_images(obs: Tensor) -> Tensor:
    """Convert images ``[B, S, H, W]`` to float32, channels-last.

    On a CPU bytes are converted frame by frame, in a third of the time of `Tensor.to` or less.
    """
    if obs.dtype != torch.uint8 or obs.device.type != "cpu" or obs.shape[1] > 8:
        return obs.to(torch.float32, memory_format=torch.channels_last)
    images = torch.empty(obs.shape, memory_format=torch.channels_last)
    for image, frame in zip(images.unbind(1), obs.unbind(1), strict=True):
        image.copy_(frame)
    return images


class ImageNorm(nn.LayerNorm):
    """Layer normalization of ``[B, C, H, W]`` without converting channels-last memory."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalize over channels, rows and columns."""
        weight, bias = (x.permute(1, 2, 0).contiguous() for x in (self.weight, self.bias))
        images = input.permute(0, 2, 3, 1)
        return F.layer_norm(images, images.shape[1:], weight, bias, self.eps).permute(0, 3, 1, 2)


class Torso(nn.Module):
    """Turns observations into features."""

    def __init__(self, body: nn.Module, example: Tensor, *, is_image: bool) -> None:
        """Use the layers `body`, whose number of features is measured with an example."""
        super().__init__()
        self.body = body
        self.is_image = is_image
        self.num_dims = example.dim()
        with torch.no_grad():
            self.num_features = int(body(example).shape[-1])

    def forward(self, obs: Tensor) -> Tensor:
        """Turn observations, uint8, int16 or float (0..255), into features ``[B, F]``.

        A stack of one frame may have no axis: ``[B, H, W]`` for ``[B, 1, H, W]``.
        """
        if obs.dim() < self.num_dims:
            obs = obs.unsqueeze(1)
        if not obs.is_floating_point():
            obs = float_images(obs) if self.is_image else obs.to(torch.float32)
        features: Tensor = self.body(obs)
        return features


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        moved: Tensor = self.second(F.relu(self.first(F.relu(x))))
        return x + moved


def _impala(name: str, obs_shape: Sequence[int]) -> nn.Sequential:
    width, is_spectral = IMPALAS[name]
    channels, rows, columns = obs_shape
    layers: list[nn.Module] = []
    first = True
    for filters in (16 * width, 32 * width, 32 * width):
        kind = ByteConv2d if first else nn.Conv2d
        layers += [
            kind(channels, filters, 3, padding=1),
            nn.MaxPool2d(3, 2, padding=1),
            _Residual(filters),
            _Residual(filters),
        ]
        channels, rows, columns, first = filters, -(-rows // 2), -(-columns // 2), False
    if is_spectral:
        layers.append(nn.AdaptiveMaxPool2d(6))
        rows, columns = 6, 6
    # ReLU after Flatten: its gradient has the layout of its input.
    layers += [nn.Flatten(), nn.ReLU(), nn.Linear(channels * rows * columns, 256), nn.ReLU()]
    body = nn.Sequential(*layers)
    channels_last(body)
    if is_spectral:
        for block in body.modules():
            if isinstance(block, _Residual):
                spectral_norm(block.first)
                spectral_norm(block.second)
    return body


def _with_norm(layer: nn.Module, norm: nn.Module, normalized: bool) -> list[nn.Module]:
    return [layer, norm, nn.ReLU()] if normalized else [layer, nn.ReLU()]


def convolutional_body(
    name: str, obs_shape: Sequence[int], *, normalized: bool = False
) -> nn.Sequential:
    """Layers of a convolutional torso, optionally with layer normalization before each ReLU."""
    convolutions, width = CONVOLUTIONS[name]
    channels, rows, columns = obs_shape
    layers: list[nn.Module] = []
    kind: type[nn.Conv2d] = ByteConv2d
    for filters, kernel, stride in convolutions:
        rows, columns = (rows - kernel) // stride + 1, (columns - kernel) // stride + 1
        if rows < 1 or columns < 1:
            allowed = "'mlp'" if normalized else "'mlp' or 'impala'"
            raise InvalidArgumentError(
                f"network is {shown(name)}, which does not fit observations of shape "
                f"{tuple(obs_shape)}; it must be {allowed}"
            )
        convolution = kind(channels, filters, kernel, stride)
        layers += _with_norm(convolution, ImageNorm((filters, rows, columns)), normalized)
        channels, kind = filters, nn.Conv2d
    layers.insert(-1, nn.Flatten())  # before ReLU, whose gradient then has the layout of its input
    linear = nn.Linear(channels * rows * columns, width)
    return nn.Sequential(*layers, *_with_norm(linear, nn.LayerNorm(width), normalized))


def linear_body(num_inputs: int, num_layers: int, *, normalized: bool = False) -> nn.Sequential:
    """Linear layers of width 128, optionally with layer normalization before each ReLU."""
    layers: list[nn.Module] = _with_norm(ByteLinear(num_inputs, 128), nn.LayerNorm(128), normalized)
    for _ in range(num_layers - 1):
        layers += _with_norm(nn.Linear(128, 128), nn.LayerNorm(128), normalized)
    return nn.Sequential(nn.Flatten(), *layers)


def make_torso(name: str, obs_shape: Sequence[int]) -> Torso:
    """Make a torso of `TORSOS` for observations ``[S, H, W]``, or ``[D]`` for "vector" and "mlp".

    Those of `OBJECT_TORSOS` are ``[S, K, F]``: S frames of K rows of F numbers.

    Raises:
        InvalidArgumentError: An unknown name, or one that does not fit the shape.
    """
    if name not in TORSOS:
        raise InvalidArgumentError(
            f"network is {shown(name)}; it must be one of {', '.join(TORSOS)}"
        )
    example = torch.zeros(1, *obs_shape)
    if name in ("vector", "mlp"):
        body = linear_body(example.numel(), 2 if name == "mlp" else 1)
        return Torso(body, example, is_image=False)
    if name in OBJECT_TORSOS and len(obs_shape) == 3:
        from cule.nets.objects import ObjectsBody, Relations

        kind = ObjectsBody if name == "objects" else Relations
        return Torso(kind(obs_shape), example, is_image=False)
    if len(obs_shape) != 3:
        raise InvalidArgumentError(
            f"network is {shown(name)}, which needs images [S, H, W]; for observations of shape "
            f"{tuple(obs_shape)} it must be 'vector' or 'mlp'"
        )
    if name in CONVOLUTIONS:
        body = convolutional_body(name, obs_shape)
        channels_last(body)
    else:
        body = _impala(name, obs_shape)
    return Torso(body, example, is_image=True)
