"""Backward operators of layers: normalization over channels and groups, bilinear resampling, maxima of windows."""

import itertools

import numpy

from golden import Case, conditioned
from golden import numpy_ad as np
from golden.ops.pooling._windows import starts
from golden.ops.resampling.interpolate import as_balls, linear_taps, matrices
from golden.table import Table

table = Table(tolerance=conditioned(), modes=("layouts", "threads"), differentiable=())
backward, operators = table.add, table.operators
ALL = (True, True, True)


def single(array):
    """Rounded to float32, as saved statistics are."""
    return numpy.float32(array).astype(float)


def centred(h, xhat, rstd, axis):
    """rstd (h - mean(h) - x^ mean(h x^)) along an axis."""
    n = h.shape[axis]
    return rstd * (h - np.sum(h, axis=axis, keepdims=True) / n - xhat * np.sum(h * xhat, axis=axis, keepdims=True) / n)


def jacobian(h, xhat, rstd):
    """The second formula, one row of n elements: the matrix (1 - 1/n - x^ x^T / n) rstd times the row."""
    n = h.size
    return ((numpy.eye(n) - 1 / n - numpy.outer(xhat, xhat) / n) * rstd) @ h


def group_norm(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask):
    """Rows are the groups of a sample; the weight's and the bias's gradients are sums over samples and places."""
    x, g = (np.reshape(v, (N, group, C // group, HxW)) for v in (input, grad_out))
    m, r = (np.reshape(v, (N, group, 1, 1)) for v in (mean, rstd))
    xhat, w = (x - m) * r, np.reshape(weight, (1, group, C // group, 1))
    rows = [np.reshape(v, (N, group, -1)) for v in (g * w, xhat)]
    first = np.reshape(centred(*rows, np.reshape(rstd, (N, group, 1)), 2), input.shape)
    return first, np.reshape(np.sum(g * xhat, axis=(0, 3)), (C,)), np.reshape(np.sum(g, axis=(0, 3)), (C,))


def group_norm_second(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask):
    each, first, xhat = C // group, numpy.zeros((N, C, HxW)), numpy.zeros((N, C, HxW))
    x, g = input.reshape(N, C, HxW), grad_out.reshape(N, C, HxW)
    for n, k in itertools.product(range(N), range(group)):
        at = (n, slice(k * each, (k + 1) * each))
        xhat[at] = (x[at] - mean[n, k]) * rstd[n, k]
        h = g[at] * weight[at[1], None]
        first[at] = jacobian(h.ravel(), xhat[at].ravel(), rstd[n, k]).reshape(each, HxW)
    return first.reshape(input.shape), numpy.einsum("nck,nck->c", g, xhat), numpy.einsum("nck->c", g)


def group_cases(draw):
    """With a weight: without one there is no gradient of it, and ATen refuses to be asked for it."""
    for shape, group in (((2, 4, 2, 3), 2), ((1, 6, 3), 3), ((2, 2, 5), 1), ((1, 4, 17), 4)):
        x = draw.normal(*shape)
        rows = x.reshape(shape[0], group, -1)
        yield Case(f"s{'x'.join(map(str, shape))}_g{group}", grad_out=draw.normal(*shape), input=x, mean=single(rows.mean(-1)), rstd=single(1 / numpy.sqrt(rows.var(-1) + 1e-5)),
                   weight=draw.uniform(0.5, 2, shape[1]), N=shape[0], C=shape[1], HxW=int(numpy.prod(shape[2:])), group=group, output_mask=ALL)


backward("native_group_norm_backward", group_norm, group_norm_second, group_cases, modes=("threads",))


def batch_norm(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask):
    """Rows are the channels; in evaluation the statistics are constants."""
    def channel(v):
        return np.reshape(v, (-1, 1))

    x, g = (np.reshape(np.swapaxes(v, 0, 1), (v.shape[1], -1)) for v in (input, grad_out))
    mean, rstd = (channel(save_mean), channel(save_invstd)) if train else (channel(running_mean), 1 / np.sqrt(channel(running_var) + np.balls(eps)))
    xhat, h = (x - mean) * rstd, g if weight is None else g * channel(weight)
    first = centred(h, xhat, rstd, 1) if train else h * rstd
    turned = np.swapaxes(np.reshape(first, (input.shape[1], input.shape[0], *input.shape[2:])), 0, 1)
    return turned, np.sum(g * xhat, axis=1), np.sum(g, axis=1)


def batch_norm_second(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask):
    first, slopes = numpy.zeros(input.shape), []
    for c in range(input.shape[1]):
        mean, rstd = (save_mean[c], save_invstd[c]) if train else (running_mean[c], (running_var[c] + eps) ** -0.5)
        xhat, h = (input[:, c] - mean) * rstd, grad_out[:, c] * (1 if weight is None else weight[c])
        first[:, c] = jacobian(h.ravel(), xhat.ravel(), rstd).reshape(h.shape) if train else h * rstd
        slopes.append((xhat * grad_out[:, c]).sum())
    return first, numpy.array(slopes), grad_out.sum(axis=(0, *range(2, input.ndim)))


def batch_cases(draw):
    for shape in ((5, 3), (2, 3, 5), (2, 2, 2, 3), (17, 1), (1, 2, 2, 3, 2)):
        for train in (True, False):
            x, c = draw.normal(*shape), shape[1]
            axes = (0, *range(2, len(shape)))
            yield Case(f"s{'x'.join(map(str, shape))}_train{int(train)}", grad_out=draw.normal(*shape), input=x, weight=draw.uniform(0.5, 2, c), running_mean=draw.normal(c),
                       running_var=draw.uniform(0.5, 2, c), save_mean=single(x.mean(axes)) if train else None, save_invstd=single(1 / numpy.sqrt(x.var(axes) + 1e-5)) if train else None,
                       train=train, eps=2.0**-16, output_mask=ALL)


backward("native_batch_norm_backward", batch_norm, batch_norm_second, batch_cases, modes=("layouts", "deterministic", "threads"))


def weights(output_size, input_size, align_corners, scales_h=None, scales_w=None):
    return matrices(linear_taps, input_size[2:], output_size, align_corners, (scales_h, scales_w))


def bilinear(grad_output, **given):
    return np.einsum("abij,ih,jw->abhw", grad_output, *(as_balls(w) for w, _ in weights(**given)))


def bilinear_second(grad_output, **given):
    """Each upstream element goes to its four neighbours."""
    (rows, _), (columns, _) = weights(**given)
    out = numpy.zeros(given["input_size"])
    for i, j in numpy.ndindex(*given["output_size"]):
        for h, w in itertools.product(numpy.flatnonzero(rows[i]), numpy.flatnonzero(columns[j])):
            out[:, :, h, w] += grad_output[:, :, i, j] * float(rows[i, h] * columns[j, w])
    return out


def bilinear_cases(draw):
    for size, out in (((1, 2, 3, 4), (6, 8)), ((2, 1, 5, 3), (2, 7)), ((1, 1, 4, 4), (4, 9)), ((1, 3, 1, 2), (3, 3))):
        for align in (False, True):
            yield Case(f"s{'x'.join(map(str, size))}_to_{out[0]}x{out[1]}_ac{int(align)}", grad_output=draw.normal(*size[:2], *out), output_size=out, input_size=size, align_corners=align)
    yield Case("scales", grad_output=draw.normal(1, 1, 5, 7), output_size=(5, 7), input_size=(1, 1, 3, 4), align_corners=False, scales_h=1.75, scales_w=1.75)


backward("upsample_bilinear2d_backward", bilinear, bilinear_second, bilinear_cases, tolerance=conditioned(float32=64, float64=64, why="docs/numerics.md#interpolation"),
         modes=("layouts", "channels_last", "deterministic", "threads"), nondeterministic=("cuda.forward",))
operators[-1].scale(lambda outputs, grad_output, **given: numpy.einsum("abij,ih,jw->abhw", numpy.abs(grad_output), *(s for _, s in weights(**given))))


def pooled(x, kernel_size, stride, padding, dilation, ceil_mode):
    """The flat position of each window's first maximum."""
    lines = [[[p for p in range(s, s + d * (k - 1) + 1, d) if 0 <= p < n] for s in starts(n, k, t, q, d, ceil_mode)] for n, k, t, q, d in zip(x.shape[2:], kernel_size, stride, padding, dilation, strict=True)]
    out = numpy.zeros((*x.shape[:2], len(lines[0]), len(lines[1])), dtype=numpy.int64)
    for n, c, i, j in numpy.ndindex(*out.shape):
        out[n, c, i, j] = max((y * x.shape[3] + z for y in lines[0][i] for z in lines[1][j]), key=lambda p: x[n, c].flat[p])
    return out


def max_pool(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
    """The upstream gradients of the windows whose maximum a place is, added up."""
    planes, places = self.shape[0] * self.shape[1], self.shape[2] * self.shape[3]
    g, at = np.reshape(grad_output, (planes, 1, -1)), indices.reshape(planes, 1, -1)
    hit = np.balls((numpy.arange(places)[None, :, None] == at) * 1.0)
    return np.reshape(np.sum(hit * g, axis=2), self.shape)


def max_pool_second(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
    out = numpy.zeros(self.shape)
    for n, c, i, j in numpy.ndindex(*indices.shape):
        out[n, c].reshape(-1)[indices[n, c, i, j]] += grad_output[n, c, i, j]
    return out


def max_pool_cases(draw):
    for label, size, given in (("k2_s2", (1, 2, 4, 6), ((2, 2), (2, 2), (0, 0), (1, 1), False)), ("overlapping", (2, 3, 5, 4), ((3, 3), (1, 1), (1, 1), (1, 1), False)), ("dilated", (1, 1, 7, 6), ((2, 2), (1, 2), (0, 1), (2, 1), False)),
                               ("ceil", (1, 2, 5, 5), ((2, 2), (2, 2), (0, 0), (1, 1), True)), ("wide", (1, 1, 2, 33), ((1, 5), (1, 3), (0, 2), (1, 1), False))):
        x, names = draw.distinct(*size), ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
        indices = pooled(x, *given)
        yield Case(label, grad_output=draw.normal(*indices.shape), self=x, **dict(zip(names, given, strict=True)), indices=indices)


backward("max_pool2d_with_indices_backward", max_pool, max_pool_second, max_pool_cases, modes=("layouts", "channels_last", "deterministic", "threads"), nondeterministic=("cuda.forward",))
