#include "suites/determinism/aten_rows.h"

#include <iterator>

namespace assay::determinism {
namespace {

using nlohmann::json;

json drawOf(const char* kind, const std::vector<int64_t>& shape, int key) {
  return {{"kind", kind}, {"shape", shape}, {"key", {20240229, key}}};
}

json normal(const std::vector<int64_t>& shape, int key = 1) {
  return {{"draw", drawOf("normal", shape, key)}};
}

json integers(const std::vector<int64_t>& shape, int64_t high, int64_t low = 0) {
  auto draw = drawOf("integers", shape, 9);
  draw["low"] = low;
  draw["high"] = high;
  return {{"draw", draw}};
}

json uniform(const std::vector<int64_t>& shape, double low, double high) {
  auto draw = drawOf("uniform", shape, 8);
  draw["low"] = low;
  draw["high"] = high;
  return {{"draw", draw}};
}

constexpr bool kForward = false, kBackward = true;
using enum Listed;

// Many rows into few: the classic race.
constexpr int64_t kMany = 20000, kFew = 50, kWide = 8;

std::vector<AtenRow> indexRows() {
  const json many = normal({kMany, kWide}, 2), few = normal({kFew, kWide});
  const json into = integers({kMany}, kFew), cells = integers({kMany, kWide}, kFew);
  const json flat = integers({kMany}, kFew * kWide), values = normal({kMany}, 3);
  const auto scatter = [&](Listed listed, const char* how) {
    return AtenRow{"scatter_reduce",
                   "two",
                   kForward,
                   listed,
                   {{"self", few}, {"dim", 0}, {"index", cells}, {"src", many}, {"reduce", how}}};
  };
  return {
      {"index_add",
       "",
       kForward,
       kDeterministic,
       {{"self", few}, {"dim", 0}, {"index", into}, {"source", many}}},
      {"index_copy",
       "",
       kForward,
       kDeterministic,
       {{"self", few}, {"dim", 0}, {"index", into}, {"source", many}}},
      {"index_put",
       "",
       kForward,
       kDeterministic,
       {{"self", few}, {"indices", json::array({into})}, {"values", many}, {"accumulate", true}}},
      {"index_put",
       "",
       kForward,
       kDeterministic,
       {{"self", few}, {"indices", json::array({into})}, {"values", many}, {"accumulate", false}}},
      {"put",
       "",
       kForward,
       kThrows,
       {{"self", few}, {"index", flat}, {"source", values}, {"accumulate", true}}},
      {"put",
       "",
       kForward,
       kThrows,
       {{"self", few}, {"index", flat}, {"source", values}, {"accumulate", false}}},
      {"scatter_add",
       "",
       kForward,
       kDeterministic,
       {{"self", few}, {"dim", 0}, {"index", cells}, {"src", many}}},
      {"scatter",
       "src",
       kForward,
       kDeterministic,
       {{"self", few}, {"dim", 0}, {"index", cells}, {"src", many}}},
      scatter(kDeterministic, "sum"),
      scatter(kDeterministic, "mean"),
      scatter(kThrows, "prod"),
      scatter(kNotListed, "amax"),
      {"gather", "", kBackward, kDeterministic, {{"self", few}, {"dim", 0}, {"index", cells}}},
      {"index_select", "", kBackward, kDeterministic, {{"self", few}, {"dim", 0}, {"index", into}}},
      {"index",
       "Tensor",
       kBackward,
       kDeterministic,
       {{"self", few}, {"indices", json::array({into})}}},
      {"take", "", kBackward, kNotListed, {{"self", few}, {"index", flat}}},
      {"repeat_interleave",
       "self_int",
       kBackward,
       kDeterministic,
       {{"self", few}, {"repeats", 400}, {"dim", 0}}},
      {"embedding", "", kBackward, kNotListed, {{"weight", few}, {"indices", into}}},
      {"bincount", "", kForward, kThrows, {{"self", into}, {"weights", values}}},
      {"histc", "", kForward, kThrows, {{"self", values}, {"bins", 20}, {"min", -4}, {"max", 4}}},
  };
}

// Replication padding: the documentation lists it as deterministic, which is Python's doing (it
// swaps in another formula); in C++ it throws.
std::vector<AtenRow> poolRows() {
  const json line = normal({8, 16, 300}), image = normal({8, 16, 30, 30});
  const json block = normal({2, 8, 12, 12, 12});
  const json places = integers({8, 16, 15, 15}, int64_t{30} * 30);
  return {
      {"avg_pool2d",
       "",
       kBackward,
       kNotListed,
       {{"self", image}, {"kernel_size", {3, 3}}, {"stride", {2, 2}}}},
      {"avg_pool3d",
       "",
       kBackward,
       kThrows,
       {{"self", block}, {"kernel_size", {3, 3, 3}}, {"stride", {2, 2, 2}}}},
      {"max_pool2d",
       "",
       kBackward,
       kNotListed,
       {{"self", image}, {"kernel_size", {3, 3}}, {"stride", {2, 2}}}},
      {"max_pool3d",
       "",
       kBackward,
       kThrows,
       {{"self", block}, {"kernel_size", {3, 3, 3}}, {"stride", {2, 2, 2}}}},
      {"adaptive_avg_pool2d", "", kBackward, kThrows, {{"self", image}, {"output_size", {7, 7}}}},
      {"adaptive_avg_pool3d",
       "",
       kBackward,
       kThrows,
       {{"self", block}, {"output_size", {5, 5, 5}}}},
      {"adaptive_max_pool2d", "", kBackward, kThrows, {{"self", image}, {"output_size", {7, 7}}}},
      {"max_unpool2d",
       "",
       kForward,
       kThrows,
       {{"self", normal({8, 16, 15, 15}, 4)}, {"indices", places}, {"output_size", {30, 30}}}},
      {"reflection_pad1d", "", kBackward, kThrows, {{"self", line}, {"padding", {20, 20}}}},
      {"reflection_pad2d", "", kBackward, kThrows, {{"self", image}, {"padding", {9, 9, 9, 9}}}},
      {"reflection_pad3d",
       "",
       kBackward,
       kThrows,
       {{"self", block}, {"padding", {3, 3, 3, 3, 3, 3}}}},
      {"replication_pad1d", "", kBackward, kThrows, {{"self", line}, {"padding", {200, 200}}}},
      {"replication_pad2d",
       "",
       kBackward,
       kThrows,
       {{"self", image}, {"padding", {30, 30, 30, 30}}}},
      {"replication_pad3d",
       "",
       kBackward,
       kThrows,
       {{"self", block}, {"padding", {9, 9, 9, 9, 9, 9}}}},
  };
}

std::vector<AtenRow> resampleRows() {
  const json line = normal({8, 16, 100}), image = normal({8, 16, 20, 20});
  const json block = normal({2, 8, 8, 8, 8});
  const auto up = [](const char* name, Listed listed, const json& self, json size, bool corners) {
    json args{{"self", self}, {"output_size", std::move(size)}};
    if (corners) args["align_corners"] = false;
    return AtenRow{name, "", kBackward, listed, args};
  };
  const auto sample = [](const char* name, const json& input, const json& grid) {
    return AtenRow{name,
                   "",
                   kBackward,
                   kThrows,
                   {{"input", input},
                    {"grid", grid},
                    {"interpolation_mode", 0},
                    {"padding_mode", 0},
                    {"align_corners", false}}};
  };
  return {
      up("upsample_nearest1d", kNotListed, line, {310}, false),
      up("upsample_nearest2d", kNotListed, image, {50, 50}, false),
      up("upsample_nearest3d", kNotListed, block, {17, 17, 17}, false),
      up("upsample_linear1d", kThrows, line, {310}, true),
      up("upsample_bilinear2d", kThrows, image, {50, 50}, true),
      up("upsample_bicubic2d", kThrows, image, {50, 50}, true),
      up("upsample_trilinear3d", kThrows, block, {17, 17, 17}, true),
      sample("grid_sampler_2d", image, uniform({8, 40, 40, 2}, -1, 1)),
      sample("grid_sampler_3d", block, uniform({2, 12, 12, 12, 3}, -1, 1)),
  };
}

std::vector<AtenRow> reduceRows() {
  const json matrix = normal({64, 5000}), tall = normal({5000, 64});
  const auto along = [&](const char* name, const char* overload, bool backward, Listed listed) {
    return AtenRow{name, overload, backward, listed, {{"self", matrix}, {"dim", 1}}};
  };
  return {
      along("cumsum", "", kForward, kThrows),
      along("cumsum", "", kBackward, kThrows),
      along("cumprod", "", kForward, kNotListed),
      along("logcumsumexp", "", kForward, kNotListed),
      along("median", "dim", kForward, kThrows),
      along("nanmedian", "dim", kForward, kThrows),
      {"mode", "", kForward, kNotListed, {{"self", normal({8, 300})}, {"dim", 1}}},
      along("sort", "", kForward, kNotListed),
      along("softmax", "int", kBackward, kNotListed),
      along("log_softmax", "int", kBackward, kNotListed),
      {"kthvalue", "", kForward, kThrows, {{"self", matrix}, {"k", 100}, {"dim", 1}}},
      {"topk", "", kForward, kNotListed, {{"self", matrix}, {"k", 50}}},
      {"sum", "", kForward, kNotListed, {{"self", matrix}}},
      {"sum", "dim_IntList", kForward, kNotListed, {{"self", tall}, {"dim", {0}}}},
      {"mean", "", kForward, kNotListed, {{"self", matrix}}},
      {"prod", "", kForward, kNotListed, {{"self", uniform({64, 500}, 0.99, 1.01)}}},
      {"var", "correction", kForward, kNotListed, {{"self", matrix}}},
      {"linalg_vector_norm", "", kForward, kNotListed, {{"self", matrix}}},
      {"logsumexp", "", kForward, kNotListed, {{"self", matrix}, {"dim", {1}}}},
      {"_cdist_forward",
       "",
       kForward,
       kNotListed,
       {{"x1", normal({200, 30})}, {"x2", normal({300, 30}, 2)}, {"p", 1.5}, {"compute_mode", 2}}},
  };
}

std::vector<AtenRow> layerRows() {
  const json image = normal({8, 32, 16, 16}), line = normal({8, 32, 100});
  const json block = normal({2, 8, 8, 8, 8});
  const json logits = normal({8, 10, 20, 20}), classes = integers({8, 20, 20}, 10);
  const json matrix = normal({256, 512}), other = normal({512, 256}, 2);
  const auto convolution = [](const char* name, const json& input, json weight,
                              const char* overload = "") {
    return AtenRow{name,
                   overload,
                   kBackward,
                   kDeterministic,
                   {{"input", input}, {"weight", std::move(weight)}}};
  };
  return {
      convolution("conv1d", line, normal({32, 32, 5}, 2)),
      convolution("conv2d", image, normal({32, 32, 3, 3}, 2)),
      convolution("conv3d", block, normal({16, 8, 3, 3, 3}, 2)),
      convolution("conv_transpose1d", line, normal({32, 32, 5}, 2)),
      convolution("conv_transpose2d", image, normal({32, 32, 3, 3}, 2), "input"),
      convolution("conv_transpose3d", block, normal({8, 16, 3, 3, 3}, 2), "input"),
      {"layer_norm",
       "",
       kBackward,
       kNotListed,
       {{"input", matrix},
        {"normalized_shape", {512}},
        {"weight", normal({512}, 3)},
        {"bias", normal({512}, 4)}}},
      {"group_norm",
       "",
       kBackward,
       kNotListed,
       {{"input", image},
        {"num_groups", 4},
        {"weight", normal({32}, 3)},
        {"bias", normal({32}, 4)}}},
      {"batch_norm",
       "",
       kBackward,
       kNotListed,
       {{"input", image},
        {"weight", normal({32}, 3)},
        {"bias", normal({32}, 4)},
        {"running_mean", nullptr},
        {"running_var", nullptr},
        {"training", true},
        {"momentum", 0.1},
        {"eps", 1e-5},
        {"cudnn_enabled", true}}},
      {"mm", "", kBackward, kNotListed, {{"self", matrix}, {"mat2", other}}},
      {"bmm",
       "",
       kForward,
       kNotListed,
       {{"self", normal({8, 64, 128})}, {"mat2", normal({8, 128, 64}, 2)}}},
      {"addmm",
       "",
       kForward,
       kNotListed,
       {{"self", normal({256}, 3)}, {"mat1", matrix}, {"mat2", other}}},
      {"nll_loss2d", "", kForward, kThrows, {{"self", logits}, {"target", classes}}},
      {"cross_entropy_loss",
       "",
       kBackward,
       kNotListed,
       {{"self", normal({500, 30})}, {"target", integers({500}, 30)}}},
      {"ctc_loss",
       "IntList",
       kBackward,
       kThrows,
       {{"log_probs", normal({50, 16, 20})},
        {"targets", integers({16, 12}, 6, 1)},
        {"input_lengths", std::vector<int64_t>(16, 50)},
        {"target_lengths", std::vector<int64_t>(16, 12)}}},
  };
}

}  // namespace

OperatorFile AtenRow::file() const {
  OperatorFile result;
  result.name = name;
  result.schema = "aten::" + name;
  result.overload = overload;
  result.data = std::make_shared<const SafeTensors>();
  return result;
}

Case AtenRow::item() const {
  Case result;
  result.name = overload.empty() ? "default" : overload;
  for (const char* choice : {"accumulate", "reduce"}) {
    if (args.contains(choice)) {
      const auto& value = args.at(choice);
      result.name +=
          "_" + (value.is_string() ? value.get<std::string>()
                                   : std::string(choice) + (value.get<bool>() ? "1" : "0"));
    }
  }
  result.args = args;
  return result;
}

std::vector<AtenRow> atenRows() {
  std::vector<AtenRow> all;
  for (auto rows : {indexRows(), poolRows(), resampleRows(), reduceRows(), layerRows()})
    all.insert(all.end(), std::make_move_iterator(rows.begin()),
               std::make_move_iterator(rows.end()));
  return all;
}

}  // namespace assay::determinism
