// A generated question-answering task: a text holds two marked spans and one question token, which
// says which of them is the answer. Drawn by the counter-based generator, the same on every device.
//
// The text stands anywhere in its buffer, the question anywhere in the text, and around the text is
// what other texts left there: other questions among it. Who sees past the mask cannot tell which
// question counts. Some texts carry the wrong question, so that no model answers all.
#pragma once

#include "suites/models/transformer.h"

namespace assay::models {

struct QuestionTask {
  int64_t length = 24;
  int64_t vocabulary = 40;
  double wrongQuestions = 0.1;

  // `count` texts of one domain (0 or 1); equal seeds give equal texts.
  [[nodiscard]] Batch draw(int64_t count, int64_t domain, uint32_t seed) const;
};

// Per question: was the span found exactly, and how much of it (F1 over positions)?
struct Score {
  std::vector<bool> exact;
  std::vector<double> f1;
  [[nodiscard]] double exactMatch() const;  // percent
  [[nodiscard]] double meanF1() const;      // percent
};

// The best start and end within the text; probabilities (B, T) on any device.
Score score(const Batch& batch, const at::Tensor& starts, const at::Tensor& ends);

}  // namespace assay::models
