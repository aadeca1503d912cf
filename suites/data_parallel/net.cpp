#include "suites/data_parallel/net.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <stdexcept>

namespace assay::data_parallel {
namespace {

namespace nn = torch::nn;
using at::Tensor;

std::atomic<int64_t> alive = 0;

void buildCnn(Net& net) {
  net.register_module("conv", nn::Conv2d(nn::Conv2dOptions(3, 6, 3).bias(false)));
  net.register_module("bn", nn::BatchNorm2d(nn::BatchNorm2dOptions(6).eps(1e-5).momentum(0.1)));
  net.register_module("fc", nn::Linear(24, 5));
}

Tensor runCnn(Net& net, const Tensor& input) {
  auto x = net.keep("conv", net.child<nn::Conv2dImpl>("conv").forward(input));
  x = net.keep("bn", net.child<nn::BatchNorm2dImpl>("bn").forward(x));
  x = net.keep("relu", at::relu(x));
  x = net.keep("pool", at::max_pool2d(x, 2));
  return net.keep("fc", net.child<nn::LinearImpl>("fc").forward(x.flatten(1)));
}

void buildMlp(Net& net) {
  net.register_module("fc1", nn::Linear(10, 16));
  net.register_module("fc2", nn::Linear(16, 6));
  net.register_module("dropout", nn::Dropout(0.5));
}

Tensor runMlp(Net& net, const Tensor& input) {
  const auto hidden = at::relu(net.child<nn::LinearImpl>("fc1").forward(input));
  return net.child<nn::DropoutImpl>("dropout").forward(
      net.child<nn::LinearImpl>("fc2").forward(hidden));
}

Tensor runBatchLast(Net& net, const Tensor& input) { return runMlp(net, input.t()).t(); }

bool isMarked(const Tensor& input) {
  return input.size(0) > 0 && input[0][0].item<double>() >= kRefused;
}

Tensor runRefusing(Net& net, const Tensor& input) {
  if (isMarked(input)) {
    const auto sample = static_cast<int>(input[0][0].item<double>() - kRefused);
    throw std::runtime_error("sample " + std::to_string(sample) + " is refused");
  }
  return runMlp(net, input);
}

void buildChoosing(Net& net) {
  buildMlp(net);
  net.register_module("other", nn::Linear(10, 6));
}

Tensor runChoosing(Net& net, const Tensor& input) {
  return isMarked(input) ? net.child<nn::LinearImpl>("other").forward(input) : runMlp(net, input);
}

void buildTied(Net& net) {
  const nn::Linear inner(7, 7);
  net.register_module("first", inner);
  net.register_module("second", inner);
  net.register_buffer("scale", at::ones({7}));
}

Tensor runTied(Net& net, const Tensor& input) {
  const auto scale = net.named_buffers(/*recurse=*/false)["scale"];
  const auto hidden = at::tanh(net.child<nn::LinearImpl>("first").forward(input * scale));
  return net.child<nn::LinearImpl>("second").forward(hidden * scale);
}

}  // namespace

Net::Net(const Definition& definition) : definition_(&definition) {
  ++alive;
  Net::reset();
}

Net::Net(const Net& other)
    : torch::nn::Cloneable<Net>(other),
      tracing(other.tracing),
      kept(other.kept),
      definition_(other.definition_) {
  ++alive;
}

Net::~Net() { --alive; }

void Net::reset() { definition_->build(*this); }

Tensor Net::forward(const Tensor& input) { return definition_->forward(*this, input); }

Tensor Net::keep(const std::string& layer, Tensor value) {
  if (tracing) kept[layer] = value.detach();
  return value;
}

int64_t Net::live() { return alive; }

const Net::Definition& definitionOf(const std::string& model) {
  static const std::map<std::string, Net::Definition> kModels{
      {"data_parallel_cnn", {buildCnn, runCnn}},
      {"data_parallel_mlp", {buildMlp, runMlp}},
      {"data_parallel_tied", {buildTied, runTied}}};
  return kModels.at(model);
}

const Net::Definition& batchLast() {
  static const Net::Definition kDefinition{buildMlp, runBatchLast};
  return kDefinition;
}

const Net::Definition& refusing() {
  static const Net::Definition kDefinition{buildMlp, runRefusing};
  return kDefinition;
}

const Net::Definition& choosing() {
  static const Net::Definition kDefinition{buildChoosing, runChoosing};
  return kDefinition;
}

}  // namespace assay::data_parallel
