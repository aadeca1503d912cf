"""Assay's golden generator: operator definitions in, certified float64 goldens out. See docs/golden-format.md."""

from golden.draw import pair
from golden.operator import Case, Operator, Out, conditioned, exact, ulp

__all__ = ["Case", "Operator", "Out", "conditioned", "exact", "pair", "ulp"]
