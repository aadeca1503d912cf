"""The mutated LeNet of a public report: one GPU's answer was off by 0.25, since fc2 ran in TF32 and floor turned 1.5e-4 into 1.

Every layer on balls: the golden is proven. Each layer also has the scale of its isolated error and the bound of its free-running error
(docs/numerics.md#models): running error analysis with signed Jacobians from every source of error to the fully connected layers, in float64,
rounded up. A floor whose input lies further from an integer than its error stays what it is, another one is undecided and may move by 1."""

from __future__ import annotations

import math

import numpy

from golden import numpy_ad as np
from golden.ball import balls, precision, split_array
from golden.draw import Draw
from golden.ops.convolution.convolution import convolution, definition, transposed

SOURCE = "paddle#64591"
IMAGES, MOVED = 3, 5  # images as they are drawn, and the first drawn ones in which TF32 moves a floor
# Bounds of each layer's own error in units of u * scale: IEEE and, where a tensor core may run it, TF32.
IEEE, TF32 = 16.0, 32800.0
U = {"float32": 2.0**-24, "float64": 2.0**-53}


def weights() -> dict[str, numpy.ndarray]:
    """PyTorch's default initialisation: uniform within 1 / sqrt(fan in); drawn, not stored."""
    draw = Draw("mutated_lenet/weights")
    shapes = {"conv1": ((1, 6, 5, 5), 6 * 25), "conv2": ((16, 6, 5, 5), 6 * 25), "fc1": ((120, 16), 16), "fc2": ((84, 120), 120), "fc3": ((10, 84), 84)}
    out = {}
    for name, (shape, fan) in shapes.items():
        bound = float(numpy.float32(1 / math.sqrt(fan)))
        out[f"{name}.weight"] = draw.uniform(-bound, bound, *shape, stored=False)
        out[f"{name}.bias"] = draw.uniform(-bound, bound, shape[1] if name == "conv1" else shape[0], stored=False)
    return out


def linear(x, w, b):
    return numpy.matmul(x, numpy.swapaxes(w, 0, 1)) + (0 if b is None else b)


def pool(x):
    """2x2 windows, stride 2; on plain numbers or balls (their order is that of their midpoints)."""
    n, c, h, w = x.shape
    cut = x[:, :, : h // 2 * 2, : w // 2 * 2].reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)
    plain = cut if cut.dtype != object else np.floats(cut)
    return numpy.take_along_axis(cut, plain.argmax(-1)[..., None], -1)[..., 0]


def relu(x):
    return numpy.where((x if x.dtype != object else np.floats(x)) > 0, x, x * 0)


def elu(x):
    plain = x if x.dtype != object else np.floats(x)
    negative = numpy.where(plain > 0, x * 0, x)
    tail = numpy.expm1(negative) if x.dtype != object else np.elementwise(lambda v: v.expm1(), negative)
    return numpy.where(plain > 0, x, tail * ALPHA)


ALPHA = 0.1  # float32 rounds it: part of the layer's bound
NONE, ONE = (0, 0), (1, 1)
LAYERS = (  # name, schema, arguments beside the input, weight
    ("conv1", "conv_transpose2d.input", {}, "conv1"),
    ("relu1", "relu", {}, None),
    ("pool1", "max_pool2d", {"kernel_size": [2, 2], "stride": [2, 2]}, None),
    ("conv2", "conv2d", {"stride": [7, 5]}, "conv2"),
    ("elu", "elu", {"alpha": ALPHA}, None),
    ("pool2", "max_pool2d", {"kernel_size": [2, 2], "stride": [2, 2]}, None),
    ("flatten", "flatten.using_ints", {"start_dim": 1}, None),
    ("fc1", "linear", {}, "fc1"),
    ("relu3", "relu", {}, None),
    ("fc2", "linear", {}, "fc2"),
    ("floor", "floor", {}, None),
    ("output", "linear", {}, "fc3"),
)


def run(name, x, w, b):
    """One layer, on balls or floats."""
    if name == "conv1":
        return (transposed(x, w, b, ONE, NONE, NONE, 1, ONE) if x.dtype == object else definition(x, w, b, ONE, NONE, ONE, 1, NONE))
    if name == "conv2":
        return convolution(x, w, b, (7, 5), NONE, ONE, 1) if x.dtype == object else definition(x, w, b, (7, 5), NONE, ONE, 1)
    if name in ("fc1", "fc2", "output"):
        return linear(x, w, b)
    if name == "flatten":
        return x.reshape(x.shape[0], -1)
    if name == "floor":
        return numpy.floor(x) if x.dtype != object else balls(numpy.floor(np.floats(x)))
    return {"relu1": relu, "relu3": relu, "pool1": pool, "pool2": pool, "elu": elu}[name](x)


def forward(image, w, convert):
    """The output of every layer, by name."""
    x, out = convert(image), {}
    for name, _, _, weight in LAYERS:
        x = run(name, x, convert(w[f"{weight}.weight"]) if weight else None, convert(w[f"{weight}.bias"]) if weight else None)
        out[name] = x
    return out


def cut(x):
    """TF32: 10 bits behind the leading one, rounded to nearest."""
    mantissa, exponent = numpy.frexp(x)
    return numpy.ldexp(numpy.rint(mantissa * 2048) / 2048, exponent)


def windows(x, k, stride):
    """(N, C, H', W', k, k) views of the k x k windows."""
    view = numpy.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))
    return view[:, :, :: stride[0], :: stride[1]]


