#include "suites/data_parallel/resnet.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "fixtures/argument.h"
#include "fixtures/draw.h"

namespace assay::data_parallel {
namespace {

namespace nn = torch::nn;
using at::Tensor;

struct Block {
  std::string name;
  int64_t in, width, stride;
  int64_t out() const { return 4 * width; }
  bool projects() const { return in != out() || stride != 1; }
};

const std::vector<Block>& blocks() {
  static const auto kBlocks = [] {
    std::vector<Block> all;
    int64_t in = 64;
    const int64_t counts[] = {3, 4, 6, 3};
    for (int64_t stage = 0; stage < 4; ++stage) {
      for (int64_t k = 0; k < counts[stage]; ++k) {
        const Block one{"s" + std::to_string(stage) + "b" + std::to_string(k), in,
                        int64_t{64} << stage, k == 0 && stage > 0 ? 2 : 1};
        all.push_back(one);
        in = one.out();
      }
    }
    return all;
  }();
  return kBlocks;
}

// A convolution without bias and its BatchNorm.
void buildPair(Net& net, const std::string& name, int64_t in, int64_t out, int64_t kernel,
               int64_t stride) {
  const auto options =
      nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false);
  net.register_module(name + "_conv", nn::Conv2d(options));
  net.register_module(name + "_bn", nn::BatchNorm2d(out));
}

void build(Net& net) {
  buildPair(net, "stem", 3, 64, 7, 2);
  for (const auto& block : blocks()) {
    buildPair(net, block.name + "_1", block.in, block.width, 1, 1);
    buildPair(net, block.name + "_2", block.width, block.width, 3, block.stride);
    buildPair(net, block.name + "_3", block.width, block.out(), 1, 1);
    if (block.projects()) buildPair(net, block.name + "_0", block.in, block.out(), 1, block.stride);
  }
  net.register_module("fc", nn::Linear(2048, 1000));
}

// The operations as they are; what an operation errs by, in units of u, is not looked at.
struct Plain {
  template <typename Local>
  Tensor rounded(const Tensor& value, const Local&) const {
    return value;
  }
};

// Every operation errs by its local bound times a normal random number: an error's root mean
// square is then that of independent roundings of this size, to first order.
struct Disturbed {
  double u;
  template <typename Local>
  Tensor rounded(const Tensor& value, const Local& local) const {
    return value + u * local() * at::randn_like(value);
  }
};

template <typename Arithmetic>
Tensor pair(Net& net, const Arithmetic& made, const std::string& name, const Tensor& x) {
  auto& conv = net.child<nn::Conv2dImpl>(name + "_conv");
  const auto& options = conv.options;
  auto y = made.rounded(conv.forward(x), [&] {
    const auto magnitudes = at::conv2d(x.abs(), conv.weight.abs(), {}, options.stride(),
                                       std::get<0>(options.padding()));
    return std::sqrt(static_cast<double>(conv.weight[0].numel() + 1)) * magnitudes;
  });
  auto& bn = net.child<nn::BatchNorm2dImpl>(name + "_bn");
  const auto z = bn.forward(y);
  return made.rounded(z, [&] {
    const auto column = [](const Tensor& v) { return v.abs().view({-1, 1, 1}); };
    const auto alpha = bn.weight / at::sqrt(bn.running_var + bn.options.eps());
    return 4 * (y.abs() + column(bn.running_mean)) * column(alpha) + 2 * column(bn.bias) + z.abs();
  });
}

template <typename Arithmetic>
Tensor run(Net& net, const Arithmetic& made, const Tensor& images) {
  auto x = at::max_pool2d(at::relu(pair(net, made, "stem", images)), 3, 2, 1);
  for (const auto& block : blocks()) {
    auto y = at::relu(pair(net, made, block.name + "_1", x));
    y = at::relu(pair(net, made, block.name + "_2", y));
    y = pair(net, made, block.name + "_3", y);
    const auto sum = y + (block.projects() ? pair(net, made, block.name + "_0", x) : x);
    x = at::relu(made.rounded(sum, [&] { return sum.abs(); }));
  }
  const auto cells = static_cast<double>(x.size(2) * x.size(3));
  x = x.mean({2, 3});  // of numbers that are not negative: their sum is their magnitudes' sum
  x = made.rounded(x, [&] { return (std::sqrt(cells + 1) + 1) * x; });
  auto& fc = net.child<nn::LinearImpl>("fc");
  const auto logits = fc.forward(x);
  return made.rounded(logits, [&] {
    const auto size = at::linear(x.abs(), fc.weight.abs());
    return std::sqrt(2049.0) * size + size + fc.bias.abs();
  });
}

Tensor forwardPlain(Net& net, const Tensor& images) { return run(net, Plain{}, images); }

Tensor drawn(const std::vector<int64_t>& shape, int64_t key, double low, double high) {
  return draw(
      {{"kind", "uniform"}, {"shape", shape}, {"key", {50, key}}, {"low", low}, {"high", high}});
}

// He's variance, 2 / fan in, for weights; scales and statistics around 1 and 0. A residual branch
// ends in a small scale, so that the sum of sixteen does not grow.
Tensor drawnFor(const std::string& name, const Tensor& like, int64_t key) {
  const auto shape = like.sizes().vec();
  const auto ends = [&](const char* suffix) { return name.ends_with(suffix); };
  if (ends("running_var")) return drawn(shape, key, 0.5, 1.5);
  if (ends("running_mean") || ends("bias")) return drawn(shape, key, -0.25, 0.25);
  if (ends("_3_bn.weight")) return drawn(shape, key, 0.1, 0.5);
  if (ends("_bn.weight")) return drawn(shape, key, 0.5, 1.5);
  const double reach = std::sqrt(6.0 / static_cast<double>(like[0].numel()));
  return drawn(shape, key, -reach, reach);
}

Tensor drawnImages(const Images& images) {
  return drawn({images.count, 3, images.side, images.side}, 0, -2, 2);
}

constexpr double kLambda = 7;
constexpr double kUneven = 1.5;  // a logit's spread over the mean of its image's
constexpr int64_t kProbed = 4;   // images
constexpr int kProbes = 3;

}  // namespace

