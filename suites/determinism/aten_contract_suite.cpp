// ATen's contract: under use_deterministic_algorithms(true) a call repeats itself bit for bit or
// throws and says why. With the mode off, which calls vary, and by how much.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "fixtures/argument.h"
#include "fixtures/call.h"
#include "fixtures/draw.h"
#include "fixtures/mode.h"
#include "fixtures/suite.h"
#include "fixtures/variant.h"
#include "suites/determinism/aten_rows.h"
#include "suites/determinism/filled.h"
#include "suites/determinism/verdict.h"

namespace {

using assay::Record;
using assay::Status;
using assay::Variant;
using namespace assay::determinism;
using Tensors = std::map<std::string, at::Tensor>;

constexpr const char* kSource = "torch.use_deterministic_algorithms's documentation";

// Gradients of the floating inputs for one drawn upstream gradient an output.
std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& outputs, const Tensors& inputs,
                                  std::vector<at::Tensor>& upstream) {
  std::vector<at::Tensor> roots, leaves;
  for (const auto& output : outputs) {
    if (output.defined() && output.requires_grad()) roots.push_back(output);
  }
  for (const auto& [name, one] : inputs) {
    if (one.requires_grad()) leaves.push_back(one);
  }
  if (roots.empty()) throw std::logic_error("no output has a gradient");
  while (upstream.size() < roots.size()) {
    const auto& root = roots[upstream.size()];
    upstream.push_back(
        assay::draw({{"kind", "normal"}, {"shape", root.sizes().vec()}, {"key", {20240229, 77}}})
            .mul_(0.73105857863000487)
            .to(root.options()));
  }
  auto result = torch::autograd::grad(roots, leaves, upstream, false, false, true);
  std::erase_if(result, [](const at::Tensor& one) { return !one.defined(); });
  if (result.empty()) throw std::logic_error("no input has a gradient");
  return result;
}

Call callOf(const AtenRow& row, const Variant& variant) {
  const auto file = row.file();
  const auto item = row.item();
  assay::checkArguments(file);
  Tensors tensors;
  for (const auto& [name, one] : assay::prepare(file, item, variant)) {
    auto tensor = one.argument.detach();
    // All bits of the mantissa: sums of the generator's own numbers are exact in any order.
    if (tensor.is_floating_point() && name != "grid") tensor = tensor.mul(0.73105857863000487);
    if (row.backward && tensor.is_floating_point()) tensor.requires_grad_();
    tensors.emplace(name, tensor);
  }
  auto upstream = std::make_shared<std::vector<at::Tensor>>();
  return [=, backward = row.backward]() -> std::vector<at::Tensor> {
    auto outputs = assay::call(file, item, variant, tensors);
    if (backward) return gradients(outputs, tensors, *upstream);
    for (auto& output : outputs) output = output.detach();
    return outputs;
  };
}

std::string promiseOf(const AtenRow& row, const Variant& variant) {
  if (variant.deterministic) return "equal bits";
  // On the CPU, and where the documentation does not list a call, nothing is said without the mode.
  return row.listed == Listed::kNotListed || !variant.onGpu() ? "none" : "may vary";
}

// The call threw in deterministic mode: as it should, unless the documentation says that it has a
// deterministic kernel.
void refused(Record& record, const AtenRow& row, const std::string& text) {
  record.details["determinism"] = {{"verdict", "REFUSES"},
                                   {"promise", "equal bits or an error"},
                                   {"source", kSource},
                                   {"kinds", nlohmann::json::object()},
                                   {"message", text.substr(0, 200)}};
  record.verdict.checked = 1;
  record.status = row.listed == Listed::kDeterministic ? Status::kFailed : Status::kPassed;
  if (record.status == Status::kFailed)
    record.message = "the documentation lists it as deterministic, but it throws: " + text;
}

Record runRow(const AtenRow& row, const Variant& variant, bool smoke) {
  Record record;
  // Every supported LibTorch has them: a misspelt row must not pass for one that was looked at.
  if (!assay::available(row.file()))
    throw std::logic_error("this LibTorch has no aten::" + row.name + "." + row.overload);
  record.details["row"] = row.item().name + (row.backward ? ", backward" : "") +
                          (variant.deterministic ? ", mode on, " : ", mode off, ") + variant.dtype;
  const assay::ModeGuard guard(variant, false);
  try {
    const Subject subject{promiseOf(row, variant), kSource, callOf(row, variant)};
    const auto first = subject.call();
    record.status = Status::kPassed;
    record.details["listed"] = row.listed == Listed::kDeterministic ? "acts deterministically"
                               : row.listed == Listed::kThrows      ? "throws"
                                                                    : "not listed";
    judge(record, subject, first, smoke);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (!variant.deterministic || text.find("deterministic") == std::string::npos) throw;
    refused(record, row, text);
  }
  return record;
}

std::vector<assay::Check> checksOf(const assay::Options& options) {
  std::vector<assay::Check> checks;
  for (const auto& device : assay::visibleDevices(options.deviceKind)) {
    for (const auto& row : atenRows()) {
      for (const char* dtype : {"float32", "float64"}) {
        if (options.smoke && std::string(dtype) == "float64") continue;
        for (const bool deterministic : {false, true}) {
          Variant variant{.device = device, .dtype = dtype, .backward = row.backward};
          variant.deterministic = deterministic;
          auto check = assay::checkOf(row.name, row.item().name, variant);
          check.overload = row.overload;
          check.smoke = true;
          check.run = [=, smoke = options.smoke] { return runRow(row, variant, smoke); };
          checks.push_back(std::move(check));
        }
      }
    }
    for (const auto& name : fillingCalls()) {
      for (const char* dtype : {"float32", "float64", "int64", "bool"}) {
        Variant variant{.device = device, .dtype = dtype};
        variant.deterministic = true;
        auto check = assay::checkOf(name, "fill_uninitialized_memory", variant);
        check.smoke = true;
        check.run = [=] { return runFilled(name, variant); };
        checks.push_back(std::move(check));
      }
    }
  }
  return checks;
}

}  // namespace

int main(int argc, char** argv) {
  return assay::runSuite(argc, argv,
                         {.name = "aten_contract",
                          .testSuite = "Determinism/AtenContractTest",
                          .test = "KeepsItsPromise",
                          .checks = checksOf,
                          .epilogue = printTable});
}
