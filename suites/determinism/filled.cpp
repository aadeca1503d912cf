#include "suites/determinism/filled.h"

#include <ATen/ATen.h>

#include <functional>
#include <map>

#include "fixtures/argument.h"
#include "fixtures/mode.h"

namespace assay::determinism {
namespace {

constexpr int64_t kRows = 37, kColumns = 53;

using Make = std::function<at::Tensor(const at::TensorOptions&)>;

const std::map<std::string, Make>& calls() {
  static const std::map<std::string, Make> kCalls{
      {"empty",
       [](const auto& options) {
         return at::empty({kRows, kColumns}, options);
       }},
      {"empty_strided",
       [](const auto& options) {
         return at::empty_strided({kRows, kColumns}, {1, kRows}, options);
       }},
      {"empty_permuted",
       [](const auto& options) {
         return at::empty_permuted({kRows, kColumns}, {1, 0}, options);
       }},
      {"empty_like",
       [](const auto& options) {
         return at::empty_like(at::zeros({kRows, kColumns}, options));
       }},
      {"new_empty",
       [](const auto& options) {
         return at::zeros({1}, options).new_empty({kRows, kColumns});
       }},
      {"resize_", [](const auto& options) {
         return at::empty({0}, options).resize_({kRows, kColumns});
       }}};
  return kCalls;
}

// The setting, for a scope.
class FillGuard {
 public:
  explicit FillGuard(bool fill)
      : before_(at::globalContext().deterministicFillUninitializedMemory()) {
    at::globalContext().setDeterministicFillUninitializedMemory(fill);
  }
  ~FillGuard() { at::globalContext().setDeterministicFillUninitializedMemory(before_); }
  FillGuard(const FillGuard&) = delete;
  FillGuard& operator=(const FillGuard&) = delete;

 private:
  bool before_;
};

int64_t wrongElements(const at::Tensor& made) {
  const auto host = made.to(at::kCPU);
  if (host.is_floating_point()) return at::logical_not(host.isnan()).sum().item<int64_t>();
  if (host.scalar_type() == at::kBool) return at::logical_not(host).sum().item<int64_t>();
  return host.ne(std::numeric_limits<int64_t>::max()).sum().item<int64_t>();
}

}  // namespace

const std::vector<std::string>& fillingCalls() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const auto& [name, make] : calls()) names.push_back(name);
    return names;
  }();
  return kNames;
}

Record runFilled(const std::string& call, const Variant& variant, bool fill) {
  Record record;
  Variant mode = variant;
  mode.deterministic = true;
  const ModeGuard guard(mode, false);
  const FillGuard filling(fill);
  const auto options =
      at::TensorOptions(scalarType(variant.dtype)).device(c10::Device(variant.device));
  // The allocator hands the same memory out again, so that contents which nobody wrote are zeros:
  // in all blocks of this size that an earlier check may have left full.
  {
    std::vector<at::Tensor> zeros;
    zeros.reserve(32);
    for (int k = 0; k < 32; ++k) zeros.push_back(at::zeros({kRows, kColumns}, options));
  }
  const auto made = calls().at(call)(options);
  record.what = "output 0";
  record.verdict.checked = made.numel();
  record.verdict.failing = wrongElements(made);
  record.verdict.error = static_cast<double>(record.verdict.failing);
  record.verdict.pass = record.verdict.failing == 0;
  record.why = "torch.utils.deterministic.fill_uninitialized_memory's documentation";
  record.status = record.verdict.pass ? Status::kPassed : Status::kFailed;
  if (!record.verdict.pass)
    record.message = std::to_string(record.verdict.failing) + " of " +
                     std::to_string(made.numel()) + " elements are not filled";
  return record;
}

}  // namespace assay::determinism
