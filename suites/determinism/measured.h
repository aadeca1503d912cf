// A float64 number together with the magnitude in whose units its rounding error is bounded: run a
// definition on these, and the scale of the conditioned gauge (docs/numerics.md#conditioned) falls
// out by the chain rule, without cancellation: every term counts by its magnitude.
#pragma once

#include <cmath>

namespace assay::determinism {

struct Measured {
  double value = 0, scale = 0;
  Measured() = default;
  Measured(double x) : value(x), scale(std::abs(x)) {}  // NOLINT: a number is exact
  Measured(double value_, double scale_) : value(value_), scale(scale_) {}
};

inline Measured operator+(Measured a, Measured b) { return {a.value + b.value, a.scale + b.scale}; }
inline Measured operator-(Measured a, Measured b) { return {a.value - b.value, a.scale + b.scale}; }
// A product of exact numbers counts once, so that a sum of products has the sum of their
// magnitudes, as everywhere in this project.
inline Measured operator*(Measured a, Measured b) {
  const double plain = std::abs(a.value * b.value);
  const double both = std::abs(a.value) * b.scale + std::abs(b.value) * a.scale - plain;
  return {a.value * b.value, both};
}
// f(a) where f' is the derivative there: what a carries, and the rounding of f itself.
inline Measured through(Measured a, double f, double derivative) {
  return {f, std::abs(derivative) * a.scale + std::abs(f)};
}
inline Measured inverseRoot(Measured a) {
  const double root = 1 / std::sqrt(a.value);
  return through(a, root, 0.5 * root / a.value);
}
inline Measured exponential(Measured a) { return through(a, std::exp(a.value), std::exp(a.value)); }
inline Measured logarithm(Measured a) { return through(a, std::log(a.value), 1 / a.value); }
inline Measured reciprocal(Measured a) { return through(a, 1 / a.value, 1 / (a.value * a.value)); }
inline Measured errorFunction(Measured a) {
  constexpr double kTwoOverRootPi = 1.1283791670955126;
  return through(a, std::erf(a.value), kTwoOverRootPi * std::exp(-a.value * a.value));
}
inline Measured hyperbolicTangent(Measured a) {
  const double t = std::tanh(a.value);
  return through(a, t, 1 - t * t);
}
// A NaN stays one.
inline Measured rectified(Measured a) { return a.value <= 0 ? Measured(0, a.scale) : a; }

}  // namespace assay::determinism
