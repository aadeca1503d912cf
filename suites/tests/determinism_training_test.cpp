// The training run and the contract's further repetitions against planted faults: kernels put in
// front of the right ones through the dispatcher that claim determinism, or IEEE arithmetic.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <algorithm>

#include "fixtures/tests/tf32.h"
#include "suites/determinism/aten_contract.h"
#include "suites/determinism/training_check.h"

namespace assay::determinism {
namespace {

const std::filesystem::path kGoldens = std::filesystem::path(ASSAY_SOURCE_DIR) / "golden";

const ObservedModel& golden() {
  static const auto kGolden = ObservedModel::load(kGoldens, "repeated_training");
  return kGolden;
}

TrainingMode mode(const std::string& dtype, bool deterministic) {
  TrainingMode result{.variant = {.device = "cpu", .dtype = dtype}};
  result.variant.deterministic = deterministic;
  return result;
}

Record trained(const std::string& dtype, bool deterministic) {
  return runTraining(smallTask(golden()), &golden(), mode(dtype, deterministic), false);
}

std::string verdictOf(const Record& record) {
  return record.details["determinism"]["verdict"].get<std::string>();
}

// Kernels of the CPU that the tests replace.
torch::Library overrides() {
  return {torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__};
}

int calls = 0;

void nudge(at::Tensor& result) { result.view(-1).view(at::kInt)[-1] += 1; }

at::Tensor linearThatVaries(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                            const at::Scalar&, const at::Scalar&) {
  auto result = at::mm(mat1, mat2) + self;
  // A few units in the last place: one alone may vanish in the mean over the batch.
  return ++calls % 50 == 0 ? result.mul_(1 + 0x1p-20) : result;
}

TEST(RepeatedTraining, TheCpuAgreesWithNumPy) {
  for (const char* dtype : {"float32", "float64"}) {
    const auto record = trained(dtype, true);
    EXPECT_EQ(record.status, Status::kPassed) << record.message;
    EXPECT_EQ(verdictOf(record), "STABLE");
    EXPECT_GT(record.verdict.checked, 80);
    const auto& distances = record.details["training"]["distances"];
    EXPECT_EQ(distances["cpu_float64"]["losses"].size(), 20U);
    EXPECT_EQ(distances["cpu_float64"]["parameters"].get<double>() == 0,
              std::string(dtype) == "float64");
  }
}

TEST(RepeatedTraining, AStepThatVariesBreaksThePromiseOfDeterministicModeOnly) {
  auto library = overrides();
  library.impl("addmm", &linearThatVaries);
  const auto promised = trained("float32", true);
  EXPECT_EQ(promised.status, Status::kFailed);
  EXPECT_EQ(verdictOf(promised), "BROKEN PROMISE");
  EXPECT_NE(promised.message.find("equal bits are promised"), std::string::npos)
      << promised.message;
  const auto off = trained("float32", false);
  EXPECT_EQ(off.status, Status::kPassed) << off.message;
  EXPECT_EQ(verdictOf(off), "VARIES");
}

TEST(RepeatedTraining, SilentTf32BreaksThePromiseOfIeee) {
  auto library = overrides();
  library.impl("addmm", &addmmInTf32);
  const auto record = trained("float32", true);
  EXPECT_EQ(record.status, Status::kFailed);
  EXPECT_EQ(verdictOf(record), "BROKEN PROMISE");
  EXPECT_NE(record.message.find("TF32's precision came"), std::string::npos) << record.message;
  EXPECT_EQ(trained("float64", true).status, Status::kPassed);  // the fault leaves it alone
}

TEST(RepeatedTraining, AnotherOptimizerIsBeyondTheGolden) {
  auto task = smallTask(golden());
  task.config["momentum"] = 0.8;
  const auto record = runTraining(task, &golden(), mode("float64", true), true);
  EXPECT_EQ(record.status, Status::kFailed);
  EXPECT_NE(record.message.find("something less came"), std::string::npos) << record.message;
}

TEST(RepeatedTraining, OneUlpIsOneUlpAndLessThanRounding) {
  const auto task = smallTask(golden());
  const auto moved = movedByOneUlp(task, 1);
  for (const auto& [name, before] : task.weights) {
    const auto a = before.to(at::kFloat), b = moved.weights.at(name).to(at::kFloat);
    // Below a power of two the next number is half an ulp of that side away.
    const auto step = (a.view(at::kInt) - b.view(at::kInt)).abs();
    EXPECT_TRUE(at::logical_and(step.ge(1), step.le(2)).all().item<bool>()) << name;
  }
  EXPECT_EQ(runGrowth(task, golden()).status, Status::kPassed);
}

TEST(RepeatedTraining, AGrowthOfNothingIsAFailure) {
  auto task = smallTask(golden());
  task.name = "frozen";
  for (auto& [name, one] : task.weights) one = at::zeros_like(one);
  task.inputs["images"] = at::zeros_like(task.inputs["images"]);
  EXPECT_EQ(runGrowth(task, golden()).status, Status::kFailed);
}

TEST(RepeatedTraining, EveryCombinationIsThere) {
  EXPECT_EQ(trainingModes("cuda:0", false).size(), 20U);
  EXPECT_EQ(trainingModes("cuda:0", true).size(), 2U);
  EXPECT_EQ(trainingModes("cpu", false).size(), 4U);
}

// ---- the contract

const AtenRow& indexAdd() {
  static const auto kRows = atenRows();
  return *std::find_if(kRows.begin(), kRows.end(),
                       [](const AtenRow& row) { return row.name == "index_add"; });
}

Record contract(bool deterministic) {
  Variant variant{.device = "cpu", .dtype = "float32"};
  variant.deterministic = deterministic;
  return runRow(indexAdd(), variant, false);
}

at::Tensor rowsAdded(const at::Tensor& self, const at::Tensor& index, const at::Tensor& source) {
  return at::scatter_add(self, 0, index.view({-1, 1}).expand_as(source).contiguous(), source);
}

at::Tensor addedSometimesElse(const at::Tensor& self, int64_t, const at::Tensor& index,
                              const at::Tensor& source, const at::Scalar&) {
  auto result = rowsAdded(self, index, source);
  if (++calls % 20 == 0) nudge(result);
  return result;
}

at::Tensor addedByAlignment(const at::Tensor& self, int64_t, const at::Tensor& index,
                            const at::Tensor& source, const at::Scalar&) {
  auto result = rowsAdded(self, index, source);
  if (reinterpret_cast<uintptr_t>(source.const_data_ptr()) % 64 != 0) nudge(result);
  return result;
}

// A plan for one shape that leaves something behind for the next.
at::Tensor addedByPlan(const at::Tensor& self, int64_t, const at::Tensor& index,
                       const at::Tensor& source, const at::Scalar&) {
  static int64_t last = source.size(0);
  auto result = rowsAdded(self, index, source);
  if (source.size(0) != last) nudge(result);
  last = source.size(0);
  return result;
}

TEST(Contract, AKernelThatClaimsDeterminismAndVaries) {
  auto library = overrides();
  library.impl("index_add", &addedSometimesElse);
  const auto record = contract(true);
  EXPECT_EQ(record.status, Status::kFailed);
  EXPECT_EQ(verdictOf(record), "BROKEN PROMISE");
  EXPECT_EQ(verdictOf(contract(false)), "VARIES");
}

TEST(Contract, BitsThatFollowTheAlignmentAreReported) {
  auto library = overrides();
  library.impl("index_add", &addedByAlignment);
  const auto record = contract(true);
  EXPECT_EQ(record.status, Status::kPassed) << record.message;
  const auto& changed = record.details["determinism"]["kinds"]["aligned"]["changed"];
  EXPECT_TRUE(changed.contains("16 bytes"));
  EXPECT_FALSE(changed.contains("64 bytes"));
}

TEST(Contract, APlanOfAnotherShapeIsABrokenPromise) {
  auto library = overrides();
  library.impl("index_add", &addedByPlan);
  const auto record = contract(true);
  EXPECT_EQ(record.status, Status::kFailed);
  EXPECT_NE(record.message.find("after_other_shape"), std::string::npos) << record.message;
}

TEST(Contract, TheDigestOfAPromiseIsRecordedForOtherProcesses) {
  const auto first = contract(true), second = contract(true);
  EXPECT_EQ(first.status, Status::kPassed) << first.message;
  EXPECT_EQ(first.sha256.size(), 64U);
  EXPECT_EQ(first.sha256, second.sha256);
  EXPECT_TRUE(contract(false).sha256.empty());
  EXPECT_TRUE(first.details["determinism"]["kinds"].contains("after_other_shape"));
}

}  // namespace
}  // namespace assay::determinism