std::shared_ptr<Net> makeResnet50(const std::string& dtype, const std::string& device) {
  static const Net::Definition kDefinition{build, forwardPlain};
  auto net = std::make_shared<Net>(kDefinition);
  net->to(at::kDouble);
  const at::NoGradGuard guard;
  int64_t key = 0;
  for (auto& parameter : net->named_parameters())
    parameter->copy_(drawnFor(parameter.key(), *parameter, ++key));
  for (auto& buffer : net->named_buffers()) {
    if (!buffer.key().ends_with("num_batches_tracked"))
      buffer->copy_(drawnFor(buffer.key(), *buffer, ++key));
  }
  net->to(c10::Device(device), scalarType(dtype));
  net->eval();
  return net;
}

double roundingSpread(Net& net, const at::Tensor& images) {
  constexpr double kUnit = 0x1p-30;  // small: first order; large: float64's own rounding is nothing
  const at::NoGradGuard guard;
  const auto exact = run(net, Plain{}, images);
  auto squares = at::zeros({images.size(0)}, exact.options());
  for (int probe = 0; probe < kProbes; ++probe) {
    const auto error = (run(net, Disturbed{kUnit}, images) - exact) / kUnit;
    squares += error.square().mean(1) / kProbes;
  }
  return std::sqrt(squares.max().item<double>());
}

Record resnet(const Images& images, const Setup& setup, const Variant& variant,
              const Between& between) {
  Record record;
  Tally tally(record, variant.dtype);
  record.why = "docs/numerics.md#data-parallel: equality within rounding, no golden";
  const at::NoGradGuard guard;
  const auto home = setup.home().str();
  const auto host = drawnImages(images);
  const auto some = std::min(images.count, kProbed);
  const double spread =
      roundingSpread(*makeResnet50("float64", home), host.narrow(0, 0, some).to(setup.home()));
  const auto net = makeResnet50(variant.dtype, home);
  const auto input = host.to(setup.home(), scalarType(variant.dtype));
  const auto alone = net->forward(input).cpu().to(at::kDouble);
  // Both sides err: the spreads' squares add up.
  const double scale = kLambda * kUneven * std::sqrt(2.0) * spread;
  GoldenOutput want{.golden = alone, .scale = at::full(alone.sizes(), scale, at::kDouble)};
  tally.compare("logits against one device's", forward(net, input, setup, 0, between).output, want);
  if (!setup.home().is_cpu()) {
    const auto onCpu = makeResnet50(variant.dtype, "cpu")->forward(input.narrow(0, 0, some).cpu());
    tally.compare("the CPU's logits against one device's", onCpu, firstOf(want, some));
  }
  const double u = variant.dtype == "float32" ? 0x1p-24 : 0x1p-53;
  tally.demand(u * scale < 0.01 * alone.abs().max().item<double>(),
               "the bound is no bound: " + std::to_string(u * scale));
  record.details["resnet50"] = {{"spread_in_u", spread},
                                {"bound", u * scale},
                                {"largest_logit", alone.abs().max().item<double>()}};
  return record;
}

std::vector<Part> resnetParts(const Setup& setup) {
  const Images images = setup.home().is_cpu() ? Images{4, 64} : Images{64, 224};
  const auto name = "eval_b" + std::to_string(images.count) + "_" + std::to_string(images.side) +
                    "px_" + setup.name();
  return {{.model = "resnet50", .name = name, .run = [=](const Variant& variant) {
             return resnet(images, setup, variant);
           }}};
}

}  // namespace assay::data_parallel
