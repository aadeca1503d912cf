// Planted faults that need a GPU: a kernel that claims determinism and adds up by float atomics, a
// flag that is ignored, captures that fail. CTest runs these alone as determinism_faults.gpu.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#ifdef ASSAY_HAS_CUDA
#include <c10/cuda/CUDAException.h>
#endif

#include <algorithm>

#include "fixtures/suite.h"
#include "suites/determinism/aten_contract.h"
#include "suites/determinism/capture.h"
#include "suites/determinism/routine.h"
#include "suites/determinism/training_check.h"

namespace assay::determinism {
namespace {

class DeterminismOnTheGpu : public testing::Test {
 protected:
  void SetUp() override {
    const auto devices = visibleDevices("cuda");
    if (devices.empty()) GTEST_SKIP() << "needs a GPU";
    device = devices.front();
  }
  std::string device;
};

// In whatever mode: the sums of float atomics.
at::Tensor addedByAtomics(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                          const at::Tensor& source, const at::Scalar& alpha) {
  auto& context = at::globalContext();
  const bool before = context.deterministicAlgorithms();
  context.setDeterministicAlgorithms(false, false);
  auto result = at::scatter_add(self, dim, index.view({-1, 1}).expand_as(source).contiguous(),
                                source * alpha);
  context.setDeterministicAlgorithms(before, false);
  return result;
}

AtenRow rowOf(const std::string& name) {
  const auto rows = atenRows();
  return *std::find_if(rows.begin(), rows.end(),
                       [&](const AtenRow& row) { return row.name == name; });
}

Variant deterministic(const std::string& device) {
  Variant variant{.device = device, .dtype = "float32"};
  variant.deterministic = true;
  return variant;
}

std::string verdictOf(const Record& record) {
  return record.details["determinism"]["verdict"].get<std::string>();
}

TEST_F(DeterminismOnTheGpu, AKernelThatClaimsDeterminismAndAddsByAtomics) {
  const auto row = rowOf("index_add");
  EXPECT_EQ(runRow(row, deterministic(device), false).status, Status::kPassed);
  torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  library.impl("index_add", &addedByAtomics);
  const auto record = runRow(row, deterministic(device), false);
  EXPECT_EQ(record.status, Status::kFailed);
  EXPECT_EQ(verdictOf(record), "BROKEN PROMISE");
  const auto replayed = runReplayed(row, deterministic(device), false);
  EXPECT_EQ(replayed.status, Status::kFailed) << replayed.reason;
  EXPECT_EQ(verdictOf(replayed), "BROKEN PROMISE");
}

TEST_F(DeterminismOnTheGpu, SilentTf32BreaksThePromiseOfIeee) {
  const auto golden =
      ObservedModel::load(std::filesystem::path(ASSAY_SOURCE_DIR) / "golden", "repeated_training");
  for (const bool ignored : {false, true}) {
    const auto record =
        runTraining(smallTask(golden), &golden, {.variant = deterministic(device)}, false, ignored);
    EXPECT_EQ(record.status, ignored ? Status::kFailed : Status::kPassed) << record.message;
    EXPECT_EQ(verdictOf(record), ignored ? "BROKEN PROMISE" : "STABLE");
    EXPECT_EQ(record.message.find("TF32's precision came") != std::string::npos, ignored)
        << record.message;
  }
}

TEST_F(DeterminismOnTheGpu, AReplayHasTheEagerBits) {
  const auto record = runReplayed(rowOf("softmax"), deterministic(device), false);
  EXPECT_EQ(record.status, Status::kPassed) << record.message << record.reason;
  EXPECT_EQ(verdictOf(record), "STABLE");
}

// A call that waits is refused beforehand; one that LibTorch does not see waiting invalidates its
// capture. Neither may spoil the capture behind it.
TEST_F(DeterminismOnTheGpu, WhatCannotBeCapturedSaysWhyAndLeavesNothingBehind) {
  const auto x = fullMantissa({1000}, 1, at::kFloat).to(c10::Device(device));
  const Call good = [=] { return std::vector{x * 2}; };
  const Call waits = [=] { return std::vector{x * x.sum().item<double>()}; };
  EXPECT_FALSE(capture(waits).refused.empty());
#ifdef ASSAY_HAS_CUDA
  const Call hidden = [=] {
    auto y = x * 2;
    C10_CUDA_CHECK(cudaDeviceSynchronize());
    return std::vector{y};
  };
  EXPECT_NE(capture(hidden).refused.find("capturing"), std::string::npos)
      << capture(hidden).refused;
#endif
  const auto captured = capture(good);
  ASSERT_TRUE(captured.replay) << captured.refused;
  EXPECT_EQ(repeat(captured.replay, good(), 5, Kind::kAgain).differing, 0);
}

// The outputs of a call that hands out what it computed earlier are not the graph's.
TEST_F(DeterminismOnTheGpu, AReplayThatComputesNothingIsSeen) {
  const auto x = fullMantissa({1000}, 1, at::kFloat).to(c10::Device(device));
  const auto earlier = x * 2;
  const auto captured = capture([=] {
    at::zeros({8}, x.options());
    return std::vector{earlier};
  });
  ASSERT_TRUE(captured.replay) << captured.refused;
  EXPECT_EQ(repeat(captured.replay, {x * 2}, 5, Kind::kAgain).differing, 5);
}

}  // namespace
}  // namespace assay::determinism
