"""Cases with a NaN in the matrix: whatever depends on all of the matrix must come out as NaN in every element, or be refused."""

import numpy

from golden import Case, Out
from golden import numpy_ad as np

NOTE = "a NaN comes out as NaN, or is refused"


def nothing_but_nan(shape, complex=False):
    return Out(shape=shape, fill="nan", gauge="exact", bound=0, why=NOTE, trivial="NaN", **({"complex": True} if complex else {}))


def aside():
    return Out(unchecked="no number of its own where the matrix has a NaN")


def poisoned(draw, n):
    """(place, symmetric matrix of n rows with a NaN): one beside the diagonal and its mirror image; in small ones its first element, its last, or all."""
    places = {"beside": (n // 2, n // 2 - 1), "first": (0, 0), "last": (n - 1, n - 1)}
    for label, (i, j) in places.items() if n < 5 else [("beside", places["beside"])]:
        a = draw.integers(-64, 65, n, n) / 16.0
        a = a + a.T + 3 * n * numpy.eye(n)
        a[i, j] = a[j, i] = numpy.nan
        yield label, a
    if n < 5:
        yield "all", numpy.full((n, n), numpy.nan)


def demand_nan(operator, argument, answers, sizes=(2, 3, 5), places=("beside", "first", "last", "all"), dtypes=None, prefix="", **given):
    """Adds the cases to an operator. `answers(n)`: its Outs for n rows; `given`: further arguments, functions of the Draw and of n where they are tensors;
    `prefix`: for the names of the cases, where an operator is asked more than once."""
    reference, second, cases = operator.reference_function, operator.second_function, operator.case_function

    def or_nan(function, found):
        def answer(**args):
            matrix = np.floats(args[argument])
            return tuple(found(matrix.shape[-1])) if matrix.ndim == 2 and numpy.isnan(matrix).any() else function(**args)

        return answer

    def with_nan(draw):
        yield from cases(draw)
        for n in sizes:
            for label, a in poisoned(draw, n):
                if label in places:
                    more = {k: v(draw, n) if callable(v) else v for k, v in given.items()}
                    yield Case(f"{prefix}nan_{label}_{n}x{n}", args={argument: a, **more}, expect="nan_or_error", backward=False, dtypes=dtypes, modes=["layouts"], source="pytorch#173638", note=NOTE)

    operator.reference_function = or_nan(reference, answers)
    operator.second_function = or_nan(second, lambda n: [None] * len(answers(n)))
    operator.case_function = with_nan
