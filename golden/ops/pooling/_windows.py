"""Where the windows of a pooling lie along one axis."""

import numpy


def count(size, kernel, stride, padding, dilation, ceil_mode):
    """Number of windows; with ceil_mode the last one must start inside the input or the left padding (pytorch#36977)."""
    span = size + 2 * padding - dilation * (kernel - 1) - 1
    n = (-(-span // stride) if ceil_mode else span // stride) + 1
    return n - 1 if ceil_mode and (n - 1) * stride >= size + padding else n


def starts(size, kernel, stride, padding, dilation, ceil_mode):
    return [k * stride - padding for k in range(count(size, kernel, stride, padding, dilation, ceil_mode))]


def spans(size, kernel, stride, padding, ceil_mode):
    """(start, end) of each averaging window in padded terms; an end beyond the right padding is cut: what ceil_mode adds is no padding."""
    return [(a, min(a + kernel, size + padding)) for a in starts(size, kernel, stride, padding, 1, ceil_mode)]


def adaptive(size, out):
    """Start and end of each adaptive window: floor(k n / m) and ceil((k + 1) n / m)."""
    return [(k * size // out, -(-(k + 1) * size // out)) for k in range(out)]


def cover(size, intervals):
    """Matrix (windows, size) of 0 and 1, and the number of covered positions."""
    m = numpy.array([[float(a <= i < b) for i in range(size)] for a, b in intervals])
    return m, m.sum(1)
