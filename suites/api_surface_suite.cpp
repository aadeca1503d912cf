// Do the public C++ calls give the same bits as the boxed calls that every other suite makes? Or
// the goldens would prove something about a path that nobody takes. at:: and
// torch::nn::functional, whose options are translated to ATen's arguments by hand-written code: its
// rows set options that are not default. The boxed side goes through fixtures/call.cpp as a
// golden's case does.
#include <ATen/ATen.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/conv.h>
#include <torch/nn/functional/linear.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/functional/normalization.h>
#include <torch/nn/functional/pooling.h>

#include <memory>

#include "fixtures/poison.h"
#include "fixtures/public_call.h"
#include "fixtures/suite.h"

namespace {

namespace F = torch::nn::functional;
using assay::Case;
using assay::OperatorFile;
using assay::Record;
using assay::Variant;
using nlohmann::json;
using Tensors = std::map<std::string, at::Tensor>;

struct Row {
  std::string api;  // "at", "functional"
  std::string name;
  std::string schema;
  std::string overload;
  json args;
  assay::PublicCall publicCall;
};

json normal(std::vector<int64_t> shape, int key) {
  return {{"draw", {{"kind", "normal"}, {"shape", shape}, {"key", {20240229, key}}}}};
}

json integers(std::vector<int64_t> shape, int high) {
  return {{"draw",
           {{"kind", "integers"},
            {"shape", shape},
            {"key", {20240229, 99}},
            {"low", 0},
            {"high", high}}}};
}

const json kVector = normal({67}, 1);
const json kMatrix = normal({9, 17}, 2);
const json kImage = normal({2, 4, 9, 11}, 3);
const json kWeight = normal({6, 4, 3, 3}, 4);

Row unary(const std::string& name, at::Tensor (*call)(const at::Tensor&)) {
  return {"at", name, "aten::" + name, "", {{"self", kVector}}, [call](const Tensors& t) {
            return call(t.at("self"));
          }};
}

Row binary(const std::string& name, json args, at::Tensor (*call)(const Tensors&)) {
  args["self"] = normal({5, 33}, 5);
  args["other"] = normal({33}, 6);
  return {"at", name, "aten::" + name, "Tensor", std::move(args), call};
}

// A row over the matrix, its public call given self alone.
Row overMatrix(const std::string& name, const std::string& overload, json args,
               at::Tensor (*call)(const at::Tensor&)) {
  args["self"] = kMatrix;
  return {"at", name, "aten::" + name, overload, std::move(args), [call](const Tensors& t) {
            return call(t.at("self"));
          }};
}

std::vector<Row> pointwiseRows() {
  using T = const Tensors&;
  return {
      binary("add", {{"alpha", 2}}, [](T t) { return at::add(t.at("self"), t.at("other"), 2); }),
      binary("sub", {{"alpha", 3}}, [](T t) { return at::sub(t.at("self"), t.at("other"), 3); }),
      binary("mul", {}, [](T t) { return at::mul(t.at("self"), t.at("other")); }),
      binary("div", {}, [](T t) { return at::div(t.at("self"), t.at("other")); }),
      unary("exp", at::exp),
      unary("sin", at::sin),
      unary("tanh", at::tanh),
      unary("erf", at::erf),
      unary("sigmoid", at::sigmoid),
      unary("relu", at::relu),
      unary("floor", at::floor),
      overMatrix("gelu", "", {{"approximate", "tanh"}},
                 [](const at::Tensor& x) { return at::gelu(x, "tanh"); }),
  };
}

std::vector<Row> productRows() {
  const json left = normal({17, 33}, 7);
  const json right = normal({33, 9}, 8);
  const json stack = normal({3, 17, 33}, 9);
  const json bias = normal({9}, 10);
  using T = const Tensors&;
  return {
      {"at",
       "mm",
       "aten::mm",
       "",
       {{"self", left}, {"mat2", right}},
       [](T t) { return at::mm(t.at("self"), t.at("mat2")); }},
      {"at",
       "bmm",
       "aten::bmm",
       "",
       {{"self", stack}, {"mat2", normal({3, 33, 9}, 11)}},
       [](T t) { return at::bmm(t.at("self"), t.at("mat2")); }},
      {"at",
       "matmul",
       "aten::matmul",
       "",
       {{"self", stack}, {"other", right}},
       [](T t) { return at::matmul(t.at("self"), t.at("other")); }},
      {"at",
       "addmm",
       "aten::addmm",
       "",
       {{"self", bias}, {"mat1", left}, {"mat2", right}, {"beta", 0.5}, {"alpha", 2.0}},
       [](T t) { return at::addmm(t.at("self"), t.at("mat1"), t.at("mat2"), 0.5, 2.0); }},
      {"at",
       "linear",
       "aten::linear",
       "",
       {{"input", left}, {"weight", normal({9, 33}, 12)}, {"bias", bias}},
       [](T t) { return at::linear(t.at("input"), t.at("weight"), t.at("bias")); }},
      {"at",
       "conv2d",
       "aten::conv2d",
       "",
       {{"input", kImage},
        {"weight", kWeight},
        {"bias", normal({6}, 13)},
        {"stride", {2, 1}},
        {"padding", {1, 0}}},
       [](T t) {
         return at::conv2d(t.at("input"), t.at("weight"), t.at("bias"), {2, 1}, {1, 0});
       }},
  };
}

std::vector<Row> reductionRows() {
  using X = const at::Tensor&;
  return {
      overMatrix("sum", "", {}, [](X x) { return at::sum(x); }),
      overMatrix("mean", "", {}, [](X x) { return at::mean(x); }),
      overMatrix("prod", "", {}, [](X x) { return at::prod(x); }),
      overMatrix("logsumexp", "", {{"dim", {1}}, {"keepdim", true}},
                 [](X x) { return at::logsumexp(x, {1}, true); }),
      overMatrix("cumsum", "", {{"dim", 0}}, [](X x) { return at::cumsum(x, 0); }),
      overMatrix("softmax", "int", {{"dim", 0}}, [](X x) { return at::softmax(x, 0); }),
      overMatrix("log_softmax", "int", {{"dim", 1}}, [](X x) { return at::log_softmax(x, 1); }),
      overMatrix("argmax", "", {{"dim", 1}, {"keepdim", true}},
                 [](X x) { return at::argmax(x, 1, true); }),
      overMatrix("flip", "", {{"dims", {1}}}, [](X x) { return at::flip(x, {1}); }),
  };
}

std::vector<Row> activationRows() {
  using T = const Tensors&;
  return {
      {"functional",
       "elu",
       "aten::elu",
       "",
       {{"self", kMatrix}, {"alpha", 0.1}},
       [](T t) { return F::elu(t.at("self"), F::ELUFuncOptions().alpha(0.1)); }},
      {"functional",
       "gelu",
       "aten::gelu",
       "",
       {{"self", kMatrix}, {"approximate", "tanh"}},
       [](T t) { return F::gelu(t.at("self"), F::GELUFuncOptions().approximate("tanh")); }},
      {"functional",
       "leaky_relu",
       "aten::leaky_relu",
       "",
       {{"self", kMatrix}, {"negative_slope", 0.2}},
       [](T t) {
         return F::leaky_relu(t.at("self"), F::LeakyReLUFuncOptions().negative_slope(0.2));
       }},
      {"functional",
       "softmax",
       "aten::softmax",
       "int",
       {{"self", kMatrix}, {"dim", 1}},
       [](T t) { return F::softmax(t.at("self"), 1); }},
      {"functional",
       "log_softmax",
       "aten::log_softmax",
       "int",
       {{"self", kMatrix}, {"dim", 0}},
       [](T t) { return F::log_softmax(t.at("self"), 0); }},
      {"functional",
       "cross_entropy",
       "aten::cross_entropy_loss",
       "",
       {{"self", kMatrix}, {"target", integers({9}, 17)}, {"label_smoothing", 0.1}},
       [](T t) {
         return F::cross_entropy(t.at("self"), t.at("target"),
                                 F::CrossEntropyFuncOptions().label_smoothing(0.1));
       }},
  };
}

std::vector<Row> layerRows() {
  using T = const Tensors&;
  return {
      {"functional",
       "linear",
       "aten::linear",
       "",
       {{"input", kMatrix}, {"weight", normal({5, 17}, 14)}, {"bias", normal({5}, 15)}},
       [](T t) { return F::linear(t.at("input"), t.at("weight"), t.at("bias")); }},
      {"functional",
       "conv2d",
       "aten::conv2d",
       "",
       {{"input", kImage},
        {"weight", kWeight},
        {"bias", normal({6}, 16)},
        {"stride", {2, 2}},
        {"padding", {1, 1}}},
       [](T t) {
         return F::conv2d(t.at("input"), t.at("weight"),
                          F::Conv2dFuncOptions().bias(t.at("bias")).stride(2).padding(1));
       }},
      {"functional",
       "max_pool2d",
       "aten::max_pool2d",
       "",
       {{"self", kImage}, {"kernel_size", {3, 2}}, {"stride", {2, 2}}},
       [](T t) {
         return F::max_pool2d(t.at("self"), F::MaxPool2dFuncOptions({3, 2}).stride(2));
       }},
      {"functional",
       "avg_pool2d",
       "aten::avg_pool2d",
       "",
       {{"self", kImage},
        {"kernel_size", {3, 3}},
        {"stride", {2, 2}},
        {"count_include_pad", false},
        {"padding", {1, 1}}},
       [](T t) {
         return F::avg_pool2d(
             t.at("self"),
             F::AvgPool2dFuncOptions(3).stride(2).padding(1).count_include_pad(false));
       }},
      {"functional",
       "layer_norm",
       "aten::layer_norm",
       "",
       {{"input", kMatrix}, {"normalized_shape", {17}}, {"weight", normal({17}, 17)}},
       [](T t) {
         return F::layer_norm(t.at("input"), F::LayerNormFuncOptions({17}).weight(t.at("weight")));
       }},
      {"functional",
       "group_norm",
       "aten::group_norm",
       "",
       {{"input", kImage}, {"num_groups", 2}, {"eps", 1e-3}},
       [](T t) { return F::group_norm(t.at("input"), F::GroupNormFuncOptions(2).eps(1e-3)); }},
  };
}

Record runRow(const Row& row, const Variant& variant) {
  OperatorFile file;
  file.name = row.name;
  file.schema = row.schema;
  file.overload = row.overload;
  file.data = std::make_shared<const assay::SafeTensors>();
  Case item;
  item.name = row.api;
  item.args = row.args;
  return assay::runPublicCall(file, item, variant, row.publicCall);
}

std::vector<assay::Check> checksOf(const assay::Options& options) {
  assay::poisonMemory(options.deviceKind);
  std::vector<assay::Check> checks;
  for (const auto& device : assay::visibleDevices(options.deviceKind)) {
    for (const auto& rows :
         {pointwiseRows(), productRows(), reductionRows(), activationRows(), layerRows()}) {
      for (const auto& row : rows) {
        for (const char* dtype : {"float32", "float64"}) {
          const Variant variant{.device = device, .dtype = dtype};
          assay::Check check = assay::checkOf(row.name, row.api, variant);
          check.overload = row.overload;
          check.smoke = true;
          check.run = [row, variant] { return runRow(row, variant); };
          checks.push_back(std::move(check));
        }
      }
    }
  }
  return checks;
}

}  // namespace

int main(int argc, char** argv) {
  return assay::runSuite(argc, argv,
                         {.name = "api_surface",
                          .testSuite = "ApiSurface/PublicCallTest",
                          .test = "SameBits",
                          .checks = checksOf,
                          .epilogue = {}});
}
