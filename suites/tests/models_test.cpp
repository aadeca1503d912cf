// The models' suites against planted faults: each must be caught, and where it is; what is harmless
// must not be.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include "fixtures/tests/tf32.h"
#include "suites/models/multi_view.h"
#include "suites/models/parity.h"
#include "suites/models/resnet.h"
#include "suites/models/small_models.h"

namespace assay::models {
namespace {

ObservedModel goldenOf(const std::string& name) {
  return ObservedModel::load(ASSAY_SOURCE_DIR "/golden", name);
}

Variant onCpu(const std::string& dtype) { return {.device = "cpu", .dtype = dtype}; }

Subject multiView(const EncoderForm& form) {
  return {.name = "multi_view_transformer",
          .run = [=](const ObservedModel& golden, const Variant& variant,
                     Look look) { return trainSteps(golden, variant, look, form); },
          .gives = form.fused ? Wanted(outsideOfAttention) : nullptr};
}

Record wholeRun(Planted planted, const std::string& dtype, bool fused = false) {
  return freeRunning(goldenOf("multi_view_transformer"), multiView({planted, fused}), onCpu(dtype),
                     false);
}

Record layers(Planted planted, const std::string& dtype, bool fused = false) {
  return isolated(goldenOf("multi_view_transformer"), multiView({planted, fused}), onCpu(dtype),
                  false);
}

// The result that is named first.
std::string firstOf(const Record& record) {
  return record.message.substr(0, record.message.find(' '));
}

TEST(MultiView, PassesAsItIs) {
  for (const char* dtype : {"float32", "float64"}) {
    const auto whole = wholeRun(Planted::kNothing, dtype);
    EXPECT_EQ(whole.status, Status::kPassed) << whole.message;
    EXPECT_GT(whole.verdict.checked, 2000);
    const auto alone = layers(Planted::kNothing, dtype);
    EXPECT_EQ(alone.status, Status::kPassed) << alone.message;
    EXPECT_GT(alone.verdict.checked, 3000);
  }
}

struct Slip {
  Planted planted;
  const char* dtype;
  const char* first;  // the result that the free-running check names first
  const char* layer;  // the layer that its own input convicts; "": no layer alone is wrong
};

class MultiViewSlip : public testing::TestWithParam<Slip> {};

TEST_P(MultiViewSlip, IsCaughtAndNamed) {
  const auto& slip = GetParam();
  const auto whole = wholeRun(slip.planted, slip.dtype);
  EXPECT_EQ(whole.status, Status::kFailed);
  EXPECT_EQ(firstOf(whole), slip.first) << whole.message;
  const auto alone = layers(slip.planted, slip.dtype);
  EXPECT_EQ(firstOf(alone), slip.layer) << alone.message;
}

INSTANTIATE_TEST_SUITE_P(
    Planted, MultiViewSlip,
    testing::Values(
        Slip{Planted::kUnmaskedPadding, "float32", "step0/shared.layer0.probabilities",
             "shared.layer0.probabilities"},
        Slip{Planted::kDropoutInEval, "float32", "step0/shared.layer0.attention_norm", ""},
        Slip{Planted::kStaleWeights, "float32", "step1/start_probabilities", ""},
        Slip{Planted::kLabelClamp, "float32", "step0/loss", ""},
        Slip{Planted::kLossWeight, "float32", "step0/loss", ""},
        Slip{Planted::kLayerNormEps, "float32", "step0/shared.norm", "shared.norm"},
        Slip{Planted::kLayerNormEps, "float64", "step0/shared.norm", "shared.norm"},
        Slip{Planted::kGeluTanh, "float32", "step0/shared.layer0.gelu", "shared.layer0.gelu"},
        Slip{Planted::kAttentionScale, "float32", "step0/shared.layer0.scores",
             "shared.layer0.scores"},
        Slip{Planted::kHeadOrder, "float32", "step0/shared.layer0.scores", ""},
        Slip{Planted::kResidualDropped, "float32", "step0/shared.layer0.attention_norm", ""},
        Slip{Planted::kNoWeightDecay, "float32", "step0/weight/shared.word.weight", ""}));

// scaled_dot_product_attention shows neither scores nor probabilities: its context is the first.
TEST(MultiViewFused, PassesAndItsSlipsAreNamed) {
  for (const char* dtype : {"float32", "float64"}) {
    const auto whole = wholeRun(Planted::kNothing, dtype, true);
    EXPECT_EQ(whole.status, Status::kPassed) << whole.message;
    EXPECT_TRUE(whole.details.contains("attention_kernel"));
    const auto alone = layers(Planted::kNothing, dtype, true);
    EXPECT_EQ(alone.status, Status::kPassed) << alone.message;
  }
  for (const auto planted : {Planted::kUnmaskedPadding, Planted::kAttentionScale}) {
    EXPECT_EQ(firstOf(wholeRun(planted, "float32", true)), "step0/shared.layer0.context");
    EXPECT_EQ(firstOf(layers(planted, "float32", true)), "shared.layer0.context");
  }
}

struct Cause {
  Planted planted;
  const char* name;  // what the cause begins with; "": none of the known ones
};

class MultiViewCause : public testing::TestWithParam<Cause> {};

TEST_P(MultiViewCause, IsNamed) {
  for (const char* dtype : {"float32", "float64"}) {
    const auto record = wholeRun(GetParam().planted, dtype);
    ASSERT_EQ(record.status, Status::kFailed);
    const auto cause = record.details.at("cause").get<std::string>();
    EXPECT_TRUE(cause.starts_with(GetParam().name)) << cause;
    EXPECT_EQ(cause.find(';'), std::string::npos) << cause;  // it alone
  }
}

INSTANTIATE_TEST_SUITE_P(Planted, MultiViewCause,
                         testing::Values(Cause{Planted::kUnmaskedPadding, "unmasked padding"},
                                         Cause{Planted::kStaleWeights, "stale weights"},
                                         Cause{Planted::kDropoutInEval, "dropout left on in eval"},
                                         Cause{Planted::kLabelClamp, "label clamp"},
                                         Cause{Planted::kGeluTanh, "none of the known ones"},
                                         Cause{Planted::kLossWeight, "none of the known ones"},
                                         Cause{Planted::kHeadOrder, "none of the known ones"}));

TEST(MultiView, HarmlessRoundingHasNoCause) {
  for (const char* dtype : {"float32", "float64"}) {
    const auto record = wholeRun(Planted::kNothing, dtype);
    EXPECT_FALSE(record.details.contains("cause"));
    const auto& evidence = record.details.at("evidence");
    const double allowed = evidence.at("rounding_moves_at_most");
    EXPECT_GT(allowed, 0);
    for (const char* one :
         {"padding_moves", "a_second_run_moves", "the_optimizers_weights_move", "labels_changed"})
      EXPECT_LE(evidence.at(one).get<double>(), allowed) << one;
  }
  EXPECT_TRUE(causeOf({.padding = 1e-7, .weights = 1e-7, .rounding = 1e-6}).starts_with("none"));
}

// The same probes on a model of the parity suite, after a short training.
TEST(Parity, CausesAreNamed) {
  Training brief;
  brief.steps = 40;
  brief.heldOut = 50;
  const auto found = [&](Planted planted) {
    Evidence evidence;
    train(brief, 1, onCpu("float32"), planted, &evidence);
    return causeOf(evidence);
  };
  EXPECT_TRUE(found(Planted::kNothing).starts_with("none")) << found(Planted::kNothing);
  EXPECT_TRUE(found(Planted::kUnmaskedPadding).starts_with("unmasked padding"));
  EXPECT_TRUE(found(Planted::kStaleWeights).starts_with("stale weights"));
  EXPECT_TRUE(found(Planted::kDropoutInEval).starts_with("dropout left on in eval"));
  EXPECT_TRUE(found(Planted::kLabelClamp).starts_with("label clamp"));
}

// TF32 in every product of a linear layer, where IEEE was asked for.
TEST(MultiView, Tf32IsNamedWhereItIs) {
  torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  library.impl("mm", &mmInTf32);  // the C++ frontend's linear is a matmul and a sum
  const auto whole = wholeRun(Planted::kNothing, "float32");
  EXPECT_EQ(whole.status, Status::kFailed);
  EXPECT_EQ(firstOf(whole), "step0/shared.layer0.query") << whole.message;
  const auto alone = layers(Planted::kNothing, "float32");
  EXPECT_EQ(firstOf(alone), "shared.layer0.query") << alone.message;
  EXPECT_EQ(wholeRun(Planted::kNothing, "float64").status, Status::kPassed);
  // Asked for TF32, the same run is inside its bounds.
  auto variant = onCpu("float32");
  variant.math = "tf32";
  const auto golden = goldenOf("multi_view_transformer");
  for (const auto& record : {freeRunning(golden, multiView({}), variant, false),
                             isolated(golden, multiView({}), variant, false)})
    EXPECT_EQ(record.status, Status::kPassed) << record.message;
}

using SmallRun = Run (*)(const ObservedModel&, const Variant&, Look, SmallSlip);

Record smallRun(const std::string& name, SmallRun run, SmallSlip slip, bool alone) {
  const bool fused = run == &runCausalDecoderFused;
  const Subject subject{.name = name,
                        .run = [=](const ObservedModel& golden, const Variant& variant,
                                   Look look) { return run(golden, variant, look, slip); },
                        .gives = fused ? Wanted(outsideOfAttention) : nullptr};
  const auto golden = goldenOf(name);
  return alone ? isolated(golden, subject, onCpu("float32"), false)
               : freeRunning(golden, subject, onCpu("float32"), false);
}

struct Small {
  const char* name;
  SmallRun run;
  SmallSlip slip;
  const char* first;
};

class SmallModelSlip : public testing::TestWithParam<Small> {};

TEST_P(SmallModelSlip, IsCaughtAndNamed) {
  const auto& small = GetParam();
  EXPECT_EQ(firstOf(smallRun(small.name, small.run, small.slip, false)), small.first);
  for (const bool alone : {false, true}) {
    const auto clean = smallRun(small.name, small.run, SmallSlip::kNothing, alone);
    EXPECT_EQ(clean.status, Status::kPassed) << clean.message;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Planted, SmallModelSlip,
    testing::Values(
        Small{"causal_decoder", runCausalDecoder, SmallSlip::kCacheOffByOne, "decode1/head"},
        Small{"causal_decoder", runCausalDecoder, SmallSlip::kCacheOfWrongRow, "decode1/head"},
        Small{"causal_decoder", runCausalDecoder, SmallSlip::kNoCausalMask, "layer0.probabilities"},
        Small{"causal_decoder", runCausalDecoderFused, SmallSlip::kNoCausalMask, "layer0.context"},
        Small{"causal_decoder", runCausalDecoderFused, SmallSlip::kCacheOffByOne, "decode1/head"},
        Small{"lstm_language_model", runLstm, SmallSlip::kGateOrder, "last_hidden0"},
        Small{"unet", runUnet, SmallSlip::kMomentum, "down0.norm1.running_mean"},
        Small{"unet", runUnet, SmallSlip::kSkipDropped, "up0.convolution1"},
        Small{"depthwise_cnn", runDepthwiseCnn, SmallSlip::kBiasedVariance,
              "train/stem_norm.running_var"},
        Small{"depthwise_cnn", runDepthwiseCnn, SmallSlip::kTrainForEval, "eval/stem_norm"},
        Small{"depthwise_cnn", runDepthwiseCnn, SmallSlip::kMomentum,
              "train/stem_norm.running_mean"},
        Small{"depthwise_cnn", runDepthwiseCnn, SmallSlip::kGroupsShifted,
              "eval/block0.depthwise"}));

Record resnet(const ResnetForm& form, const std::string& dtype, bool train) {
  static const auto evalGolden = goldenOf("resnet50");
  static const auto trainGolden = goldenOf("resnet50_train");
  const Subject subject{.name = "resnet50",
                        .run =
                            [=](const ObservedModel& golden, const Variant& variant, Look look) {
                              return train ? trainResnet(golden, variant, look, form)
                                           : runResnet(golden, variant, look, form);
                            },
                        .wanted = train ? Wanted() : Wanted(firstImages)};
  return freeRunning(train ? trainGolden : evalGolden, subject, onCpu(dtype), false);
}

TEST(Resnet, FoldedOrNotItPasses) {
  for (const bool folded : {false, true}) {
    const auto record = resnet({.folded = folded}, "float32", false);
    EXPECT_EQ(record.status, Status::kPassed) << record.message;
    EXPECT_EQ(record.details.at("rows").size(), 14U);  // seven of each of the two images
  }
}

TEST(Resnet, SlipsAreCaughtAndNamed) {
  EXPECT_EQ(firstOf(resnet({.residual = false}, "float32", false)), "image0/layer4");
  EXPECT_EQ(firstOf(resnet({.eps = 1e-3}, "float32", false)), "image0/stem");
  EXPECT_EQ(firstOf(resnet({.folded = true, .eps = 2e-5}, "float64", false)), "image0/stem");
}

TEST(Resnet, SlipsOfTrainingAreCaughtAndNamed) {
  EXPECT_EQ(resnet({}, "float32", true).status, Status::kPassed);
  EXPECT_EQ(firstOf(resnet({.momentum = 0.9}, "float32", true)), "bn1.running_mean");
}

TEST(Parity, QuantilesAndTests) {
  EXPECT_NEAR(studentQuantile(0.999, 7), 5.408, 1e-3);
  EXPECT_NEAR(studentQuantile(0.95, 2), 4.303, 1e-3);
  EXPECT_NEAR(mcnemar(10, 0), 2.0 / 1024, 1e-12);
  EXPECT_NEAR(mcnemar(3, 1), 10.0 / 16, 1e-12);
  EXPECT_EQ(mcnemar(5, 5), 1);
  EXPECT_THROW(studentQuantile(0.9, 0), std::invalid_argument);
}

// 1,000 questions of which so many are answered.
Score answered(int64_t right) {
  Score score;
  for (int64_t k = 0; k < 1000; ++k) {
    score.exact.push_back(k < right);
    score.f1.push_back(k < right ? 1 : 0);
  }
  return score;
}

TEST(Parity, EquivalenceIsShownOrNot) {
  const auto of = [](const std::vector<int64_t>& rights) {
    std::vector<Score> scores;
    scores.reserve(rights.size());
    for (const auto right : rights) scores.push_back(answered(right));
    return scores;
  };
  const auto known = of({900, 905, 910, 903, 899, 907, 901, 904});
  EXPECT_TRUE(compare(known, known).equivalent);
  EXPECT_TRUE(compare(known, of({903, 902, 911, 905, 898, 905, 903, 902})).equivalent);
  const auto worse = compare(known, of({790, 795, 800, 793, 789, 797, 791, 794}));
  EXPECT_FALSE(worse.equivalent);
  EXPECT_NE(worse.message.find("beyond the margin"), std::string::npos) << worse.message;
  EXPECT_EQ(worse.onlyReference, 880);
  EXPECT_LT(worse.mcnemar, 1e-12);
  // One seed in eight that did not learn is no proof of parity.
  const auto unsure = compare(known, of({900, 905, 500, 903, 899, 907, 901, 904}));
  EXPECT_FALSE(unsure.equivalent);
  EXPECT_NE(unsure.message.find("too uncertain"), std::string::npos) << unsure.message;
  EXPECT_FALSE(compare(of({790, 795, 800, 793}), of({900, 905, 910, 903})).equivalent);  // better
  EXPECT_THROW(compare(known, of({1, 2})), std::invalid_argument);
  // Nor are two that learnt nothing.
  const auto idle = of({900, 905, 500, 903, 899, 907, 901, 904});
  EXPECT_FALSE(compare(idle, idle).equivalent);
  EXPECT_NE(compare(idle, idle).message.find("seed 3: 50.0 %"), std::string::npos)
      << compare(idle, idle).message;

  EXPECT_EQ(judgeParity(known, known, {.rounding = 1e-6}).status, Status::kPassed);
  const auto shown = judgeParity(known, known, {.repeated = 0.1, .rounding = 1e-6});
  EXPECT_EQ(shown.status, Status::kFailed);
  EXPECT_TRUE(shown.message.starts_with("dropout left on in eval")) << shown.message;
  EXPECT_EQ(judgeParity(idle, idle, {.rounding = 1e-6}).status, Status::kFailed);
  // What other tokens behind the mask turn into a NaN has moved, whatever the scores say.
  for (const auto& [first, second] : {std::pair{0.0, double{NAN}}, std::pair{double{NAN}, 0.0}}) {
    Evidence evidence{.padding = first, .rounding = 1e-6};
    evidence.join({.padding = second, .rounding = 1e-6});
    EXPECT_TRUE(std::isnan(evidence.padding));
    EXPECT_EQ(judgeParity(known, known, evidence).status, Status::kFailed);
  }
}

TEST(Question, OneTextHoldsOneQuestionAndItsAnswer) {
  const QuestionTask task{.wrongQuestions = 0};
  const auto batch = task.draw(200, 1, 7);
  EXPECT_TRUE(at::equal(batch.tokens, task.draw(200, 1, 7).tokens));
  EXPECT_FALSE(at::equal(batch.tokens, task.draw(200, 1, 8).tokens));
  for (int64_t k = 0; k < 200; ++k) {
    const auto inside = batch.tokens[k].masked_select(batch.mask[k].gt(0));
    const auto questions = inside.masked_select(at::logical_and(inside.ge(2), inside.le(3)));
    ASSERT_EQ(questions.numel(), 1);
    const auto open = 8 + 2 * (questions.item<int64_t>() - 2);
    EXPECT_EQ(batch.tokens[k][batch.starts[k].item<int64_t>()].item<int64_t>(), open);
    EXPECT_EQ(batch.tokens[k][batch.ends[k].item<int64_t>()].item<int64_t>(), open + 1);
    EXPECT_EQ(batch.mask[k][batch.ends[k].item<int64_t>()].item<int64_t>(), 1);
  }
  // Exact answers score 100, spans that share half of their places less.
  auto starts = at::one_hot(batch.starts, task.length), ends = at::one_hot(batch.ends, task.length);
  EXPECT_EQ(score(batch, starts, ends).exactMatch(), 100);
  EXPECT_EQ(score(batch, starts, ends).meanF1(), 100);
  const auto half = score(batch, starts, starts);
  EXPECT_EQ(half.exactMatch(), 0);
  EXPECT_GT(half.meanF1(), 30);
  EXPECT_LT(half.meanF1(), 70);
}

TEST(Observed, ChecksumsSeeASwap) {
  auto x = at::arange(1000, at::kDouble).sin();
  const double before = checksum(x);
  std::swap(x.data_ptr<double>()[3], x.data_ptr<double>()[700]);
  EXPECT_GT(std::abs(checksum(x) - before), 0.1);
}

TEST(Observed, ARunThatGivesLessOrMoreIsRefused) {
  const auto golden = goldenOf("multi_view_transformer");
  auto run = trainSteps(golden, onCpu("float32"), Look::kResults);
  auto more = run.results;
  more["step0/other"] = at::zeros({1});
  EXPECT_THROW(golden.compare(more, onCpu("float32")), std::logic_error);
  auto less = run.results;
  less.erase("step0/loss");
  EXPECT_THROW(golden.compare(less, onCpu("float32")), std::logic_error);
  auto other = run.results;
  other["step0/loss"] = at::zeros({2});
  EXPECT_THROW(golden.compare(other, onCpu("float32")), std::logic_error);
}

TEST(Observed, WhatIsNoObservedModelIsRefused) {
  EXPECT_THROW(goldenOf("no_such_model"), GoldenError);
  EXPECT_THROW(goldenOf("mutated_lenet"), GoldenError);  // a model of another kind
}

TEST(Observed, ANaNIsBeyondEveryBound) {
  const auto golden = goldenOf("multi_view_transformer");
  auto results = trainSteps(golden, onCpu("float32"), Look::kResults).results;
  results["step0/loss"] = at::full({}, NAN);
  Record record;
  judgeSeen(record, golden.compare(results, onCpu("float32")));
  EXPECT_EQ(record.status, Status::kFailed);
  EXPECT_EQ(firstOf(record), "step0/loss");
  EXPECT_TRUE(std::isinf(record.verdict.error));
}

}  // namespace
}  // namespace assay::models
