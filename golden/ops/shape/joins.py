"""Operators that join tensors or cut one into several."""

import itertools

import numpy

from golden import Case, Operator, conditioned, exact
from golden import numpy_ad as np

MODES = ("layouts", "threads")
operators = []


def joins(schema, reference, second, calls, copies=False, **options):
    """`calls`: (shapes, attributes) pairs; both formulas take the list `tensors`."""
    operator = Operator(f"aten::{schema}", tolerance=exact(), backward_tolerance=conditioned() if copies else None, modes=MODES, plain=True,
                        scale="multilinear", **options)
    operator.reference(reference)
    operator.second(second)

    @operator.cases
    def cases(draw):
        for n, (shapes, attributes) in enumerate(calls):
            yield Case(f"c{n}", tensors=[draw.normal(*s) for s in shapes], **attributes)
        yield Case("special", tensors=[numpy.array([1.5, -0.0, numpy.nan]), numpy.array([numpy.inf, 0.0, -numpy.inf])], special=True)

    operators.append(operator)


def written(shapes_to_out):
    """A second formula: an empty array into which each tensor is written where `shapes_to_out` says (slices)."""
    def second(tensors, dim=0):
        shape, places = shapes_to_out([t.shape for t in tensors], dim)
        out = numpy.zeros(shape)
        for t, place in zip(tensors, places, strict=True):
            out[place] = t
        return out

    return second


def cat_places(shapes, dim):
    kept = [s for s in shapes if s != (0,)]
    axis, places, start = dim % len(kept[0]), [], 0
    for s in shapes:
        if s == (0,):
            places.append((slice(0, 0),) * len(kept[0]))
            continue
        places.append((*(slice(None),) * axis, slice(start, start + s[axis])))
        start += s[axis]
    return (*kept[0][:axis], start, *kept[0][axis + 1 :]), places


def stack_places(shapes, dim):
    axis = dim % (len(shapes[0]) + 1)
    return (*shapes[0][:axis], len(shapes), *shapes[0][axis:]), [(*(slice(None),) * axis, k) for k in range(len(shapes))]


CAT = [([(3,), (5,)], {}), ([(2, 3), (1, 3), (4, 3)], {"dim": 0}), ([(2, 3), (2, 1)], {"dim": -1}), ([(2, 3, 4), (2, 2, 4)], {"dim": 1}), ([(17,)], {})]
for name in ("cat", "concat"):
    joins(name, lambda tensors, dim=0: np.concatenate([t for t in tensors if t.shape != (0,)], axis=dim), written(cat_places), CAT)
joins("stack", lambda tensors, dim=0: np.stack(tensors, axis=dim), written(stack_places), [([(3,), (3,)], {}), ([(2, 3)] * 3, {"dim": 1}), ([(2, 3)] * 2, {"dim": -1})])
joins("hstack", lambda tensors: np.concatenate(tensors, axis=0 if tensors[0].ndim == 1 else 1), lambda tensors: numpy.hstack(tensors), [([(3,), (2,)], {}), ([(2, 3), (2, 1)], {})])
joins("vstack", lambda tensors: np.concatenate([np.reshape(t, (1, -1)) if t.ndim == 1 else t for t in tensors], axis=0), lambda tensors: numpy.vstack(tensors),
      [([(3,), (3,)], {}), ([(2, 3), (1, 3)], {})])
joins("dstack", lambda tensors: np.concatenate([np.reshape(t, (1, -1, 1) if t.ndim == 1 else (*t.shape, 1)) for t in tensors], axis=2), lambda tensors: numpy.dstack(tensors),
      [([(3,), (3,)], {}), ([(2, 3), (2, 3)], {})])
joins("column_stack", lambda tensors: np.concatenate([np.reshape(t, (-1, 1)) if t.ndim == 1 else t for t in tensors], axis=1), lambda tensors: numpy.column_stack(tensors),
      [([(3,), (3,)], {}), ([(3, 2), (3,)], {})])


def block_diag(tensors):
    """Rows of zeros, the block, zeros."""
    flat = [np.reshape(t, (1, -1)) if t.ndim < 2 else t for t in tensors]
    width, rows, start = sum(t.shape[1] for t in flat), [], 0
    for t in flat:
        zero = np.value(flat[0]).reshape(-1)[:1] * 0 + 0.0  # +0
        left = numpy.broadcast_to(zero, (t.shape[0], start))
        right = numpy.broadcast_to(zero, (t.shape[0], width - start - t.shape[1]))
        rows.append(np.concatenate([left, t, right], axis=1))
        start += t.shape[1]
    return np.concatenate(rows, axis=0)


