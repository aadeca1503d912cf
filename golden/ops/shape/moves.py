"""Operators that only move values of one tensor: NumPy's function says where each value goes, an index rule checks it."""

import numpy

from golden import Case, Operator, conditioned, exact
from golden import numpy_ad as np

SPECIAL = numpy.array([[1.5, -0.0, numpy.nan, 0.0], [numpy.inf, -numpy.inf, 2.0**-149, -2.0**-149], [2.0**127, 16777217.0 - 1, -1.0, 8388609.0]])
operators = []


def moves(schema, move, rule, calls, copies=False, fill=None, modes=("layouts", "threads"), into=operators):
    """`move(array, **attributes)` moves NumPy values (-1: filled); `rule(shape, **attributes)` gives the output's shape and
    the source index of an output index (None: filled); `calls`: (shape, attributes) pairs; `copies`: values may come out twice; `into`: the file's list."""
    operator = Operator(f"aten::{schema}", tolerance=exact(), backward_tolerance=conditioned() if copies else None, modes=modes, plain=True,
                        scale="multilinear")

    @operator.reference
    def reference(self, **attributes):
        index = move(numpy.arange(self.size).reshape(self.shape), **attributes)
        flat = np.reshape(self, (-1,))
        if fill is not None:
            flat = np.concatenate([flat, np.value(flat)[:1] * 0 + fill(**attributes)])
        return flat[index]

    @operator.second
    def second(self, **attributes):
        shape, source = rule(self.shape, **attributes)
        out = numpy.empty(shape)
        for i in numpy.ndindex(*shape):
            j = source(i)
            out[i] = fill(**attributes) if j is None else self[j]
        return out

    @operator.cases
    def cases(draw):
        for n, (shape, attributes) in enumerate(calls):
            yield Case(f"s{'x'.join(map(str, shape))}_{n}", self=draw.normal(*shape), args=attributes)
        for n, (shape, attributes) in enumerate(calls):
            if len(shape) == 2:
                yield Case(f"special_{n}", self=numpy.resize(SPECIAL, shape), args=attributes, special=True)
                break

    into.append(operator)


def same(source):
    """A rule whose output has the input's shape."""
    return lambda shape, **a: (shape, lambda i: source(i, shape, **a))


def at(i, axis, value):
    """The index `i` with another value on one axis."""
    return (*i[:axis], value, *i[axis + 1 :])


