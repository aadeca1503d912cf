#include "suites/determinism/graph_case.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <stdexcept>

namespace assay::determinism {

std::vector<int64_t> GraphTensor::strides() const {
  std::vector<int64_t> result(sizes.size(), 1);
  std::vector<size_t> order;  // from the axis whose neighbours are farthest apart
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (!channelsLast || axis != 1) order.push_back(axis);
  if (channelsLast) order.push_back(1);
  if (transposed) std::swap(order.back(), order[order.size() - 2]);
  int64_t step = 1;
  std::reverse(order.begin(), order.end());
  for (const size_t axis : order) {
    result[axis] = step;
    step *= sizes[axis];
  }
  return result;
}

const GraphTensor& GraphCase::tensor(const std::string& wanted) const {
  for (const auto& one : tensors)
    if (one.name == wanted) return one;
  throw std::logic_error("the graph " + operation + " " + name + " has no tensor " + wanted);
}

std::vector<const GraphTensor*> GraphCase::with(Use use) const {
  std::vector<const GraphTensor*> result;
  for (const auto& one : tensors)
    if (one.use == use) result.push_back(&one);
  return result;
}

namespace {

// The names that a step reads and writes, "" where it has none.
struct Names {
  std::vector<std::string> read, written;
};

Names namesOf(const ConvolutionStep& s) {
  using Direction = ConvolutionStep::Direction;
  if (s.direction == Direction::kForward) return {{s.x, s.w}, {s.y}};
  if (s.direction == Direction::kBackwardData) return {{s.w, s.y}, {s.x}};
  return {{s.x, s.y}, {s.w}};
}
Names namesOf(const MatmulStep& s) { return {{s.a, s.b}, {s.c}}; }
Names namesOf(const PointwiseStep& s) { return {{s.x, s.b}, {s.y}}; }
Names namesOf(const ReductionStep& s) { return {{s.x}, {s.y}}; }
Names namesOf(const PoolingStep& s) {
  if (s.backward) return {{s.x, s.y, s.dy}, {s.dx}};
  return {{s.x}, {s.y}};
}
Names namesOf(const NormStep& s) {
  if (s.phase == NormStep::Phase::kBackward)
    return {{s.x, s.dy, s.scale, s.mean, s.inverse, s.epsilon}, {s.dx, s.dScale, s.dBias}};
  return {{s.x, s.scale, s.bias, s.epsilon, s.factor, s.oldMean, s.oldVariance},
          {s.y, s.newMean, s.newVariance, s.mean, s.inverse}};
}

}  // namespace

std::string misdescribed(const GraphCase& graph) {
  std::set<std::string> read, written;
  for (const auto& step : graph.steps) {
    const auto names = std::visit([](const auto& s) { return namesOf(s); }, step);
    for (const auto& name : names.read) {
      if (name.empty()) continue;
      const auto use = graph.tensor(name).use;
      if (use == Use::kOutput) return name + " is an output and is read";
      if (use == Use::kVirtual && !written.contains(name)) return name + " is read too early";
      read.insert(name);
    }
    for (const auto& name : names.written) {
      if (name.empty()) continue;
      const auto use = graph.tensor(name).use;
      if (use != Use::kOutput && use != Use::kVirtual) return name + " is no output and is written";
      if (!written.insert(name).second) return name + " is written twice";
    }
  }
  const auto inputs = graph.inputs();
  const auto results = graph.reference(inputs);
  for (const auto& tensor : graph.tensors) {
    const bool output = tensor.use == Use::kOutput;
    if (output ? !written.contains(tensor.name) : !read.contains(tensor.name))
      return tensor.name + " is not used";
    if (tensor.use == Use::kInput && !inputs.contains(tensor.name))
      return tensor.name + " has no values";
    if (output && !results.contains(tensor.name)) return tensor.name + " has no reference";
    const auto* known = output                      ? &results.at(tensor.name).value
                        : tensor.use == Use::kInput ? &inputs.at(tensor.name)
                                                    : nullptr;
    if (known && known->sizes() != at::IntArrayRef(tensor.sizes))
      return tensor.name + " has values of another shape";
  }
  for (const auto& name : graph.poisoned)
    if (graph.tensor(name).use != Use::kInput) return name + " is no input that can hold a NaN";
  return "";
}

}  // namespace assay::determinism