def quick(image, w):
    """relu3 and fc2, by windows: to look through many images."""
    around = numpy.pad(image, ((0, 0), (0, 0), (4, 4), (4, 4)))
    x = numpy.einsum("nchwij,coij->nohw", windows(around, 5, (1, 1)), w["conv1.weight"][:, :, ::-1, ::-1]) + w["conv1.bias"][:, None, None]
    x = pool(numpy.maximum(x, 0))
    x = numpy.einsum("nchwij,ocij->nohw", windows(x, 5, (7, 5)), w["conv2.weight"], optimize=True) + w["conv2.bias"][:, None, None]
    x = pool(elu(x)).reshape(image.shape[0], -1)
    x = numpy.maximum(linear(x, w["fc1.weight"], w["fc1.bias"]), 0)
    return x, linear(x, w["fc2.weight"], w["fc2.bias"])


def images(w):
    """The first images that are drawn, and the first ones whose floor TF32 in fc2 would move."""
    w = {n: numpy.asarray(v) for n, v in w.items()}
    chosen, numbers, k = [], [], 0
    while len(chosen) < IMAGES + MOVED:
        image = Draw(f"mutated_lenet/image/{k}").uniform(0, 1, 1, 1, 28, 28)
        x, fc2 = quick(image, w)
        moved = numpy.floor(cut(x) @ cut(w["fc2.weight"]).T + w["fc2.bias"]) != numpy.floor(fc2)
        if len(chosen) < IMAGES or moved.any():
            chosen.append(image)
            numbers.append(k)
        k += 1
    return numpy.concatenate(chosen), numbers