def block_diag_second(tensors):
    flat = [numpy.atleast_2d(t) for t in tensors]
    out = numpy.zeros((sum(t.shape[0] for t in flat), sum(t.shape[1] for t in flat)))
    r = c = 0
    for t in flat:
        out[r : r + t.shape[0], c : c + t.shape[1]] = t
        r, c = r + t.shape[0], c + t.shape[1]
    return out


joins("block_diag", block_diag, block_diag_second, [([(2, 3), (1, 2), (3, 1)], {}), ([(3,), (2, 2)], {})])


def cartesian(tensors):
    index = numpy.indices([t.shape[0] for t in tensors]).reshape(len(tensors), -1)
    return np.stack([t[i] for t, i in zip(tensors, index, strict=True)], axis=1)


joins("cartesian_prod", cartesian, lambda tensors: numpy.array(list(itertools.product(*tensors))), [([(3,), (2,)], {}), ([(2,), (3,), (2,)], {})], copies=True)


def meshgrid(tensors, indexing="ij"):
    grids = numpy.meshgrid(*[numpy.arange(t.shape[0]) for t in tensors], indexing=indexing)
    return tuple(t[g] for t, g in zip(tensors, grids, strict=True))


mesh = Operator("aten::meshgrid.indexing", tolerance=exact(), backward_tolerance=conditioned(), modes=MODES, plain=True, scale="multilinear")
mesh.reference(meshgrid)


@mesh.second
def mesh_second(tensors, indexing="ij"):
    a, b = tensors
    rows = numpy.array([[x for _ in b] for x in a]), numpy.array([[y for y in b] for _ in a])
    return rows if indexing == "ij" else (rows[0].T, rows[1].T)


@mesh.cases
def mesh_cases(draw):
    for indexing in ("ij", "xy"):
        yield Case(indexing, tensors=[draw.normal(3), draw.normal(4)], indexing=indexing)


operators.append(mesh)

# One tensor into several --------------------------------------------------------------------------------------------------------------


def cuts(schema, edges, calls, axis_of=lambda a: a.get("dim", 0), drop=False, into=operators):
    """`edges(length, **attributes)`: the start of each piece and the end; `drop`: pieces of one, without the axis; `into`: the file's list."""
    operator = Operator(f"aten::{schema}", tolerance=exact(), modes=MODES, plain=True, scale="multilinear")

    def pieces(take):
        def function(self, **attributes):
            axis = axis_of(attributes) % self.ndim
            marks = edges(self.shape[axis], **attributes)
            return tuple(take(self, axis, a, b) for a, b in zip(marks, marks[1:], strict=False))

        return function

    def sliced(x, axis, a, b):
        index = (slice(None),) * axis
        return x[(*index, a)] if drop else x[(*index, slice(a, b))]

    def taken(x, axis, a, b):
        out = numpy.stack([numpy.moveaxis(x, axis, 0)[k] for k in range(a, b)])
        return out[0] if drop else numpy.moveaxis(out, 0, axis)

    operator.reference(pieces(sliced))
    operator.second(pieces(taken))

    @operator.cases
    def cases(draw):
        for n, (shape, attributes) in enumerate(calls):
            yield Case(f"c{n}", self=draw.normal(*shape), args=attributes)

    into.append(operator)


def even(length, chunks):
    size = -(-length // chunks)
    return [*range(0, length, size), length]


cuts("chunk", lambda length, chunks, dim=0: even(length, chunks), [((7,), {"chunks": 3}), ((2, 5), {"chunks": 2, "dim": 1}), ((5, 2), {"chunks": 4})])
cuts("split.Tensor", lambda length, split_size, dim=0: [*range(0, length, split_size), length], [((7,), {"split_size": 3}), ((2, 6), {"split_size": 2, "dim": -1})])
cuts("split_with_sizes", lambda length, split_sizes, dim=0: [0, *numpy.cumsum(split_sizes).tolist()], [((7,), {"split_sizes": (2, 1, 4)}), ((2, 6), {"split_sizes": (5, 1), "dim": 1})])
cuts("tensor_split.sections", lambda length, sections, dim=0: [0, *numpy.cumsum([length // sections + (k < length % sections) for k in range(sections)]).tolist()],
     [((7,), {"sections": 3}), ((2, 5), {"sections": 2, "dim": 1})])
cuts("unbind.int", lambda length, dim=0: list(range(length + 1)), [((3, 2), {}), ((2, 3), {"dim": 1}), ((2, 2, 2), {"dim": -1})], drop=True)
for name, axis in (("hsplit.int", 1), ("vsplit.int", 0), ("dsplit.int", 2)):
    cuts(name, lambda length, sections: list(range(0, length + 1, length // sections)), [((4, 4, 4), {"sections": 2}), ((2, 2, 2), {"sections": 1})], axis_of=lambda _, axis=axis: axis)
