#include "suites/data_parallel/resnet.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <stdexcept>

#include "fixtures/argument.h"

namespace assay::data_parallel {
namespace {

namespace nn = torch::nn;
using at::Tensor;

constexpr int64_t kOnCpu = 2;  // images in eval mode
// docs/numerics.md#models: Winograd's and FFT's errors over a direct sum's.
constexpr double kTransforms = 256.0 / 16;
constexpr const char* kWhy = "docs/numerics.md#models: what rounding explains, by perturbed runs";

struct Block {
  std::string name;
  int64_t in, width, stride;
  bool projects;
  int64_t out() const { return 4 * width; }
};

// A child's name has no dots: torchvision's layer1.0.conv2 is layer1-0-conv2 here.
const std::vector<std::vector<Block>>& stages() {
  static const auto kStages = [] {
    std::vector<std::vector<Block>> all;
    int64_t in = 64;
    const int64_t counts[] = {3, 4, 6, 3};
    for (int64_t stage = 0; stage < 4; ++stage) {
      all.emplace_back();
      for (int64_t k = 0; k < counts[stage]; ++k) {
        const auto name = "layer" + std::to_string(stage + 1) + "-" + std::to_string(k) + "-";
        all.back().push_back({name, in, int64_t{64} << stage, k == 0 && stage > 0 ? 2 : 1, k == 0});
        in = all.back().back().out();
      }
    }
    return all;
  }();
  return kStages;
}

// A convolution without bias and its BatchNorm.
void buildPair(Net& net, const std::string& conv, const std::string& bn,
               const nn::Conv2dOptions& options) {
  net.register_module(conv, nn::Conv2d(nn::Conv2dOptions(options).bias(false)));
  net.register_module(bn, nn::BatchNorm2d(options.out_channels()));
}

template <int64_t classes>
void build(Net& net) {
  using Options = nn::Conv2dOptions;
  buildPair(net, "conv1", "bn1", Options(3, 64, 7).stride(2).padding(3));
  for (const auto& stage : stages()) {
    for (const auto& b : stage) {
      buildPair(net, b.name + "conv1", b.name + "bn1", Options(b.in, b.width, 1));
      buildPair(net, b.name + "conv2", b.name + "bn2",
                Options(b.width, b.width, 3).stride(b.stride).padding(1));
      buildPair(net, b.name + "conv3", b.name + "bn3", Options(b.width, b.out(), 1));
      if (b.projects)
        buildPair(net, b.name + "downsample-0", b.name + "downsample-1",
                  Options(b.in, b.out(), 1).stride(b.stride));
    }
  }
  net.register_module("fc", nn::Linear(2048, classes));
}

Tensor normed(Net& net, const std::string& conv, const std::string& bn, const Tensor& x) {
  return net.child<nn::BatchNorm2dImpl>(bn).forward(net.child<nn::Conv2dImpl>(conv).forward(x));
}

Tensor run(Net& net, const Tensor& images) {
  auto x = at::relu(normed(net, "conv1", "bn1", images));
  x = net.keep("stem", at::max_pool2d(x, 3, 2, 1));
  for (size_t s = 0; s < stages().size(); ++s) {
    for (const auto& b : stages()[s]) {
      auto y = at::relu(normed(net, b.name + "conv1", b.name + "bn1", x));
      y = at::relu(normed(net, b.name + "conv2", b.name + "bn2", y));
      y = normed(net, b.name + "conv3", b.name + "bn3", y);
      if (b.projects) x = normed(net, b.name + "downsample-0", b.name + "downsample-1", x);
      x = at::relu(y + x);
    }
    x = net.keep("layer" + std::to_string(s + 1), x);
  }
  x = net.keep("mean", x.mean({2, 3}));
  return net.keep("fc", net.child<nn::LinearImpl>("fc").forward(x));
}

std::string dotted(std::string name) {
  std::replace(name.begin(), name.end(), '-', '.');
  return name;
}

double factorOf(const Variant& variant) {
  return variant.onGpu() && variant.cudnn && variant.dtype == "float32" ? kTransforms : 1;
}

// Logits by image, as the golden of eval mode calls them.
std::vector<Seen> seenImages(const ObservedModel& golden, const Tensor& logits,
                             const Variant& variant) {
  Results results;
  for (int64_t k = 0; k < logits.size(0); ++k)
    results["image" + std::to_string(k) + "/fc"] = logits[k];
  return golden.compare(results, variant, factorOf(variant),
                        [&](const std::string& name) { return results.contains(name); });
}

double apart(const Tensor& a, const Tensor& b) {
  return (a.cpu().to(at::kDouble) - b.cpu().to(at::kDouble)).abs().max().item<double>();
}

std::string shardsOf(size_t count) { return "shards" + std::to_string(count) + "/"; }

// The replicas' values, one behind the other.
Tensor joined(const Nets& replicas, const std::function<Tensor(Net&)>& value, bool stacked) {
  Tensors values;
  for (const auto& replica : replicas) values.push_back(value(*replica).detach().cpu());
  return stacked ? at::stack(values) : at::cat(values);
}

// What of the step the golden looks at, by its names; `statistics`: of these nets.
Results resultsOf(const ObservedModel& golden, const Step& step, const Nets& statistics) {
  Results all;
  for (const char* stage : {"stem", "layer1", "layer2", "layer3", "layer4", "mean"}) {
    if (!step.pieces.replicas.empty())
      all[stage] = joined(
          step.pieces.replicas, [&](Net& net) { return net.kept.at(stage); }, false);
  }
  all["fc"] = step.output.detach();
  all["loss"] = step.loss.detach();
  for (const auto& one : step.net->named_parameters())
    all["gradient/" + dotted(one.key())] = one.value().grad();
  if (!statistics.empty()) {
    for (const auto& name : statistics.front()->named_buffers().keys())
      all[dotted(name)] = joined(
          statistics, [&](Net& net) { return net.named_buffers()[name]; }, true);
  }
  Results looked;
  for (const auto& name : golden.namesBehind(shardsOf(1)))
    if (all.contains(name)) looked[name] = all.at(name);
  return looked;
}

std::vector<Seen> seenShards(const ObservedModel& golden, const Results& results, size_t count,
                             const Variant& variant) {
  Results named;
  for (const auto& [name, value] : results) named[shardsOf(count) + name] = value;
  return golden.compare(named, variant, factorOf(variant),
                        [&](const std::string& name) { return named.contains(name); });
}

// How far the step is from the golden of the whole batch, stage by stage, and from its own.
nlohmann::json differences(const ObservedModel& golden, Results results,
                           const std::vector<Seen>& own, const Variant& variant) {
  std::erase_if(results,
                [](const auto& one) { return one.first.find("running_") != std::string::npos; });
  auto rows = nlohmann::json::array();
  for (const auto& seen : seenShards(golden, results, 1, variant)) {
    const auto name = seen.name.substr(shardsOf(1).size());
    rows.push_back({{"what", name}, {"from_unsharded", seen.largest}});
    for (const auto& one : own)
      if (one.name.ends_with("/" + name)) rows.back()["from_own_golden"] = one.largest;
  }
  return rows;
}

// The module's statistics keep the bits that they had (pytorch#21144), unless it ran by itself.
void judgeModule(Tally& tally, Net& net, const ObservedModel& golden, bool ranItself) {
  for (const auto& one : net.named_buffers()) {
    const auto what = dotted(one.key()) + " of the module";
    if (one.key().ends_with("num_batches_tracked")) {
      tally.demand(one.value().item<int64_t>() == (ranItself ? 1 : 0), what + ": another count");
    } else if (!ranItself) {
      const auto& drawn = golden.weights().at(dotted(one.key()));
      tally.demandSame(what, one.value(), drawn.to(one.value().scalar_type()));
    }
  }
}

}  // namespace

const ObservedModel& ResnetGoldens::eval() {
  if (!eval_)
    eval_ = std::make_unique<const ObservedModel>(ObservedModel::load(folder_, "resnet50"));
  return *eval_;
}

const ObservedModel& ResnetGoldens::train() {
  if (!train_)
    train_ = std::make_unique<const ObservedModel>(
        ObservedModel::load(folder_, "resnet50_data_parallel"));
  return *train_;
}

std::shared_ptr<Net> makeResnet50(const ObservedModel& golden, const std::string& dtype,
                                  const std::string& device) {
  static const Net::Definition kMany{build<1000>, run}, kFew{build<10>, run};
  auto net = std::make_shared<Net>(golden.config().at("classes") == 10 ? kFew : kMany);
  net->to(c10::Device(device), scalarType(dtype));
  const at::NoGradGuard guard;
  size_t taken = 0;
  const auto take = [&](const std::string& name, Tensor& into) {
    if (name.ends_with("num_batches_tracked")) return;
    into.copy_(golden.weights().at(dotted(name)));
    ++taken;
  };
  for (auto& one : net->named_parameters()) take(one.key(), one.value());
  for (auto& one : net->named_buffers()) take(one.key(), one.value());
  if (taken != golden.weights().size()) throw std::logic_error("ResNet-50 left weights over");
  return net;
}

Record evaluateResnet(const ObservedModel& golden, const Setup& setup, const Variant& variant,
                      const Between& between) {
  Record record;
  Tally tally(record, variant.dtype);
  const at::NoGradGuard guard;
  const auto home = setup.home().str();
  const auto& images = golden.inputs().at("images");
  const auto input = images.narrow(0, 0, setup.home().is_cpu() ? kOnCpu : images.size(0))
                         .to(scalarType(variant.dtype))
                         .to(setup.home());
  const auto net = makeResnet50(golden, variant.dtype, home);
  net->eval();
  const auto logits = forward(net, input, setup, 0, between).output;
  const auto alone = net->forward(input);
  tally.demand(logits.sizes() == alone.sizes(), "the output has another shape than one device's");
  tally.demand(!logits.requires_grad(), "the output wants a gradient under no_grad");
  tally.demand(logits.device() == setup.output, "the output is on another device than asked");
  if (logits.sizes() != alone.sizes()) return record;
  tally.compare("logits", seenImages(golden, logits, variant));
  tally.compare("logits of one device", seenImages(golden, alone, variant));
  record.details["from_one_device"] = apart(logits, alone);
  if (!setup.home().is_cpu()) {
    const auto cpu = makeResnet50(golden, variant.dtype, "cpu");
    cpu->eval();
    const auto there = cpu->forward(input.narrow(0, 0, kOnCpu).cpu());
    Variant onCpu = variant;
    onCpu.device = "cpu";
    tally.compare("logits of the CPU", seenImages(golden, there, onCpu));
    record.details["from_cpu"] = apart(logits.narrow(0, 0, kOnCpu), there);
  }
  record.why = kWhy;
  return record;
}

Record trainResnet(const ObservedModel& golden, const Setup& setup, const Variant& variant,
                   const Fault& fault) {
  Record record;
  Tally tally(record, variant.dtype);
  const auto input = golden.inputs().at("images").to(scalarType(variant.dtype)).to(setup.home());
  Step step{.net = makeResnet50(golden, variant.dtype, setup.home().str())};
  step.net->train();
  step.net->tracing = !setup.whole;
  step.pieces = forward(step.net, input, setup, 0, fault);
  step.output = step.pieces.output;
  step.loss =
      at::cross_entropy_loss(step.output, golden.inputs().at("classes").to(step.output.device()));
  step.loss.backward();
  if (fault.differentiated) fault.differentiated(*step.net);
  tally.demand(step.output.device() == setup.output, "the output is on another device than asked");
  const bool ranItself = setup.whole && setup.count() == 1;
  const auto statistics = ranItself ? Nets{step.net} : step.pieces.replicas;
  const auto results = resultsOf(golden, step, statistics);
  const auto own = seenShards(golden, results, setup.count(), variant);
  tally.compare("", own);
  judgeModule(tally, *step.net, golden, ranItself);
  record.details["differences"] = differences(golden, results, own, variant);
  record.details["shards"] = setup.count();
  record.details["path"] = setup.whole ? "whole" : "pieces";
  if (setup.count() > 1)
    record.details["cause"] =
        "each shard is normalized with its own statistics: not rounding, not a defect";
  record.why = kWhy;
  return record;
}

std::vector<Part> resnetParts(const std::shared_ptr<ResnetGoldens>& goldens, const Setup& setup) {
  std::vector<Part> parts;
  if (setup.count() <= 3) {
    parts.push_back({.model = "resnet50",
                     .name = "train_b6_64px_" + setup.name(),
                     .backward = true,
                     .run = [=](const Variant& variant) {
                       return trainResnet(goldens->train(), setup, variant);
                     }});
  }
  if (setup.count() == 2) {
    const auto batch = std::string(setup.home().is_cpu() ? "b2" : "b64");
    parts.push_back({.model = "resnet50",
                     .name = "eval_" + batch + "_224px_" + setup.name(),
                     .run = [=](const Variant& variant) {
                       return evaluateResnet(goldens->eval(), setup, variant);
                     }});
  }
  return parts;
}

}  // namespace assay::data_parallel