def spread(error):
    """(N, C, H, W) to the 2x2 windows of pool: (N, C, H', W', 4)."""
    n, c, h, w = error.shape
    return error[:, :, : h // 2 * 2, : w // 2 * 2].reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)


def residual(name, x, error):
    """How far f(x + e) may lie from f(x) + J e where |e| is at most `error`: zero where f is linear in that range."""
    beyond = numpy.maximum(error - numpy.abs(x), 0.0) if name in ("relu1", "relu3", "elu") else 0.0  # how far past the kink at 0
    if name in ("relu1", "relu3"):
        return beyond
    if name == "elu":  # the slope jumps from ALPHA to 1; half the second derivative is at most ALPHA / 2
        return (1 - ALPHA) * beyond + ALPHA / 2 * error**2
    if name in ("pool1", "pool2"):
        values, errors = spread(x), spread(error)
        best = values.argmax(-1)[..., None]
        reach = numpy.take_along_axis(errors, best, -1) + errors - (numpy.take_along_axis(values, best, -1) - values)
        numpy.put_along_axis(reach, best, 0.0, -1)
        return numpy.maximum(reach.max(-1), 0.0)
    return 0.0


def scatter(target, windows_of, stride):
    """Adds (…, H', W', k, k) windows into (…, H, W): the transpose of `windows`."""
    k = windows_of.shape[-1]
    rows, columns = windows_of.shape[-4:-2]
    for i in range(k):
        for j in range(k):
            target[..., i : i + stride[0] * rows : stride[0], j : j + stride[1] * columns : stride[1]] += windows_of[..., i, j]
    return target


def pulled_back(name, gradient, x, w):
    """gradient (O, N, output) times the layer's Jacobian at x: (O, N, input)."""
    if name in ("fc1", "fc2"):
        return gradient @ w[f"{name}.weight"]
    if name in ("relu1", "relu3"):
        return gradient * (x > 0)
    if name == "elu":
        return gradient * numpy.where(x > 0, 1.0, ALPHA * numpy.exp(numpy.minimum(x, 0.0)))
    if name == "flatten":
        return gradient.reshape(gradient.shape[0], *x.shape)
    if name == "conv2":
        cells = numpy.einsum("onkpq,kcij->oncpqij", gradient, w["conv2.weight"], optimize=True)
        return scatter(numpy.zeros((gradient.shape[0], *x.shape)), cells, (7, 5))
    best = spread(x).argmax(-1)  # pooling: the chosen element of each 2x2 window
    chosen = (numpy.arange(4) == best[..., None]) * gradient[..., None]
    return scatter(numpy.zeros((gradient.shape[0], *x.shape)), chosen.reshape(*gradient.shape, 2, 2), (2, 2))


def through(names, upto, w, inputs, sources):
    """sum over sources of |signed Jacobian to layer `upto`| times the source: an array like that layer's output."""
    size = sources[upto].shape[1]
    gradient = numpy.broadcast_to(numpy.eye(size)[:, None, :], (size, len(sources[upto]), size))
    total = numpy.zeros((len(sources[upto]), size))
    for name in reversed(names[: names.index(upto) + 1]):
        total += numpy.einsum("oni,ni->no", numpy.abs(gradient).reshape(*gradient.shape[:2], -1), sources[name].reshape(len(total), -1))
        if name != "conv1":  # the image carries no error
            gradient = pulled_back(name, gradient, inputs[name], w)
    return total


def absolute(name, error, x, w):
    """|J| times the error before a layer: what no sign is used for."""
    if name in ("conv1", "conv2", "fc1", "fc2", "output"):
        return run(name, error, numpy.abs(w[f"{'fc3' if name == 'output' else name}.weight"]), None)
    if name == "floor":
        return numpy.where(numpy.abs(x - numpy.rint(x)) > error, 0.0, numpy.ceil(error))
    if name in ("pool1", "pool2"):
        return spread(error).max(-1)
    return error.reshape(error.shape[0], -1) if name == "flatten" else error  # relu and elu: slopes of at most 1


def bounds(w, goldens, image, math_mode, dtype):
    """Per layer the largest free-running error that rounding explains: float64 arrays, rounded up."""
    error, x, out, inputs, sources = numpy.zeros(image.shape), image, {}, {}, {}
    names = [name for name, *_ in LAYERS]
    for name, _, _, weight in LAYERS:
        own, inputs[name] = (TF32 if math_mode == "tf32" and weight else IEEE) * U[dtype], x
        made = numpy.zeros(goldens[name].shape)  # by this layer itself
        if weight:
            size, bias = numpy.abs(w[f"{weight}.weight"]), numpy.abs(w[f"{weight}.bias"])
            made = own * (run(name, numpy.abs(x) + error, size, bias) + numpy.abs(goldens[name]) + run(name, error, size, None))
        elif name == "elu":
            made = own * 2 * (numpy.abs(goldens[name]) + error)
        sources[name] = made + residual(name, x, error)
        error = absolute(name, error, x, w) + made
        if name in ("fc1", "relu3", "fc2"):
            error = numpy.minimum(error, through(names, name, w, inputs, sources) + 2.0**-40 * error)  # float64 cancels to 2^-40 of it at worst
        if name not in ("relu1", "relu3"):  # whose errors are those before them, digit by digit: one array serves both
            error = error * (1 + 2.0**-40)
        out[name] = error
        x = goldens[name]
    return out


def demand_decided(inputs):
    """The balls' midpoints decide kinks, maxima and floors: each must lie further from its border than any radius; equal zeros of relu are one choice."""
    far = 2.0**-100
    gaps = numpy.sort(spread(inputs["pool1"]), -1), numpy.sort(spread(inputs["pool2"]), -1)
    margins = [numpy.abs(inputs[name]) for name in ("relu1", "elu", "relu3")] + [g[..., -1] - g[..., -2] for g in gaps]
    margins.append(numpy.abs(inputs["floor"] - numpy.rint(inputs["floor"])))
    for k, margin in enumerate(margins):
        zeros_tie = (gaps[0][..., -1] == 0) if k == 3 else False  # pool1 follows relu
        if not ((margin > far) | zeros_tie).all():
            raise ValueError(f"mutated_lenet: the proof does not decide every kink, maximum or floor ({k})")


def build(store):
    """The model's JSON; `store(key, array)` keeps an array."""
    w = weights()
    image, numbers = images(w)
    with precision(256):
        proven = forward(image, w, lambda a: balls(numpy.asarray(a)))
        goldens, radii = {}, 0.0
        for name, values in proven.items():
            hi, _, radius = split_array(values)
            goldens[name] = hi
            radii = max(radii, float(radius.max()))
    if radii > 2.0**-200:
        raise ValueError(f"mutated_lenet: a radius of {radii}")
    demand_decided(dict(zip([name for name, *_ in LAYERS], [image, *goldens.values()], strict=False)))
    second = forward(image, w, numpy.asarray)
    for name, values in goldens.items():
        if values.shape != second[name].shape or numpy.abs(values - second[name]).max() > 1e-12:
            raise ValueError(f"mutated_lenet/{name}: the second formula disagrees")
    for name in ("float32", "float64"):  # or the device's floor of the golden's input would not be the golden
        rounded = goldens["fc2"].astype(name).astype("float64")
        if (numpy.floor(rounded) != goldens["floor"]).any():
            raise ValueError(f"mutated_lenet/fc2: {name} rounds an element to the other side of an integer")
    free = {f"{d}_{m}": bounds(w, goldens, image, m, d) for d, m in (("float32", "ieee"), ("float32", "tf32"), ("float64", "ieee"))}
    kept = {}  # shape and bytes → key: relu's bounds are those of the layer before

    def once(key, array):
        same = array.shape, array.tobytes()
        if same not in kept:
            kept[same] = store(key, array)
        return kept[same]

    x, layers = image, []
    for name, schema, args, weight in LAYERS:
        size = numpy.abs(w[f"{weight}.weight"]) if weight else None
        scale = (run(name, numpy.abs(x), size, numpy.abs(w[f"{weight}.bias"])) if weight else numpy.abs(goldens[name])) + numpy.abs(goldens[name])
        stem, _, overload = schema.partition(".")
        layers.append({
            "name": name, "schema": f"aten::{stem}", "overload": overload, "input": "input" if weight else "self", "args": args,
            **({"weight": {"draw": w[f"{weight}.weight"].spec}, "bias": {"draw": w[f"{weight}.bias"].spec}} if weight else {}),
            "output": store(name, goldens[name]),
            **({"scale": store(f"{name}.scale", numpy.float32(scale * (1 + 2.0**-20)))} if weight or name == "elu" else {}),
            "bound": {"ieee": IEEE, **({"tf32": TF32} if weight else {})} if weight or name == "elu" else {"ieee": 0.0},
            "nondeterministic": ["cuda.forward"] if name == "conv1" else [],  # a transposed convolution: cuDNN's BackwardData may add with atomics
            "free": {k: once(f"{name}.free.{k}", numpy.float32(v[name] * (1 + 2.0**-20))) for k, v in free.items()},
        })
        x = goldens[name]
    return {
        "model": "mutated_lenet", "source": SOURCE, "note": f"images {numbers} of the draw: the first {IMAGES}, then the first {MOVED} in which TF32 in fc2 moves a floor",
        "input": {"tensor": store("image", image)}, "certified": math.ceil(math.log2(radii)) if radii else "exact", "layers": layers,
    }
