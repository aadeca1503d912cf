// Training to convergence with planted causes: a test of minutes, under the label "training".
#include <gtest/gtest.h>

#include "fixtures/mode.h"
#include "suites/models/parity.h"

namespace assay::models {
namespace {

// One thread: small operators on several are slow where other programs run beside them.
Variant onCpu(const std::string& dtype) {
  return {.device = "cpu", .dtype = dtype, .oneThread = true};
}

// Training itself, with few seeds: what costs accuracy must not pass, what is harmless must.
class TrainingParity : public testing::Test {
 protected:
  static std::vector<Score> trained(const Variant& variant, Planted planted) {
    const ModeGuard guard(variant, false);
    Training training;
    training.heldOut = 300;
    std::vector<Score> scores;
    for (uint32_t seed = 1; seed <= 3; ++seed)
      scores.push_back(train(training, seed, variant, planted));
    return scores;
  }
  static const std::vector<Score>& reference() {
    static const auto scores = trained(onCpu("float32"), Planted::kNothing);
    return scores;
  }
};

TEST_F(TrainingParity, HarmlessRoundingPasses) {
  const auto parity = compare(reference(), trained(onCpu("float64"), Planted::kNothing));
  EXPECT_TRUE(parity.equivalent) << parity.message;
  EXPECT_GT(parity.referenceExact, 85);
}

TEST_F(TrainingParity, WhatCostsAccuracyFails) {
  for (const auto planted : {Planted::kUnmaskedPadding, Planted::kStaleWeights,
                             Planted::kDropoutInEval, Planted::kLabelClamp}) {
    const auto parity = compare(reference(), trained(onCpu("float32"), planted));
    EXPECT_FALSE(parity.equivalent) << static_cast<int>(planted);
    EXPECT_LT(parity.exact.difference, -0.5) << static_cast<int>(planted);
  }
}

}  // namespace
}  // namespace assay::models
