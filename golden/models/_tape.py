"""Arithmetic that remembers and that can err: reverse-mode differentiation in NumPy whose every operation may be perturbed by its own rounding.

A `Node` is an array with the operations that made it. The derivative of an operation is written in operations again, so the backward pass rounds
as the forward pass does. The `Machine` says how: exactly as NumPy's long double (goldens), or with each result moved by plus or minus what one
rounding of it may be (docs/numerics.md#models), and the factors of products cut to TF32. Nothing here knows how LibTorch computes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

SLACK = 2.0  # a library may take other steps than these: up to four times as many roundings of the same size


class Machine:
    """dtype: what arrays hold. unit: the rounding unit that is played (0: none). tf32: how much of a product's factor may be lost, at random
    (`tf32`) and by the same share everywhere (`bias`), relative."""

    def __init__(self, dtype: Any = numpy.float64, unit: float = 0.0, tf32: float = 0.0, bias: float = 0.0, seed: int = 0) -> None:
        self.dtype, self.unit, self.tf32, self.bias = dtype, unit, tf32, bias
        self.random = numpy.random.Generator(numpy.random.PCG64(seed))
        self.log: list[Node] | None = None  # where a test wants the size of every rounding

    def signs(self, shape: tuple[int, ...]) -> numpy.ndarray:
        count = math.prod(shape)
        bits = numpy.unpackbits(numpy.frombuffer(self.random.bytes((count + 7) // 8), numpy.uint8), count=count)
        return (bits.astype(numpy.float64) * 2 - 1).reshape(shape)

    def factor(self, value: numpy.ndarray) -> numpy.ndarray:
        """A factor of a product, as a tensor core takes it."""
        if self.tf32:
            value = value * (1 + self.tf32 * self.signs(value.shape))
        return value * (1 - self.bias) if self.bias else value


_machine = Machine()


@contextlib.contextmanager
def machine(chosen: Machine) -> Iterator[Machine]:
    global _machine
    before, _machine = _machine, chosen
    try:
        yield chosen
    finally:
        _machine = before


class Node:
    """An array and what made it: (parent, function from this node's gradient to the parent's)."""

    __slots__ = ("parents", "rounding", "serial", "value")
    _count = 0

    def __init__(self, value: Any, parents: Sequence[tuple[Node, Callable[[Node], Node]]] = (), rounding: Any = None) -> None:
        self.value, self.parents, self.rounding = value, parents, rounding
        Node._count += 1
        self.serial = Node._count

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape


class Parameter(Node):
    """A node whose gradient is wanted."""


def wants(node: Node) -> bool:
    return bool(node.parents) or isinstance(node, Parameter)


def node(value: Any) -> Node:
    return value if isinstance(value, Node) else Node(numpy.asarray(value, dtype=_machine.dtype))


def parameter(value: Any) -> Parameter:
    return Parameter(numpy.asarray(value, dtype=_machine.dtype))


def made(value: numpy.ndarray, size: Any, *parents: tuple[Node, Callable[[Node], Node]]) -> Node:
    """A result; `size`: the magnitude that one rounding is relative to (a function, asked only where roundings are played), None: exact."""
    kept = tuple(p for p in parents if wants(p[0]))
    rounding = None
    if _machine.unit and size is not None:
        rounding = SLACK * _machine.unit * (size() if callable(size) else size)
        value = value + rounding * _machine.signs(value.shape)
    result = Node(value, kept, rounding if _machine.log is not None else None)
    if _machine.log is not None:
        _machine.log.append(result)
    return result


def gradients(roots: Sequence[tuple[Node, Node]], wanted: Sequence[Node]) -> dict[int, Node]:
    """serial → gradient of the roots, each weighted by its seed, for every node on the way (`wanted` are kept as well)."""
    found: dict[int, Node] = {}
    stack, known = [r for r, _ in roots], {}
    while stack:
        one = stack.pop()
        if one.serial not in known:
            known[one.serial] = one
            stack += [p for p, _ in one.parents]
    for root, seed in roots:
        found[root.serial] = add(found[root.serial], seed) if root.serial in found else seed
    for serial in sorted(known, reverse=True):
        if serial not in found:
            continue
        for parent, pulled in known[serial].parents:
            step = pulled(found[serial])
            found[parent.serial] = add(found[parent.serial], step) if parent.serial in found else step
    return {w.serial: found[w.serial] for w in wanted if w.serial in found} if wanted else found


# ---- exact operations: copies and choices


def reshape(x: Node, *shape: int) -> Node:
    before = x.shape
    return made(x.value.reshape(shape), None, (x, lambda g: reshape(g, *before)))


def transpose(x: Node, *axes: int) -> Node:
    back = tuple(int(i) for i in numpy.argsort(axes))
    return made(x.value.transpose(axes), None, (x, lambda g: transpose(g, *back)))


def broadcast(x: Node, shape: tuple[int, ...]) -> Node:
    before = x.shape
    return made(numpy.broadcast_to(x.value, shape), None, (x, lambda g: fit(g, before)))


def take(x: Node, index: Any) -> Node:
    """x[index], any NumPy index."""
    return made(x.value[index], None, (x, lambda g: put(g, index, x.shape)))


def put(g: Node, index: Any, shape: tuple[int, ...]) -> Node:
    """Zeros with g added at `index`: the derivative of `take`."""

    def added(values: numpy.ndarray) -> numpy.ndarray:
        out = numpy.zeros(shape, dtype=values.dtype)
        numpy.add.at(out, index, values)
        return out

    def size() -> numpy.ndarray:  # sums of n terms where n places of the index are the same; a copy where it is one
        count = added(numpy.ones(g.shape))
        return numpy.where(count > 1, numpy.sqrt(count) * added(numpy.abs(g.value)), 0.0)

    return made(added(g.value), size, (g, lambda h: take(h, index)))


def join(parts: Sequence[Node], axis: int) -> Node:
    edges = numpy.cumsum([0, *(p.shape[axis] for p in parts)])

    def part(k: int) -> Callable[[Node], Node]:
        index = [slice(None)] * parts[0].value.ndim
        index[axis] = slice(int(edges[k]), int(edges[k + 1]))
        return lambda g: take(g, tuple(index))

    return made(numpy.concatenate([p.value for p in parts], axis), None, *[(p, part(k)) for k, p in enumerate(parts)])


def choose(x: Node, mask: numpy.ndarray) -> Node:
    """x where the mask is true, else 0."""
    return made(numpy.where(mask, x.value, 0), None, (x, lambda g: choose(g, mask)))


def fixed(x: Node) -> Node:
    """The value, for good: no gradient flows."""
    return Node(x.value)


# ---- rounded operations


def fit(g: Node, shape: tuple[int, ...]) -> Node:
    """Sums over the axes that broadcasting added."""
    if g.shape == shape:
        return g
    extra = g.value.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(extra + i for i, n in enumerate(shape) if n == 1 and g.shape[extra + i] != 1)
    return reshape(total(g, axes), *shape)


def accumulated(terms: int, value: Any, squares: Any) -> Any:
    """The size of what adding `terms` numbers one by one may round: the root of Σ s_k² over the partial sums s_k, which for numbers in an arbitrary
    order are a walk from 0 to `value` (a bridge, mean square value²/3 + squares/6), and of the terms' own roundings; `squares`: Σ of their squares."""
    return numpy.sqrt(terms * (value * value / 3 + squares / 6) + squares + value * value)


