// Operation graphs as cuDNN's graph API takes them, described without cuDNN: tensors, operations,
// inputs, and what the outputs must be by definition.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "suites/determinism/direct_convolution.h"

namespace assay::determinism {

enum class Use {
  kInput,
  kOutput,
  kVirtual,  // between two operations, never in memory
  kScalar,   // a number that is passed by value
};

struct GraphTensor {
  std::string name;
  std::vector<int64_t> sizes;
  Use use = Use::kInput;
  at::ScalarType dtype = at::kFloat;
  bool channelsLast = false;  // in memory; the sizes are always (batch, channels, …)
  double number = 0;          // of a scalar
  bool transposed = false;    // in memory the last two axes are swapped

  std::vector<int64_t> strides() const;
};

// Operations name their tensors; "" is a tensor that is not given.
struct ConvolutionStep {
  enum class Direction { kForward, kBackwardData, kBackwardFilter } direction;
  std::string x, w, y;  // of a backward direction: the gradients under the same letters
  std::vector<int64_t> padding, stride, dilation;
};

struct MatmulStep {
  std::string a, b, c;
};

struct PointwiseStep {
  enum class Mode {
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kExponential,
    kLogarithm,
    kRelu,
    kGelu,
    kTanh
  } mode;
  std::string x, b, y;
};

struct ReductionStep {
  enum class Mode { kSum, kMax } mode;
  std::string x, y;
};

struct PoolingStep {
  enum class Mode { kMax, kAverage } mode;
  bool backward;
  std::string x, y, dx, dy;
  int64_t window, stride, padding;  // the same on both axes
};

struct NormStep {
  enum class Mode { kBatch, kLayer, kRms, kInstance } mode;
  enum class Phase { kTraining, kBackward } phase;
  std::string x, scale, bias, epsilon, mean, inverse, y;
  std::string factor, oldMean, oldVariance, newMean, newVariance;  // running statistics
  std::string dy, dx, dScale, dBias;
};

using Step =
    std::variant<ConvolutionStep, MatmulStep, PointwiseStep, ReductionStep, PoolingStep, NormStep>;

// By tensor's name: float64 on the host, contiguous.
using Values = std::map<std::string, at::Tensor>;
using Results = std::map<std::string, Sums>;

struct GraphCase {
  std::string operation;  // "ConvolutionForward"
  std::string name;       // "2d_k3_nhwc"
  at::ScalarType dtype = at::kFloat;
  std::vector<GraphTensor> tensors;
  std::vector<Step> steps;
  std::function<Values()> inputs;  // every number is one of its tensor's dtype
  std::function<Results(const Values&)> reference;
  int64_t terms = 1;  // of the longest sum: what the bound on rounding errors depends on
  std::vector<std::string> poisoned;  // inputs that a NaN is put into, one after another
  bool compares = false;              // a maximum or ReLU decides by comparing, not by arithmetic

  const GraphTensor& tensor(const std::string& name) const;  // throws std::logic_error
  std::vector<const GraphTensor*> with(Use use) const;
};

std::vector<GraphCase> graphCases();

// Why the description makes no sense (a name without a tensor, an output that nothing writes, an
// input without values); empty where it does.
std::string misdescribed(const GraphCase& graph);

}  // namespace assay::determinism
