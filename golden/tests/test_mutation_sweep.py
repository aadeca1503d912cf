"""The mutation sweep's rule, formulas and bounds: dead mutants are refused, Jacobians are derivatives, float32 and TF32 runs stay inside, faults do not."""

import unittest
from unittest import mock

import numpy

from golden.evaluate import Refused
from golden.models import _mutants as m
from golden.models import mutation_sweep as sweep
from golden.models.mutated_lenet import cut


def found(number):
    """The first attempt of a mutant that can be and is not refused."""
    with mock.patch("builtins.print"):
        return sweep.search(number)[1]


def in_float32(layers, w, image, tf32=False, change=None):
    """Every layer's output in float32, each fed what the last one made; the factors of products cut to TF32, or a layer described otherwise."""
    x, out = numpy.float32(image), []
    for k, (name, one) in enumerate(zip(m.NAMES, layers, strict=True)):
        weight, bias = (w.get(f"{name}.{part}") for part in ("weight", "bias"))
        if weight is not None:
            weight, bias = numpy.float32(cut(weight) if tf32 else weight), numpy.float32(bias)
        given = numpy.float32(cut(x)) if tf32 and weight is not None else x
        x = numpy.float32(m.apply({**one, **(change or {}).get(k, {})}, given, weight, bias))
        out.append(x)
    return out


class Sweep(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.mutants = []
        for number in (0, 3, 13, 22, 29, 47):
            layers = found(number)
            w, image, labels = sweep.given(number, layers)
            values = m.forward(layers, w, image)
            cls.mutants.append((layers, w, image, labels, values, sweep.forward_errors(layers, w, values, sweep.MODES)))

    @staticmethod
    def beyond(got, values, errors):
        return [n for n, g, v, e in zip(m.NAMES, got, values[1:], errors[1:], strict=True) if g.shape != v.shape or (numpy.abs(g - v) > e).any()]

    def test_the_rule_is_seeded_and_covers_every_discontinuity_in_every_place(self):
        self.assertEqual(m.mutant(5, 1), m.mutant(5, 1))
        self.assertNotEqual(m.mutant(5, 1), m.mutant(5, 2))
        self.assertEqual(len({m.title(m.mutant(k, 0)) for k in range(sweep.MUTANTS)}), 32)

    def test_float32_and_tf32_stay_inside(self):
        for layers, w, image, _, values, errors in self.mutants:
            self.assertEqual(self.beyond(in_float32(layers, w, image), values, errors["float32_ieee"]), [])
            narrow = in_float32(layers, w, image, tf32=True)
            self.assertEqual(self.beyond(narrow, values, errors["float32_tf32"]), [])
            self.assertEqual(self.beyond(narrow, values, errors["float32_ieee"])[0], "conv1")

    def test_faults_are_beyond_and_named_first(self):
        for layers, w, image, _, values, errors in self.mutants:
            k = next(k for k, one in enumerate(layers) if one["op"] in m.STEPS)
            other = "ceil" if layers[k]["op"] != "ceil" else "floor"
            self.assertEqual(self.beyond(in_float32(layers, w, image, change={k: {"op": other}}), values, errors["float32_tf32" if k == 0 else "float32_ieee"])[0], m.NAMES[k])

    def test_jacobians_are_the_derivatives(self):
        random = numpy.random.default_rng(5)
        for layers, w, _, _, values, _ in self.mutants:
            for k, (name, one) in enumerate(zip(m.NAMES, layers, strict=True)):
                if one["op"] in m.STEPS:
                    continue
                parts = [w.get(f"{name}.{part}") for part in ("weight", "bias")]
                x = values[k] + (0.1 * random.standard_normal(values[k].shape) if one["op"] == "max_pool2d" else 0)  # no ties
                move, seed = 1e-9 * random.standard_normal(values[k].shape), random.standard_normal(values[k + 1].shape)
                moved = ((m.apply(one, x + move, *parts) - m.apply(one, x - move, *parts)) / 2 * seed).sum()
                predicted = (m.pulled_back(one, seed[None], x, parts[0], True)[0] * move).sum()
                self.assertLess(abs(moved - predicted), 1e-4 * numpy.abs(move).max() * numpy.abs(seed).sum(), (name, one))

    def test_gradient_bounds_hold_a_perturbed_run(self):
        random = numpy.random.default_rng(6)
        for layers, w, image, labels, values, errors in self.mutants:
            _, p = m.loss_of(values[-1], labels)
            grads = m.backward(layers, w, values, p, labels)
            bounds = sweep.backward_errors(layers, w, values, p, grads, errors["float32_ieee"], sweep.MODES["float32_ieee"])
            near = [image] + [v + random.uniform(-1, 1, v.shape) * (0 if one["op"] in m.STEPS else 2.0**-26) * numpy.abs(v)
                              for v, one in zip(values[1:], layers, strict=True)]
            moved = m.backward(layers, w, near, m.loss_of(near[-1], labels)[1], labels)
            for name in w:
                self.assertTrue((numpy.abs(moved[name] - grads[name]) <= bounds[name]).all(), name)

    def test_dead_and_constant_mutants_are_refused(self):
        layers = found(0)
        w, image, labels = sweep.given(0, layers)
        dead = {**w, "fc2.weight": w["fc2.weight"] * 0, "fc2.bias": w["fc2.bias"] * 0 + 0.25}  # floor gives 0 everywhere
        for weights, picture in ((dead, image), (w, image * 0), (w, numpy.repeat(image[:1], 2, 0))):
            with mock.patch.object(sweep, "given", return_value=(weights, picture, labels)), self.assertRaisesRegex(Refused, "dead|constant"):
                sweep.solve(0, layers)

    def test_a_wrong_formula_is_found(self):
        layers = found(0)
        real = m.value

        def wrong(one, x):
            return real(one, x) + (1e-9 if one["op"] == "hardtanh" else 0)

        self.assertIn("hardtanh", [one["op"] for one in layers])
        with mock.patch.object(m, "value", wrong), self.assertRaisesRegex(ValueError, "second formula"):
            sweep.solve(0, layers)
        with mock.patch.object(m, "to_weight", lambda one, g, x, w: real_to_weight(one, g, x, w) * (1 + 1e-4)), self.assertRaisesRegex(ValueError, "not the loss's"):
            sweep.solve(0, layers)


real_to_weight = m.to_weight

if __name__ == "__main__":
    unittest.main()
