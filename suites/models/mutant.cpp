#include "suites/models/mutant.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "fixtures/argument.h"
#include "fixtures/case.h"
#include "fixtures/core/sha256.h"
#include "fixtures/draw.h"
#include "suites/models/step.h"

namespace assay::models {
namespace {

constexpr std::array kNames{"conv1",   "act1", "pool1", "conv2", "act2", "pool2",
                            "flatten", "fc1",  "act3",  "fc2",   "act4", "fc3"};
constexpr int64_t kImages = 2, kSide = 28, kClasses = 10;

const std::set<std::string>& steps() {
  static const std::set<std::string> kSteps{"floor",  "round", "sign", "heaviside",
                                            "argmax", "topk",  "ceil", "fake_quantize"};
  return kSteps;
}

const std::set<std::string>& operators() {
  static const std::set<std::string> kOthers{
      "conv2d", "conv_transpose2d", "max_pool2d", "avg_pool2d", "flatten",  "linear",  "relu",
      "elu",    "leaky_relu",       "tanh",       "sigmoid",    "softplus", "hardtanh"};
  return kOthers;
}

MutantLayer parseLayer(const nlohmann::json& json, const std::string& name,
                       const std::string& where) {
  refuseUnknown(json,
                {"op", "channels", "features", "kernel", "stride", "padding", "dilation", "groups",
                 "output_padding", "k", "alpha", "slope", "scale", "low", "high"},
                where);
  MutantLayer layer;
  layer.name = name;
  layer.op = json.at("op");
  if (!layer.isStep() && !operators().contains(layer.op))
    throw GoldenError(where + ": no layer is called " + layer.op);
  const auto pair = [&](const char* field, int64_t absent) {
    if (!json.contains(field)) return Pair{absent, absent};
    const auto& value = json.at(field);
    return value.is_array() ? value.get<Pair>() : Pair(2, value.get<int64_t>());
  };
  layer.kernel = pair("kernel", 1);
  layer.stride = pair("stride", 1);
  layer.padding = pair("padding", 0);
  layer.dilation = pair("dilation", 1);
  layer.outputPadding = pair("output_padding", 0);
  layer.groups = json.value("groups", 1);
  layer.k = json.value("k", 1);
  layer.low = json.value("low", 0);
  layer.high = json.value("high", 0);
  if (layer.isConvolution()) layer.size = json.at("channels");
  if (layer.op == "linear") layer.size = json.at("features");
  for (const char* field : {"alpha", "slope", "scale"})
    if (json.contains(field)) layer.parameter = json.at(field);
  return layer;
}

// What a name stands for: its key is the beginning of the name's SHA-256.
at::Tensor drawn(const std::string& name, const std::string& kind,
                 const std::vector<int64_t>& shape, const nlohmann::json& low,
                 const nlohmann::json& high) {
  const auto hash = sha256Hex(name);
  std::array<uint32_t, 2> key{};
  for (size_t byte = 0; byte < 8; ++byte)
    key.at(byte / 4) |= static_cast<uint32_t>(std::stoul(hash.substr(2 * byte, 2), nullptr, 16))
                        << (8 * (byte % 4));
  return draw({{"kind", kind}, {"shape", shape}, {"key", key}, {"low", low}, {"high", high}});
}

// Uniform within sqrt(6 / fan in); biases within 1/2.
void drawWeights(Mutant& mutant, const MutantLayer& layer, int64_t inputs,
                 const std::string& stem) {
  std::vector<int64_t> shape{layer.size, inputs};
  int64_t fan = inputs;
  if (layer.isConvolution()) {
    shape = layer.op == "conv2d" ? std::vector{layer.size, inputs / layer.groups}
                                 : std::vector{inputs, layer.size / layer.groups};
    shape.insert(shape.end(), layer.kernel.begin(), layer.kernel.end());
    fan = inputs / layer.groups * layer.kernel[0] * layer.kernel[1];
  }
  const auto bound = static_cast<float>(std::sqrt(6 / static_cast<double>(fan)));
  const auto weight = layer.name + ".weight", bias = layer.name + ".bias";
  mutant.weights[weight] = drawn(stem + weight, "uniform", shape, -bound, bound);
  mutant.weights[bias] = drawn(stem + bias, "uniform", {layer.size}, -0.5, 0.5);
}

// The k largest along axis 1 as zeros and ones.
at::Tensor largest(const at::Tensor& x, int64_t k) {
  return at::zeros_like(x).scatter(1, std::get<1>(x.topk(k, 1)), 1.0);
}

at::Tensor oneHot(const at::Tensor& x) {
  return at::zeros_like(x).scatter(1, x.argmax(1, true), 1.0);
}

std::function<at::Tensor(const at::Tensor&)> plainLayer(const MutantLayer& layer) {
  using Function = std::function<at::Tensor(const at::Tensor&)>;
  static const std::map<std::string, Function> kPlain{
      {"flatten", [](const at::Tensor& x) { return x.flatten(1); }},
      {"floor", [](const at::Tensor& x) { return at::floor(x); }},
      {"ceil", [](const at::Tensor& x) { return at::ceil(x); }},
      {"round", [](const at::Tensor& x) { return at::round(x); }},
      {"sign", [](const at::Tensor& x) { return at::sign(x); }},
      // ATen has no derivative of heaviside: none flows.
      {"heaviside",
       [](const at::Tensor& x) { return at::heaviside(x.detach(), at::zeros({}, x.options())); }},
      {"argmax", [](const at::Tensor& x) { return oneHot(x.detach()); }},
      {"relu", [](const at::Tensor& x) { return at::relu(x); }},
      {"tanh", [](const at::Tensor& x) { return at::tanh(x); }},
      {"sigmoid", [](const at::Tensor& x) { return at::sigmoid(x); }},
      {"softplus", [](const at::Tensor& x) { return at::softplus(x); }},
      {"hardtanh", [](const at::Tensor& x) { return at::hardtanh(x); }}};
  if (const auto found = kPlain.find(layer.op); found != kPlain.end()) return found->second;
  if (layer.op == "topk")
    return [k = layer.k](const at::Tensor& x) { return x * largest(x.detach(), k); };
  if (layer.op == "elu")
    return [a = layer.parameter](const at::Tensor& x) { return at::elu(x, a); };
  if (layer.op == "leaky_relu")
    return [a = layer.parameter](const at::Tensor& x) { return at::leaky_relu(x, a); };
  if (layer.op == "max_pool2d")
    return [=](const at::Tensor& x) {
      return at::max_pool2d(x, layer.kernel, layer.stride, layer.padding);
    };
  if (layer.op == "avg_pool2d")
    return [=](const at::Tensor& x) {
      return at::avg_pool2d(x, layer.kernel, layer.stride, layer.padding);
    };
  return [=](const at::Tensor& x) {
    return at::fake_quantize_per_tensor_affine(x, layer.parameter, 0, layer.low, layer.high);
  };
}

template <typename Options>
Options convolutionOptions(const MutantLayer& layer, int64_t inputs) {
  return Options(inputs, layer.size, layer.kernel)
      .stride(layer.stride)
      .padding(layer.padding)
      .dilation(layer.dilation)
      .groups(layer.groups);
}

}  // namespace

bool MutantLayer::isStep() const { return steps().contains(op); }

std::vector<int64_t> MutantLayer::outputShape(const std::vector<int64_t>& input) const {
  if (op == "linear") return {input[0], size};
  if (op == "flatten") return {input[0], c10::multiply_integers(input.begin() + 1, input.end())};
  if (!isConvolution() && !op.ends_with("pool2d")) return input;
  std::vector<int64_t> shape{input[0], isConvolution() ? size : input[1]};
  for (size_t axis = 0; axis < 2; ++axis) {
    const int64_t reach = dilation[axis] * (kernel[axis] - 1), n = input[axis + 2];
    shape.push_back(op == "conv_transpose2d"
                        ? (n - 1) * stride[axis] - 2 * padding[axis] + reach + outputPadding[axis] +
                              1
                        : (n + 2 * padding[axis] - reach - 1) / stride[axis] + 1);
  }
  return shape;
}

Mutant parseMutant(const nlohmann::json& json) {
  refuseUnknown(json, {"name", "number", "attempt", "layers"}, "a mutant");
  Mutant mutant;
  mutant.name = json.at("name");
  const auto& layers = json.at("layers");
  if (layers.size() != kNames.size())
    throw GoldenError(mutant.name + " has " + std::to_string(layers.size()) + " layers");
  const auto stem = "mutation_sweep/" + std::to_string(json.at("number").get<int64_t>()) + "/";
  std::vector<int64_t> shape{kImages, 1, kSide, kSide};
  mutant.image = drawn(stem + "image", "normal", shape, 0, 1);
  mutant.labels = drawn(stem + "labels", "integers", {kImages}, 0, kClasses);
  for (size_t k = 0; k < kNames.size(); ++k) {
    const std::string name = kNames.at(k);
    mutant.layers.push_back(parseLayer(layers.at(k), name, mutant.name + "/" + name));
    const auto& layer = mutant.layers.back();
    const auto positive = [](const Pair& pair) {
      return pair.size() == 2 && pair[0] > 0 && pair[1] > 0;
    };
    if (!positive(layer.kernel) || !positive(layer.stride) || !positive(layer.dilation) ||
        layer.padding.size() != 2 || layer.outputPadding.size() != 2 || layer.groups < 1 ||
        shape[1] % layer.groups != 0 || layer.k < 1 || (layer.isStep() && layer.k >= shape[1]))
      throw GoldenError(mutant.name + "/" + name + ": these sizes cannot be");
    if (layer.isProduct()) drawWeights(mutant, layer, shape[1], stem);
    shape = layer.outputShape(shape);
    if (*std::min_element(shape.begin(), shape.end()) < 1)
      throw GoldenError(mutant.name + "/" + name + " has no output");
  }
  return mutant;
}

MutantNet::MutantNet(const Mutant& mutant, const Variant& variant) {
  for (const auto& layer : mutant.layers) {
    if (!layer.isProduct()) {
      layers_.push_back(plainLayer(layer));
      continue;
    }
    const auto& weight = mutant.weights.at(layer.name + ".weight");
    const int64_t first = weight.size(0), second = weight.size(1);
    if (layer.op == "linear") {
      layers_.emplace_back([module = register_module(layer.name, torch::nn::Linear(second, first))](
                               const at::Tensor& x) mutable { return module->forward(x); });
    } else if (layer.op == "conv2d") {
      auto module = register_module(layer.name,
                                    torch::nn::Conv2d(convolutionOptions<torch::nn::Conv2dOptions>(
                                        layer, second * layer.groups)));
      layers_.emplace_back([module](const at::Tensor& x) mutable { return module->forward(x); });
    } else {
      auto module = register_module(
          layer.name, torch::nn::ConvTranspose2d(
                          convolutionOptions<torch::nn::ConvTranspose2dOptions>(layer, first)
                              .output_padding(layer.outputPadding)));
      layers_.emplace_back([module](const at::Tensor& x) mutable { return module->forward(x); });
    }
  }
  for (auto& one : named_parameters()) {
    const auto& values = mutant.weights.at(one.key());
    if (values.sizes() != one.value().sizes())
      throw std::logic_error(mutant.name + ": " + one.key() + " has another shape");
    one.value().set_data(placed(values, variant));
  }
}

MutantNet::Outputs MutantNet::forward(const at::Tensor& image, bool retain) {
  Outputs outputs;
  auto x = image;
  for (const auto& layer : layers_) {
    try {
      x = layer(x);
    } catch (const c10::Error& error) {
      outputs.error = error.what_without_backtrace();
      return outputs;
    }
    if (retain && x.requires_grad()) x.retain_grad();
    outputs.values.push_back(x);
  }
  return outputs;
}

}  // namespace assay::models