def total(x: Node, axes: tuple[int, ...]) -> Node:
    count = math.prod(x.shape[a] for a in axes)
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    value = x.value.sum(axes)
    return made(value, lambda: accumulated(count, value, (x.value * x.value).sum(axes)), (x, lambda g: broadcast(reshape(g, *kept), x.shape)))


def _size(value: numpy.ndarray) -> Callable[[], numpy.ndarray]:
    return lambda: numpy.abs(value)


def add(a: Any, b: Any) -> Node:
    a, b = node(a), node(b)
    value = a.value + b.value
    return made(value, _size(value), (a, lambda g: fit(g, a.shape)), (b, lambda g: fit(g, b.shape)))


def subtract(a: Any, b: Any) -> Node:
    a, b = node(a), node(b)
    value = a.value - b.value
    return made(value, _size(value), (a, lambda g: fit(g, a.shape)), (b, lambda g: fit(scale(g, -1.0), b.shape)))


def multiply(a: Any, b: Any) -> Node:
    a, b = node(a), node(b)
    value = a.value * b.value
    return made(value, _size(value), (a, lambda g: fit(multiply(g, b), a.shape)), (b, lambda g: fit(multiply(g, a), b.shape)))


def divide(a: Any, b: Any) -> Node:
    a, b = node(a), node(b)
    value = a.value / b.value
    return made(value, _size(value), (a, lambda g: fit(divide(g, b), a.shape)), (b, lambda g: fit(scale(divide(multiply(g, a), multiply(b, b)), -1.0), b.shape)))


