"""Assay's golden generator: operator definitions in, certified float64 goldens out. See docs/golden-format.md."""

from golden.operator import Case, Operator, conditioned, exact, ulp

__all__ = ["Case", "Operator", "conditioned", "exact", "ulp"]
