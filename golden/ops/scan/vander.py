"""aten::linalg_vander's older name, vander: powers of each element as columns, made by a running product."""

import numpy

from golden import Case, Operator, conditioned
from golden import numpy_ad as np

operator = Operator("aten::vander", tolerance=conditioned(), modes=("layouts", "deterministic", "threads"))


@operator.reference
def vander(x, N=None, increasing=False):
    count = x.size if N is None else N
    columns = [x * 0 + 1]
    while len(columns) < count:
        columns.append(columns[-1] * x)
    columns = columns[:count]
    return np.stack(columns if increasing else columns[::-1], axis=1)


@operator.second
def second(x, N=None, increasing=False):
    return numpy.vander(x, N, increasing)


@operator.cases
def cases(draw):
    yield Case("n5", x=draw.normal(5))
    yield Case("n4_columns1", x=draw.normal(4), N=1, backward=False)  # ones, whatever x is
    for count, increasing in ((2, True), (7, False), (7, True)):
        yield Case(f"n4_columns{count}_{'up' if increasing else 'down'}", x=draw.normal(4), N=count, increasing=increasing)
    yield Case("huge", x=draw.normal(3) * 2.0**20, N=5, increasing=True)
    yield Case("matrix", x=draw.normal(2, 2), expect="error")
