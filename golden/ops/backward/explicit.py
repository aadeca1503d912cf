"""The backward operators that autograd calls, as operators of their own: each is the vector-Jacobian product of its forward formula."""

import math

import numpy

from golden import Case, conditioned, exact
from golden import numpy_ad as np
from golden.ops.indexing.indexing import summed_by_index
from golden.ops.pooling._windows import cover, spans
from golden.table import Table

MODES = ("layouts", "threads")
table = Table(tolerance=conditioned(), modes=MODES, differentiable=())
backward, operators = table.add, table.operators


def per_length(name="self", low=-4.0, high=4.0, **attributes):
    """An upstream gradient and one tensor, at several lengths."""
    def cases(draw):
        for n in (1, 7, 16, 33, 67):
            yield Case(f"n{n}", grad_output=draw.normal(n), **{name: draw.uniform(low, high, n)}, **attributes)
        yield Case("s3x5", grad_output=draw.normal(3, 5), **{name: draw.uniform(low, high, 3, 5)}, **attributes)

    return cases


backward("sigmoid_backward", lambda grad_output, output: grad_output * (1 - output) * output, lambda grad_output, output: grad_output * (output - output**2),
         per_length("output", 0.0625, 0.9375))
backward("tanh_backward", lambda grad_output, output: grad_output * (1 - output * output), lambda grad_output, output: grad_output * (1 - output) * (1 + output),
         per_length("output", -0.9375, 0.9375))


def silu_second(grad_output, self):
    s = 1 / (1 + numpy.exp(-self))
    return grad_output * (s + self * s * (1 - s))


backward("silu_backward", lambda grad_output, self: grad_output * np.expit(self) * (1 + self * np.expit(-self)), silu_second, per_length())


def gelu_backward(grad_output, self, approximate="none"):
    """Phi(x) + x phi(x); or the derivative of 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    if approximate == "none":
        return grad_output * ((1 + np.erf(self / np.sqrt(np.balls(2.0)))) / 2 + self * np.exp(-self * self / 2) / np.sqrt(2 * np.pi()))
    k = np.sqrt(2 / np.pi())
    t = np.tanh(k * (self + 0.044715 * self**3))
    return grad_output * ((1 + t) / 2 + self * (1 - t * t) / 2 * k * (1 + 3 * 0.044715 * self * self))


def gelu_backward_second(grad_output, self, approximate="none"):
    if approximate == "none":
        return grad_output * numpy.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi))(self)
    k = math.sqrt(2 / math.pi)
    u = k * (self + 0.044715 * self**3)
    return grad_output * (0.5 * (1 + numpy.tanh(u)) + 0.5 * self / numpy.cosh(u) ** 2 * k * (1 + 0.134145 * self**2))


def gelu_cases(draw):
    for approximate in ("none", "tanh"):
        for n in (1, 16, 33):
            yield Case(f"{approximate}_n{n}", grad_output=draw.normal(n), self=draw.uniform(-3, 3, n), approximate=approximate)


backward("gelu_backward", gelu_backward, gelu_backward_second, gelu_cases)


@operators[-1].scale
def gelu_backward_scale(outputs, grad_output, self, **_):
    """Where 1 + erf or 1 + tanh and x times its derivative cancel (near x = -0.75), each term errs by u of itself."""
    return numpy.abs(outputs[0]) + numpy.abs(grad_output) * (1 + numpy.abs(self))



def threshold_cases(draw):
    for n in (1, 17, 67):
        yield Case(f"n{n}", grad_output=draw.normal(n), self=draw.normal(n) + (n == 1) * 9, threshold=0.25)
    yield Case("at_the_threshold", grad_output=numpy.array([1.0, 2.0, 3.0]), self=numpy.array([0.5, 0.25, 0.0]), threshold=0.25, note="x = threshold gives 0")


backward("threshold_backward", lambda grad_output, self, threshold: numpy.where(self > threshold, grad_output, 0.0),
         lambda grad_output, self, threshold: grad_output * (self > threshold) + 0.0, threshold_cases, tolerance=exact(), plain=True)


def softmax_cases(log):
    def cases(draw):
        for shape, dim in (((3, 5), 1), ((17, 2), 0), ((2, 3, 7), -1), ((2, 129), 1), ((1, 2), 1)):
            x = draw.normal(*shape)
            p = numpy.exp(x) / numpy.exp(x).sum(dim, keepdims=True)
            output = numpy.float32(numpy.log(p) if log else p).astype(float)
            yield Case(f"s{'x'.join(map(str, shape))}_d{dim % len(shape)}", grad_output=draw.normal(*shape), output=output, dim=dim, input_dtype="tested")

    return cases


backward("_softmax_backward_data", lambda grad_output, output, dim, input_dtype: output * (grad_output - np.sum(grad_output * output, axis=dim, keepdims=True)),
         lambda grad_output, output, dim, input_dtype: grad_output * output - output * (grad_output * output).sum(dim, keepdims=True), softmax_cases(False))
backward("_log_softmax_backward_data", lambda grad_output, output, dim, input_dtype: grad_output - np.exp(output) * np.sum(grad_output, axis=dim, keepdims=True),
         lambda grad_output, output, dim, input_dtype: grad_output - numpy.exp(output) * numpy.add.reduce(grad_output, dim, keepdims=True), softmax_cases(True))


# Windows: avg_pool2d ------------------------------------------------------------------------------------------------------------------


def spread(size, kernel, stride, padding, ceil_mode):
    """Matrix (windows, size): 1 where a window covers a position; and the windows' padded lengths."""
    w = spans(size, kernel, stride, padding, ceil_mode)
    return cover(size, w)[0], numpy.array([float(b - a) for a, b in w])


