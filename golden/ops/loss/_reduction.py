"""What the losses share: the reduction argument (0 none, 1 mean, 2 sum)."""

from golden import Out
from golden import numpy_ad as np


def reduced(values, reduction):
    """The reference's reduction; `mean` is over all elements."""
    if reduction == 0:
        return values
    return Out(np.total(values) / (values.size if reduction == 1 else 1), shape=())


def reduced_second(values, reduction):
    """The same on plain arrays."""
    return values if reduction == 0 else values.mean() if reduction == 1 else values.sum()
