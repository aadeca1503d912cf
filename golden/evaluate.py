"""From a definition to its files' content: enclosures, gradients, scales, and the checks that a golden must pass to be written."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from autograd import make_vjp

from golden.ball import arb, balls, magnitudes, precision, split_array
from golden.draw import Draw
from golden.operator import Case, Operator

CERTIFIED = 2.0**-57
START_BITS, MOST_BITS = 192, 6144


class Refused(ValueError):
    """A golden that cannot be trusted; the message names operator and case."""


def is_tensor(value: Any) -> bool:
    """A float64 array: converted to the dtype under test."""
    return isinstance(value, np.ndarray) and value.dtype == np.float64


def as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def plain(value: Any) -> np.ndarray:
    """The object (or integer, or bool) array of an output; int zeros of autograd become balls."""
    array = np.asarray(value)
    if array.dtype != object:
        return array
    return np.asarray([v if isinstance(v, arb) else arb(v) for v in array.reshape(-1)], dtype=object).reshape(array.shape)


class Evaluation:
    """One case of one operator: goldens of outputs and gradients as balls, and their scales as float64."""

    def __init__(self, operator: Operator, case: Case, stream: str) -> None:
        self.operator, self.case = operator, case
        self.tensors = {n: v for n, v in case.args.items() if is_tensor(v)}
        wanted = operator.differentiable if operator.differentiable is not None else tuple(self.tensors)
        self.wanted = tuple(n for n in wanted if n in self.tensors)
        outputs = self.run(self.tensors)
        floating = [o.dtype == object for o in outputs]
        draw = Draw(stream)
        differentiate = case.backward and bool(self.wanted) and any(floating)
        self.upstream = [draw.normal(*o.shape) if f else None for o, f in zip(outputs, floating, strict=True)] if differentiate else None

    def run(self, tensors: dict[str, Any], convert: Callable[[Any], Any] = balls) -> tuple[np.ndarray, ...]:
        args = {**self.case.args, **{n: convert(v) for n, v in tensors.items()}}
        return tuple(plain(o) for o in as_tuple(self.operator.reference_function(**args)))

    def loss(self, upstream: list[Any]) -> Callable[..., Any]:
        """tensors (in the order of self.tensors) -> sum of outputs times upstream gradients, shape (1,)."""
        import autograd.numpy as anp

        def function(*values: Any) -> Any:
            args = {**self.case.args, **dict(zip(self.tensors, values, strict=True))}
            outputs = as_tuple(self.operator.reference_function(**args))
            return sum(anp.sum(anp.reshape(o * g, (1, -1)), axis=1) for o, g in zip(outputs, upstream, strict=True) if g is not None)

        return function

    def vjp(self, values: tuple[Any, ...], upstream: list[Any]) -> dict[str, Any]:
        """Gradients of the wanted tensors by HIPS autograd, object arrays (or autograd boxes, when differentiated again)."""
        positions = tuple(i for i, n in enumerate(self.tensors) if n in self.wanted)
        pull, _ = make_vjp(self.loss(upstream), argnum=positions)(*values)
        one = np.empty(1, dtype=object)
        one[0] = arb(1)
        return dict(zip(self.wanted, pull(one), strict=True))

    def at(self, bits: int) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
        """Outputs and gradients with `bits` of working precision."""
        with precision(bits):
            outputs = list(self.run(self.tensors))
            gradients: dict[str, np.ndarray] = {}
            if self.upstream is not None:
                values = tuple(balls(v) for v in self.tensors.values())
                upstream = [None if g is None else balls(g) for g in self.upstream]
                gradients = {n: plain(g) for n, g in self.vjp(values, upstream).items()}
            return outputs, gradients

    def _jacobian_scale(self, function: Callable[..., Any], values: tuple[Any, ...], shape: tuple[int, ...]) -> np.ndarray:
        """sum_j |df_i/dx_j| |x_j| for each element i of `function`'s output, over all arguments."""
        count = int(np.prod(shape, dtype=np.int64))
        pull, _ = make_vjp(function, argnum=tuple(range(len(values))))(*values)
        sizes = [magnitudes(v) for v in values]
        diagonal = self.operator.scale == "elementwise"
        scale = np.zeros(shape)
        for i in range(1 if diagonal else count):
            seed = balls(np.ones(shape) if diagonal else np.eye(1, count, i).reshape(shape))
            parts = [magnitudes(d) * s for d, s in zip(pull(seed), sizes, strict=True)]
            if diagonal:
                scale = sum(np.broadcast_to(p, shape) if p.shape == shape else np.full(shape, p.sum()) for p in parts)
            else:
                scale.reshape(-1)[i] = sum(p.sum() for p in parts)
        return scale

    def scales(self, outputs: list[np.ndarray], gradients: dict[str, np.ndarray]) -> tuple[list[Any], dict[str, Any]]:
        """The conditioned gauge's scales of outputs and gradients."""
        with precision(96):
            if self.operator.scale == "multilinear":
                sizes = {n: np.abs(v) for n, v in self.tensors.items()}
                out = [magnitudes(o) if o.dtype == object else None for o in self.run(sizes)]
                grads: dict[str, Any] = {}
                if gradients:
                    upstream = [None if g is None else balls(np.abs(g)) for g in self.upstream or []]
                    grads = {n: magnitudes(g) for n, g in self.vjp(tuple(balls(v) for v in sizes.values()), upstream).items()}
                return out, grads
            names = list(self.tensors)
            values = tuple(balls(v) for v in self.tensors.values())
            out = []
            for k, o in enumerate(outputs):
                def forward(*v: Any, k: int = k) -> Any:
                    return as_tuple(self.operator.reference_function(**{**self.case.args, **dict(zip(names, v, strict=True))}))[k]

                out.append(None if o.dtype != object else self._jacobian_scale(forward, values, o.shape) + magnitudes(o))
            grads = {}
            live = [k for k, g in enumerate(self.upstream or []) if g is not None]
            seeds = tuple(balls(self.upstream[k]) for k in live) if gradients else ()
            for name, g in gradients.items():
                def backward(*v: Any, name: str = name) -> Any:
                    upstream: list[Any] = [None] * len(outputs)
                    for k, seed in zip(live, v[len(names) :], strict=True):
                        upstream[k] = seed
                    return self.vjp(v[: len(names)], upstream)[name]

                grads[name] = self._jacobian_scale(backward, values + seeds, g.shape) + magnitudes(g)
            return out, grads


