#include "suites/determinism/convolution.h"
#ifdef ASSAY_HAS_CUDNN

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>

#include <array>
#include <map>
#include <memory>

#include "fixtures/device.h"
#include "fixtures/variant.h"
#include "suites/determinism/capture.h"
#include "suites/determinism/cudnn_handle.h"
#include "suites/determinism/direct_convolution.h"
#include "suites/determinism/routine.h"
#include "suites/determinism/verdict.h"

namespace assay::determinism {
namespace {

enum class Direction { kForward, kBackwardData, kBackwardFilter };
constexpr std::array kDirections{Direction::kForward, Direction::kBackwardData,
                                 Direction::kBackwardFilter};

const char* nameOf(Direction direction) {
  constexpr std::array names{"ConvolutionForward", "ConvolutionBackwardData",
                             "ConvolutionBackwardFilter"};
  return names[static_cast<size_t>(direction)];
}

// Large enough that a reduction is split over thread blocks, where a race shows.
std::vector<Problem> problems() {
  return {
      {"1d_k5", 8, 16, 32, 1, {1, 1, 200}, {1, 1, 5}, {1, 1, 1}, {1, 1, 1}, {0, 0, 2}, 2},
      {"2d_k1", 8, 32, 32, 1, {1, 16, 16}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, 2},
      {"2d_k3", 8, 32, 32, 1, {1, 16, 16}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, 2},
      {"2d_k5_s2", 4, 16, 32, 1, {1, 20, 20}, {1, 5, 5}, {1, 2, 2}, {1, 1, 1}, {0, 2, 2}, 2},
      {"2d_k3_d2", 4, 16, 32, 1, {1, 16, 16}, {1, 3, 3}, {1, 1, 1}, {1, 2, 2}, {0, 2, 2}, 2},
      {"2d_k3_g4", 8, 32, 32, 4, {1, 16, 16}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, 2},
      {"2d_k3_depthwise",
       8,
       32,
       32,
       32,
       {1, 16, 16},
       {1, 3, 3},
       {1, 1, 1},
       {1, 1, 1},
       {0, 1, 1},
       2},
      {"3d_k3", 2, 8, 16, 1, {6, 8, 8}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 3},
      {"3d_k3_s2_g2", 2, 8, 16, 2, {7, 9, 9}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, 3},
  };
}

struct Setting {
  Problem problem;
  bool channelsLast;
  at::ScalarType dtype;
  std::string device;
};

// Drawn once a problem and dtype, with the sums that every algorithm of it is measured against.
struct Host {
  at::Tensor input, weight, upstream;
  Convolved sums;
};

const Host& hostOf(const Problem& problem, at::ScalarType dtype) {
  static std::map<std::pair<std::string, at::ScalarType>, Host> known;
  auto [at, isNew] = known.try_emplace({problem.name, dtype});
  if (isNew) {
    auto& host = at->second;
    host.input = fullMantissa(problem.inputShape(), 1, dtype).to(at::kDouble);
    host.weight = fullMantissa(problem.weightShape(), 2, dtype).to(at::kDouble);
    host.upstream = fullMantissa(problem.outputShape(), 3, dtype).to(at::kDouble);
    host.sums = convolve(problem, host.input, host.weight, host.upstream);
  }
  return at->second;
}

struct FilterDescriptor : Descriptor<cudnnFilterDescriptor_t> {
  FilterDescriptor(const at::Tensor& weight, bool channelsLast)
      : Descriptor(cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor) {
    const std::vector<int> sizes(weight.sizes().begin(), weight.sizes().end());
    need(cudnnSetFilterNdDescriptor(get(), dataType(weight),
                                    channelsLast ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                    static_cast<int>(sizes.size()), sizes.data()),
         "cudnnSetFilterNdDescriptor");
  }
};

struct ConvolutionDescriptor : Descriptor<cudnnConvolutionDescriptor_t> {
  ConvolutionDescriptor(const Problem& problem, cudnnDataType_t compute, cudnnMathType_t math)
      : Descriptor(cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor) {
    const auto last = [&](const std::array<int64_t, 3>& axes) {
      return std::vector<int>(axes.end() - problem.spatial, axes.end());
    };
    need(cudnnSetConvolutionNdDescriptor(get(), static_cast<int>(problem.spatial),
                                         last(problem.padding).data(), last(problem.stride).data(),
                                         last(problem.dilation).data(), CUDNN_CROSS_CORRELATION,
                                         compute),
         "cudnnSetConvolutionNdDescriptor");
    need(cudnnSetConvolutionGroupCount(get(), static_cast<int>(problem.groups)),
         "cudnnSetConvolutionGroupCount");
    need(cudnnSetConvolutionMathType(get(), math), "cudnnSetConvolutionMathType");
  }
};

// What cuDNN says of one algorithm.
struct Algorithm {
  int number;
  bool deterministic;
  cudnnMathType_t math;
};

// The three tensors on a GPU and their descriptors.
class Placed {
 public:
  explicit Placed(const Setting& setting)
      : setting_(setting),
        host_(hostOf(setting.problem, setting.dtype)),
        input_(place(host_.input)),
        weight_(place(host_.weight)),
        output_(place(host_.upstream)),
        inputDescriptor_(input_),
        outputDescriptor_(output_),
        filter_(weight_, setting.channelsLast) {}

