// A 2-D U-Net in train mode, and a depthwise-separable CNN in eval and train mode.
#include <ATen/ATen.h>

#include "suites/models/small_models.h"
#include "suites/models/step.h"

namespace assay::models {
namespace {

torch::nn::Conv2d convolutionOf(int64_t inputs, int64_t outputs, int64_t kernel, int64_t stride,
                                bool bias, int64_t groups = 1) {
  torch::nn::Conv2d layer(torch::nn::Conv2dOptions(inputs, outputs, kernel)
                              .stride(stride)
                              .padding(kernel / 2)
                              .bias(bias)
                              .groups(groups));
  return layer;
}

torch::nn::BatchNorm2d normOf(int64_t channels, SmallSlip slip) {
  const double momentum = slip == SmallSlip::kMomentum ? 0.9 : 0.1;
  torch::nn::BatchNorm2d layer(torch::nn::BatchNorm2dOptions(channels).momentum(momentum));
  return layer;
}

struct DoubleConvolutionImpl : torch::nn::Module {
  DoubleConvolutionImpl(int64_t inputs, int64_t outputs, SmallSlip slip) {
    convolution1 = register_module("convolution1", convolutionOf(inputs, outputs, 3, 1, false));
    norm1 = register_module("norm1", normOf(outputs, slip));
    convolution2 = register_module("convolution2", convolutionOf(outputs, outputs, 3, 1, false));
    norm2 = register_module("norm2", normOf(outputs, slip));
  }
  at::Tensor forward(at::Tensor x, const Trace& trace) {
    x = batchNorm(trace, "norm1", norm1, convolution(trace, "convolution1", convolution1, x));
    x = relu(trace, "relu1", x);
    x = batchNorm(trace, "norm2", norm2, convolution(trace, "convolution2", convolution2, x));
    return relu(trace, "relu2", x);
  }
  torch::nn::Conv2d convolution1{nullptr}, convolution2{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
};
TORCH_MODULE(DoubleConvolution);

struct UnetImpl : torch::nn::Module {
  UnetImpl(const nlohmann::json& config, SmallSlip planted) : slip(planted) {
    const auto channels = config.at("channels").get<std::vector<int64_t>>();
    for (size_t k = 0; k < channels.size(); ++k)
      down.emplace_back(
          register_module("down" + std::to_string(k),
                          DoubleConvolution(k == 0 ? 1 : channels[k - 1], channels[k], slip)));
    grow.resize(channels.size() - 1, nullptr);
    up.resize(channels.size() - 1, nullptr);
    for (size_t k = channels.size() - 1; k-- > 0;) {
      const auto level = std::to_string(k);
      grow[k] = register_module(
          "grow" + level,
          torch::nn::ConvTranspose2d(
              torch::nn::ConvTranspose2dOptions(channels[k + 1], channels[k], 2).stride(2)));
      up[k] = register_module("up" + level, DoubleConvolution(2 * channels[k], channels[k], slip));
    }
    head = register_module("head", convolutionOf(channels[0], config.at("classes"), 1, 1, true));
  }

  at::Tensor forward(at::Tensor x, const Trace& trace) {
    std::vector<at::Tensor> skips;
    for (size_t k = 0; k < down.size(); ++k) {
      const auto level = std::to_string(k);
      if (k > 0) x = maxPool(trace, "pool" + level, x);
      x = down[k]->forward(x, trace.under("down" + level));
      skips.push_back(slip == SmallSlip::kSkipDropped && k == 0 ? at::zeros_like(x) : x);
    }
    for (size_t k = grow.size(); k-- > 0;) {
      const auto level = std::to_string(k);
      const auto grown = doubling(trace, "grow" + level, grow[k], x);
      x = up[k]->forward(at::cat({skips[k], grown}, 1), trace.under("up" + level));
    }
    return convolution(trace, "head", head, x);
  }

