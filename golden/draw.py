"""Portable random inputs: Philox 4x32-10, the same numbers bit for bit as fixtures/draw.cpp.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Every kind of number is made with integer
arithmetic or one rounding, so it is equal on every machine; docs/golden-format.md states the formulas.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np


class Pair(np.ndarray):
    """A complex tensor as a real array with a trailing axis of length 2: (real, imaginary)."""


class Drawn(np.ndarray):
    """An array that is not stored: `spec` tells the suites how to draw it again."""

    spec: dict[str, Any]


def pair(array: Any) -> Pair:
    """Mark a real array of shape (…, 2) as a complex tensor of shape (…)."""
    out = np.ascontiguousarray(array, dtype=np.float64).view(Pair)
    if out.shape[-1] != 2:
        raise ValueError("a complex tensor is an array whose last axis holds (real, imaginary)")
    return out


def philox(key: tuple[int, int], blocks: np.ndarray) -> np.ndarray:
    """Four 32-bit words for each block number; uint32 of shape (len(blocks), 4)."""
    mask = np.uint64(0xFFFFFFFF)
    blocks = blocks.astype(np.uint64)
    c = [blocks & mask, blocks >> np.uint64(32), np.zeros_like(blocks), np.zeros_like(blocks)]
    k0, k1 = np.uint64(key[0]), np.uint64(key[1])
    for _ in range(10):
        p0 = c[0] * np.uint64(0xD2511F53)
        p1 = c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ k0, p1 & mask, (p0 >> np.uint64(32)) ^ c[3] ^ k1, p0 & mask]
        k0 = (k0 + np.uint64(0x9E3779B9)) & mask
        k1 = (k1 + np.uint64(0xBB67AE85)) & mask
    return np.stack(c, axis=1).astype(np.uint32)


def from_spec(spec: dict[str, Any]) -> np.ndarray:
    """The array that a `draw` object of docs/golden-format.md stands for; float64 or int64."""
    shape = tuple(spec["shape"])
    count = int(np.prod(shape, dtype=np.int64))
    key = tuple(spec["key"])
    if spec["kind"] == "normal":
        words = philox(key, np.arange(count))
        halves = (words & np.uint32(0xFFFF)).astype(np.int64).sum(1) + (words >> np.uint32(16)).astype(np.int64).sum(1)
        return ((halves - 262140) * 2.0**-16).reshape(shape)
    words = philox(key, np.arange((count + 3) // 4)).reshape(-1)[:count].astype(np.uint64)
    low, high = spec["low"], spec["high"]
    if spec["kind"] == "uniform":
        unit = (words >> np.uint64(8)).astype(np.float64) * 2.0**-24
        return np.float32(low + (high - low) * unit).astype(np.float64).reshape(shape)
    if spec["kind"] == "integers":
        return (low + ((words * np.uint64(high - low)) >> np.uint64(32)).astype(np.int64)).reshape(shape)
    raise ValueError(f"unknown kind of draw: {spec['kind']}")


class Draw:
    """One stream of draws; each call uses a new key, derived from the stream's name and the call's number."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls = 0

    def _spec(self, kind: str, shape: tuple[int, ...], low: float | int = 0, high: float | int = 1) -> dict[str, Any]:
        digest = hashlib.sha256(f"{self._name}#{self._calls}".encode()).digest()
        self._calls += 1
        key = [int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:8], "little")]
        return {"kind": kind, "shape": list(shape), "key": key, "low": low, "high": high}

    def _make(self, spec: dict[str, Any], stored: bool) -> np.ndarray:
        array = from_spec(spec)
        if not stored:
            array = array.view(Drawn)
            array.spec = spec
        return array

    def normal(self, *shape: int, stored: bool = True) -> np.ndarray:
        """Bell-shaped numbers: mean 0, standard deviation 0.8165, within ±4, exact in float32."""
        return self._make(self._spec("normal", shape), stored)

    def uniform(self, low: float, high: float, *shape: int, stored: bool = True) -> np.ndarray:
        """Uniform numbers in [low, high], each representable in float32."""
        return self._make(self._spec("uniform", shape, float(low), float(high)), stored)

    def integers(self, low: int, high: int, *shape: int, stored: bool = True) -> np.ndarray:
        """Integers in [low, high), int64."""
        return self._make(self._spec("integers", shape, int(low), int(high)), stored)

    def permutation(self, count: int) -> np.ndarray:
        """A permutation of 0 … count-1, int64."""
        words = philox(tuple(self._spec("integers", (count,))["key"]), np.arange(count))
        return np.lexsort((words[:, 1], words[:, 0])).astype(np.int64)

    def distinct(self, *shape: int, step: float = 0.0625) -> np.ndarray:
        """Pairwise distinct multiples of `step` in random order, centred at 0: no ties."""
        count = int(np.prod(shape, dtype=np.int64))
        return ((self.permutation(count) - count // 2) * step).reshape(shape)

    def complex_normal(self, *shape: int) -> Pair:
        """A complex tensor of bell-shaped real and imaginary parts."""
        return pair(self.normal(*shape, 2))

    def full_mantissa(self, *shape: int) -> np.ndarray:
        """Bell-shaped float64 numbers that use all 53 bits: for cases with dtypes=("float64",)."""
        return self.normal(*shape) + self.uniform(-1, 1, *shape) * 2.0**-20 + self.uniform(-1, 1, *shape) * 2.0**-29