  std::vector<Algorithm> algorithms(Direction direction) const;
  // A fresh result of one call.
  at::Tensor call(Direction direction, const Algorithm& algorithm) const;
  const Sums& want(Direction direction) const {
    const auto& sums = host_.sums;
    return direction == Direction::kForward        ? sums.output
           : direction == Direction::kBackwardData ? sums.inputGradient
                                                   : sums.weightGradient;
  }

 private:
  std::vector<Algorithm> algorithmsIn(Direction direction, cudnnMathType_t math) const;
  at::Tensor place(const at::Tensor& values) const {
    const auto format = !setting_.channelsLast ? at::MemoryFormat::Contiguous
                        : values.dim() == 5    ? at::MemoryFormat::ChannelsLast3d
                                               : at::MemoryFormat::ChannelsLast;
    return values.to(setting_.dtype).to(c10::Device(setting_.device)).contiguous(format);
  }
  cudnnDataType_t compute() const { return dataType(input_); }

  Setting setting_;
  const Host& host_;
  at::Tensor input_, weight_, output_;
  TensorDescriptor inputDescriptor_, outputDescriptor_;
  FilterDescriptor filter_;
};

template <typename Performance, typename Query>
std::vector<Algorithm> listed(const Query& query) {
  std::array<Performance, 32> found{};
  int count = 0;
  need(query(static_cast<int>(found.size()), &count, found.data()), "listing the algorithms");
  std::vector<Algorithm> result;
  for (int k = 0; k < count; ++k) {
    if (found[k].status != CUDNN_STATUS_SUCCESS) continue;
    result.push_back({static_cast<int>(found[k].algo), found[k].determinism == CUDNN_DETERMINISTIC,
                      found[k].mathType});
  }
  return result;
}

std::vector<Algorithm> Placed::algorithmsIn(Direction direction, cudnnMathType_t math) const {
  const ConvolutionDescriptor convolution(setting_.problem, compute(), math);
  switch (direction) {
    case Direction::kForward:
      return listed<cudnnConvolutionFwdAlgoPerf_t>([&](int most, int* count, auto* found) {
        return cudnnGetConvolutionForwardAlgorithm_v7(handle(), inputDescriptor_.get(),
                                                      filter_.get(), convolution.get(),
                                                      outputDescriptor_.get(), most, count, found);
      });
    case Direction::kBackwardData:
      return listed<cudnnConvolutionBwdDataAlgoPerf_t>([&](int most, int* count, auto* found) {
        return cudnnGetConvolutionBackwardDataAlgorithm_v7(
            handle(), filter_.get(), outputDescriptor_.get(), convolution.get(),
            inputDescriptor_.get(), most, count, found);
      });
    case Direction::kBackwardFilter:
      break;
  }
  return listed<cudnnConvolutionBwdFilterAlgoPerf_t>([&](int most, int* count, auto* found) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle(), inputDescriptor_.get(),
                                                         outputDescriptor_.get(), convolution.get(),
                                                         filter_.get(), most, count, found);
  });
}

// What cuDNN lists for either kind of math, each algorithm with each math type once.
std::vector<Algorithm> Placed::algorithms(Direction direction) const {
  std::map<std::pair<int, int>, Algorithm> found;
  for (const auto math : {CUDNN_FMA_MATH, CUDNN_DEFAULT_MATH}) {
    for (const auto& one : algorithmsIn(direction, math))
      found.emplace(std::pair(one.number, static_cast<int>(one.math)), one);
  }
  std::vector<Algorithm> result;
  result.reserve(found.size());
  for (const auto& [key, one] : found) result.push_back(one);
  return result;
}

