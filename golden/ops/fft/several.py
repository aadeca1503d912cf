"""Fourier transforms along several axes, one axis after the other by their definition; checked by NumPy's FFT."""

import math

import numpy

from golden import Case, Operator
from golden.ops.fft.fft import BOUND, MODES, paired, parts, transform

operators = []


def axes(ndim, s, dim):
    """ATen's defaults: every axis, or the last len(s)."""
    return [d % ndim for d in (dim if dim is not None else range(ndim - len(s), ndim) if s is not None else range(ndim))]


def several(name, sign, default, cases):
    """`default`: the axes that ATen takes where none are named, or None."""
    operator = Operator(f"aten::fft_{name}", tolerance=BOUND, modes=MODES)

    @operator.reference
    def reference(self, s=None, dim=default, norm=None):
        re, im = parts(self)
        chosen = axes(re.ndim, s, dim)
        for k, axis in enumerate(chosen):
            re, im = transform(re, im, s[k] if s is not None else re.shape[axis], axis, sign, norm, sign < 0)
        return paired(re, im)

    @operator.second
    def second(self, s=None, dim=default, norm=None):
        out = getattr(numpy.fft, name)(self[..., 0] + 1j * self[..., 1], s, axes(self.ndim - 1, s, dim), norm)
        return numpy.stack([out.real, out.imag], axis=-1)

    def spread(values, kept, chosen, n, norm, shape):
        """The sum of the moduli that count, times the norm's factor, for each element of a shape."""
        m = numpy.hypot(values[..., 0], values[..., 1])
        m = m[tuple(slice(0, kept.get(a)) for a in range(m.ndim))]
        w = n**-0.5 if norm == "ortho" else 1.0 if (norm == "forward") == (sign > 0) else 1.0 / n
        total = numpy.broadcast_to(m.sum(axis=tuple(chosen), keepdims=True) * w, shape)
        return numpy.stack([total, total], axis=-1) / math.sqrt(2)

    @operator.scale
    def scale(outputs, self, s=None, dim=default, norm=None):
        shape = outputs[0].shape[:-1]
        chosen = axes(len(shape), s, dim)
        return spread(self, {a: shape[a] for a in chosen}, chosen, math.prod(shape[a] for a in chosen), norm, shape)

    @operator.backward_scale
    def backward_scale(gradients, upstream, self, s=None, dim=default, norm=None):
        shape = upstream[0].shape[:-1]
        chosen = axes(len(shape), s, dim)
        return {"self": spread(upstream[0], {}, chosen, math.prod(shape[a] for a in chosen), norm, self.shape[:-1])}

    operator.cases(cases)
    operators.append(operator)


def cases_2d(draw):
    for shape in ((2, 3), (4, 4), (2, 5, 3), (1, 7)):
        for norm in (None, "ortho"):
            yield Case(f"s{'x'.join(map(str, shape))}_{norm or 'backward'}", self=draw.complex_normal(*shape), norm=norm)
    yield Case("dims_0_2", self=draw.complex_normal(3, 2, 4), dim=(0, 2))


def cases_nd(draw):
    for norm in (None, "ortho", "forward"):
        yield Case(f"all_{norm or 'backward'}", self=draw.complex_normal(2, 3, 4), norm=norm)
        yield Case(f"padded_and_cut_{norm or 'backward'}", self=draw.complex_normal(2, 3, 5), s=[4, 3], norm=norm)
    yield Case("dims_2_0", self=draw.complex_normal(3, 2, 5), dim=[2, 0])
    yield Case("s_and_dim", self=draw.complex_normal(3, 2, 5), s=[2, 7], dim=[0, -1])
    yield Case("one_axis", self=draw.complex_normal(17))


for inverse, sign in (("", -1), ("i", 1)):
    several(f"{inverse}fft2", sign, (-2, -1), cases_2d)
    several(f"{inverse}fftn", sign, None, cases_nd)
