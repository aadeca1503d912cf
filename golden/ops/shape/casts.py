"""Casts, pairs as complex numbers, and lists that are broadcast or cut and joined."""

import numpy

from golden import Case, Operator, Out, conditioned, exact
from golden import numpy_ad as np

operators = []
WHY = "a conversion rounds to nearest, truncates to an integer, and is true of what is not 0"


def cast(values, dtype):
    """`values` of float64; the suites round a float golden to the dtype that the output must have."""
    if dtype == "bool":
        return Out(numpy.asarray(values != 0), dtype=dtype)
    return Out(numpy.trunc(values).astype(numpy.int64) if dtype == "int64" else values, dtype=dtype)


def casts(schema):
    operator = Operator(f"aten::{schema}", tolerance=exact(WHY), modes=("layouts", "threads"), plain=True, scale="multilinear")
    operator.reference(lambda self, dtype: cast(self, dtype))
    operator.second(lambda self, dtype: self.copy() if dtype.startswith("float") else numpy.array([bool(v) if dtype == "bool" else int(v) for v in self.flat], dtype=dtype).reshape(self.shape))

    @operator.cases
    def cases(draw):
        for dtype in ("float32", "float64", "int64", "bool"):
            for n in (7, 33):
                yield Case(f"{dtype}_n{n}", self=draw.normal(n) * 4, dtype=dtype, backward=False)
            yield Case(f"{dtype}_s3x4", self=draw.normal(3, 4) * 4, dtype=dtype, backward=False)
        special = numpy.array([0.0, -0.0, 0.5, -0.5, 2.5, -2.5, 16777216.0, -16777216.0, 2.0**-149])
        for dtype in ("float64", "int64", "bool"):
            yield Case(f"{dtype}_edges", self=special, dtype=dtype, special=True, backward=False)

    operators.append(operator)


casts("_to_copy")
casts("to.dtype")

pairs = Operator("aten::view_as_complex", tolerance=exact(), modes=("threads",), scale="multilinear")
pairs.reference(lambda self: Out(self, complex=True))
pairs.second(lambda self: self.copy())
pairs.cases(lambda draw: [Case(f"s{'x'.join(map(str, s))}", self=draw.normal(*s, 2), backward=False) for s in ((1,), (7,), (3, 4), (2, 33))])
operators.append(pairs)

common = Operator("aten::broadcast_tensors", tolerance=exact(), backward_tolerance=conditioned(), modes=("layouts", "threads"), plain=True, scale="multilinear")


@common.reference
def broadcast(tensors):
    shape = numpy.broadcast_shapes(*(t.shape for t in tensors))
    return tuple(np.reshape(t, (-1,))[numpy.broadcast_to(numpy.arange(t.size).reshape(t.shape), shape)] for t in tensors)


@common.second
def broadcast_second(tensors):
    return tuple(numpy.broadcast_arrays(*tensors))


common.cases(lambda draw: [Case(f"c{n}", tensors=[draw.normal(*s) for s in shapes]) for n, shapes in enumerate((((3, 1), (1, 4)), ((5,), (2, 5)), ((1,), (2, 3), (3,)), ((2, 1, 3), (4, 1))))])
operators.append(common)

chunks = Operator("aten::_chunk_cat", tolerance=exact(), modes=("layouts", "threads"), plain=True, scale="multilinear", differentiable=())


def chunk_cat(tensors, dim, num_chunks):
    """Each tensor padded with zeros to a multiple of the chunks along `dim`, cut, its rest flattened; chunk k of all of them in a row."""
    parts = []
    for t in tensors:
        missing = -t.shape[dim] % num_chunks
        t = numpy.pad(t, [(0, missing if a == dim else 0) for a in range(t.ndim)])
        parts.append(t.reshape(*t.shape[:dim], num_chunks, -1))
    return numpy.concatenate(parts, axis=dim + 1)


def chunk_cat_second(tensors, dim, num_chunks):
    lead = tensors[0].shape[:dim]
    out = [[[] for _ in range(num_chunks)] for _ in numpy.ndindex(*lead)]
    for t in tensors:
        size = -(-t.shape[dim] // num_chunks)
        for row, at in enumerate(numpy.ndindex(*lead)):
            for k in range(num_chunks):
                for j in range(k * size, (k + 1) * size):
                    out[row][k] += t[at][j].ravel().tolist() if j < t.shape[dim] else [0.0] * int(numpy.prod(t.shape[dim + 1 :]))
    return numpy.array(out).reshape(*lead, num_chunks, -1)


chunks.reference(chunk_cat)
chunks.second(chunk_cat_second)
chunks.cases(lambda draw: [Case(f"c{n}", tensors=[draw.normal(*s) for s in shapes], dim=dim, num_chunks=k) for n, (shapes, dim, k) in enumerate((
    (((4, 3), (2, 5)), 0, 2), (((5, 2), (3,)), 0, 3), (((2, 4), (2, 3, 2)), 1, 2), (((7,), (1,), (2, 2)), 0, 4)))])
operators.append(chunks)