def certify(evaluation: Evaluation, where: str) -> tuple[list[Any], dict[str, Any], list[Any], dict[str, Any], float]:
    """Raise the precision until every radius is below 2^-57 of its scale (and of the value, for the ulp gauge); the proof."""
    ulp = any(t["gauge"] == "ulp" for m in evaluation.operator.tolerance.values() for t in m.values())
    bits = START_BITS
    scales: tuple[list[Any], dict[str, Any]] | None = None
    while True:
        outputs, gradients = evaluation.at(bits)
        if scales is None:
            scales = evaluation.scales(outputs, gradients)
        worst = 0.0
        for values, scale in [*zip(outputs, scales[0], strict=True), *((gradients[n], scales[1][n]) for n in gradients)]:
            if values.dtype != object:
                continue
            hi, _, radius = split_array(values)
            bad = ~np.isfinite(hi)
            if bad.any() and not evaluation.case.special:
                raise Refused(f"{where}: the golden is not finite (mark the case special=True if that is meant)")
            base = np.where(bad, 1.0, np.minimum(scale, np.abs(hi)) if ulp else scale)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(bad | (radius == 0), 0.0, radius / base)
            worst = max(worst, float(ratio.max(initial=0.0)))
        if worst <= CERTIFIED * 2.0**-24:
            return outputs, gradients, scales[0], scales[1], math.log2(worst) if worst > 0 else -math.inf
        bits *= 2
        if bits > MOST_BITS:
            raise Refused(f"{where}: the radius stays at 2^{math.log2(worst):.1f} of the scale: the answer is not determined by the input")


def check_second(evaluation: Evaluation, outputs: list[np.ndarray], scales: list[Any], where: str) -> None:
    """The second formula agrees with the first to 1e-9 of the scale."""
    second = evaluation.operator.second_function
    if second is None:
        raise Refused(f"{where}: the operator has no second formula")
    with np.errstate(all="ignore"):
        answers = as_tuple(second(**evaluation.case.args))
    for k, (first, scale, answer) in enumerate(zip(outputs, scales, answers, strict=True)):
        hi = split_array(first)[0] if first.dtype == object else first
        answer = np.asarray(answer)
        if hi.shape != answer.shape:
            raise Refused(f"{where}: output {k} has shape {hi.shape}, the second formula's {answer.shape}")
        if first.dtype != object:
            agree = np.array_equal(hi, answer)
        else:
            with np.errstate(invalid="ignore"):
                agree = bool(np.all((hi == answer) | (np.isnan(hi) & np.isnan(answer)) | (np.abs(hi - answer) <= 1e-9 * scale)))
        if not agree:
            raise Refused(f"{where}: the second formula disagrees on output {k}")


def check_gradients(evaluation: Evaluation, gradients: dict[str, np.ndarray], scales: dict[str, Any], where: str) -> None:
    """Central differences at 640 bits along a random direction agree with the vector-Jacobian product to 2^-50."""
    if not gradients or evaluation.case.special:
        return
    draw = Draw(where)
    with precision(640):
        step = arb(2) ** -160
        directions = {n: balls(draw.normal(*v.shape)) for n, v in evaluation.tensors.items() if n in gradients}
        sides = []
        for sign in (1, -1):
            values = tuple(balls(v) + sign * step * directions[n] if n in directions else balls(v) for n, v in evaluation.tensors.items())
            upstream = [None if g is None else balls(g) for g in evaluation.upstream or []]
            sides.append(np.asarray(evaluation.loss(upstream)(*values)).reshape(-1)[0])
        slope = (sides[0] - sides[1]) / (2 * step)
        product = sum((np.sum(gradients[n] * directions[n]) for n in gradients), arb(0))
        size = sum(float((scales[n] * magnitudes(directions[n])).sum()) for n in gradients)
        if float(abs(slope - product).upper()) > 2.0**-50 * size:
            raise Refused(f"{where}: central differences disagree with the gradient")
