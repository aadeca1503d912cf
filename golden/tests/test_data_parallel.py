"""The data-parallel models' bounds against what they bound: adjoints against differences, runs in float32 and with TF32's products against the
bounds, sharded statistics against the whole batch's, and that undecided draws and wrong second formulas are refused."""

import unittest

import numpy as np

from golden.draw import Draw
from golden.models import _data_parallel as dp
from golden.models import data_parallel_cnn as cnn
from golden.models import data_parallel_mlp as mlp
from golden.models import data_parallel_tied as tied

MODELS = (cnn, mlp, tied)
SOME = ((1,), (3, 2), (2, 2, 1), (64,), (22, 22, 20))


class Rounding(dp.Tape):
    """Every value in float32, as a device would hold it; `cut`: products of matrices as TF32 makes them."""

    def __init__(self, cut: bool = False) -> None:
        super().__init__(np.float32)
        self.cut = cut

    def made(self, value, parents):
        return super().made(np.asarray(value, np.float32), parents)

    def matmul(self, a, b):
        node = super().matmul(a, b)
        if self.cut:
            node.value = tf32(a.value) @ tf32(b.value)
        return node


def tf32(x):
    """10 bits behind the leading one, rounded to nearest."""
    mantissa, exponent = np.frexp(np.float64(x))
    return np.float32(np.ldexp(np.rint(mantissa * 2048) / 2048, exponent))


class Nudged(dp.Tape):
    """Adds `step` times the declared local error to one element of one source."""

    def __init__(self, source: int, element: int, step: float) -> None:
        super().__init__(np.float64)
        self.source, self.element, self.step = source, element, step

    def rounded(self, node, local):
        if len(self.sources) == self.source:
            value = np.array(node.value)
            value.reshape(-1)[self.element] += self.step * np.broadcast_to(local, value.shape).reshape(-1)[self.element]
            node.value = value
        return super().rounded(node, local)


def run(model, tape, sizes):
    """Results of a layout's shards, joined, each on a tape of its own."""
    first, parts = 0, []
    for n in sizes:
        results = model.run(tape(), model.x[first : first + n], model.y[first : first + n], sum(sizes))
        parts.append({name: np.float64(node.value) for name, node in results.items()})
        first += n
    return {name: dp.joined(parts, name) for name in parts[0]}


def figures(model, sizes, values):
    """The largest error over the float32 bound, by result."""
    golden, scale = dp.golden(model, sizes), dp.scales(model, sizes)
    return {n: float((np.abs(values[n] - np.float64(g)) / (dp.U * np.maximum(scale[n], 1e-30))).max()) for n, g in golden.items()}


class Bounds(unittest.TestCase):
    def test_adjoints_are_the_derivatives(self):
        """Every source and element nudged by itself: the squares add up to what the reverse pass says."""
        for model, n in ((tied, 1), (mlp, 2), (cnn, 1)):
            start = dp.Tape(np.float64)
            results = model.run(start, model.x[:n], model.y[:n], n)
            spread = start.spread(results)
            total = {name: np.zeros(node.value.shape) for name, node in results.items()}
            step = 1e-6
            for source, (_, local) in enumerate(start.sources):
                for element in range(local.size):
                    both = [model.run(Nudged(source, element, s), model.x[:n], model.y[:n], n) for s in (step, -step)]
                    for name in total:
                        total[name] += ((both[0][name].value - both[1][name].value) / (2 * step)) ** 2
            for name, value in total.items():
                np.testing.assert_allclose(value, spread[name], rtol=1e-4, atol=1e-9 * spread[name].max(), err_msg=f"{model.NAME} {name}")

    def test_float32_stays_inside(self):
        for model in MODELS:
            for sizes in SOME:
                found = figures(model, sizes, run(model, Rounding, sizes))
                self.assertLess(max(found.values()), 1, (model.NAME, sizes, found))
                self.assertGreater(max(found.values()), 1e-3, "a run in float32 that has no error is none")

    def test_tf32_is_beyond(self):
        for model in MODELS:
            for sizes in dp.layouts():
                found = figures(model, sizes, run(model, lambda: Rounding(cut=True), sizes))
                self.assertGreater(found["output"], 20, (model.NAME, sizes))

    def test_other_shards_are_beyond(self):
        """The statistics of the whole batch, or of another number of shards, are no rounding error."""
        for sizes in dp.layouts():
            for count in dp.COUNTS:
                other = tuple(dp.shard_sizes(sum(sizes), count))
                if other != sizes:
                    found = figures(cnn, sizes, {**dp.golden(cnn, other), **{n: 0 for n in ("state.bn.running_mean", "state.bn.running_var")}})
                    self.assertGreater(found["output"], 1000, (sizes, other))
                    self.assertGreater(found["gradient.conv.weight"], 100, (sizes, other))

    def test_models_without_batch_statistics_do_not_depend_on_shards(self):
        for model in (mlp, tied):
            whole = dp.golden(model, (65,))
            for count in dp.COUNTS:
                for name, value in dp.golden(model, tuple(dp.shard_sizes(65, count))).items():
                    np.testing.assert_allclose(np.float64(value), np.float64(whole[name]), rtol=0, atol=1e-15)

    def test_undecided_draws_are_refused(self):
        kept = cnn.x
        try:
            cnn.x = Draw(f"{cnn.NAME}/input/1").uniform(-1, 3, dp.MOST, cnn.IN, cnn.SIDE, cnn.SIDE)
            with self.assertRaisesRegex(ValueError, "undecided"):
                cnn.demand_decided((4, 3))
        finally:
            cnn.x = kept
        cnn.demand_decided((4, 3))

    def test_reach_covers_float32(self):
        """What decides a ReLU: no value behind BatchNorm moves further in float32."""
        for sizes in SOME:
            for (tape, _), n, first in zip(dp.shards_of(cnn, np.float64, sizes), sizes, np.cumsum((0, *sizes)), strict=False):
                z, error = cnn.reach(tape)
                rough = Rounding()
                cnn.run(rough, cnn.x[first : first + n], cnn.y[first : first + n], sum(sizes))
                self.assertTrue((np.abs(rough.layers["bn"].value - z) <= error).all(), sizes)


class Goldens(unittest.TestCase):
    def test_shards_are_cut_as_chunk_does(self):
        self.assertEqual(dp.shard_sizes(5, 4), [2, 2, 1])
        self.assertEqual(dp.shard_sizes(65, 8), [9] * 7 + [2])
        self.assertEqual(dp.shard_sizes(3, 8), [1, 1, 1])
        self.assertEqual(sum(len(counts) for counts in dp.layouts().values()), len(dp.BATCHES) * len(dp.COUNTS))

    def test_the_second_formula_is_live(self):
        values = dp.golden(cnn, (3, 2))
        for name, other in cnn.second((3, 2)).items():
            with self.assertRaisesRegex(ValueError, "second formula"):
                dp.demand_same("test", values, {name: other + 1e-9})

    def test_a_bound_of_zero_is_for_zeros_alone(self):
        with self.assertRaisesRegex(ValueError, "bound of zero"):
            dp.out(lambda key, array: key, "test", np.ones(2), np.array([1.0, 0.0]))


if __name__ == "__main__":
    unittest.main()