def swap(shape, dim0, dim1):
    order = list(range(len(shape)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return tuple(shape[d] for d in order), lambda i: tuple(i[d] for d in order)


def permuted(shape, dims):
    dims = [d % len(shape) for d in dims]
    return tuple(shape[d] for d in dims), lambda i: tuple(i[dims.index(d)] for d in range(len(shape)))


def flat_rule(new):
    """Row-major reshaping to new(shape, **attributes)."""
    def rule(old, /, **a):
        target = new(old, **a)
        return target, lambda i: numpy.unravel_index(int(numpy.ravel_multi_index(i, target)) if target else 0, old)

    return rule


def resolved(sizes, count):
    """Sizes with their -1 worked out."""
    rest = -int(numpy.prod(sizes))
    return tuple(count // rest if s == -1 else s for s in sizes)


moves("flip", lambda x, dims: numpy.flip(x, dims), same(lambda i, s, dims: tuple(s[d] - 1 - k if d in [e % len(s) for e in dims] else k for d, k in enumerate(i))),
      [((5,), {"dims": (0,)}), ((3, 4), {"dims": (0, 1)}), ((2, 3, 4), {"dims": (-1,)}), ((2, 3, 33), {"dims": (0, 2)})])
moves("fliplr", lambda x: x[:, ::-1], same(lambda i, s: (i[0], s[1] - 1 - i[1])), [((3, 4), {}), ((2, 17), {})])
moves("flipud", lambda x: x[::-1], same(lambda i, s: (s[0] - 1 - i[0], i[1])), [((3, 4), {}), ((17, 2), {})])
moves("roll", lambda x, shifts, dims=(): numpy.roll(x, shifts, dims or None),
      lambda s, shifts, dims=(): (s, lambda i: tuple((k - sum(h for h, d in zip(shifts, dims, strict=True) if d == a)) % s[a] for a, k in enumerate(i))
                                  if dims else numpy.unravel_index((int(numpy.ravel_multi_index(i, s)) - shifts[0]) % int(numpy.prod(s)), s)),
      [((7,), {"shifts": (3,), "dims": (0,)}), ((3, 4), {"shifts": (-1, 2), "dims": (0, 1)}), ((3, 4), {"shifts": (5,)}), ((2, 3, 5), {"shifts": (9,), "dims": (2,)})])
moves("rot90", lambda x, k=1, dims=(0, 1): numpy.rot90(x, k, dims),
      lambda s, k=1, dims=(0, 1): {0: (s, lambda i: i), 1: ((s[1], s[0]), lambda i: (i[1], s[1] - 1 - i[0])),
                                   2: (s, lambda i: (s[0] - 1 - i[0], s[1] - 1 - i[1])), 3: ((s[1], s[0]), lambda i: (s[0] - 1 - i[1], i[0]))}[k % 4],
      [((3, 4), {"k": k, "dims": (0, 1)}) for k in (0, 1, 2, 3, -1)])
moves("tril", lambda x, diagonal=0: numpy.where(numpy.tril(numpy.ones(x.shape), diagonal) > 0, x, -1),
      same(lambda i, s, diagonal=0: i if i[-1] - i[-2] <= diagonal else None),
      [((4, 5), {}), ((5, 4), {"diagonal": -1}), ((2, 3, 3), {"diagonal": 1}), ((33, 33), {"diagonal": -2})], fill=lambda **_: 0.0)
moves("triu", lambda x, diagonal=0: numpy.where(numpy.triu(numpy.ones(x.shape), diagonal) > 0, x, -1),
      same(lambda i, s, diagonal=0: i if i[-1] - i[-2] >= diagonal else None),
      [((4, 5), {}), ((5, 4), {"diagonal": -1}), ((2, 3, 3), {"diagonal": 1}), ((33, 33), {"diagonal": 2})], fill=lambda **_: 0.0)
moves("permute", lambda x, dims: x.transpose(dims), permuted, [((3, 4), {"dims": (1, 0)}), ((2, 3, 4), {"dims": (2, 0, 1)}), ((2, 3, 4, 2), {"dims": (0, -1, 1, 2)})])
moves("permute_copy", lambda x, dims: x.transpose(dims), permuted, [((3, 4), {"dims": (1, 0)}), ((2, 3, 4), {"dims": (1, 2, 0)})])
for name, first, other in (("transpose.int", "dim0", "dim1"), ("swapaxes", "axis0", "axis1"), ("swapdims", "dim0", "dim1")):
    moves(name, lambda x, f=first, o=other, **a: x.swapaxes(a[f], a[o]), lambda s, f=first, o=other, **a: swap(s, a[f], a[o]),
          [((3, 4), {first: 0, other: 1}), ((2, 3, 4), {first: -1, other: 0})])
moves("t", lambda x: x.T, lambda s: swap(s, 0, 1), [((3, 4), {}), ((1, 7), {})])
moves("mT", lambda x: x.swapaxes(-1, -2), lambda s: swap(s, -1, -2), [((3, 4), {}), ((2, 3, 5), {})])
moves("movedim.int", lambda x, source, destination: numpy.moveaxis(x, source, destination),
      lambda s, source, destination: permuted(s, [d for d in range(len(s)) if d != source][:destination] + [source] + [d for d in range(len(s)) if d != source][destination:]),
      [((3, 4), {"source": 0, "destination": 1}), ((2, 3, 4), {"source": 2, "destination": 0}), ((2, 3, 4), {"source": 0, "destination": 1})])
moves("narrow", lambda x, dim, start, length: numpy.take(x, range(start, start + length), dim),
      lambda s, dim, start, length: (at(s, dim, length), lambda i: at(i, dim, i[dim] + start)),
      [((7,), {"dim": 0, "start": 2, "length": 4}), ((3, 5), {"dim": 1, "start": 1, "length": 3}), ((3, 5), {"dim": 0, "start": 2, "length": 1})])
moves("select.int", lambda x, dim, index: numpy.take(x, index, dim),
      lambda s, dim, index: ((*s[:dim], *s[dim + 1 :]), lambda i: (*i[:dim], index % s[dim], *i[dim:])),
      [((3, 5), {"dim": 1, "index": 2}), ((2, 3, 4), {"dim": 0, "index": -1}), ((2, 3, 4), {"dim": 2, "index": 0})])
moves("slice.Tensor", lambda x, dim, start, end, step: x[(slice(None),) * dim + (slice(start, end, step),)],
      lambda s, dim, start, end, step: (at(s, dim, len(range(s[dim])[start:end:step])), lambda i: at(i, dim, range(s[dim])[start:end:step][i[dim]])),
      [((9,), {"dim": 0, "start": 1, "end": 8, "step": 3}), ((3, 8), {"dim": 1, "start": -5, "end": 100, "step": 2}), ((4, 3), {"dim": 0, "start": 1, "end": -1, "step": 1})])
moves("reshape", lambda x, shape: x.reshape(shape), flat_rule(lambda s, shape: resolved(shape, int(numpy.prod(s)))),
      [((12,), {"shape": (3, 4)}), ((3, 4), {"shape": (2, -1)}), ((2, 3, 4), {"shape": (6, 4)})])
moves("view", lambda x, size: x.reshape(size), flat_rule(lambda s, size: resolved(size, int(numpy.prod(s)))),
      [((12,), {"size": (3, 4)}), ((3, 4), {"size": (-1,)}), ((2, 3, 4), {"size": (6, 4)})], modes=())
moves("view_copy", lambda x, size: x.reshape(size), flat_rule(lambda s, size: resolved(size, int(numpy.prod(s)))),
      [((12,), {"size": (3, 4)}), ((3, 4), {"size": (-1,)})], modes=())
moves("flatten.using_ints", lambda x, start_dim=0, end_dim=-1: x.reshape(*x.shape[:start_dim], -1, *x.shape[end_dim % x.ndim + 1 :]),
      flat_rule(lambda s, start_dim=0, end_dim=-1: (*s[:start_dim], int(numpy.prod(s[start_dim : end_dim % len(s) + 1])), *s[end_dim % len(s) + 1 :])),
      [((3, 4), {}), ((2, 3, 4), {"start_dim": 1}), ((2, 3, 4, 2), {"start_dim": 1, "end_dim": 2})])
moves("unflatten.int", lambda x, dim, sizes: x.reshape(*x.shape[:dim], *sizes, *x.shape[dim + 1 :]),
      flat_rule(lambda s, dim, sizes: (*s[:dim], *sizes, *s[dim + 1 :])), [((12,), {"dim": 0, "sizes": (3, 4)}), ((2, 6), {"dim": 1, "sizes": (2, 3)})])
moves("ravel", lambda x: x.reshape(-1), flat_rule(lambda s: (int(numpy.prod(s)),)), [((3, 4), {}), ((2, 3, 4), {})])
moves("squeeze", lambda x: x.squeeze(), flat_rule(lambda s: tuple(d for d in s if d != 1)), [((1, 5), {}), ((2, 1, 3, 1), {})])
moves("squeeze.dim", lambda x, dim: x.squeeze(dim) if x.shape[dim] == 1 else x, flat_rule(lambda s, dim: tuple(d for k, d in enumerate(s) if k != dim or d != 1)),
      [((1, 5), {"dim": 0}), ((2, 1, 3), {"dim": 1}), ((2, 3), {"dim": 0})])
moves("unsqueeze", lambda x, dim: numpy.expand_dims(x, dim), flat_rule(lambda s, dim: (*s[: dim % (len(s) + 1)], 1, *s[dim % (len(s) + 1) :])),
      [((5,), {"dim": 0}), ((3, 4), {"dim": -1}), ((3, 4), {"dim": 1})])
for name, missing in (("atleast_1d", lambda s: s), ("atleast_2d", lambda s: (1, *s) if len(s) == 1 else s), ("atleast_3d", lambda s: (1, *s, 1) if len(s) == 1 else (*s, 1) if len(s) == 2 else s)):
    moves(name, lambda x, m=missing: x.reshape(m(x.shape)), flat_rule(missing), [((5,), {}), ((3, 4), {}), ((2, 3, 2), {})])
moves("clone", lambda x: x, same(lambda i, s: i), [((5,), {}), ((3, 4), {}), ((2, 3, 33), {})])
moves("diagonal", lambda x, offset=0, dim1=0, dim2=1: numpy.diagonal(x, offset, dim1, dim2),
      lambda s, offset=0, dim1=0, dim2=1: ((*(d for k, d in enumerate(s) if k not in (dim1, dim2)), max(0, min(s[dim1] + min(offset, 0), s[dim2] - max(offset, 0)))),
                                           lambda i: _place(i[:-1], {dim1: i[-1] - min(offset, 0), dim2: i[-1] + max(offset, 0)}, len(s))),
      [((3, 4), {}), ((4, 4), {"offset": 1}), ((4, 3), {"offset": -2}), ((2, 3, 4), {"dim1": 1, "dim2": 2}), ((2, 3, 4), {"dim1": 2, "dim2": 0, "offset": 1})])


def _place(rest, fixed, ndim):
    """An index of `ndim` axes: `fixed` ones, the others in order."""
    others = iter(rest)
    return tuple(fixed[d] if d in fixed else next(others) for d in range(ndim))


def diagonal_matrix(x, offset):
    n = x.shape[-1] + abs(offset)
    out = numpy.full((*x.shape[:-1], n, n), -1)
    k = numpy.arange(x.shape[-1])
    out[..., k - min(offset, 0), k + max(offset, 0)] = x
    return out


def diagonal_rule(s, offset):
    n = s[-1] + abs(offset)
    return (*s[:-1], n, n), lambda i: (*i[:-2], min(i[-1], i[-2])) if i[-1] - i[-2] == offset else None


moves("diag_embed", lambda x, offset=0: diagonal_matrix(x, offset), lambda s, offset=0: diagonal_rule(s, offset),
      [((3,), {}), ((2, 3), {"offset": 1}), ((2, 3), {"offset": -2})], fill=lambda **_: 0.0)
moves("diagflat", lambda x, offset=0: diagonal_matrix(x.reshape(-1), offset),
      lambda s, offset=0: (lambda shape, f: (shape, lambda i: None if f(i) is None else numpy.unravel_index(f(i)[0], s)))(*diagonal_rule((int(numpy.prod(s)),), offset)),
      [((3,), {}), ((2, 3), {"offset": 1})], fill=lambda **_: 0.0)
moves("diag", lambda x, diagonal=0: diagonal_matrix(x, diagonal) if x.ndim == 1 else numpy.diagonal(x, diagonal),
      lambda s, diagonal=0: diagonal_rule(s, diagonal) if len(s) == 1 else
      ((max(0, min(s[0] + min(diagonal, 0), s[1] - max(diagonal, 0))),), lambda i: (i[0] - min(diagonal, 0), i[0] + max(diagonal, 0))),
      [((3,), {}), ((3,), {"diagonal": -1}), ((3, 4), {"diagonal": 1}), ((4, 3), {"diagonal": -1})], fill=lambda **_: 0.0)

# Values that come out more than once: their gradients are sums.
moves("repeat", lambda x, repeats: numpy.tile(x, repeats),
      lambda s, repeats: (lambda full: (tuple(a * b for a, b in zip(full, repeats, strict=True)), lambda i: tuple(k % n for k, n in zip(i, full, strict=True))[len(full) - len(s) :]))(
          (1,) * (len(repeats) - len(s)) + s), [((3,), {"repeats": (4,)}), ((2, 3), {"repeats": (2, 2)}), ((3,), {"repeats": (2, 3)})], copies=True)
moves("tile", lambda x, dims: numpy.tile(x, dims),
      lambda s, dims: (lambda r: (tuple(a * b for a, b in zip(s, r, strict=True)), lambda i: tuple(k % n for k, n in zip(i, s, strict=True))))((1,) * (len(s) - len(dims)) + tuple(dims)),
      [((3,), {"dims": (4,)}), ((2, 3), {"dims": (2, 2)}), ((2, 3), {"dims": (3,)})], copies=True)
moves("repeat_interleave.self_int", lambda x, repeats, dim: numpy.repeat(x, repeats, dim),
      lambda s, repeats, dim: (at(s, dim, s[dim] * repeats), lambda i: at(i, dim, i[dim] // repeats)),
      [((3,), {"repeats": 2, "dim": 0}), ((2, 3), {"repeats": 3, "dim": 1}), ((2, 3), {"repeats": 1, "dim": 0})], copies=True)
for name in ("expand", "broadcast_to"):
    moves(name, lambda x, size: numpy.broadcast_to(x, size), lambda s, size: (tuple(size), lambda i: tuple(k if n > 1 else 0 for k, n in zip(i[len(size) - len(s) :], s, strict=True))),
          [((3, 1), {"size": (3, 4)}), ((1, 4), {"size": (2, 3, 4)}), ((1,), {"size": (17,)})], copies=True)
moves("unfold", lambda x, dimension, size, step: numpy.moveaxis(numpy.stack([numpy.take(x, range(k, k + size), dimension) for k in range(0, x.shape[dimension] - size + 1, step)], dimension), dimension + 1, -1),
      lambda s, dimension, size, step: ((*at(s, dimension, (s[dimension] - size) // step + 1), size), lambda i: at(i[:-1], dimension, i[dimension] * step + i[-1])),
      [((9,), {"dimension": 0, "size": 3, "step": 2}), ((2, 7), {"dimension": 1, "size": 4, "step": 1}), ((5, 2), {"dimension": 0, "size": 2, "step": 3})], copies=True)
moves("combinations", lambda x, r=2, with_replacement=False: x[_chosen(x.size, r, with_replacement)],
      lambda s, r=2, with_replacement=False: (lambda rows: ((len(rows), r), lambda i: (rows[i[0]][i[1]],)))(_loops(s[0], r, with_replacement)),
      [((4,), {}), ((4,), {"r": 3}), ((3,), {"r": 2, "with_replacement": True})], copies=True)


def _chosen(n, r, again):
    import itertools

    return numpy.array(list((itertools.combinations_with_replacement if again else itertools.combinations)(range(n), r)))


def _loops(n, r, again):
    return [i for i in numpy.ndindex(*(n,) * r) if all(a <= b if again else a < b for a, b in zip(i, i[1:], strict=False))]


# Padding ----------------------------------------------------------------------------------------------------------------------------


def widths(shape, pad):
    """ATen's padding (last axis first) as one (before, after) pair an axis."""
    out = [(0, 0)] * len(shape)
    for k in range(len(pad) // 2):
        out[len(shape) - 1 - k] = (pad[2 * k], pad[2 * k + 1])
    return out


def pad_rule(fold):
    """`fold(position, size)`: the source of a position that may lie outside, or None."""
    def rule(shape, pad, value=0):
        w = widths(shape, pad)

        def source(i):
            j = [fold(k - before, n) for k, n, (before, _) in zip(i, shape, w, strict=True)]
            return None if None in j else tuple(j)

        return tuple(n + a + b for n, (a, b) in zip(shape, w, strict=True)), source

    return rule


def constant_pad(x, pad, value=0):
    w = widths(x.shape, pad)
    x = numpy.pad(x, [(max(a, 0), max(b, 0)) for a, b in w], constant_values=-1)
    return x[tuple(slice(max(-a, 0), x.shape[d] - max(-b, 0)) for d, (a, b) in enumerate(w))]


moves("constant_pad_nd", constant_pad, pad_rule(lambda k, n: k if 0 <= k < n else None),
      [((5,), {"pad": (2, 3), "value": 1.5}), ((3, 4), {"pad": (1, 0, 2, 1)}), ((3, 4), {"pad": (-1, 1, 1, -1), "value": -2.0}), ((2, 3, 4), {"pad": (0, 2)})],
      fill=lambda pad, value=0: value)
def reflect(k, n):
    """The source of position k: mirrored at both ends, the edge value once."""
    return abs((k + n - 1) % (2 * n - 2) - n + 1) if n > 1 else 0


def nearest(k, n):
    return min(max(k, 0), n - 1)


for name, mode, fold, calls in (
    ("reflection_pad1d", "reflect", reflect, [((2, 5), (4, 3)), ((1, 2, 3), (1, 2))]),
    ("reflection_pad2d", "reflect", reflect, [((2, 3, 4), (1, 2, 2, 0)), ((1, 2, 4, 3), (2, 1, 1, 3))]),
    ("replication_pad1d", "edge", nearest, [((2, 5), (4, 3)), ((1, 2, 1), (1, 2))]),
    ("replication_pad2d", "edge", nearest, [((2, 3, 4), (1, 2, 2, 0)), ((1, 2, 4, 3), (2, 1, 1, 3))]),
    ("replication_pad3d", "edge", nearest, [((1, 2, 3, 2), (1, 1, 2, 0, 0, 1)), ((1, 1, 2, 2, 3), (0, 1, 1, 1, 2, 0))]),
):
    moves(name, lambda x, padding, m=mode: numpy.pad(x, widths(x.shape, padding), mode=m),
          lambda s, padding, f=fold: pad_rule(f)(s, padding), [(shape, {"padding": p}) for shape, p in calls], copies=True,
          modes=("layouts", "channels_last", "deterministic", "threads") if name[-2] != "1" else ("layouts", "deterministic", "threads"))
    operators[-1].nondeterministic = ("cuda.backward",)  # atomicAdd, by the list in torch.use_deterministic_algorithms
