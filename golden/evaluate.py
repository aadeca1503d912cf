"""From a definition to its files' content: enclosures, gradients, scales, and the checks that a golden must pass to be written."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd import make_vjp

from golden.ball import arb, balls, magnitudes, precision, split_array
from golden.draw import Draw, pair
from golden.operator import Case, Operator, Out, Refused

CERTIFIED = 2.0**-57
START_BITS, MOST_BITS = 192, 6144


def is_tensor(value: Any) -> bool:
    """A float64 array: converted to the dtype under test."""
    return isinstance(value, np.ndarray) and value.dtype == np.float64


def leaves_of(args: dict[str, Any]) -> dict[str, np.ndarray]:
    """The float tensors of a call by name; `name.k` in a tensor list."""
    leaves = {}
    for name, value in args.items():
        if is_tensor(value):
            leaves[name] = value
        elif isinstance(value, list):
            leaves |= {f"{name}.{k}": v for k, v in enumerate(value) if is_tensor(v)}
    return leaves


def with_leaves(args: dict[str, Any], leaves: dict[str, Any]) -> dict[str, Any]:
    """The arguments with other values for their float tensors."""
    out = {}
    for name, value in args.items():
        if name in leaves:
            out[name] = leaves[name]
        elif isinstance(value, list):
            out[name] = [leaves.get(f"{name}.{k}", v) for k, v in enumerate(value)]
        else:
            out[name] = value
    return out


def as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def as_outs(value: Any) -> list[Out]:
    """What a reference returned, as one Out an output (autograd's boxes stay inside)."""
    return [o if isinstance(o, Out) else Out(o) for o in as_tuple(value)]


def plain(value: Any) -> np.ndarray:
    """The object (or float64, integer, bool) array of an output; numbers among balls become balls."""
    array = np.asarray(value)
    if array.dtype != object:
        return array
    items = [v if isinstance(v, arb) else arb(v) for v in array.reshape(-1)]
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out.reshape(array.shape)


def is_floating(array: np.ndarray | None) -> bool:
    return array is not None and array.dtype in (object, np.float64)


class Evaluation:
    """One case of one operator: goldens of outputs and gradients, and their scales as float64.

    `outs` are the reference's Outs, arrays that mutate last; `upstream` has one entry an output, or is None: forward only."""

    def __init__(self, operator: Operator, case: Case, stream: str) -> None:
        self.operator, self.case = operator, case
        self.leaves = leaves_of(case.args)
        wanted = operator.differentiable if operator.differentiable is not None else tuple(self.leaves)
        self.wanted = tuple(n for n in self.leaves if n in wanted or n.split(".")[0] in wanted)
        self.outs = self.run(self.leaves)
        self.returned = len(self.outs) - len(operator.mutates)
        self.differentiated = operator.factors_function or operator.reference_function
        values = self.run(self.leaves, self.differentiated) if operator.factors_function and case.backward else self.outs[: self.returned]
        live = [is_floating(o.value) and not o.constant for o in values]
        by_hand = operator.vjp_function is not None
        differentiate = case.backward and bool(self.wanted) and any(live) and (by_hand or not case.special)
        self.upstream: list[np.ndarray | None] | None = None
        if differentiate:
            draw = Draw(stream)
            shaped = [np.reshape(draw.normal(*o.value.shape), o.value.shape) if f else None for o, f in zip(values, live, strict=True)]
            self.upstream = [pair(u) if o.complex else u for o, u in zip(values, shaped, strict=True)]

    def run(self, leaves: dict[str, Any], function: Callable[..., Any] | None = None) -> list[Out]:
        """The reference (or `function`) on plain leaves: balls, or float64 where the operator is plain."""
        convert = (lambda v: np.asarray(v)) if self.operator.plain else balls
        reference = function or self.operator.reference_function
        outs = as_outs(reference(**with_leaves(self.case.args, {n: convert(v) for n, v in leaves.items()})))
        for out in outs:
            if out.value is not None:
                out.value = plain(out.value)
                if not self.operator.plain and out.value.dtype == np.float64:  # a constant branch
                    out.value = balls(out.value)
        return outs

    def loss(self, upstream: list[Any]) -> Callable[..., Any]:
        """leaves (in the order of self.leaves) -> sum of outputs times upstream gradients, shape (1,)."""

        def function(*values: Any) -> Any:
            outs = as_outs(self.differentiated(**with_leaves(self.case.args, dict(zip(self.leaves, values, strict=True)))))
            return sum(anp.sum(anp.reshape(o.value * g, (1, -1)), axis=1) for o, g in zip(outs, upstream, strict=False) if g is not None)

        return function

    def vjp(self, values: tuple[Any, ...], upstream: list[Any]) -> dict[str, Any]:
        """Gradients of the wanted leaves, object arrays (or autograd boxes, when differentiated again)."""
        if self.operator.vjp_function is not None:
            args = with_leaves(self.case.args, dict(zip(self.leaves, values, strict=True)))
            gradients = self.operator.vjp_function(upstream, **args)
            return {n: gradients[n] for n in self.wanted}
        positions = tuple(i for i, n in enumerate(self.leaves) if n in self.wanted)
        pull, _ = make_vjp(self.loss(upstream), argnum=positions)(*values)
        one = np.empty(1, dtype=object)
        one[0] = arb(1)
        return dict(zip(self.wanted, pull(one), strict=True))

    def at(self, bits: int) -> tuple[list[np.ndarray | None], dict[str, np.ndarray]]:
        """Outputs and gradients with `bits` of working precision."""
        with precision(bits):
            outputs = [o.value for o in self.run(self.leaves)]
            gradients: dict[str, np.ndarray] = {}
            if self.upstream is not None:
                convert = np.asarray if self.operator.plain and self.case.special else balls
                values = tuple(convert(v) for v in self.leaves.values())
                upstream = [None if g is None else convert(g) for g in self.upstream]
                gradients = {n: plain(g) for n, g in self.vjp(values, upstream).items()}
            return outputs, gradients

    def _jacobian_scale(self, function: Callable[..., Any], values: tuple[Any, ...], shape: tuple[int, ...]) -> np.ndarray:
        """sum_j |df_i/dx_j| |x_j| for each element i of `function`'s output, over all arguments."""
        count = int(np.prod(shape, dtype=np.int64))
        pull, _ = make_vjp(function, argnum=tuple(range(len(values))))(*values)
        sizes = [magnitudes(v) for v in values]
        diagonal = self.operator.scale_kind == "elementwise"
        scale = np.zeros(shape)
        for i in range(1 if diagonal else count):
            seed = balls(np.ones(shape) if diagonal else np.eye(1, count, i).reshape(shape))
            with np.errstate(invalid="ignore"):
                parts = [magnitudes(d) * s for d, s in zip(pull(seed), sizes, strict=True)]
            if diagonal:
                scale = sum(np.broadcast_to(p, shape) if p.shape == shape else np.full(shape, p.sum()) for p in parts)
            else:
                scale.reshape(-1)[i] = sum(p.sum() for p in parts)
        return np.nan_to_num(scale, nan=0.0, posinf=0.0) if self.case.special else scale

    def _output_scales(self, outputs: list[np.ndarray | None]) -> list[Any]:
        """Scales of the outputs that are conditioned; None elsewhere."""
        floating = [o is not None and o.dtype == object for o in outputs]
        if not any(floating):
            return [None] * len(outputs)
        if self.operator.scale_function is not None:
            given = as_tuple(self.operator.scale_function([None if o is None else split_array(o)[0] for o in outputs], **self.case.args))
            return [s if f else None for s, f in zip(given, floating, strict=True)]
        if not self.leaves:
            return [magnitudes(o) if f else None for o, f in zip(outputs, floating, strict=True)]
        if self.operator.scale_kind == "multilinear":
            outs = self.run({n: np.abs(v) for n, v in self.leaves.items()})
            return [magnitudes(o.value) if f else None for o, f in zip(outs, floating, strict=True)]
        values = tuple(balls(v) for v in self.leaves.values())
        scales = []
        for k, o in enumerate(outputs):
            def forward(*v: Any, k: int = k, shape: tuple[int, ...] = () if o is None else o.shape) -> Any:
                args = with_leaves(self.case.args, dict(zip(self.leaves, v, strict=True)))
                return anp.reshape(as_outs(self.operator.reference_function(**args))[k].value, shape)

            scales.append(self._jacobian_scale(forward, values, o.shape) + magnitudes(o) if floating[k] else None)
        return scales

    def _gradient_scales(self, gradients: dict[str, np.ndarray], count: int) -> dict[str, Any]:
        upstream = self.upstream or []
        if self.operator.backward_scale_function is not None:
            return self.operator.backward_scale_function({n: split_array(g)[0] for n, g in gradients.items()}, upstream, **self.case.args)
        if self.case.special:
            return {n: magnitudes(g) for n, g in gradients.items()}
        if self.operator.scale_kind == "multilinear":
            seeds = [None if g is None else balls(np.abs(g)) for g in upstream]
            return {n: magnitudes(g) for n, g in self.vjp(tuple(balls(np.abs(v)) for v in self.leaves.values()), seeds).items()}
        names, live = list(self.leaves), [k for k, g in enumerate(upstream) if g is not None]
        values = tuple(balls(v) for v in self.leaves.values()) + tuple(balls(upstream[k]) for k in live)
        scales = {}
        for name, g in gradients.items():
            def backward(*v: Any, name: str = name) -> Any:
                seeds: list[Any] = [None] * count
                for k, seed in zip(live, v[len(names) :], strict=True):
                    seeds[k] = seed
                return self.vjp(v[: len(names)], seeds)[name]

            scales[name] = self._jacobian_scale(backward, values, g.shape) + magnitudes(g)
        return scales

    def scales(self, outputs: list[np.ndarray | None], gradients: dict[str, np.ndarray]) -> tuple[list[Any], dict[str, Any]]:
        """The conditioned gauge's scales of outputs and gradients."""
        with precision(96):
            return self._output_scales(outputs), self._gradient_scales(gradients, len(outputs)) if gradients else {}

    def _inputs_where(self, condition: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """Where an input of an elementwise operator meets the condition, flat."""
        found = np.zeros(shape, dtype=bool)
        for leaf in self.leaves.values():
            if self.operator.scale_kind == "elementwise":
                found = found | np.broadcast_to(condition(leaf), shape)
        return found.reshape(-1)

    @cached_property
    def second_answers(self) -> tuple[Any, ...]:
        """What the second formula says, one answer an output."""
        if self.operator.second_function is None:
            raise Refused(f"{self.operator.name}/{self.case.name}: the operator has no second formula")
        with np.errstate(all="ignore"):
            return as_tuple(self.operator.second_function(**self.case.args))

    def settle_special(self, outputs: list[np.ndarray | None]) -> list[np.ndarray | None]:
        """Zeros, infinities and NaN, which balls have no signs for, from the second formula; it must agree where a ball knows."""
        if not self.case.special or self.operator.plain:
            return outputs
        settled = []
        for first, answer in zip(outputs, self.second_answers, strict=True):
            if first is None or first.dtype != object:
                settled.append(first)
                continue
            out, flat = first.copy(), np.asarray(answer, dtype=np.float64).reshape(-1)
            outside = self._inputs_where(lambda v: ~np.isfinite(v), out.shape)
            zero = self._inputs_where(lambda v: v == 0, out.shape)
            for i, value in enumerate(out.reshape(-1)):
                known = not outside[i] and value.mid().is_finite() and value.rad() <= abs(value.mid()) * arb(2) ** -60
                if known and value != 0:
                    if zero[i] and math.copysign(1, flat[i]) != math.copysign(1, float(value)):
                        with precision(2 * MOST_BITS):  # a negation rounds to the working precision
                            out.reshape(-1)[i] = -value  # which branch, the sign of a zero decides (atan2)
                    continue
                if known and flat[i] != 0:
                    raise Refused(f"{self.operator.name}/{self.case.name}: element {i} is 0, the second formula says {flat[i]}")
                out.reshape(-1)[i] = float(flat[i])
            settled.append(out)
        return settled


def certify(evaluation: Evaluation, where: str) -> tuple[list[Any], dict[str, Any], list[Any], dict[str, Any], float]:
    """Raise the precision until every radius is below 2^-57 of its scale (and of the value, for the ulp gauge); the proof."""
    ulp = any(t["gauge"] == "ulp" for m in evaluation.operator.tolerance.values() for t in m.values())
    bits = START_BITS
    scales: tuple[list[Any], dict[str, Any]] | None = None
    while True:
        outputs, gradients = evaluation.at(bits)
        outputs = evaluation.settle_special(outputs)
        if scales is None:
            scales = evaluation.scales(outputs, gradients)
        worst = 0.0
        for values, scale in [*zip(outputs, scales[0], strict=True), *((gradients[n], scales[1][n]) for n in gradients)]:
            if values is None or values.dtype != object:
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


def check_second(evaluation: Evaluation, outputs: list[np.ndarray | None], scales: list[Any], where: str) -> None:
    """The second formula agrees with the first to 1e-9 of the scale; exactly where the operator is plain or the output integral."""
    if all(o is None for o in outputs):
        return
    for k, (first, scale, answer) in enumerate(zip(outputs, scales, evaluation.second_answers, strict=True)):
        if first is None:
            continue
        hi = split_array(first)[0] if first.dtype == object else first
        if evaluation.outs[k].shape is not None:
            hi, scale = hi.reshape(evaluation.outs[k].shape), None if scale is None else np.reshape(scale, evaluation.outs[k].shape)
        answer = np.asarray(answer)
        if hi.shape != answer.shape:
            raise Refused(f"{where}: output {k} has shape {hi.shape}, the second formula's {answer.shape}")
        with np.errstate(invalid="ignore"):
            agree = (hi == answer) | (hi != hi) & (answer != answer)
            if first.dtype == object:
                agree |= np.abs(hi - answer) <= 1e-9 * scale
            elif first.dtype == np.float64:
                agree &= (np.signbit(hi) == np.signbit(answer)) | (hi != 0)
        if not np.all(agree):
            i = np.argmin(np.ravel(agree))
            raise Refused(f"{where}: the second formula disagrees on output {k}: {np.ravel(hi)[i]!r} against {np.ravel(answer)[i]!r} at {i}")


def check_gradients(evaluation: Evaluation, gradients: dict[str, np.ndarray], scales: dict[str, Any], where: str) -> None:
    """Central differences at 640 bits along a random direction agree with the vector-Jacobian product to 2^-50."""
    if not gradients or evaluation.case.special or not evaluation.case.smooth:
        return
    draw = Draw(where)
    with precision(640):
        step = arb(2) ** -160
        directions = {n: balls(draw.normal(*v.shape)) for n, v in evaluation.leaves.items() if n in gradients}
        sides = []
        for sign in (1, -1):
            values = tuple(balls(v) + sign * step * directions[n] if n in directions else balls(v) for n, v in evaluation.leaves.items())
            upstream = [None if g is None else balls(g) for g in evaluation.upstream or []]
            sides.append(np.asarray(evaluation.loss(upstream)(*values)).reshape(-1)[0])
        slope = (sides[0] - sides[1]) / (2 * step)
        product = sum((np.sum(gradients[n] * directions[n]) for n in gradients), arb(0))
        size = sum(float((scales[n] * magnitudes(directions[n])).sum()) for n in gradients)
        if float(abs(slope - product).upper()) > 2.0**-50 * size + 2.0**-200:
            raise Refused(f"{where}: central differences disagree with the gradient")