  SmallSlip slip;
  std::vector<DoubleConvolution> down, up;
  std::vector<torch::nn::ConvTranspose2d> grow;
  torch::nn::Conv2d head{nullptr};
};
TORCH_MODULE(Unet);

struct SeparableImpl : torch::nn::Module {
  SeparableImpl(int64_t inputs, int64_t outputs, int64_t stride, SmallSlip planted)
      : slip(planted) {
    depthwise =
        register_module("depthwise", convolutionOf(inputs, inputs, 3, stride, false, inputs));
    depthwiseNorm = register_module("depthwise_norm", normOf(inputs, slip));
    pointwise = register_module("pointwise", convolutionOf(inputs, outputs, 1, 1, false));
    pointwiseNorm = register_module("pointwise_norm", normOf(outputs, slip));
  }
  at::Tensor forward(at::Tensor x, const Trace& trace) {
    if (slip == SmallSlip::kGroupsShifted) x = x.roll(1, 1);
    x = batchNorm(trace, "depthwise_norm", depthwiseNorm,
                  convolution(trace, "depthwise", depthwise, x));
    x = relu(trace, "depthwise_relu", x);
    x = batchNorm(trace, "pointwise_norm", pointwiseNorm,
                  convolution(trace, "pointwise", pointwise, x));
    return relu(trace, "pointwise_relu", x);
  }
  SmallSlip slip;
  torch::nn::Conv2d depthwise{nullptr}, pointwise{nullptr};
  torch::nn::BatchNorm2d depthwiseNorm{nullptr}, pointwiseNorm{nullptr};
};
TORCH_MODULE(Separable);

struct DepthwiseCnnImpl : torch::nn::Module {
  DepthwiseCnnImpl(const nlohmann::json& config, SmallSlip planted) : slip(planted) {
    const auto rows = config.at("blocks").get<std::vector<std::vector<int64_t>>>();
    stem = register_module("stem", convolutionOf(3, rows[0][0], 3, 2, false));
    stemNorm = register_module("stem_norm", normOf(rows[0][0], slip));
    for (size_t k = 0; k < rows.size(); ++k)
      blocks.emplace_back(register_module("block" + std::to_string(k),
                                          Separable(rows[k][0], rows[k][1], rows[k][2], slip)));
    head = register_module("head", torch::nn::Linear(rows.back()[1], config.at("classes")));
  }

  at::Tensor forward(const at::Tensor& image, const Trace& trace) {
    auto x = batchNorm(trace, "stem_norm", stemNorm, convolution(trace, "stem", stem, image));
    x = relu(trace, "stem_relu", x);
    for (size_t k = 0; k < blocks.size(); ++k)
      x = blocks[k]->forward(x, trace.under("block" + std::to_string(k)));
    return linear(trace, "head", head, trace.note("mean", x.mean({2, 3})));
  }

  SmallSlip slip;
  torch::nn::Conv2d stem{nullptr};
  torch::nn::BatchNorm2d stemNorm{nullptr};
  std::vector<Separable> blocks;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(DepthwiseCnn);

// Sets the stem's running statistics to the batch's own, which is what train mode normalizes by.
void useBatchStatistics(DepthwiseCnnImpl& model, const at::Tensor& image) {
  const at::NoGradGuard noGrad;
  const auto x = model.stem->forward(image);
  model.stemNorm->running_mean.copy_(x.mean({0, 2, 3}));
  model.stemNorm->running_var.copy_(x.var({0, 2, 3}, false));
}

// What a library leaves that divides the running variance by n: old · (1 - m) + biased · m.
at::Tensor biased(const at::Tensor& moved, const at::Tensor& before, double momentum, double n) {
  const auto kept = before * (1 - momentum);
  return kept + (moved - kept) * ((n - 1) / n);
}

}  // namespace

Run runUnet(const ObservedModel& golden, const Variant& variant, Look look, SmallSlip slip) {
  Unet model(golden.config(), slip);
  loadWeights(*model, golden, variant);
  auto trace = Trace::recording();
  const auto logits = model->forward(inputOf(golden, "image", variant), trace);
  const auto loss = at::cross_entropy_loss(logits, inputOf(golden, "classes", variant));
  Run run;
  addTrace(run.results, "", trace);
  addGradients(run.results, "", loss, *model);
  if (look == Look::kLayers) run.layers = judgeLayers(trace, variant);
  return run;
}

Run runDepthwiseCnn(const ObservedModel& golden, const Variant& variant, Look look,
                    SmallSlip slip) {
  DepthwiseCnn model(golden.config(), slip);
  loadWeights(*model, golden, variant);
  const auto image = inputOf(golden, "image", variant);
  auto evaluated = Trace::recording();
  model->eval();
  // Statistics of the batch where the running ones should be: train mode that was left on.
  if (slip == SmallSlip::kTrainForEval) useBatchStatistics(*model, image);
  model->forward(image, evaluated);
  Run run;
  addTrace(run.results, "eval/", evaluated);
  if (look == Look::kLayers) run.layers = judgeLayers(evaluated, variant, "eval/");
  if (slip == SmallSlip::kTrainForEval) loadWeights(*model, golden, variant);
  const auto before = model->stemNorm->running_var.clone();
  model->train();
  auto trained = Trace::recording();
  const auto logits = model->forward(image, trained);
  const auto loss = at::cross_entropy_loss(logits, inputOf(golden, "classes", variant));
  addTrace(run.results, "train/", trained);
  addGradients(run.results, "train/", loss, *model);
  if (slip == SmallSlip::kBiasedVariance) {
    auto& moved = run.results.at("train/stem_norm.running_var");
    moved = biased(moved, before, 0.1, static_cast<double>(image.numel()) / 12);
  }
  if (look == Look::kLayers)
    for (const auto& one : judgeLayers(trained, variant, "train/")) run.layers.push_back(one);
  return run;
}

}  // namespace assay::models
