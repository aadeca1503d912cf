#include "suites/models/resnet.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include "suites/models/step.h"

namespace assay::models {
namespace {

constexpr int64_t kOnCpu = 2;  // images
constexpr int64_t kAlone = 8;  // whose layers are recomputed on the host

// A convolution and the BatchNorm behind it, which may be folded into it.
struct Unit {
  torch::nn::Conv2d convolution{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  bool folded = false;

  Unit(int64_t inputs, int64_t outputs, int64_t kernel, int64_t stride, const ResnetForm& form)
      : convolution(torch::nn::Conv2dOptions(inputs, outputs, kernel)
                        .stride(stride)
                        .padding(kernel / 2)
                        .bias(false)),
        norm(torch::nn::BatchNorm2dOptions(outputs).momentum(form.momentum).eps(form.eps)) {}

  // Their own input alone judges both: the golden observes stages.
  at::Tensor forward(const Trace& trace, const std::string& name, const at::Tensor& x) {
    const auto y = models::convolution(trace.quiet(), name, convolution, x);
    return folded ? y : batchNorm(trace.quiet(), name + ".norm", norm, y);
  }

  // w' = w · slope, b' = b - mean · slope, slope = weight / sqrt(var + eps).
  void fold() {
    const auto slope = norm->weight / at::sqrt(norm->running_var + norm->options.eps());
    convolution->weight.set_data(convolution->weight * slope.view({-1, 1, 1, 1}));
    convolution->bias = (norm->bias - norm->running_mean * slope).detach();
    folded = true;
  }
};

struct BottleneckImpl : torch::nn::Module {
  BottleneckImpl(int64_t inputs, int64_t planes, int64_t stride, const ResnetForm& form, bool first)
      : one(inputs, planes, 1, 1, form),
        two(planes, planes, 3, stride, form),
        three(planes, 4 * planes, 1, 1, form),
        shortcut(inputs, 4 * planes, 1, stride, form),
        down(first) {
    adopt("1", one);
    adopt("2", two);
    adopt("3", three);
    if (!down) return;
    auto parts = register_module("downsample", std::make_shared<Holder>());
    parts->register_module("0", shortcut.convolution);
    parts->register_module("1", shortcut.norm);
  }

  at::Tensor forward(const at::Tensor& x, const Trace& trace) {
    auto y = relu(trace, "relu1", one.forward(trace, "conv1", x));
    y = relu(trace, "relu2", two.forward(trace, "conv2", y));
    y = three.forward(trace, "conv3", y);
    const auto other = down ? shortcut.forward(trace, "downsample", x) : x;
    return relu(trace, "relu3", residual ? add(trace, "sum", y, other) : y);
  }

  void fold() {
    for (auto* unit : {&one, &two, &three, &shortcut}) unit->fold();
  }

  struct Holder : torch::nn::Module {};
  Unit one, two, three, shortcut;
  bool down;
  bool residual = true;

 private:
  void adopt(const std::string& number, Unit& unit) {
    register_module("conv" + number, unit.convolution);
    register_module("bn" + number, unit.norm);
  }
};
TORCH_MODULE(Bottleneck);

struct ResnetImpl : torch::nn::Module {
  ResnetImpl(int64_t classes, const ResnetForm& form) : stem(3, 64, 7, 2, form) {
    register_module("conv1", stem.convolution);
    register_module("bn1", stem.norm);
    const std::vector<int64_t> counts{3, 4, 6, 3};
    int64_t inputs = 64;
    for (size_t s = 0; s < counts.size(); ++s) {
      auto stage = register_module("layer" + std::to_string(s + 1),
                                   std::make_shared<BottleneckImpl::Holder>());
      const int64_t planes = int64_t{64} << s;
      stages.emplace_back();
      for (int64_t k = 0; k < counts[s]; ++k) {
        const int64_t stride = s > 0 && k == 0 ? 2 : 1;
        Bottleneck block(inputs, planes, stride, form, k == 0);
        stages.back().push_back(stage->register_module(std::to_string(k), block));
        inputs = 4 * planes;
      }
    }
    stages.back().back()->residual = form.residual;
    fc = register_module("fc", torch::nn::Linear(inputs, classes));
  }

