"""Bags of embeddings, rows renormalized in place, and reductions by index along one axis."""

import math

import numpy

from golden import Case, Out, conditioned
from golden import numpy_ad as np
from golden.ops.indexing.indexing import ATOMICS, MODES, reduce_reference, reduce_second, spread
from golden.table import Table

table = Table(tolerance=conditioned(), modes=MODES)
add, operators = table.add, table.operators
SUM, MEAN, MAX = 0, 1, 2
NAMES = ("sum", "mean", "max")


def bags(indices, offsets, include_last_offset):
    """The positions of each bag: of a matrix each row is one, else the offsets say where they begin."""
    if indices.ndim == 2:
        return [list(range(r * indices.shape[1], (r + 1) * indices.shape[1])) for r in range(indices.shape[0])]
    ends = [*offsets.tolist(), *([] if include_last_offset else [indices.size])]
    return [list(range(a, b)) for a, b in zip(ends, ends[1:], strict=False)]


def embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=SUM, sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """Sum, mean or maximum of each bag's rows; the padding's do not count; an empty bag gives zeros. The other outputs are for the backward pass."""
    flat, width = indices.reshape(-1), weight.shape[1]
    factor = None if per_sample_weights is None else np.reshape(per_sample_weights, (-1,))
    out = []
    for bag in bags(indices, offsets, include_last_offset):
        kept = [k for k in bag if flat[k] != padding_idx]
        items = [weight[int(flat[k])][None] * (1 if factor is None else factor[k : k + 1]) for k in kept]
        if not items:
            out.append(np.balls(numpy.zeros((1, width))))
        elif mode == MAX:
            rows = np.concatenate(items)
            best = numpy.argmax(np.floats(rows), axis=0)
            out.append(np.take_along_axis(rows, best[None], 0))
        else:
            total = sum(items)
            out.append(total / len(items) if mode == MEAN else total)
    return np.concatenate(out), *(Out(unchecked="kept for the backward pass") for _ in range(3))


