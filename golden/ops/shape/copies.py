"""The moving operators' other forms: copies, views by stride, shapes taken from another tensor, casts."""

from functools import partial

import numpy

from golden import Case, Operator, conditioned, exact
from golden import numpy_ad as np
from golden.ops.shape import joins
from golden.ops.shape import moves as moving
from golden.ops.shape.joins import even
from golden.ops.shape.moves import _place, at, constant_pad, flat_rule, nearest, pad_rule, permuted, reflect, same, swap, widths

operators = []
moves, cuts = partial(moving.moves, into=operators), partial(joins.cuts, into=operators)


def strided_rule(shape, size, stride, storage_offset=0):
    """Element i lies at offset + sum of i_k stride_k of the row-major storage."""
    return tuple(size), lambda i: numpy.unravel_index(storage_offset + sum(k * s for k, s in zip(i, stride, strict=True)), shape)


def by_stride(x, size, stride, storage_offset=0):
    flat = x.reshape(-1)
    return numpy.lib.stride_tricks.as_strided(flat[storage_offset:], size, [s * flat.itemsize for s in stride]).copy()


STRIDED = [((12,), {"size": (3, 4), "stride": (4, 1)}), ((12,), {"size": (2, 3), "stride": (1, 2), "storage_offset": 3}), ((3, 4), {"size": (4, 3), "stride": (1, 4)}), ((7,), {"size": (5, 3), "stride": (1, 1)}),
           ((4,), {"size": (3, 4), "stride": (0, 1)})]
for name in ("as_strided", "as_strided_copy"):
    moves(name, by_stride, strided_rule, STRIDED, copies=True, modes=("deterministic", "threads"))
moves("expand_copy", lambda x, size: numpy.broadcast_to(x, size), lambda s, size: (tuple(size), lambda i: tuple(k if n > 1 else 0 for k, n in zip(i[len(size) - len(s) :], s, strict=True))),
      [((3, 1), {"size": (3, 4)}), ((1,), {"size": (17,)})], copies=True)
moves("alias_copy", lambda x: x, same(lambda i, s: i), [((5,), {}), ((3, 4), {}), ((2, 3, 33), {})])
for name in ("resolve_conj", "resolve_neg"):
    moves(name, lambda x: x, same(lambda i, s: i), [((5,), {}), ((3, 4), {})])
moves("narrow_copy", lambda x, dim, start, length: numpy.take(x, range(start, start + length), dim), lambda s, dim, start, length: (at(s, dim, length), lambda i: at(i, dim, i[dim] + start)),
      [((7,), {"dim": 0, "start": 2, "length": 4}), ((3, 5), {"dim": 1, "start": 1, "length": 3})])
operators[-1].differentiable = ()  # ATen has no derivative for it
moves("squeeze_copy", lambda x: x.squeeze(), flat_rule(lambda s: tuple(d for d in s if d != 1)), [((1, 5), {}), ((2, 1, 3, 1), {})])
moves("unsqueeze_copy", lambda x, dim: numpy.expand_dims(x, dim), flat_rule(lambda s, dim: (*s[: dim % (len(s) + 1)], 1, *s[dim % (len(s) + 1) :])), [((5,), {"dim": 0}), ((3, 4), {"dim": -1})])
moves("t_copy", lambda x: x.T, lambda s: swap(s, 0, 1), [((3, 4), {}), ((1, 7), {})])
moves("mH", lambda x: x.swapaxes(-1, -2), lambda s: swap(s, -1, -2), [((3, 4), {}), ((2, 3, 5), {})])
moves("transpose_copy.int", lambda x, dim0, dim1: x.swapaxes(dim0, dim1), lambda s, dim0, dim1: swap(s, dim0, dim1), [((3, 4), {"dim0": 0, "dim1": 1}), ((2, 3, 4), {"dim0": -1, "dim1": 0})])
moves("diagonal_copy", lambda x, offset=0, dim1=0, dim2=1: numpy.diagonal(x, offset, dim1, dim2),
      lambda s, offset=0, dim1=0, dim2=1: ((*(d for k, d in enumerate(s) if k not in (dim1, dim2)), max(0, min(s[dim1] + min(offset, 0), s[dim2] - max(offset, 0)))),
                                           lambda i: _place(i[:-1], {dim1: i[-1] - min(offset, 0), dim2: i[-1] + max(offset, 0)}, len(s))),
      [((3, 4), {}), ((4, 3), {"offset": -2}), ((2, 3, 4), {"dim1": 2, "dim2": 0, "offset": 1})])
