// A mutated LeNet, built from its description in golden/data/models/mutation_sweep.json: the
// layers, the weights, images and labels that both sides draw by name, and LibTorch's modules for
// them.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures/variant.h"

namespace assay::models {

using Pair = std::vector<int64_t>;  // along the height and the width

struct MutantLayer {
  std::string name;                                       // "conv1", "act1", …
  std::string op;                                         // "conv_transpose2d", "floor", …
  int64_t size = 0;                                       // output channels or features
  Pair kernel, stride, padding, dilation, outputPadding;  // pooling: the same number twice
  int64_t groups = 1;
  int64_t k = 1;              // topk
  double parameter = 0;       // elu's alpha, leaky_relu's slope, fake_quantize's scale
  int64_t low = 0, high = 0;  // fake_quantize's levels

  [[nodiscard]] bool isConvolution() const { return op == "conv2d" || op == "conv_transpose2d"; }
  [[nodiscard]] bool isProduct() const { return isConvolution() || op == "linear"; }
  [[nodiscard]] bool isStep() const;  // a discontinuity
  [[nodiscard]] std::vector<int64_t> outputShape(const std::vector<int64_t>& input) const;
};

struct Mutant {
  std::string name;
  std::vector<MutantLayer> layers;
  std::map<std::string, at::Tensor> weights;  // "conv1.weight"; float64, on the host
  at::Tensor image, labels;
};

// GoldenError for a description that does not follow docs/models.md.
Mutant parseMutant(const nlohmann::json& json);

// The layers as torch::nn modules and at:: functions, with the mutant's weights, on a device.
class MutantNet : public torch::nn::Module {
 public:
  MutantNet(const Mutant& mutant, const Variant& variant);

  // Each layer's output, in order. Where a layer throws, those before it, and `error` says why.
  struct Outputs {
    std::vector<at::Tensor> values;
    std::string error;
  };
  // `retain`: keep the gradients of the outputs, for a backward pass.
  Outputs forward(const at::Tensor& image, bool retain);

 private:
  std::vector<std::function<at::Tensor(const at::Tensor&)>> layers_;
};

}  // namespace assay::models
