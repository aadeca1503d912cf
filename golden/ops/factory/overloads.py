"""Other overloads of the factories: ends given as tensors, and what is left to a default."""

import numpy

from golden import Case, Operator
from golden import numpy_ad as np
from golden.ops.factory import factory as base

operators = []
BY_NAME = {o.name: o for o in base.operators}


def like(schema, of, calls, change):
    """The operator `schema`, which is `of` with other arguments: `change(**arguments)` gives those of `of`."""
    model = BY_NAME[of]
    operator = Operator(f"aten::{schema}", tolerance=model.tolerance, modes=(), plain=model.plain, differentiable=())
    operator.reference(lambda **a: model.reference_function(**change(**a)))
    operator.second(lambda **a: model.second_function(**change(**a)))
    if model.scale_function:
        operator.scale(lambda outputs, **a: model.scale_function(outputs, **change(**a)))

    @operator.cases
    def cases(draw):
        for n, (arguments, fields) in enumerate(calls):
            yield Case(f"c{n}", args=arguments, **fields)

    operators.append(operator)


def numbers(**arguments):
    """0-d tensors as the numbers that they hold."""
    return {n: float(np.floats(v)[()]) if isinstance(v, numpy.ndarray) else v for n, v in arguments.items()}


ENDS = ((0.0, 1.0, 2), (-3.0, 7.0, 11), (1.0, -1.0, 17), (0.0, 100.0, 67))
for first, other in (("Tensor", "Tensor"), ("Tensor", "Scalar"), ("Scalar", "Tensor")):
    for name, ends, more in (("linspace", ENDS, {}), ("logspace", ((-2.0, 3.0, 6), (0.0, 5.0, 17)), {"base": 2.0})):
        calls = [({"start": numpy.array(a) if first == "Tensor" else a, "end": numpy.array(b) if other == "Tensor" else b, "steps": n, "dtype": "tested", "device": "tested", **more}, {}) for a, b, n in ends]
        like(f"{name}.{first}_{other}", name, calls, lambda dtype=None, device=None, **a: numbers(**a))
like("arange", "arange_start_step", [({"end": e}, {}) for e in (5.0, 2.5, 67.0)], lambda end: {"start": 0.0, "end": end, "step": 1.0})
like("arange.start", "arange_start_step", [({"start": a, "end": b}, {}) for a, b in ((1.0, 4.0), (-2.5, 3.0), (1000.0, 1033.0))], lambda start, end: {"start": start, "end": end, "step": 1.0})
like("eye", "eye_m", [({"n": n}, {}) for n in (1, 3, 17)], lambda n: {"n": n, "m": n})
# The constants that ATen takes where none is given are decimal numbers, rounded to float64.
for name, of, more in (("bartlett_window", "bartlett_window_periodic", {}), ("blackman_window", "blackman_window_periodic", {}), ("hann_window", "hann_window_periodic", {}),
                       ("hamming_window", "hamming_window_periodic_alpha_beta", {"alpha": 0.54, "beta": 0.46}), ("kaiser_window", "kaiser_window_beta", {"beta": 12.0})):
    like(name, of, [({"window_length": n}, {}) for n in (1, 7, 16, 33)], lambda window_length, more=more: {"window_length": window_length, "periodic": True, **more})
    if more:
        like(f"{name}.periodic", of, [({"window_length": n, "periodic": p}, {}) for n in (1, 7, 16) for p in (True, False)],
             lambda window_length, periodic, more=more: {"window_length": window_length, "periodic": periodic, **more})
like("hamming_window.periodic_alpha", "hamming_window_periodic_alpha_beta", [({"window_length": n, "periodic": p, "alpha": 0.5625}, {}) for n in (7, 16) for p in (True, False)],
     lambda **a: {**a, "beta": 0.46})