moves("unfold_copy", lambda x, dimension, size, step: numpy.moveaxis(numpy.stack([numpy.take(x, range(k, k + size), dimension) for k in range(0, x.shape[dimension] - size + 1, step)], dimension), dimension + 1, -1),
      lambda s, dimension, size, step: ((*at(s, dimension, (s[dimension] - size) // step + 1), size), lambda i: at(i[:-1], dimension, i[dimension] * step + i[-1])),
      [((9,), {"dimension": 0, "size": 3, "step": 2}), ((2, 7), {"dimension": 1, "size": 4, "step": 1})], copies=True)
moves("movedim.intlist", lambda x, source, destination: numpy.moveaxis(x, source, destination),
      lambda s, source, destination: permuted(s, [source[destination.index(k)] if k in destination else [d for d in range(len(s)) if d not in source][[j for j in range(len(s)) if j not in destination].index(k)] for k in range(len(s))]),
      [((3, 4), {"source": (0,), "destination": (1,)}), ((2, 3, 4), {"source": (2, 0), "destination": (0, 1)})])
moves("squeeze.dims", lambda x, dim: numpy.squeeze(x, tuple(d for d in dim if x.shape[d] == 1)), flat_rule(lambda s, dim: tuple(d for k, d in enumerate(s) if k not in dim or d != 1)), [((1, 5, 1), {"dim": (0, 2)}), ((2, 1, 3), {"dim": (0, 1)})])
PADS = {"constant": lambda k, n: k if 0 <= k < n else None, "reflect": reflect, "replicate": nearest, "circular": lambda k, n: k % n}
NUMPYS = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def any_pad(x, pad, mode="constant", value=None):
    return constant_pad(x, pad, value) if mode == "constant" else numpy.pad(x, widths(x.shape, pad), mode=NUMPYS[mode])


moves("pad", any_pad, lambda s, pad, mode="constant", value=None: pad_rule(PADS[mode])(s, pad),
      [((2, 5), {"pad": (2, 3), "mode": m}) for m in PADS] + [((1, 2, 3, 4), {"pad": (1, 2, 2, 1), "mode": m}) for m in PADS] + [((3, 4), {"pad": (1, 0, 2, 1), "value": 1.5})],
      copies=True, fill=lambda pad, mode="constant", value=None: value or 0.0)
operators[-1].nondeterministic = ("cuda.backward",)  # atomicAdd, by the list in torch.use_deterministic_algorithms


def like_another(schema, shaped, pairs, copies=False):
    """The shape comes from a second tensor, whose values do not count."""
    operator = Operator(f"aten::{schema}", tolerance=exact(), backward_tolerance=conditioned() if copies else None, modes=("threads",), plain=True, scale="multilinear", differentiable=("self",))
    operator.reference(lambda self, other: np.reshape(self, (-1,))[shaped(numpy.arange(self.size).reshape(self.shape), other.shape)])
    operator.second(lambda self, other: shaped(self, other.shape))
    operator.cases(lambda draw: [Case(f"c{n}", self=draw.normal(*a), other=draw.normal(*b)) for n, (a, b) in enumerate(pairs)])
    operators.append(operator)


for schema in ("reshape_as", "view_as"):
    like_another(schema, lambda x, shape: x.reshape(shape), (((3, 4), (2, 6)), ((12,), (3, 2, 2)), ((2, 33), (66,))))
like_another("expand_as", lambda x, shape: numpy.broadcast_to(x, shape), (((3, 1), (3, 4)), ((1, 4), (2, 3, 4)), ((1,), (17,))), copies=True)
cuts("unbind_copy.int", lambda length, dim=0: list(range(length + 1)), [((3, 2), {}), ((2, 3), {"dim": 1})], drop=True)
cuts("split_with_sizes_copy", lambda length, split_sizes, dim=0: [0, *numpy.cumsum(split_sizes).tolist()], [((7,), {"split_sizes": (2, 1, 4)}), ((2, 6), {"split_sizes": (5, 1), "dim": 1})])
cuts("unsafe_split.Tensor", lambda length, split_size, dim=0: [*range(0, length, split_size), length], [((7,), {"split_size": 3}), ((2, 6), {"split_size": 2, "dim": -1})])
cuts("unsafe_chunk", lambda length, chunks, dim=0: even(length, chunks), [((7,), {"chunks": 3}), ((2, 5), {"chunks": 2, "dim": 1})])
moves("squeeze_copy.dim", lambda x, dim: x.squeeze(dim) if x.shape[dim] == 1 else x, flat_rule(lambda s, dim: tuple(n for k, n in enumerate(s) if n != 1 or k != dim % len(s))), [((1, 5), {"dim": 0}), ((2, 1, 3, 1), {"dim": -1}), ((2, 3), {"dim": 1})])
moves("squeeze_copy.dims", lambda x, dim: x.squeeze(tuple(d for d in dim if x.shape[d] == 1)), flat_rule(lambda s, dim: tuple(n for k, n in enumerate(s) if n != 1 or k not in [d % len(s) for d in dim])),
      [((1, 5), {"dim": (0,)}), ((2, 1, 3, 1), {"dim": (1, -1)}), ((1, 2, 1), {"dim": (0, 1)})])
cuts("tensor_split.indices", lambda length, indices, dim=0: [0, *indices, length], [((7,), {"indices": (2, 3)}), ((2, 6), {"indices": (1, 4, 5), "dim": 1})])
cuts("split.sizes", lambda length, split_size, dim=0: [0, *numpy.cumsum(split_size).tolist()], [((7,), {"split_size": (2, 1, 4)}), ((2, 6), {"split_size": (5, 1), "dim": 1})])
for name, axis in (("hsplit.array", 1), ("vsplit.array", 0), ("dsplit.array", 2)):
    cuts(name, lambda length, indices: [0, *indices, length], [((4, 5, 6), {"indices": (1, 3)}), ((4, 4, 4), {"indices": (2,)})], axis_of=lambda _, axis=axis: axis)
