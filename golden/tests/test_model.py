"""The mutated LeNet's bounds against what they bound: Jacobians against differences, float32 and TF32 runs against the free-running bounds."""

import unittest

import numpy

from golden.models import mutated_lenet as model

NAMES = [name for name, *_ in model.LAYERS]


def in_float32(image, w, change=None):
    """Every layer in float32, each fed what the last one made; `change(name, x, w, b)` may give another answer for a layer."""
    x, out = numpy.float32(image), {}
    for name, _, _, weight in model.LAYERS:
        parts = [numpy.float32(w[f"{weight}.{part}"]) if weight else None for part in ("weight", "bias")]
        result = change(name, x, *parts) if change else None
        x = numpy.float32(model.run(name, x, *parts) if result is None else result)
        out[name] = x
    return out


class Model(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.w = {name: numpy.asarray(v) for name, v in model.weights().items()}
        cls.image = numpy.asarray(model.images(cls.w)[0])
        cls.golden = model.forward(cls.image, cls.w, numpy.asarray)
        cls.bounds = {m: model.bounds(cls.w, cls.golden, cls.image, m, "float32") for m in ("ieee", "tf32")}

    def beyond(self, values, math):
        """Layers with an element beyond its bound."""
        return [n for n in NAMES if (numpy.abs(numpy.float64(values[n]) - self.golden[n]) > self.bounds[math][n]).any()]

    def test_signed_jacobians_are_the_derivatives(self):
        inputs = dict(zip(NAMES, [self.image, *self.golden.values()], strict=False))
        random = numpy.random.default_rng(3)
        for source in ("conv1", "pool1", "conv2", "fc1"):
            step = 1e-9 * random.standard_normal(self.golden[source].shape)
            moved = self.golden[source] + step
            for name, _, _, weight in model.LAYERS[NAMES.index(source) + 1 : NAMES.index("fc2") + 1]:
                moved = model.run(name, moved, *(self.w[f"{weight}.{p}"] if weight else None for p in ("weight", "bias")))
            size = self.golden["fc2"].shape
            gradient = numpy.broadcast_to(numpy.eye(size[1])[:, None, :], (size[1], *size))
            for name in reversed(NAMES[NAMES.index(source) + 1 : NAMES.index("fc2") + 1]):
                gradient = model.pulled_back(name, gradient, inputs[name], self.w)
            predicted = (gradient * step).reshape(*gradient.shape[:2], -1).sum(-1).T
            difference = moved - self.golden["fc2"]
            self.assertLess(numpy.abs(difference - predicted).max(), 1e-6 * numpy.abs(difference).max(), source)

    def test_residuals_bound_what_is_not_linear(self):
        random = numpy.random.default_rng(4)
        for name, after in (("relu1", model.relu), ("elu", model.elu), ("pool1", model.pool)):
            x = random.standard_normal((2, 3, 8, 8)) * 0.1  # near the kinks
            allowed = numpy.full(x.shape, 0.05)
            for _ in range(50):
                error = random.uniform(-0.05, 0.05, x.shape)
                if name == "pool1":
                    linear = numpy.take_along_axis(model.spread(error), model.spread(x).argmax(-1)[..., None], -1)[..., 0]
                else:
                    linear = error * model.pulled_back(name, numpy.ones((1, *x.shape)), x, self.w)[0]
                left = numpy.abs(after(x + error) - after(x) - linear)
                self.assertTrue((left <= model.residual(name, x, allowed) + 1e-15).all(), name)
            self.assertTrue((model.residual(name, x, allowed) > 0).any(), name)

    def test_float32_stays_inside_and_decides_every_floor(self):
        self.assertEqual(self.beyond(in_float32(self.image, self.w), "ieee"), [])
        self.assertEqual(self.bounds["ieee"]["floor"].max(), 0)

    def test_tf32_is_beyond_ieee_and_inside_its_own(self):
        def tf32(name, x, w, b):
            return model.linear(model.cut(x), model.cut(w), b) if name in ("fc1", "fc2", "output") else None

        values = in_float32(self.image, self.w, tf32)
        self.assertEqual(self.beyond(values, "ieee")[0], "fc1")
        self.assertEqual(self.beyond(values, "tf32"), [])
        moved = numpy.abs(values["floor"] - self.golden["floor"]) > 0
        self.assertGreater(moved.sum(), 0)
        self.assertGreater(numpy.abs(values["output"] - self.golden["output"]).max(), 0.05)

    def test_faults_are_beyond_the_bounds(self):
        faults = {
            "fc2": lambda x, w, b: model.linear(x, w, None),  # no bias
            "conv2": lambda x, w, b: model.convolution(x, w, b, (5, 7), (0, 0), (1, 1), 1)[:, :, :4, :4],  # strides swapped
            "pool1": lambda x, w, b: -model.pool(-x),  # the smallest for the largest
        }
        for layer, fault in faults.items():
            values = in_float32(self.image, self.w, lambda name, *a, layer=layer, fault=fault: self.shaped(layer, fault(*a)) if name == layer else None)
            self.assertEqual(self.beyond(values, "ieee")[0], layer)
            self.assertEqual(self.beyond(values, "tf32")[0], layer)

    def shaped(self, layer, values):
        """The values in the golden's shape: rows that a fault leaves over are dropped, missing ones repeated."""
        return numpy.resize(values, self.golden[layer].shape)


if __name__ == "__main__":
    unittest.main()
