"""multinomial: indices drawn by weight. Each row's weights are another permutation, so that a row that is mixed up with another shows."""

import numpy

from golden import Case, Operator, Out, exact
from golden.ops.random._intervals import FALSE_ALARM, binomial

operator = Operator("aten::multinomial", tolerance=exact("statistical: docs/numerics.md#statistical"), modes=("layouts",), plain=True, differentiable=())
WEIGHTS = numpy.array([0.5, 1.5, 2.0, 4.0, 0.0])  # an index of weight 0 is never drawn
ROWS = 80


def inclusion(p, samples):
    """The chance that an index is among the samples, drawn one after the other; without replacement by adding up every order."""
    if samples == 0:
        return numpy.zeros(len(p))
    out = numpy.array(p)
    for k in numpy.flatnonzero(p):
        rest = numpy.where(numpy.arange(len(p)) == k, 0.0, p)
        if rest.sum() > 0:
            out += p[k] * inclusion(rest / rest.sum(), samples - 1)
    return out


def counts(self, samples, replacement):
    """(alternative k: where an element is the index that stands k-th in its row's order, how often)."""
    rows = self.reshape(-1, self.shape[-1])
    order = numpy.argsort(-rows, axis=-1, kind="stable")
    p = -numpy.sort(-rows[0]) / rows[0].sum()
    chance, draws = (p, len(rows) * samples) if replacement else (inclusion(p, samples), len(rows))
    drawn = numpy.flatnonzero(p)
    values = [numpy.repeat(order[:, k : k + 1], samples, axis=1).reshape(*self.shape[:-1], samples) for k in drawn]
    items = [{"value": int(k), **dict(zip(("min", "max"), binomial(draws, min(1.0, float(chance[k])), len(drawn)), strict=True))} for k in drawn]
    return values, items


@operator.reference
def reference(self, num_samples, replacement=False):
    """A row of distinct weights: an element says which of them was drawn. Rows of equal weights hold each index once."""
    shape = (*self.shape[:-1], num_samples)
    if numpy.ptp(self) == 0:
        each = [{"value": k, "min": self.size // self.shape[-1], "max": self.size // self.shape[-1]} for k in range(self.shape[-1])]
        return Out(shape=shape, dtype="int64", statistic={"support": {"low": 0, "high": self.shape[-1], "integer": True}, "counts": each, "false_alarm": FALSE_ALARM})
    values, items = counts(self, num_samples, replacement)
    return Out(shape=shape, dtype="int64", statistic={"support": {"values": values}, "counts": items, "false_alarm": FALSE_ALARM})


@operator.cases
def cases(draw):
    def rows(count, weights=WEIGHTS):
        return numpy.stack([weights[draw.permutation(len(weights))] for _ in range(count)])

    yield Case("replaced", self=rows(1)[0], num_samples=500, replacement=True, source="pytorch#4858")
    yield Case("replaced_rows", self=rows(10), num_samples=40, replacement=True)
    yield Case("one_of_each_row", self=rows(4 * ROWS), num_samples=1, source="pytorch#48841", note="no row may give the index whose weight is 0")
    for samples in (2, 3):
        yield Case(f"{samples}_of_each_row", self=rows(ROWS), num_samples=samples, note="one after the other, each by its share of what is left")
    yield Case("all_but_zero", self=rows(ROWS), num_samples=4, source="pytorch#2896", note="each index of positive weight once")
    for n in (1, 33):
        yield Case(f"permutation_{n}", self=numpy.full((2, n), 0.25), num_samples=n)
    yield Case("certain", self=numpy.array([[0.0, 0.0, 3.0], [2.0**-66, 0.0, 0.0]]), num_samples=5, replacement=True)
    yield Case("too_many", self=WEIGHTS, num_samples=6, expect="error")
    for label, bad in (("negative", -1.0), ("nan", numpy.nan), ("infinite", numpy.inf)):
        yield Case(label, self=numpy.array([1.0, bad, 2.0]), num_samples=1, replacement=True, expect="error")
    yield Case("all_zero", self=numpy.zeros((2, 3)), num_samples=1, replacement=True, expect="error", source="pytorch#9062")