def bag_second(weight, indices, offsets, scale_grad_by_freq=False, mode=SUM, sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """By NumPy's reductions of the rows that are picked."""
    out = []
    for bag in bags(indices, offsets, include_last_offset):
        bag = [k for k in bag if indices.flat[k] != padding_idx]
        rows = weight[indices.flat[bag]] * (1 if per_sample_weights is None else per_sample_weights.flat[bag][:, None]) if bag else numpy.zeros((1, weight.shape[1]))
        out.append((numpy.add.reduce, lambda r: r.mean(0), lambda r: r.max(0))[mode](rows))
    return numpy.stack(out), None, None, None


def bag_cases(draw, padded):
    def case(label, count, ends, mode, source=None, **more):
        weight = draw.distinct(6, 3) + 0.03125
        fixed = {"scale_grad_by_freq": False, "sparse": False, "per_sample_weights": None, "include_last_offset": False} if padded else {}
        given = fixed | {"weight": weight, "indices": draw.integers(0, 6, count), "offsets": numpy.array(ends), "mode": mode} | ({"padding_idx": 2} if padded else {}) | more
        return Case(f"{NAMES[mode]}_{label}", args=given, source=source)

    for mode in (SUM, MEAN, MAX):
        yield case("one_bag", 5, [0], mode)
        yield case("bags", 9, [0, 2, 3, 7], mode)
        yield case("empty_bags", 6, [0, 0, 4, 4, 6], mode, source="pytorch#4169")
        yield case("last_offset", 7, [0, 3, 3, 7], mode, include_last_offset=True)
        yield case("width_1", 17, [0, 16], mode, weight=draw.distinct(6, 1) + 0.03125)
        yield case("width_33", 5, [0, 2], mode, weight=draw.distinct(6, 33) * 0.5 + 0.03125)
        yield case("negative_rows", 4, [0, 2, 2], mode, weight=-numpy.abs(draw.distinct(6, 3)) - 0.03125)
    yield case("weighted", 9, [0, 2, 3, 7], SUM, per_sample_weights=draw.normal(9))
    yield case("weighted_empty", 6, [0, 0, 4, 6], SUM, per_sample_weights=draw.normal(6))
    if padded:
        for mode in (SUM, MEAN, MAX):
            yield case("all_padding", 4, [0, 2], mode, indices=numpy.array([2, 2, 1, 3]))
        yield case("last_row", 6, [0, 3], MEAN, padding_idx=-1, indices=numpy.array([5, 1, 5, 0, 5, 2]))
    else:
        for mode in (SUM, MEAN):
            yield case("frequency", 9, [0, 4], mode, scale_grad_by_freq=True, indices=numpy.array([0, 0, 1, 2, 0, 1, 5, 5, 5]), source="pytorch#190063")
        for dtype, where in (("float64", {}), ("float32", {"only": ("cuda",)})):
            yield Case(f"zero_width_{dtype}", weight=numpy.zeros((4, 0)), indices=numpy.array([0, 2, 1]), offsets=numpy.array([0, 1]), trivial="rows without an element", backward=False, dtypes=(dtype,),
                       source="pytorch#195208", note="must not crash; on a CPU float32 throws where more than one thread works, so no list of defects can tell it", **where)
        yield Case("beyond_the_end", weight=draw.normal(4, 2), indices=numpy.array([0, 4]), offsets=numpy.array([0]), expect="error", source="pytorch#571")


def with_padding(**given):
    """A negative padding index counts from the end."""
    row = given["padding_idx"]
    return embedding_bag(**given | {"padding_idx": row % given["weight"].shape[0]})


def second_with_padding(**given):
    return bag_second(**given | {"padding_idx": given["padding_idx"] % given["weight"].shape[0]})


def bag_vjp(upstream, weight, indices, offsets, scale_grad_by_freq=False, mode=SUM, sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """Sums by index; scale_grad_by_freq divides a row's gradient by how often its index occurs."""
    flat = indices.reshape(-1)
    gradient = [[0 * weight[0]] for _ in range(weight.shape[0])]
    factors = []
    seen = numpy.maximum(numpy.bincount(flat, minlength=weight.shape[0]), 1)
    by_position = {}
    for b, bag in enumerate(bags(indices, offsets, include_last_offset)):
        kept = [k for k in bag if flat[k] != padding_idx]
        rows = np.floats(weight)[flat[kept]] if kept else None
        for n, k in enumerate(kept):
            g = upstream[0][b]
            share = g * (numpy.argmax(rows, axis=0) == n) if mode == MAX else g / len(kept) if mode == MEAN else g
            by_position[k] = np.sum(weight[int(flat[k])][None] * share[None], axis=1)
            share = share if per_sample_weights is None else share * per_sample_weights[k : k + 1]
            gradient[int(flat[k])].append(share / int(seen[flat[k]]) if scale_grad_by_freq else share)
    out = {"weight": np.stack([sum(parts) for parts in gradient])}
    if per_sample_weights is not None:
        factors = [by_position.get(k, 0 * weight[0][:1]) for k in range(flat.size)]
        out["per_sample_weights"] = np.concatenate(factors)
    return out


def frequency_is_smooth(cases):
    """A gradient over a frequency is no derivative: central differences cannot check it."""
    for case in cases:
        case.smooth = not case.args.get("scale_grad_by_freq", False)
        yield case


bag = add("embedding_bag", embedding_bag, bag_second, lambda draw: frequency_is_smooth(bag_cases(draw, False)), nondeterministic=ATOMICS)
bag.vjp(bag_vjp)
padded = add("embedding_bag.padding_idx", with_padding, second_with_padding, lambda draw: bag_cases(draw, True), nondeterministic=ATOMICS)
padded.vjp(lambda upstream, **given: bag_vjp(upstream, **given | {"padding_idx": given["padding_idx"] % given["weight"].shape[0]}))

# Rows renormalized in place ---------------------------------------------------------------------------------------------------------------------


def largest(row):
    """The largest |x| of a row of shape (1, n), shape (1,)."""
    k = int(numpy.argmax(numpy.abs(np.floats(row))))
    return np.absolute(row)[:, k]


def renorm(self, indices, max_norm, norm_type):
    """Rows that occur and are longer than max_norm get that length; ATen divides by the norm plus 1e-7."""
    used, out = set(indices.reshape(-1).tolist()), []
    for k in range(self.shape[0]):
        row = self[k : k + 1]
        size = largest(row) if norm_type == math.inf else np.norm(row, int(norm_type), 1)
        out.append(row * (max_norm / (size + np.balls(1e-7))) if k in used and float(np.floats(size)[0]) > max_norm else row)
    out = np.concatenate(out)
    return Out(out), Out(out)


def renorm_second(self, indices, max_norm, norm_type):
    out = self.copy()
    for k in numpy.unique(indices):
        size = numpy.linalg.norm(self[k], norm_type)
        out[k] *= max_norm / (size + 1e-7) if size > max_norm else 1
    return out, out


def renorm_cases(draw):
    rows = numpy.array([[3.0, 4.0], [0.5, 0.25], [6.0, 8.0], [1.0, -2.0]])
    for norm_type, label in ((1.0, "1"), (2.0, "2"), (math.inf, "inf")):
        yield Case(f"repeated_p{label}", self=rows, indices=numpy.array([0, 0, 1, 3]), max_norm=1.0, norm_type=norm_type, source="pytorch#943", note="a row is scaled once however often it occurs; unused rows stay")
        for n in (1, 3, 33):
            yield Case(f"width_{n}_p{label}", self=draw.normal(5, n) * 2, indices=draw.integers(0, 5, 2, 3), max_norm=0.75, norm_type=norm_type)
    yield Case("below", self=rows, indices=numpy.array([0, 1, 2, 3]), max_norm=64.0, norm_type=2.0)


add("embedding_renorm_", renorm, renorm_second, renorm_cases, mutates=("self",), differentiable=())

# Reductions by a one-dimensional index -------------------------------------------------------------------------------------------------------------


def index_reduce(self, dim, index, source, reduce, include_self=True):
    return reduce_reference(self, dim, spread(index, self.shape, dim), source, reduce, include_self)


def index_reduce_second(self, dim, index, source, reduce, include_self=True):
    return reduce_second(self, dim, spread(index, self.shape, dim), source, reduce, include_self)


def index_reduce_cases(draw):
    for reduce in ("prod", "mean", "amax", "amin"):
        for include in (True, False):
            fixed = {"reduce": reduce, "include_self": include}
            for shape, dim, count in (((5,), 0, 7), ((4, 3), 0, 5), ((2, 3, 4), -1, 3), ((2, 17), 1, 9)):
                size = [count if a == dim % len(shape) else n for a, n in enumerate(shape)]
                yield Case(f"{reduce}_self{int(include)}_s{'x'.join(map(str, shape))}", args={"self": draw.distinct(*shape) + 0.03125, "dim": dim, "index": draw.integers(0, shape[dim], count), "source": draw.distinct(*size) + 0.046875, **fixed})
            source = numpy.array([5.0, 5.0, 4.0]) if reduce[0] == "a" else numpy.array([0.0, 3.0, 2.0])
            yield Case(f"{reduce}_tie_self{int(include)}", args={"self": numpy.array([5.0, 4.0]), "dim": 0, "index": numpy.array([0, 0, 1]), "source": source, **fixed}, smooth=False, source="pytorch#76523",
                       note="equal extrema share the gradient; a zero factor's gradient is the others' product")
    yield Case("two_zeros", args={"self": numpy.array([2.0, 1.0]), "dim": 0, "index": numpy.array([0, 0, 1]), "source": numpy.array([0.0, 0.0, 3.0]), "reduce": "prod"}, source="pytorch#76523")
    yield Case("beyond_the_end", args={"self": draw.normal(3), "dim": 0, "index": numpy.array([3]), "source": draw.normal(1), "reduce": "prod"}, expect="error", source="pytorch#571")


add("index_reduce", index_reduce, index_reduce_second, index_reduce_cases, nondeterministic=ATOMICS, zero_gradient="every place is overwritten")
