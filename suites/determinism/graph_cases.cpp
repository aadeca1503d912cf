// The graphs. Shapes are small enough for a call of some ten microseconds, and large enough that a
// sum is split over thread blocks, where a race shows.
#include <ATen/ATen.h>

#include <map>
#include <mutex>

#include "suites/determinism/graph_case.h"
#include "suites/determinism/graph_reference.h"
#include "suites/determinism/routine.h"

namespace assay::determinism {
namespace {

using Shape = std::vector<int64_t>;

constexpr double kEpsilon = 1e-5;
constexpr double kFactor = 0.1;  // how much of a batch the running statistics take over

std::string layout(bool channelsLast) { return channelsLast ? "_nhwc" : "_nchw"; }

// float64 that a float32, or a number of `dtype`, holds exactly.
at::Tensor rounded(const at::Tensor& values, at::ScalarType dtype = at::kFloat) {
  return values.to(dtype).to(at::kDouble).contiguous();
}

GraphTensor scalar(const std::string& name, size_t axes, double number) {
  // The number is passed as float32: that is what the reference must take, too.
  return {name,       Shape(axes, 1), Use::kScalar,
          at::kFloat, false,          static_cast<double>(static_cast<float>(number))};
}

double epsilon() { return static_cast<double>(static_cast<float>(kEpsilon)); }

// Each input drawn with its own key, in its tensor's dtype.
Values drawnInputs(const std::vector<GraphTensor>& tensors) {
  Values values;
  int key = 1;
  for (const auto& one : tensors) {
    if (one.use != Use::kInput) continue;
    values[one.name] = fullMantissa(one.sizes, key++, one.dtype).to(at::kDouble);
  }
  return values;
}

// Fills in what follows from the rest: inputs are drawn, and each of them is poisoned in turn.
GraphCase complete(GraphCase graph) {
  if (!graph.inputs) graph.inputs = [tensors = graph.tensors] { return drawnInputs(tensors); };
  if (graph.poisoned.empty())
    for (const auto* input : graph.with(Use::kInput)) graph.poisoned.push_back(input->name);
  return graph;
}

// ---- convolutions

std::vector<Problem> problems() {
  return {
      {"2d_k3", 8, 16, 16, 1, {1, 16, 16}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, 2},
      {"2d_k3_g4", 8, 16, 16, 4, {1, 16, 16}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, 2},
      {"3d_k3", 2, 8, 16, 1, {6, 8, 8}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 3},
  };
}

Shape last(const Problem& problem, const std::array<int64_t, 3>& axes) {
  return {axes.end() - problem.spatial, axes.end()};
}

ConvolutionStep stepOf(const Problem& p, ConvolutionStep::Direction direction) {
  return {direction, "x", "w", "y", last(p, p.padding), last(p, p.stride), last(p, p.dilation)};
}

int64_t product(const Shape& shape) {
  int64_t result = 1;
  for (const int64_t size : shape) result *= size;
  return result;
}

// x, w and y are an input each, but for the one that the direction computes.
GraphCase convolution(const Problem& p, ConvolutionStep::Direction direction, bool channelsLast,
                      at::ScalarType dtype) {
  using Direction = ConvolutionStep::Direction;
  GraphCase graph{.name = p.name + layout(channelsLast), .dtype = dtype};
  const std::string result = direction == Direction::kForward        ? "y"
                             : direction == Direction::kBackwardData ? "x"
                                                                     : "w";
  graph.operation = direction == Direction::kForward        ? "ConvolutionForward"
                    : direction == Direction::kBackwardData ? "ConvolutionBackwardData"
                                                            : "ConvolutionBackwardFilter";
  for (const auto& [name, sizes] : {std::pair("x", p.inputShape()), std::pair("w", p.weightShape()),
                                    std::pair("y", p.outputShape())})
    graph.tensors.push_back(
        {name, sizes, name == result ? Use::kOutput : Use::kInput, dtype, channelsLast});
  graph.steps = {stepOf(p, direction)};
  graph.reference = [p, direction, result](const Values& in) -> Results {
    const auto given = [&](const char* name, const Shape& shape) {
      return in.contains(name) ? in.at(name) : at::zeros(shape, at::kDouble);
    };
    const auto sums = convolve(p, given("x", p.inputShape()), given("w", p.weightShape()),
                               given("y", p.outputShape()));
    return {{result, direction == Direction::kForward        ? sums.output
                     : direction == Direction::kBackwardData ? sums.inputGradient
                                                             : sums.weightGradient}};
  };
  const int64_t taps = product(last(p, p.kernel));
  graph.terms = direction == Direction::kForward ? p.channels / p.groups * taps
                : direction == Direction::kBackwardData
                    ? p.filters / p.groups * taps
                    : p.batch * product(last(p, p.outputSize()));
  return complete(graph);
}

// relu(convolution + bias), as LibTorch's cudnn_convolution_relu builds it.
GraphCase convolutionBiasRelu(bool channelsLast) {
  const Problem p = problems()[0];
  GraphCase graph{.operation = "ConvolutionBiasRelu", .name = p.name + layout(channelsLast)};
  graph.tensors = {{"x", p.inputShape(), Use::kInput, at::kFloat, channelsLast},
                   {"w", p.weightShape(), Use::kInput, at::kFloat, channelsLast},
                   {"bias", {1, p.filters, 1, 1}, Use::kInput, at::kFloat, channelsLast},
                   {"y", p.outputShape(), Use::kVirtual, at::kFloat, channelsLast},
                   {"sum", p.outputShape(), Use::kVirtual, at::kFloat, channelsLast},
                   {"z", p.outputShape(), Use::kOutput, at::kFloat, channelsLast}};
  graph.steps = {stepOf(p, ConvolutionStep::Direction::kForward),
                 PointwiseStep{PointwiseStep::Mode::kAdd, "y", "bias", "sum"},
                 PointwiseStep{PointwiseStep::Mode::kRelu, "sum", "", "z"}};
  graph.reference = [p](const Values& in) -> Results {
    const auto bias = in.at("bias").expand(p.outputShape()).contiguous();
    const auto sums =
        convolve(p, in.at("x"), in.at("w"), at::zeros(p.outputShape(), at::kDouble)).output;
    const auto* b = bias.const_data_ptr<double>();
    return {
        {"z", each(sums, [b](Measured y, int64_t k) { return rectified(y + Measured(b[k])); })}};
  };
  graph.terms = p.channels * product(last(p, p.kernel));
  graph.compares = true;
  return complete(graph);
}

// ---- matrix products

enum class Epilogue { kNone, kRelu, kGelu };

GraphCase matmul(Epilogue epilogue) {
  const Shape a{4, 64, 256}, b{4, 256, 96}, c{4, 64, 96};
  GraphCase graph{.operation = epilogue == Epilogue::kNone   ? "Matmul"
                               : epilogue == Epilogue::kRelu ? "MatmulBiasRelu"
                                                             : "MatmulBiasGelu",
                  .name = "64x256x96_b4"};
  graph.tensors = {{"a", a}, {"b", b}};
  if (epilogue == Epilogue::kNone) {
    graph.tensors.push_back({"c", c, Use::kOutput});
    graph.steps = {MatmulStep{"a", "b", "c"}};
  } else {
    graph.tensors.push_back({"bias", {1, 1, 96}});
    graph.tensors.push_back({"c", c, Use::kVirtual});
    graph.tensors.push_back({"sum", c, Use::kVirtual});
    graph.tensors.push_back({"z", c, Use::kOutput});
    const auto mode =
        epilogue == Epilogue::kRelu ? PointwiseStep::Mode::kRelu : PointwiseStep::Mode::kGelu;
    graph.steps = {MatmulStep{"a", "b", "c"},
                   PointwiseStep{PointwiseStep::Mode::kAdd, "c", "bias", "sum"},
                   PointwiseStep{mode, "sum", "", "z"}};
  }
  graph.reference = [epilogue](const Values& in) -> Results {
    const auto sums = multiplied(in.at("a"), in.at("b"));
    if (epilogue == Epilogue::kNone) return {{"c", sums}};
    const auto* bias = in.at("bias").const_data_ptr<double>();
    return {{"z", each(sums, [=](Measured c, int64_t k) {
               const auto sum = c + Measured(bias[k % 96]);
               return epilogue == Epilogue::kRelu ? rectified(sum) : gelu(sum);
             })}};
  };
  graph.terms = 256;
  graph.compares = epilogue == Epilogue::kRelu;
  return complete(graph);
}

// ---- pooling (cuDNN: resample)

const Shape kImage{8, 16, 24, 24};

GraphCase pooling(PoolingStep::Mode mode, bool backward, bool channelsLast) {
  const bool maximum = mode == PoolingStep::Mode::kMax;
  constexpr int64_t kWindow = 3, kStride = 2, kPadding = 1;  // windows overlap: gradients add up
  const Shape small{8, 16, 12, 12};
  GraphCase graph{.operation = backward ? "PoolingBackward" : "PoolingForward",
                  .name = (maximum ? "max" : "average") + layout(channelsLast)};
  const auto tensor = [&](const char* name, const Shape& sizes, Use use) {
    graph.tensors.push_back({name, sizes, use, at::kFloat, channelsLast});
  };
  PoolingStep step{mode, backward, "x", "y", "", "", kWindow, kStride, kPadding};
  if (!backward) {
    tensor("x", kImage, Use::kInput);
    tensor("y", small, Use::kOutput);
    graph.reference = [maximum](const Values& in) -> Results {
      return {{"y", maximum ? pooledMaximum(in.at("x"), kWindow, kStride, kPadding)
                            : pooledAverage(in.at("x"), kWindow, kStride, kPadding)}};
    };
  } else {
    step.dx = "dx";
    step.dy = "dy";
    tensor("x", kImage, Use::kInput);
    tensor("y", small, Use::kInput);
    tensor("dy", small, Use::kInput);
    tensor("dx", kImage, Use::kOutput);
    graph.inputs = [maximum, tensors = graph.tensors] {
      auto values = drawnInputs(tensors);
      values["y"] = rounded((maximum ? pooledMaximum(values["x"], kWindow, kStride, kPadding)
                                     : pooledAverage(values["x"], kWindow, kStride, kPadding))
                                .value);
      return values;
    };
    graph.reference = [maximum](const Values& in) -> Results {
      if (maximum)
        return {{"dx", maximumGradient(in.at("x"), in.at("dy"), kWindow, kStride, kPadding)}};
      return {{"dx", averageGradient(in.at("dy"), kImage, kWindow, kStride, kPadding)}};
    };
    graph.poisoned = {"dy"};  // where a NaN in x or y leads a gradient is not defined
  }
  graph.steps = {step};
  graph.terms = kWindow * kWindow;
  graph.compares = maximum && !backward;
  return complete(graph);
}

// ---- norms

GraphTensor perChannel(const std::string& name, Use use = Use::kInput) {
  return {name, {1, kImage[1], 1, 1}, use, at::kFloat, true};
}

NormStep forwardStep(NormStep::Mode mode) {
  return {.mode = mode,
          .phase = NormStep::Phase::kTraining,
          .x = "x",
          .scale = "scale",
          .bias = "bias",
          .epsilon = "epsilon",
          .mean = "mean",
          .inverse = "inverse",
          .y = "y"};
}

GraphCase batchNormTraining() {
  GraphCase graph{.operation = "BatchNormTraining", .name = "running_nhwc"};
  graph.tensors = {{"x", kImage, Use::kInput, at::kFloat, true},
                   perChannel("scale"),
                   perChannel("bias"),
                   perChannel("old_mean"),
                   perChannel("old_variance"),
                   scalar("epsilon", 4, kEpsilon),
                   scalar("factor", 4, kFactor),
                   {"y", kImage, Use::kOutput, at::kFloat, true},
                   perChannel("mean", Use::kOutput),
                   perChannel("inverse", Use::kOutput),
                   perChannel("new_mean", Use::kOutput),
                   perChannel("new_variance", Use::kOutput)};
  auto step = forwardStep(NormStep::Mode::kBatch);
  step.factor = "factor";
  step.oldMean = "old_mean";
  step.oldVariance = "old_variance";
  step.newMean = "new_mean";
  step.newVariance = "new_variance";
  graph.steps = {step};
  graph.reference = [factor = graph.tensor("factor").number](const Values& in) -> Results {
    auto norm =
        normalized(in.at("x"), in.at("scale"), in.at("bias"), epsilon(), Group::kChannel, true);
    const double count = static_cast<double>(in.at("x").numel()) / static_cast<double>(kImage[1]);
    const auto moved = [&](const char* old, const Sums& fresh, double unbiased) {
      const auto* before = in.at(old).const_data_ptr<double>();
      return each(fresh, [=](Measured m, int64_t k) {
        return Measured(1 - factor) * Measured(before[k]) + Measured(factor * unbiased) * m;
      });
    };
    return {{"y", norm.y},
            {"mean", norm.mean},
            {"inverse", norm.inverse},
            {"new_mean", moved("old_mean", norm.mean, 1)},
            {"new_variance", moved("old_variance", norm.variance, count / (count - 1))}};
  };
  graph.terms = product(kImage) / kImage[1];
  return complete(graph);
}

// By arithmetic, as cuDNN's own front end writes it: on an H200 no engine takes the norm operation
// with the phase "inference".
GraphCase batchNormInference() {
  using Mode = PointwiseStep::Mode;
  GraphCase graph{.operation = "BatchNormInference", .name = "nhwc"};
  graph.tensors = {{"x", kImage, Use::kInput, at::kFloat, true},
                   perChannel("mean"),
                   perChannel("inverse"),
                   perChannel("scale"),
                   perChannel("bias"),
                   {"centred", kImage, Use::kVirtual, at::kFloat, true},
                   {"normal", kImage, Use::kVirtual, at::kFloat, true},
                   {"scaled", kImage, Use::kVirtual, at::kFloat, true},
                   {"y", kImage, Use::kOutput, at::kFloat, true}};
  graph.steps = {PointwiseStep{Mode::kSubtract, "x", "mean", "centred"},
                 PointwiseStep{Mode::kMultiply, "centred", "inverse", "normal"},
                 PointwiseStep{Mode::kMultiply, "normal", "scale", "scaled"},
                 PointwiseStep{Mode::kAdd, "scaled", "bias", "y"}};
  graph.reference = [](const Values& in) -> Results {
    const auto wide = [&](const char* name) { return in.at(name).expand(kImage).contiguous(); };
    const auto mean = wide("mean"), inverse = wide("inverse"), scale = wide("scale"),
               bias = wide("bias");
    const auto at = [](const at::Tensor& t, int64_t k) {
      return Measured(t.const_data_ptr<double>()[k]);
    };
    return {{"y", each(exact(in.at("x")), [&](Measured x, int64_t k) {
               return (x - at(mean, k)) * at(inverse, k) * at(scale, k) + at(bias, k);
             })}};
  };
  return complete(graph);
}

GraphCase batchNormBackward() {
  GraphCase graph{.operation = "BatchNormBackward", .name = "nhwc"};
  graph.tensors = {{"x", kImage, Use::kInput, at::kFloat, true},
                   {"dy", kImage, Use::kInput, at::kFloat, true},
                   perChannel("scale"),
                   perChannel("mean"),
                   perChannel("inverse"),
                   {"dx", kImage, Use::kOutput, at::kFloat, true},
                   perChannel("d_scale", Use::kOutput),
                   perChannel("d_bias", Use::kOutput)};
  graph.steps = {NormStep{.mode = NormStep::Mode::kBatch,
                          .phase = NormStep::Phase::kBackward,
                          .x = "x",
                          .scale = "scale",
                          .mean = "mean",
                          .inverse = "inverse",
                          .dy = "dy",
                          .dx = "dx",
                          .dScale = "d_scale",
                          .dBias = "d_bias"}};
  graph.inputs = [tensors = graph.tensors] {
    auto values = drawnInputs(tensors);
    const auto norm = normalized(values["x"], values["scale"], at::zeros_like(values["scale"]),
                                 epsilon(), Group::kChannel, true);
    values["mean"] = rounded(norm.mean.value);
    values["inverse"] = rounded(norm.inverse.value);
    return values;
  };
  graph.reference = [](const Values& in) -> Results {
    const auto g = batchNormGradients(in.at("x"), in.at("dy"), in.at("scale"), in.at("mean"),
                                      in.at("inverse"));
    return {{"dx", g.dx}, {"d_scale", g.dScale}, {"d_bias", g.dBias}};
  };
  graph.terms = product(kImage) / kImage[1];
  return complete(graph);
}

// Layer, RMS and instance norm in training: the mean (but for RMS) and the inverse are outputs.
GraphCase norm(NormStep::Mode mode) {
  const bool instance = mode == NormStep::Mode::kInstance, rms = mode == NormStep::Mode::kRms;
  GraphCase graph{.operation = instance ? "InstanceNorm"
                               : rms    ? "RmsNorm"
                                        : "LayerNorm",
                  .name = "training"};
  const Shape x = instance ? kImage : Shape{256, 128, 1, 1};
  const Shape weights{1, x[1], 1, 1};
  const Shape groups = instance ? Shape{x[0], x[1], 1, 1} : Shape{x[0], 1, 1, 1};
  const auto tensor = [&](const char* name, const Shape& sizes, Use use) {
    graph.tensors.push_back({name, sizes, use, at::kFloat, true});
  };
  tensor("x", x, Use::kInput);
  tensor("scale", weights, Use::kInput);
  tensor("bias", weights, Use::kInput);
  graph.tensors.push_back(scalar("epsilon", 4, kEpsilon));
  tensor("y", x, Use::kOutput);
  if (!rms) tensor("mean", groups, Use::kOutput);
  tensor("inverse", groups, Use::kOutput);
  auto step = forwardStep(mode);
  if (rms) step.mean = "";
  graph.steps = {step};
  graph.reference = [instance, rms](const Values& in) -> Results {
    auto norm = normalized(in.at("x"), in.at("scale"), in.at("bias"), epsilon(),
                           instance ? Group::kChannelOfImage : Group::kImage, !rms);
    Results results{{"y", norm.y}, {"inverse", norm.inverse}};
    if (!rms) results["mean"] = norm.mean;
    return results;
  };
  graph.terms = product(x) / product(groups);
  return complete(graph);
}

// ---- the rest

// gelu(x * b + c)
GraphCase pointwise() {
  GraphCase graph{.operation = "Pointwise", .name = "multiply_add_gelu_nhwc"};
  for (const char* name : {"x", "b", "c"})
    graph.tensors.push_back({name, kImage, Use::kInput, at::kFloat, true});
  for (const char* name : {"product", "sum"})
    graph.tensors.push_back({name, kImage, Use::kVirtual, at::kFloat, true});
  graph.tensors.push_back({"y", kImage, Use::kOutput, at::kFloat, true});
  graph.steps = {PointwiseStep{PointwiseStep::Mode::kMultiply, "x", "b", "product"},
                 PointwiseStep{PointwiseStep::Mode::kAdd, "product", "c", "sum"},
                 PointwiseStep{PointwiseStep::Mode::kGelu, "sum", "", "y"}};
  graph.reference = [](const Values& in) -> Results {
    const auto *b = in.at("b").const_data_ptr<double>(), *c = in.at("c").const_data_ptr<double>();
    return {{"y", each(exact(in.at("x")), [=](Measured x, int64_t k) {
               return gelu(x * Measured(b[k]) + Measured(c[k]));
             })}};
  };
  return complete(graph);
}

GraphCase activation() {
  GraphCase graph{.operation = "Pointwise", .name = "tanh_nhwc"};
  graph.tensors = {{"x", kImage, Use::kInput, at::kFloat, true},
                   {"y", kImage, Use::kOutput, at::kFloat, true}};
  graph.steps = {PointwiseStep{PointwiseStep::Mode::kTanh, "x", "", "y"}};
  graph.reference = [](const Values& in) -> Results {
    return {
        {"y", each(exact(in.at("x")), [](Measured x, int64_t) { return hyperbolicTangent(x); })}};
  };
  return complete(graph);
}

GraphCase reduction(ReductionStep::Mode mode) {
  const bool sum = mode == ReductionStep::Mode::kSum;
  GraphCase graph{.operation = "Reduction", .name = sum ? "sum_nhwc" : "max_nhwc"};
  graph.tensors = {{"x", kImage, Use::kInput, at::kFloat, true}, perChannel("y", Use::kOutput)};
  graph.steps = {ReductionStep{mode, "x", "y"}};
  graph.reference = [sum](const Values& in) -> Results {
    return {{"y", sum ? channelSum(in.at("x")) : channelMaximum(in.at("x"))}};
  };
  graph.terms = product(kImage) / kImage[1];
  graph.compares = !sum;
  return complete(graph);
}

// softmax(q kᵀ · factor) v and the logarithm of the softmax's sums, as cuDNN's own front end and
// LibTorch's training write it: without the logarithm no fused engine takes it. Fused attention
// exists for 16-bit numbers only.
GraphCase attention() {
  using Mode = PointwiseStep::Mode;
  const Shape shape{2, 4, 64, 64}, row{2, 4, 64, 1};
  GraphCase graph{.operation = "Attention", .name = "64x64_h4", .dtype = at::kHalf};
  graph.tensors = {{"q", shape, Use::kInput, at::kHalf},
                   {"k", shape, Use::kInput, at::kHalf, false, 0, true},
                   {"v", shape, Use::kInput, at::kHalf},
                   scalar("factor", 4, 0.125),
                   {"scores", shape, Use::kVirtual},
                   {"scaled", shape, Use::kVirtual},
                   {"top", row, Use::kVirtual},
                   {"below", shape, Use::kVirtual},
                   {"power", shape, Use::kVirtual},
                   {"sum", row, Use::kVirtual},
                   {"logarithm", row, Use::kVirtual},
                   {"statistics", row, Use::kOutput},
                   {"weights", shape, Use::kVirtual, at::kHalf},
                   {"y", shape, Use::kOutput, at::kHalf}};
  graph.steps = {MatmulStep{"q", "k", "scores"},
                 PointwiseStep{Mode::kMultiply, "scores", "factor", "scaled"},
                 ReductionStep{ReductionStep::Mode::kMax, "scaled", "top"},
                 PointwiseStep{Mode::kSubtract, "scaled", "top", "below"},
                 PointwiseStep{Mode::kExponential, "below", "", "power"},
                 ReductionStep{ReductionStep::Mode::kSum, "power", "sum"},
                 PointwiseStep{Mode::kLogarithm, "sum", "", "logarithm"},
                 PointwiseStep{Mode::kAdd, "top", "logarithm", "statistics"},
                 PointwiseStep{Mode::kDivide, "power", "sum", "weights"},
                 MatmulStep{"weights", "v", "y"}};
  graph.reference = [](const Values& in) -> Results {
    // The graph's k is the transposed one.
    const auto k = in.at("k").transpose(2, 3).contiguous();
    const auto want = attended(in.at("q"), k, in.at("v"), 0.125);
    return {{"y", want.y}, {"statistics", want.logSums}};
  };
  graph.terms = shape[2];
  return complete(graph);
}

}  // namespace

std::vector<GraphCase> graphCases() {
  using Direction = ConvolutionStep::Direction;
  std::vector<GraphCase> graphs;
  for (const auto direction :
       {Direction::kForward, Direction::kBackwardData, Direction::kBackwardFilter}) {
    const auto all = problems();
    graphs.push_back(convolution(all[0], direction, false, at::kFloat));
    graphs.push_back(convolution(all[0], direction, true, at::kFloat));
    graphs.push_back(convolution(all[0], direction, false, at::kDouble));
    graphs.push_back(convolution(all[1], direction, false, at::kFloat));
    graphs.push_back(convolution(all[2], direction, true, at::kFloat));
  }
  for (const bool channelsLast : {false, true}) graphs.push_back(convolutionBiasRelu(channelsLast));
  for (const auto epilogue : {Epilogue::kNone, Epilogue::kRelu, Epilogue::kGelu})
    graphs.push_back(matmul(epilogue));
  for (const auto mode : {PoolingStep::Mode::kMax, PoolingStep::Mode::kAverage}) {
    for (const bool backward : {false, true}) {
      graphs.push_back(pooling(mode, backward, false));
      // In NHWC the gradient of a maximum needs the indices that the forward wrote.
      if (!backward || mode == PoolingStep::Mode::kAverage)
        graphs.push_back(pooling(mode, backward, true));
    }
  }
  graphs.push_back(batchNormTraining());
  graphs.push_back(batchNormInference());
  graphs.push_back(batchNormBackward());
  for (const auto mode : {NormStep::Mode::kLayer, NormStep::Mode::kRms, NormStep::Mode::kInstance})
    graphs.push_back(norm(mode));
  graphs.push_back(pointwise());
  graphs.push_back(activation());
  for (const auto mode : {ReductionStep::Mode::kSum, ReductionStep::Mode::kMax})
    graphs.push_back(reduction(mode));
  graphs.push_back(attention());
  return graphs;
}

}  // namespace assay::determinism
