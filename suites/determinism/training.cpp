#include "suites/determinism/training.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "fixtures/argument.h"
#include "fixtures/draw.h"
#include "suites/determinism/routine.h"

namespace assay::determinism {
namespace {

at::Tensor placed(const at::Tensor& host, const Variant& variant) {
  const auto typed = host.is_floating_point() ? host.to(scalarType(variant.dtype)) : host;
  return typed.clone().to(c10::Device(variant.device));
}

torch::nn::Conv2dOptions threeByThree(int64_t inputs, int64_t outputs, bool bias) {
  return torch::nn::Conv2dOptions(inputs, outputs, 3).padding(1).bias(bias);
}

struct NetworkImpl : torch::nn::Module {
  explicit NetworkImpl(const nlohmann::json& config) {
    const int64_t channels = config.at("channels");
    convolution1 = register_module(
        "convolution1",
        torch::nn::Conv2d(threeByThree(config.at("image_channels"), channels, false)));
    norm = register_module("norm", torch::nn::BatchNorm2d(channels));
    convolution2 =
        register_module("convolution2", torch::nn::Conv2d(threeByThree(channels, channels, true)));
    embedding = register_module("embedding",
                                torch::nn::Embedding(config.at("tokens").get<int64_t>(), channels));
    head = register_module("head", torch::nn::Linear(channels, config.at("classes")));
  }

  at::Tensor loss(const at::Tensor& images, const at::Tensor& tokens, const at::Tensor& classes) {
    auto x = at::relu(norm->forward(convolution1->forward(images)));
    x = at::max_pool2d(x, {2, 2});
    x = at::relu(convolution2->forward(x));
    const auto features = at::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
    return at::cross_entropy_loss(head->forward(features + embedding->forward(tokens)), classes);
  }