def scale(x: Node, by: Any) -> Node:
    """x times a constant (a long double where a float would round it), which the machine rounds."""
    value = x.value * x.value.dtype.type(by)
    exact = math.frexp(float(by))[0] in (0.5, -0.5)
    return made(value, None if exact else _size(value), (x, lambda g: scale(g, by)))


def contract(spec: str, a: Node, b: Node) -> Node:
    """einsum of two factors; each index of a factor stands in the other one or in the result."""
    left, out = spec.split("->")
    first, second = left.split(",")
    sizes = dict(zip(first + second, a.shape + b.shape, strict=True))
    terms = math.prod(n for i, n in sizes.items() if i not in out)
    fast: Any = "greedy" if math.prod(sizes.values()) > 1 << 15 and a.value.dtype == numpy.float64 else False

    def product(x: numpy.ndarray, y: numpy.ndarray) -> numpy.ndarray:
        return numpy.einsum(spec, x, y, optimize=fast)

    value = product(_machine.factor(a.value), _machine.factor(b.value))
    return made(
        value,
        lambda: accumulated(terms, value, product(a.value**2, b.value**2)),
        (a, lambda g: contract(f"{out},{second}->{first}", g, b)),
        (b, lambda g: contract(f"{out},{first}->{second}", g, a)),
    )


def elementwise(x: Node, value: numpy.ndarray, slope: Callable[[Node], Node], ulps: float = 2.0) -> Node:
    """A function whose result is good to `ulps` units in the last place; `slope`: the node of the result to the derivative's."""
    result = made(value, lambda: ulps * numpy.abs(value))
    if wants(x):
        result.parents = ((x, lambda g: multiply(g, slope(result))),)
    return result


def exp(x: Node) -> Node:
    return elementwise(x, numpy.exp(x.value), lambda y: y)


def log(x: Node) -> Node:
    return elementwise(x, numpy.log(x.value), lambda y: divide(1.0, x))


def sqrt(x: Node) -> Node:
    return elementwise(x, numpy.sqrt(x.value), lambda y: divide(0.5, y), 1.0)


def tanh(x: Node) -> Node:
    return elementwise(x, numpy.tanh(x.value), lambda y: subtract(1.0, multiply(y, y)))


def sigmoid(x: Node) -> Node:
    return elementwise(x, 1 / (1 + numpy.exp(-x.value)), lambda y: multiply(y, subtract(1.0, y)))


_libm_erf = numpy.frompyfunc(math.erf, 1, 1)


def error_function(x: numpy.ndarray) -> numpy.ndarray:
    """erf by its series of positive terms, 2/sqrt(pi) exp(-x²) Σ 2^n x^(2n+1) / (2n+1)!!, good to a few units of x's own precision; the C library's in
    float64, which is faster and a second formula."""
    if x.dtype == numpy.float64:
        return _libm_erf(x).astype(numpy.float64)
    a = numpy.minimum(numpy.abs(x), x.dtype.type(7))
    term, result = a.copy(), a.copy()
    for n in range(1, 180):
        term = term * (2 * a * a / (2 * n + 1))
        result = result + term
    root = numpy.sqrt(x.dtype.type(1) / numpy.arctan(x.dtype.type(1)))  # 2 / sqrt(pi)
    return numpy.sign(x) * numpy.minimum(root * numpy.exp(-a * a) * result, 1)


def erf(x: Node) -> Node:
    root = numpy.sqrt(1 / numpy.arctan(numpy.longdouble(1)))
    return elementwise(x, error_function(x.value), lambda y: scale(exp(scale(multiply(x, x), -1.0)), root))