at::Tensor Placed::call(Direction direction, const Algorithm& algorithm) const {
  const ConvolutionDescriptor convolution(setting_.problem, compute(), algorithm.math);
  size_t bytes = 0;
  const auto workspace = [&] {
    return at::empty({static_cast<int64_t>(bytes)},
                     at::TensorOptions(c10::Device(setting_.device)).dtype(at::kByte));
  };
  const void* alpha = oneFor(input_);
  const void* beta = zeroFor(input_);
  if (direction == Direction::kForward) {
    const auto number = static_cast<cudnnConvolutionFwdAlgo_t>(algorithm.number);
    need(cudnnGetConvolutionForwardWorkspaceSize(handle(), inputDescriptor_.get(), filter_.get(),
                                                 convolution.get(), outputDescriptor_.get(), number,
                                                 &bytes),
         "cudnnGetConvolutionForwardWorkspaceSize");
    const auto space = workspace();
    auto result = at::empty_like(output_);
    need(cudnnConvolutionForward(handle(), alpha, inputDescriptor_.get(), input_.const_data_ptr(),
                                 filter_.get(), weight_.const_data_ptr(), convolution.get(), number,
                                 space.mutable_data_ptr(), bytes, beta, outputDescriptor_.get(),
                                 result.mutable_data_ptr()),
         "cudnnConvolutionForward");
    return result;
  }
  if (direction == Direction::kBackwardData) {
    const auto number = static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm.number);
    need(cudnnGetConvolutionBackwardDataWorkspaceSize(handle(), filter_.get(),
                                                      outputDescriptor_.get(), convolution.get(),
                                                      inputDescriptor_.get(), number, &bytes),
         "cudnnGetConvolutionBackwardDataWorkspaceSize");
    const auto space = workspace();
    auto result = at::empty_like(input_);
    need(cudnnConvolutionBackwardData(handle(), alpha, filter_.get(), weight_.const_data_ptr(),
                                      outputDescriptor_.get(), output_.const_data_ptr(),
                                      convolution.get(), number, space.mutable_data_ptr(), bytes,
                                      beta, inputDescriptor_.get(), result.mutable_data_ptr()),
         "cudnnConvolutionBackwardData");
    return result;
  }
  const auto number = static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm.number);
  need(cudnnGetConvolutionBackwardFilterWorkspaceSize(handle(), inputDescriptor_.get(),
                                                      outputDescriptor_.get(), convolution.get(),
                                                      filter_.get(), number, &bytes),
       "cudnnGetConvolutionBackwardFilterWorkspaceSize");
  const auto space = workspace();
  auto result = at::empty_like(weight_);
  need(cudnnConvolutionBackwardFilter(
           handle(), alpha, inputDescriptor_.get(), input_.const_data_ptr(),
           outputDescriptor_.get(), output_.const_data_ptr(), convolution.get(), number,
           space.mutable_data_ptr(), bytes, beta, filter_.get(), result.mutable_data_ptr()),
       "cudnnConvolutionBackwardFilter");
  return result;
}

bool mayUseTf32(const Setting& setting, const Algorithm& algorithm) {
  return setting.dtype == at::kFloat && algorithm.math != CUDNN_FMA_MATH;
}

// FFT and Winograd transform whole tiles: their rounding error is in units of the tile's largest
// sum, not of each element's own.
bool transformsTiles(Direction direction, int algorithm) {
  switch (direction) {
    case Direction::kForward:
      return algorithm >= CUDNN_CONVOLUTION_FWD_ALGO_FFT;
    case Direction::kBackwardData:
      return algorithm >= CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT;
    case Direction::kBackwardFilter:
      break;
  }
  return algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT ||
         algorithm >= CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD;
}

// The precision class: direct sums lose a few u of the sum of magnitudes, FFT and Winograd some
// tens of the tile's; products of operands cut to TF32 lose 2^13 u each (docs/numerics.md).
GoldenOutput golden(const Sums& sums, double bound, bool wholeTiles) {
  GoldenOutput result;
  result.golden = sums.value;
  result.scale = wholeTiles ? sums.scale.max().expand_as(sums.scale).contiguous() : sums.scale;
  result.tolerance =
      Tolerance{GaugeKind::kConditioned, bound, "docs/numerics.md#convolution-algorithms"};
  return result;
}