  torch::nn::Conv2d convolution1{nullptr}, convolution2{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Network);

void load(NetworkImpl& network, const TrainingTask& task, const Variant& variant) {
  const auto take = [&](const std::string& name, at::Tensor& into) {
    const auto& host = task.weights.at(name);
    if (host.sizes() != into.sizes()) throw std::logic_error(name + " has another shape");
    into.set_data(placed(host, variant));
  };
  for (auto& one : network.named_parameters()) take(one.key(), one.value());
  for (auto& one : network.named_buffers()) {
    if (one.value().is_floating_point())
      take(one.key(), one.value());
    else  // the count of batches
      one.value().set_data(one.value().to(c10::Device(variant.device)));
  }
}

double relative(const at::Tensor& a, const at::Tensor& b) {
  const auto x = a.to(at::kCPU).to(at::kDouble), y = b.to(at::kCPU).to(at::kDouble);
  return ((x - y).abs().max() / y.abs().max().clamp_min(1e-300)).item<double>();
}

std::string lossName(int64_t step) { return "step" + std::to_string(step) + "/loss"; }

}  // namespace

TrainingTask smallTask(const ObservedModel& golden) {
  return {"small", golden.config(), golden.weights(), golden.inputs()};
}

TrainingTask wideTask() {
  TrainingTask task{.name = "wide",
                    .config = {{"channels", 32},
                               {"image_channels", 3},
                               {"side", 24},
                               {"batch", 16},
                               {"batches", 4},
                               {"tokens", 10},
                               {"classes", 5},
                               {"steps", 20},
                               {"lr", 0.02},
                               {"momentum", 0.9}},
                    .weights = {},
                    .inputs = {}};
  const Network network(task.config);
  int key = 100;
  const auto drawnLike = [&](const at::Tensor& one, double width) {
    return fullMantissa(one.sizes().vec(), ++key, at::kDouble) * width;
  };
  for (const auto& one : network->named_parameters()) {
    // Width 1 / sqrt(inputs), as LibTorch's own initial weights; a norm's weight lies around 1.
    const auto fan = std::max<int64_t>(one.value().numel() / one.value().size(0), 1);
    const auto values = drawnLike(one.value(), 1 / std::sqrt(static_cast<double>(fan)));
    task.weights[one.key()] = one.key() == "norm.weight" ? 1 + 0.2 * values : values;
  }
  for (const auto& one : network->named_buffers()) {
    if (one.value().is_floating_point()) task.weights[one.key()] = one.value().to(at::kDouble);
  }
  const int64_t batches = task.config["batches"], batch = task.config["batch"],
                side = task.config["side"];
  task.inputs["images"] = fullMantissa({batches, batch, 3, side, side}, ++key, at::kDouble);
  for (const char* name : {"tokens", "classes"})
    task.inputs[name] = draw({{"kind", "integers"},
                              {"shape", {batches, batch}},
                              {"key", {20240229, ++key}},
                              {"low", 0},
                              {"high", task.config[name]}});
  return task;
}

Results train(const TrainingTask& task, const Variant& variant) {
  Network network(task.config);
  load(*network, task, variant);
  network->train();
  torch::optim::SGD optimizer(
      network->parameters(),
      torch::optim::SGDOptions(task.config.at("lr")).momentum(task.config.at("momentum")));
  const auto images = placed(task.inputs.at("images"), variant);
  const auto tokens = placed(task.inputs.at("tokens"), variant);
  const auto classes = placed(task.inputs.at("classes"), variant);
  Results results;
  const int64_t steps = task.config.at("steps");
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t k = step % images.size(0);
    optimizer.zero_grad();
    const auto loss = network->loss(images[k], tokens[k], classes[k]);
    loss.backward();
    optimizer.step();
    results[lossName(step)] = loss.detach();
  }
  for (const auto& one : network->named_parameters())
    results["final/" + one.key()] = one.value().detach();
  for (const auto& one : network->named_buffers()) {
    if (one.value().is_floating_point()) results["final/" + one.key()] = one.value();
  }
  return results;
}

nlohmann::json Distance::json() const { return {{"losses", losses}, {"parameters", parameters}}; }

Distance distanceOf(const Results& a, const Results& b) {
  Distance distance;
  for (int64_t step = 0; a.contains(lossName(step)); ++step)
    distance.losses.push_back(
        std::abs(a.at(lossName(step)).item<double>() - b.at(lossName(step)).item<double>()));
  for (const auto& [name, value] : a) {
    if (name.starts_with("final/") && name.find("running") == std::string::npos)
      distance.parameters = std::max(distance.parameters, relative(value, b.at(name)));
  }
  return distance;
}

TrainingTask movedByOneUlp(const TrainingTask& task, uint32_t number) {
  TrainingTask moved = task;
  int key = 0;
  const auto move = [&](at::Tensor& one) {
    // The ulp of float32 at x: 2^(exponent of x - 23).
    const auto ulp = one.abs().clamp_min(0x1p-126).log2().floor().exp2() * 0x1p-23;
    const auto up = draw({{"kind", "integers"},
                          {"shape", one.sizes().vec()},
                          {"key", {number, ++key}},
                          {"low", 0},
                          {"high", 2}});
    one = one + ulp * (up * 2 - 1);
  };
  for (auto& [name, one] : moved.weights) move(one);
  move(moved.inputs.at("images"));
  return moved;
}

Distance growthOf(const TrainingTask& task, int runs) {
  const Variant variant{.device = "cpu", .dtype = "float64"};
  const auto base = train(task, variant);
  Distance growth;
  for (int run = 1; run <= runs; ++run) {
    const auto one = distanceOf(train(movedByOneUlp(task, run), variant), base);
    growth.losses.resize(one.losses.size());
    for (size_t k = 0; k < one.losses.size(); ++k)
      growth.losses[k] += one.losses[k] * one.losses[k] / runs;
    growth.parameters += one.parameters * one.parameters / runs;
  }
  for (auto& loss : growth.losses) loss = std::sqrt(loss);
  growth.parameters = std::sqrt(growth.parameters);
  return growth;
}

}  // namespace assay::determinism
