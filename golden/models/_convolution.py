"""Convolution of large images on the tape: columns and one matrix product an image, in whatever dtype; differentiable once."""

from __future__ import annotations

import numpy

from golden.models import _tape
from golden.models._tape import Node, accumulated, made


def side(size: int, k: int, stride: int, padding: int) -> int:
    return (size + 2 * padding - k) // stride + 1


def columns(x: numpy.ndarray, k: int, stride: int, padding: int) -> numpy.ndarray:
    """(N, C, H, W) to (N, C k k, H' W')."""
    n, c, h, w = x.shape
    if k == 1 and stride == 1:
        return x.reshape(n, c, h * w)
    rows, cols = side(h, k, stride, padding), side(w, k, stride, padding)
    padded = numpy.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding))) if padding else x
    out = numpy.empty((n, c, k, k, rows, cols), dtype=x.dtype)
    for i in range(k):
        for j in range(k):
            out[:, :, i, j] = padded[:, :, i : i + stride * rows : stride, j : j + stride * cols : stride]
    return out.reshape(n, c * k * k, rows * cols)


def folded(cells: numpy.ndarray, shape: tuple[int, ...], k: int, stride: int, padding: int) -> numpy.ndarray:
    """The transpose of `columns`: each cell added where it came from."""
    n, c, h, w = shape
    rows, cols = side(h, k, stride, padding), side(w, k, stride, padding)
    cells = cells.reshape(n, c, k, k, rows, cols)
    out = numpy.zeros((n, c, h + 2 * padding, w + 2 * padding), dtype=cells.dtype)
    for i in range(k):
        for j in range(k):
            out[:, :, i : i + stride * rows : stride, j : j + stride * cols : stride] += cells[:, :, i, j]
    return out[:, :, padding : padding + h, padding : padding + w]


def squares(x: numpy.ndarray, axis: int | tuple[int, ...]) -> numpy.ndarray:
    return (x * x).sum(axis)


def convolve(x: Node, w: Node, stride: int = 1, padding: int = 0) -> Node:
    """Where roundings are played, Σ (a b)² is taken as |a|² |b|² / n, what it is for weights that are drawn independently: no second product."""
    outputs, _, k, _ = w.shape
    kernel = w.value.reshape(outputs, -1)
    cells = columns(_tape._machine.factor(x.value), k, stride, padding)
    shape = (x.shape[0], outputs, side(x.shape[2], k, stride, padding), side(x.shape[3], k, stride, padding))

    def size() -> numpy.ndarray:
        own = squares(columns(x.value, k, stride, padding), 1)
        terms = kernel.shape[1]
        return accumulated(terms, value, (squares(kernel, 1)[None, :, None] * own[:, None, :] / terms).reshape(shape))

    value = (_tape._machine.factor(kernel) @ cells).reshape(shape)
    return made(value, size, (x, lambda g: _to_input(g, w, x.shape, stride, padding)), (w, lambda g: _to_weight(g, x, w.shape, stride, padding)))


def _to_input(g: Node, w: Node, shape: tuple[int, ...], stride: int, padding: int) -> Node:
    outputs, _, k, _ = w.shape
    kernel, flat = w.value.reshape(outputs, -1), g.value.reshape(*g.shape[:2], -1)
    value = folded(_tape._machine.factor(kernel).T @ _tape._machine.factor(flat), shape, k, stride, padding)

    def size() -> numpy.ndarray:
        each = squares(kernel, 0)[None, :, None] * squares(flat, 1)[:, None, :] / outputs
        return accumulated(outputs * k * k, value, folded(each, shape, k, stride, padding))

    return made(value, size)


def _to_weight(g: Node, x: Node, shape: tuple[int, ...], stride: int, padding: int) -> Node:
    k, flat = shape[-1], g.value.reshape(*g.shape[:2], -1)
    cells = columns(_tape._machine.factor(x.value), k, stride, padding)
    value = numpy.matmul(_tape._machine.factor(flat), cells.transpose(0, 2, 1)).sum(0).reshape(shape)

    def size() -> numpy.ndarray:
        plain = columns(x.value, k, stride, padding)
        terms = flat.shape[0] * flat.shape[2]
        return accumulated(terms, value, (numpy.outer(squares(flat, (0, 2)), squares(plain, (0, 2))) / terms).reshape(shape))

    return made(value, size)
