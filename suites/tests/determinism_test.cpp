// The determinism suites' measuring: a call that varies is seen, a steady one is not accused, and a
// promise that is broken is a failure.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "fixtures/draw.h"
#include "fixtures/suite.h"
#include "suites/determinism/direct_convolution.h"
#include "suites/determinism/filled.h"
#include "suites/determinism/routine.h"
#include "suites/determinism/verdict.h"

namespace assay::determinism {
namespace {

at::Tensor some() { return fullMantissa({64}, 1, at::kFloat); }

// A call whose last element is one unit in the last place off in every `period`-th run.
Call unsteady(int period) {
  auto count = std::make_shared<int>(0);
  return [=] {
    auto result = some();
    if (++*count % period == 0) result.view(at::kInt)[-1] += 1;
    return std::vector{result};
  };
}

Record judged(const Call& call, const std::string& promise) {
  Record record;
  record.status = Status::kPassed;
  judge(record, {.promise = promise, .source = "a test", .call = call}, {some()}, false);
  return record;
}

TEST(Repetition, EnoughRunsForTheRate) {
  EXPECT_EQ(runsFor(0.02, 1e-3), 342);
  EXPECT_LE(missProbability(0.02, 342), 1e-3);
  EXPECT_GT(missProbability(0.02, 341), 1e-3);
  EXPECT_THROW(runsFor(0, 1e-3), std::invalid_argument);
  EXPECT_THROW(runsFor(0.02, 1), std::invalid_argument);
}

TEST(Repetition, CountsWhatDiffersAndByHowMuch) {
  const auto spread = repeat(unsteady(10), {some()}, 50, Kind::kAgain);
  EXPECT_EQ(spread.runs, 50);
  EXPECT_EQ(spread.differing, 5);
  EXPECT_EQ(spread.elements, 1);
  EXPECT_EQ(spread.ulp, 1);
  EXPECT_GT(spread.relative, 0);
  EXPECT_LT(spread.relative, 1e-6);
}

TEST(Repetition, ASteadyCallIsSteady) {
  for (const auto kind : {Kind::kAgain, Kind::kOtherStream, Kind::kMoved, Kind::kUnderLoad}) {
    const auto spread = repeat([] { return std::vector{some()}; }, {some()}, 20, kind);
    EXPECT_EQ(spread.differing, 0);
    EXPECT_EQ(spread.elements, 0);
  }
}

TEST(Repetition, BitsCountNotValues) {
  const auto nan = at::full({3}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(repeat([&] { return std::vector{nan.clone()}; }, {nan}, 3, Kind::kAgain).differing, 0);
  const auto zero = at::zeros({3});
  EXPECT_EQ(repeat([&] { return std::vector{-zero}; }, {zero}, 3, Kind::kAgain).differing, 3);
}

TEST(Repetition, AnotherCountOfOutputsIsAnError) {
  const Call two = [] { return std::vector{some(), some()}; };
  EXPECT_THROW(repeat(two, {some()}, 3, Kind::kAgain), std::logic_error);
}

TEST(Repetition, DrawnNumbersShowTheOrderOfASum) {
  const auto forwards = [](const at::Tensor& x) {
    float sum = 0;
    for (int64_t k = 0; k < x.numel(); ++k) sum += x[k].item<float>();
    return sum;
  };
  const auto plain =
      draw({{"kind", "normal"}, {"shape", {999}}, {"key", {20240229, 1}}}).to(at::kFloat);
  EXPECT_EQ(forwards(plain), forwards(plain.flip({0})));  // exact: no race would show
  const auto full = fullMantissa({999}, 1, at::kFloat);
  EXPECT_NE(forwards(full), forwards(full.flip({0})));
}

TEST(Judge, ABrokenPromiseIsAFailure) {
  const auto record = judged(unsteady(30), "equal bits");
  EXPECT_EQ(record.status, Status::kFailed);
  EXPECT_NE(record.message.find("BROKEN PROMISE"), std::string::npos) << record.message;
  EXPECT_EQ(record.details["determinism"]["verdict"], "BROKEN PROMISE");
}

TEST(Judge, WhatMayVaryMay) {
  EXPECT_EQ(judged(unsteady(30), "may vary").status, Status::kPassed);
  EXPECT_EQ(judged(unsteady(30), "may vary").details["determinism"]["verdict"], "VARIES");
}

TEST(Judge, ASteadyCall) {
  const Call steady = [] { return std::vector{some()}; };
  EXPECT_EQ(judged(steady, "equal bits").details["determinism"]["verdict"], "STABLE");
  EXPECT_EQ(judged(steady, "none").details["determinism"]["verdict"], "STABLE, not promised");
  EXPECT_GT(judged(steady, "none").verdict.checked, 60);
}

// Float atomics on a GPU, announced as deterministic.
TEST(Judge, APlantedRace) {
  const auto devices = visibleDevices("cuda");
  if (devices.empty()) GTEST_SKIP() << "needs a GPU";
  const auto rows = fullMantissa({20000, 8}, 1, at::kFloat).to(c10::Device(devices[0]));
  const auto into = at::arange(20000, rows.options().dtype(at::kLong)).remainder(50);
  const Call race = [=] {
    return std::vector{at::zeros({50, 8}, rows.options()).index_add(0, into, rows)};
  };
  Record record;
  record.status = Status::kPassed;
  judge(record, {.promise = "equal bits", .source = "a test", .call = race}, race(), false);
  EXPECT_EQ(record.status, Status::kFailed);
  EXPECT_EQ(record.details["determinism"]["verdict"], "BROKEN PROMISE");
}

TEST(Filled, NewMemoryIsFilledAndWithoutTheSettingItIsNot) {
  for (const auto& call : fillingCalls()) {
    for (const char* dtype : {"float32", "float64", "int64", "bool"}) {
      const Variant variant{.device = "cpu", .dtype = dtype};
      EXPECT_EQ(runFilled(call, variant).status, Status::kPassed) << call << " " << dtype;
    }
    // Memory that another test poisoned holds NaN and true, but not the largest integer.
    const auto off = runFilled(call, {.device = "cpu", .dtype = "int64"}, false);
    EXPECT_EQ(off.status, Status::kFailed) << call;
    EXPECT_NE(off.message.find("are not filled"), std::string::npos);
  }
}

// The definition against LibTorch's float64 kernels: a slip in an index would show in every digit.
TEST(DirectConvolution, AgreesWithFloat64Kernels) {
  const Problem flat{"flat", 2, 4, 6, 2, {1, 9, 7}, {1, 3, 2}, {1, 2, 1}, {1, 1, 2}, {0, 1, 1}, 2};
  const Problem deep{"deep", 1, 2, 3, 1, {4, 5, 6}, {3, 2, 3}, {1, 2, 1}, {1, 1, 1}, {1, 0, 1}, 3};
  for (const auto& p : {flat, deep}) {
    const auto x = fullMantissa(p.inputShape(), 1, at::kDouble).requires_grad_();
    const auto w = fullMantissa(p.weightShape(), 2, at::kDouble).requires_grad_();
    const auto last = [&](const std::array<int64_t, 3>& a) {
      return std::vector<int64_t>(a.end() - p.spatial, a.end());
    };
    const auto y = at::convolution(x, w, {}, last(p.stride), last(p.padding), last(p.dilation),
                                   false, std::vector<int64_t>(p.spatial, 0), p.groups);
    const auto dy = fullMantissa(p.outputShape(), 3, at::kDouble);
    const auto gradients = torch::autograd::grad({y}, {x, w}, {dy});
    const auto sums = convolve(p, x.detach(), w.detach(), dy);
    EXPECT_TRUE(at::allclose(sums.output.value, y.detach(), 1e-12, 1e-12)) << p.name;
    EXPECT_TRUE(at::allclose(sums.inputGradient.value, gradients[0], 1e-12, 1e-12)) << p.name;
    EXPECT_TRUE(at::allclose(sums.weightGradient.value, gradients[1], 1e-12, 1e-12)) << p.name;
    EXPECT_TRUE(at::ge(sums.output.scale, sums.output.value.abs()).all().item<bool>()) << p.name;
  }
}

}  // namespace
}  // namespace assay::determinism