def avg_pool2d_backward(grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    rows, row_span = spread(self.shape[2], kernel_size[0], stride[0], padding[0], ceil_mode)
    columns, column_span = spread(self.shape[3], kernel_size[1], stride[1], padding[1], ceil_mode)
    if divisor_override:
        divisor = numpy.full((len(rows), len(columns)), float(divisor_override))
    elif count_include_pad:
        divisor = row_span[:, None] * column_span[None]
    else:
        divisor = rows.sum(1)[:, None] * columns.sum(1)[None]
    return np.einsum("nchw,hi,wj->ncij", grad_output / divisor, rows, columns)


def avg_pool2d_backward_second(grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    out = numpy.zeros(self.shape)
    for y, (top, bottom) in enumerate(spans(self.shape[2], kernel_size[0], stride[0], padding[0], ceil_mode)):
        for x, (left, right) in enumerate(spans(self.shape[3], kernel_size[1], stride[1], padding[1], ceil_mode)):
            inside = (slice(max(top, 0), min(bottom, self.shape[2])), slice(max(left, 0), min(right, self.shape[3])))
            covered = (inside[0].stop - inside[0].start) * (inside[1].stop - inside[1].start)
            divisor = divisor_override or ((bottom - top) * (right - left) if count_include_pad else covered)
            out[(slice(None), slice(None), *inside)] += grad_output[:, :, y, x][..., None, None] / divisor
    return out


def avg_cases(draw):
    for kernel, stride, padding, ceil_mode, include, divisor in (
        ((2, 2), (2, 2), (0, 0), False, True, None), ((3, 3), (2, 2), (1, 1), False, True, None), ((3, 3), (1, 1), (1, 1), False, False, None),
        ((1, 2), (2, 2), (0, 1), True, True, None), ((3, 2), (2, 1), (1, 0), True, False, None), ((3, 3), (2, 1), (1, 1), True, True, 5),
    ):
        size = (7, 6)
        out = [len(spans(s, k, t, p, ceil_mode)) for s, k, t, p in zip(size, kernel, stride, padding, strict=True)]
        name = f"k{kernel[0]}{kernel[1]}_s{stride[0]}{stride[1]}_p{padding[0]}{padding[1]}_c{int(ceil_mode)}_i{int(include)}_d{divisor or 0}"
        yield Case(name, grad_output=draw.normal(2, 3, *out), self=draw.normal(2, 3, *size), kernel_size=kernel, stride=stride, padding=padding,
                   ceil_mode=ceil_mode, count_include_pad=include, divisor_override=divisor, source="pytorch#36977" if kernel == (1, 2) else None)


backward("avg_pool2d_backward", avg_pool2d_backward, avg_pool2d_backward_second, avg_cases, modes=("layouts", "channels_last", "deterministic", "threads"))


# Indices -------------------------------------------------------------------------------------------------------------------------------


def embedding_reference(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    return summed_by_index(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)


def embedding_second(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    out = numpy.zeros((num_weights, grad_output.shape[-1]))
    flat = indices.reshape(-1)
    for i, g in zip(flat, grad_output.reshape(flat.size, -1), strict=True):
        if i != padding_idx:
            out[i] += g / ((flat == i).sum() if scale_grad_by_freq else 1)
    return out


def embedding_cases(draw):
    for padding_idx in (-1, 2):
        for freq in (False, True):
            yield Case(f"pad{padding_idx if padding_idx >= 0 else 'none'}_freq{int(freq)}", grad_output=draw.normal(2, 6, 3), indices=draw.integers(0, 5, 2, 6), num_weights=5,
                       padding_idx=padding_idx, scale_grad_by_freq=freq)
    for n in (768, 769, 3073):
        yield Case(f"counted_{n}", grad_output=numpy.ones((n, 2)), indices=numpy.arange(n) % 3, num_weights=4, padding_idx=0, scale_grad_by_freq=False, source="pytorch#28716",
                   note="769 indices gave the padding row a gradient")


backward("embedding_dense_backward", embedding_reference, embedding_second, embedding_cases, scale="multilinear", nondeterministic=("cuda.forward",),
         modes=("layouts", "deterministic", "threads"))


def nll_reference(grad_output, self, target, weight, reduction, ignore_index, total_weight):
    keep = target != ignore_index
    onehot = (numpy.arange(self.shape[1])[None] == target[:, None]) & keep[:, None]
    w = 1 if weight is None else np.reshape(weight, (1, -1))
    return -np.reshape(grad_output, (-1, 1)) * w * onehot / (total_weight if reduction == 1 else 1)


def nll_second(grad_output, self, target, weight, reduction, ignore_index, total_weight):
    out = numpy.zeros(self.shape)
    for n, t in enumerate(target):
        if t != ignore_index:
            out[n, t] = -(grad_output[n] if reduction == 0 else grad_output.item()) * (1 if weight is None else weight[t]) / (total_weight.item() if reduction == 1 else 1)
    return out


def nll_cases(draw):
    for weighted in (False, True):
        for reduction in (0, 1, 2):
            target = numpy.array([2, 0, 1, 3, 1])
            weight = draw.uniform(0.25, 2, 4) if weighted else None
            total = numpy.float32(sum(1 if weight is None else weight[t] for t in target if t != 1))
            yield Case(f"w{int(weighted)}_r{reduction}", grad_output=draw.normal(5) if reduction == 0 else numpy.array(1.5), self=draw.normal(5, 4), target=target, weight=weight,
                       reduction=reduction, ignore_index=1, total_weight=numpy.array(float(total)))


backward("nll_loss_backward", nll_reference, nll_second, nll_cases, modes=("threads",))


# Convolution and normalization -------------------------------------------------------------------------------------------------------


def layer_norm_reference(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    """With n = the elements of a row, x^ = (x - mean) rstd, h = g w: rstd (h - mean(h) - x^ mean(h x^)); sums over rows of g x^ and g."""
    n = input.shape[-1]
    xhat = (input - mean) * rstd
    h = grad_out * weight
    first = rstd * (h - np.sum(h, axis=-1, keepdims=True) / n - xhat * np.sum(h * xhat, axis=-1, keepdims=True) / n)
    return first, np.sum(grad_out * xhat, axis=0), np.sum(grad_out, axis=0)


def layer_norm_second(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    n, first = input.shape[-1], numpy.zeros(input.shape)
    for r in range(input.shape[0]):
        xhat = (input[r] - mean[r]) * rstd[r]
        jacobian = (numpy.eye(n) - 1 / n - numpy.outer(xhat, xhat) / n) * rstd[r]
        first[r] = jacobian @ (grad_out[r] * weight)
    return first, ((input - mean) * rstd * grad_out).sum(0), grad_out.sum(0)


def layer_norm_cases(draw):
    for rows, n in ((3, 5), (2, 33), (5, 16)):
        x = draw.normal(rows, n)
        mean, rstd = numpy.float32(x.mean(1, keepdims=True)).astype(float), numpy.float32(1 / numpy.sqrt(x.var(1, keepdims=True) + 1e-5)).astype(float)
        yield Case(f"s{rows}x{n}", grad_out=draw.normal(rows, n), input=x, normalized_shape=(n,), mean=mean, rstd=rstd, weight=draw.normal(n), bias=draw.normal(n),
                   output_mask=(True, True, True))


backward("native_layer_norm_backward", layer_norm_reference, layer_norm_second, layer_norm_cases, modes=("threads",))