std::string mathName(cudnnMathType_t math) {
  switch (math) {
    case CUDNN_FMA_MATH:
      return "fma";
    case CUDNN_DEFAULT_MATH:
      return "default";
    default:
      return "tensor";
  }
}

// With the fault ignore-ieee it plays a library that takes tensor cores although FMA math was asked
// for.
Record runAlgorithm(const Setting& setting, Direction direction, const Algorithm& algorithm,
                    const Options& options, bool graph) {
  const c10::cuda::CUDAGuard guard(c10::Device(setting.device).index());
  const auto placed = std::make_shared<const Placed>(setting);
  Algorithm used = algorithm;
  if (options.fault == "ignore-ieee") used.math = CUDNN_TENSOR_OP_MATH;
  const Subject subject{.promise = algorithm.deterministic ? "equal bits" : "may vary",
                        .source = "cuDNN " + cudnnVersion() + "'s own answer: determinism " +
                                  std::to_string(algorithm.deterministic),
                        .call = [=] { return std::vector{placed->call(direction, used)}; }};
  Record record;
  record.details["row"] = "algorithm " + std::to_string(algorithm.number) + ", " +
                          mathName(algorithm.math) + ", " +
                          (setting.channelsLast ? "NHWC, " : "NCHW, ") + (graph ? "graph, " : "") +
                          (setting.dtype == at::kDouble ? "float64" : "float32");
  if (graph) {
    judgeReplayed(record, subject, options.smoke);
    return record;
  }
  const auto first = subject.call();
  record.status = Status::kPassed;
  const bool tf32 = mayUseTf32(setting, algorithm);
  const auto want = golden(placed->want(direction), tf32 ? 32800 : 256,
                           transformsTiles(direction, algorithm.number));
  record.verdict =
      judge(first[0], want, *want.tolerance, setting.dtype == at::kDouble ? "float64" : "float32");
  record.what = "output 0";
  record.why = want.tolerance->why;
  if (!record.verdict.pass) {
    record.status = Status::kFailed;
    record.message = record.verdict.message;
    if (setting.dtype == at::kFloat && !tf32 && record.verdict.effectiveBits < 16)
      record.message =
          "BROKEN PROMISE: FMA math was asked for, and TF32's precision came; " + record.message;
  }
  judge(record, subject, first, options.smoke);
  return record;
}

}  // namespace

namespace {

Check checkOf(const Setting& setting, Direction direction, const Algorithm& algorithm,
              const Options& options, bool graph) {
  const Variant variant{.device = setting.device,
                        .dtype = setting.dtype == at::kDouble ? "float64" : "float32"};
  const std::string layout = setting.channelsLast ? "_nhwc" : "_nchw";
  Check check = assay::checkOf(nameOf(direction),
                               setting.problem.name + layout + (graph ? "_graph" : ""), variant);
  const std::string more =
      "_algo" + std::to_string(algorithm.number) + "_" + mathName(algorithm.math);
  check.name += more;
  check.variantName += more;
  check.smoke = true;
  check.run = [=] { return runAlgorithm(setting, direction, algorithm, options, graph); };
  return check;
}

}  // namespace

std::vector<Check> convolutionChecks(const std::string& device, const Options& options) {
  std::vector<Check> checks;
  if (gpusArePretended()) return checks;  // which algorithms there are, cuDNN says on the GPU
  const c10::cuda::CUDAGuard guard(c10::Device(device).index());
  for (const auto& problem : problems()) {
    if (options.smoke && problem.name != "2d_k3") continue;
    for (const bool channelsLast : {false, true}) {
      for (const auto dtype : {at::kFloat, at::kDouble}) {
        if (options.smoke && dtype == at::kDouble) continue;
        const Setting setting{problem, channelsLast, dtype, device};
        const Placed placed(setting);
        for (const auto direction : kDirections) {
          for (const auto& algorithm : placed.algorithms(direction)) {
            checks.push_back(checkOf(setting, direction, algorithm, options, false));
            if (problem.name == "2d_k3")  // one problem's graphs speak for an algorithm
              checks.push_back(checkOf(setting, direction, algorithm, options, true));
          }
        }
      }
    }
  }
  return checks;
}

}  // namespace assay::determinism

#else

namespace assay::determinism {
std::vector<Check> convolutionChecks(const std::string&, const Options&) { return {}; }
}  // namespace assay::determinism

#endif