  at::Tensor forward(const at::Tensor& image, const Trace& trace) {
    const auto first = relu(trace, "relu", stem.forward(trace, "conv1", image));
    auto x = maxPool(trace, "stem", first, 3, 2, 1);
    for (size_t s = 0; s < stages.size(); ++s) {
      const auto name = "layer" + std::to_string(s + 1);
      for (size_t k = 0; k < stages[s].size(); ++k)
        x = stages[s][k]->forward(x, trace.under(name).under(std::to_string(k)));
      trace.note(name, x);
    }
    return linear(trace, "fc", fc, trace.note("mean", x.mean({2, 3})));
  }

  void fold() {
    stem.fold();
    for (auto& stage : stages)
      for (auto& block : stage) block->fold();
  }

  Unit stem;
  std::vector<std::vector<Bottleneck>> stages;
  torch::nn::Linear fc{nullptr};
};
TORCH_MODULE(Resnet);

Resnet made(const ObservedModel& golden, const Variant& variant, const ResnetForm& form) {
  Resnet model(golden.config().at("classes").get<int64_t>(), form);
  loadWeights(*model, golden, variant);
  return model;
}

at::Tensor formed(const at::Tensor& x, const ResnetForm& form) {
  return form.channelsLast ? x.contiguous(at::MemoryFormat::ChannelsLast) : x;
}

void formWeights(torch::nn::Module& model, const ResnetForm& form) {
  for (auto& one : model.parameters())
    if (one.dim() == 4) one.set_data(formed(one.detach(), form));
}

}  // namespace

bool firstImages(const std::string& name) {
  return std::stol(name.substr(std::string("image").size())) < kOnCpu;
}

Run runResnet(const ObservedModel& golden, const Variant& variant, Look look,
              const ResnetForm& form) {
  const at::NoGradGuard noGrad;
  auto model = made(golden, variant, form);
  model->eval();
  if (form.folded) model->fold();
  formWeights(*model, form);
  auto images = golden.inputs().at("images");
  if (!variant.onGpu()) images = images.slice(0, 0, kOnCpu);
  if (look == Look::kLayers) images = images.slice(0, 0, kAlone);
  auto trace = Trace::recording(look == Look::kLayers);
  model->forward(formed(placed(images, variant), form), trace);
  Run run;
  for (const auto& [name, value] : trace.results()) {
    const int64_t count = name == "fc" ? value.size(0) : kOnCpu;  // stages: of the first ones
    for (int64_t k = 0; k < count; ++k)
      run.results["image" + std::to_string(k) + "/" + name] = value[k];
  }
  if (look == Look::kLayers) run.layers = judgeLayers(trace, variant);
  return run;
}

Run trainResnet(const ObservedModel& golden, const Variant& variant, Look look,
                const ResnetForm& form) {
  auto model = made(golden, variant, form);
  formWeights(*model, form);
  model->train();
  auto trace = Trace::recording(look == Look::kLayers);
  const auto logits = model->forward(formed(inputOf(golden, "images", variant), form), trace);
  const auto loss = at::cross_entropy_loss(logits, inputOf(golden, "classes", variant));
  Results all;
  addTrace(all, "", trace);
  addGradients(all, "", loss, *model);
  for (const auto& one : model->named_buffers()) all[one.key()] = one.value();
  Run run;
  for (const auto& name : golden.namesBehind(""))  // some gradients and statistics of all
    if (all.contains(name)) run.results[name] = all.at(name);
  if (look == Look::kLayers) run.layers = judgeLayers(trace, variant);
  return run;
}

}  // namespace assay::models
