// Does this device train as well as the reference? Both train the multi-view transformer on the
// same questions from the same weights, with several seeds; each pair of trained models answers the
// same held-out questions.
//
// Trained models differ from seed to seed, so single answers are no independent trials: the verdict
// is a confidence interval of the mean difference over seeds, which must lie within a margin
// (equivalence, not "no difference was seen"). McNemar's test over the questions stands beside it.
#pragma once

#include "fixtures/record.h"
#include "suites/models/evidence.h"
#include "suites/models/question_task.h"

namespace assay::models {

struct Training {
  QuestionTask task;
  EncoderConfig encoder{.vocabulary = 40,
                        .length = 24,
                        .width = 64,
                        .heads = 2,
                        .inner = 128,
                        .layers = 2,
                        .dropout = 0.5};
  int64_t experts = 2;
  int64_t steps = 450;  // twice what the slowest of 32 seeds takes to learn the task
  int64_t batch = 32;
  double rate = 2e-3;
  int64_t heldOut = 500;  // of each domain
  int64_t seeds = 8;
};

// Trains with one seed and answers the held-out questions of both domains; `evidence`: of the known
// causes, from the model that answers.
Score train(const Training& training, uint32_t seed, const Variant& variant,
            Planted planted = Planted::kNothing, Evidence* evidence = nullptr);

// What rounding may move a probability by where a model runs again on the same device: a sum in
// another order, which TF32's unit bounds.
inline constexpr double kRoundingMoves = 0x1p-10 * 8;

// Percent of the exact matches that every seed of the reference must reach (90 can be learnt):
// models that have not learnt are no comparison.
inline constexpr double kLearned = 85;

struct Comparison {
  double difference = 0;  // mean over seeds, percent: device less reference
  double halfWidth = 0;   // of its confidence interval
};

struct Parity {
  Comparison exact, f1;
  double referenceExact = 0, deviceExact = 0;  // means, percent
  int64_t onlyReference = 0, onlyDevice = 0;   // questions that one of a pair answered
  double mcnemar = 1;                          // two-sided p of these two counts
  bool equivalent = false;                     // learnt, and both intervals within the margin
  std::string message;                         // why not
};

// Percent. The report lost 11 points; far less must not be missed, and seeds alone move less.
inline constexpr double kMargin = 2;
// Of the interval over seeds.
inline constexpr double kConfidence = 0.999;

Parity compare(const std::vector<Score>& reference, const std::vector<Score>& device);

// The comparison as a check's record. A known cause that the model itself shows fails too, however
// well it answers.
Record judgeParity(const std::vector<Score>& reference, const std::vector<Score>& device,
                   const Evidence& evidence);

// The quantile of Student's t: P(|T| > t) = 1 - confidence.
double studentQuantile(double confidence, int64_t freedom);
// P of so uneven a split or a more uneven one of b + c fair coins.
double mcnemar(int64_t b, int64_t c);

}  // namespace assay::models
