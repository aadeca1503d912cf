"""ResNet-50 (He, Zhang, Ren, Sun 2016; stride in the 3×3 convolution) with torchvision's names, on the tape."""

from __future__ import annotations

import math

from golden.models import _layers as nn
from golden.models._convolution import convolve
from golden.models._layers import Scope, Weights
from golden.models._tape import Node, add, divide, multiply, reshape, sqrt, subtract

BLOCKS, PLANES, CLASSES = (3, 4, 6, 3), (64, 128, 256, 512), 1000
EPS, MOMENTUM = 1e-5, 0.1


def norm_weights(w: Weights, name: str, size: int, centre: float = 1.0) -> None:
    w.uniform(f"{name}.weight", 0.25 * centre, size, centre=centre)
    w.uniform(f"{name}.bias", 0.25, size)
    w.uniform(f"{name}.running_mean", 0.5, size)
    w.uniform(f"{name}.running_var", 0.5, size, centre=1.0)


def weights(classes: int = CLASSES) -> Weights:
    """Kaiming's uniform initialisation; the last norm of each block starts at one half, so that sixteen sums do not grow without end."""
    w, gain = Weights("resnet50"), math.sqrt(2)
    w.convolution("conv1", 64, 3, 7, bias=False, gain=gain)
    norm_weights(w, "bn1", 64)
    inputs = 64
    for stage, (count, planes) in enumerate(zip(BLOCKS, PLANES, strict=True), 1):
        for k in range(count):
            name = f"layer{stage}.{k}"
            for number, (outputs, channels, size) in enumerate(((planes, inputs, 1), (planes, planes, 3), (4 * planes, planes, 1)), 1):
                w.convolution(f"{name}.conv{number}", outputs, channels, size, bias=False, gain=gain)
                norm_weights(w, f"{name}.bn{number}", outputs, 0.5 if number == 3 else 1.0)
            if k == 0:
                w.convolution(f"{name}.downsample.0", 4 * planes, inputs, 1, bias=False)
                norm_weights(w, f"{name}.downsample.1", 4 * planes)
            inputs = 4 * planes
    w.linear("fc", inputs, classes)
    return w


def norm(s: Scope, name: str, x: Node, train: bool) -> Node:
    if train:
        return nn.batch_norm(Scope(s.weights, s.notes, s.prefix), name, x, EPS, MOMENTUM)
    wide = (1, x.shape[1], 1, 1)
    w, b, mean, variance = (s[f"{name}.{part}"] for part in ("weight", "bias", "running_mean", "running_var"))
    slope = divide(w, sqrt(add(variance, EPS)))
    return add(multiply(subtract(x, reshape(mean, *wide)), reshape(slope, *wide)), reshape(b, *wide))


def block(s: Scope, x: Node, stride: int, train: bool) -> Node:
    y = nn.relu(norm(s, "bn1", convolve(x, s["conv1.weight"]), train))
    y = nn.relu(norm(s, "bn2", convolve(y, s["conv2.weight"], stride, 1), train))
    y = norm(s, "bn3", convolve(y, s["conv3.weight"]), train)
    if "downsample.0.weight" in s:
        x = norm(s, "downsample.1", convolve(x, s["downsample.0.weight"], stride), train)
    return nn.relu(add(y, x))


def forward(s: Scope, image: Node, train: bool) -> Node:
    """image (N, 3, H, W) to logits; stem, stages, mean and logits are noted."""
    quiet = Scope(s.weights, s.notes if train else None)  # running statistics are noted in train mode
    x = nn.relu(norm(quiet, "bn1", convolve(image, s["conv1.weight"], 2, 3), train))
    x = nn.max_pool(s, "stem", x, 3, 2, 1)
    for stage, count in enumerate(BLOCKS, 1):
        for k in range(count):
            x = block(quiet.under(f"layer{stage}").under(str(k)), x, 2 if stage > 1 and k == 0 else 1, train)
        s.note(f"layer{stage}", x)
    return nn.linear(s, "fc", s.note("mean", nn.mean_of(x, (2, 3))))
