"""Average pooling, fixed and adaptive: one 0/1 matrix an axis, over the window's divisor; checked window by window."""

import itertools
import math

import numpy

from golden import Case, Operator, conditioned
from golden import numpy_ad as np
from golden.ops.pooling._windows import adaptive, cover, spans

MODES = ("layouts", "channels_last", "cudnn", "deterministic", "threads")
# ATen's adaptive average pooling and avg_pool3d accumulate gradients with atomicAdd (list in torch.use_deterministic_algorithms).
operators = []
LETTERS = {1: ("il", "abl,il->abi"), 2: ("", "abhw,ih,jw->abij"), 3: ("", "abdhw,id,jh,kw->abijk")}


def spread(x, matrices):
    """Apply one matrix an axis to the spatial axes of (N, C, …)."""
    return np.einsum(LETTERS[len(matrices)][1], x, *matrices)


def tuple_of(value, n):
    return tuple(value) * (n if len(value) == 1 else 1)


def windows(x, n, kernel_size, stride, padding, ceil_mode):
    """The spans of each axis."""
    axes = zip(x.shape[-n:], tuple_of(kernel_size, n), tuple_of(stride or kernel_size, n), tuple_of(padding, n), strict=True)
    return [spans(size, k, s, p, ceil_mode) for size, k, s, p in axes]


def fixed(n):
    operator = Operator(f"aten::avg_pool{n}d", tolerance=conditioned(), modes=MODES if n > 1 else ("layouts", "threads"), scale="multilinear",
                        nondeterministic=("cuda.backward",) if n == 3 else ())

    @operator.reference
    def reference(self, kernel_size, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True, divisor_override=None):
        boxes = windows(self, n, kernel_size, stride, padding, ceil_mode)
        covers = [cover(size, w) for size, w in zip(self.shape[-n:], boxes, strict=True)]
        if divisor_override:
            divisor = float(divisor_override)
        else:
            sizes = [numpy.array([float(b - a) for a, b in w]) if count_include_pad else c for w, (_, c) in zip(boxes, covers, strict=True)]
            divisor = math.prod(v.reshape(*[-1 if k == axis else 1 for k in range(n)]) for axis, v in enumerate(sizes))
        return spread(self, [m for m, _ in covers]) / divisor

    @operator.second
    def second(self, kernel_size, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True, divisor_override=None):
        boxes = windows(self, n, kernel_size, stride, padding, ceil_mode)
        out = numpy.zeros((*self.shape[:-n], *map(len, boxes)))
        for i in itertools.product(*(range(len(w)) for w in boxes)):
            box = [w[k] for w, k in zip(boxes, i, strict=True)]
            inside = self[(..., *(slice(max(a, 0), min(b, size)) for (a, b), size in zip(box, self.shape[-n:], strict=True)))]
            full = math.prod(b - a for a, b in box)
            divisor = divisor_override or (full if count_include_pad else inside[0, 0].size)
            out[(..., *i)] = inside.sum(axis=tuple(range(-n, 0))) / divisor
        return out

    @operator.cases
    def cases(draw):
        size = {1: (11,), 2: (7, 6), 3: (4, 5, 3)}[n]
        for kernel, stride, padding in (((2,), (2,), (0,)), ((3,), (2,), (1,)), ((3,), (1,), (1,)), ((2,), (3,), (1,))):
            for ceil_mode, include in itertools.product((False, True), repeat=2):
                for divisor in (None, 3) if n > 1 else (None,):
                    name = f"k{kernel[0]}_s{stride[0]}_p{padding[0]}_ceil{int(ceil_mode)}_pad{int(include)}_d{divisor or 0}"
                    given = {"divisor_override": divisor} if divisor else {}
                    yield Case(name, self=draw.normal(2, 3, *size), kernel_size=kernel * n, stride=stride * n, padding=padding * n, ceil_mode=ceil_mode,
                               count_include_pad=include, **given)
        if n == 2:
            for include in (True, False):
                yield Case(f"report_pad{int(include)}", self=numpy.arange(16.0).reshape(1, 1, 4, 4), kernel_size=(1, 2), stride=(2, 2), padding=(0, 1), ceil_mode=True,
                           count_include_pad=include, source="pytorch#36977", note="a third row of windows would lie outside: it gave NaN")
            for name, kernel, stride, padding in (("k12_s11_p01", (1, 2), (1, 1), (0, 1)), ("k31_s12_p10", (3, 1), (1, 2), (1, 0)), ("k32_s21_p11", (3, 2), (2, 1), (1, 1))):
                for include in (True, False):
                    yield Case(f"{name}_pad{int(include)}", self=draw.normal(1, 5, 4, 4), kernel_size=kernel, stride=stride, padding=padding, count_include_pad=include)
            yield Case("ones_c32", self=numpy.ones((1, 32, 3, 3)), kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), source="pytorch#36977", note="the output counts the inputs a window sees")
            yield Case("overhang", self=numpy.arange(49.0).reshape(1, 1, 7, 7), kernel_size=(2, 2), stride=(3, 3), ceil_mode=True, source="coremltools#2844",
                       note="what ceil_mode adds on the right is no padding and is not counted")
            yield Case("no_batch_9_channels", self=draw.normal(1, 9, 5, 5), kernel_size=(3, 2), stride=(2, 1), padding=(1, 0))

    return operator


def flexible(n):
    operator = Operator(f"aten::adaptive_avg_pool{n}d", tolerance=conditioned(), modes=("layouts", "channels_last", "deterministic", "threads") if n > 1 else ("layouts", "threads"),
                        scale="multilinear", nondeterministic=("cuda.backward",))

    @operator.reference
    def reference(self, output_size):
        covers = [cover(size, adaptive(size, out)) for size, out in zip(self.shape[-n:], output_size, strict=True)]
        return spread(self, [m for m, _ in covers]) / math.prod(c.reshape(*[-1 if k == axis else 1 for k in range(n)]) for axis, (_, c) in enumerate(covers))

    @operator.second
    def second(self, output_size):
        out = numpy.zeros((*self.shape[:-n], *output_size))
        for i in numpy.ndindex(*output_size):
            box = (slice(*adaptive(size, m)[k]) for k, size, m in zip(i, self.shape[-n:], output_size, strict=True))
            out[(..., *i)] = self[(..., *box)].mean(axis=tuple(range(-n, 0)))
        return out

    @operator.cases
    def cases(draw):
        size = {1: (11,), 2: (7, 6), 3: (4, 5, 3)}[n]
        for out in (1, 2, 3, 5):
            yield Case(f"to_{out}", self=draw.normal(2, 3, *size), output_size=(out,) * n)
        yield Case("same_size", self=draw.normal(1, 2, *size), output_size=size)
        if n == 3:
            yield Case("mixed", self=draw.normal(1, 1, 2, 2, 4), output_size=(2, 2, 2), source="pytorch#60524", note="divisible and non-divisible axes mixed")
        if n == 2:
            yield Case("ones_to_1", self=numpy.ones((1, 3, 5, 5)), output_size=(1, 1), source="pytorch#67893")
            yield Case("height_3_width_4", self=draw.normal(2, 4, 8, 9), output_size=(3, 4))

    return operator


operators += [fixed(n) for n in (1, 2, 3)] + [flexible(n) for n in (1, 2, 3)]
