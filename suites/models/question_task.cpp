#include "suites/models/question_task.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "fixtures/draw.h"

namespace assay::models {
namespace {

// Tokens: 0 nothing, 1 begins a text, 2 and 3 the two questions, 4 + 4 d … the marks of domain d
// (open and close of the first span, of the second), 12 and on: words.
constexpr int64_t kBegin = 1, kQuestion = 2, kMarks = 4, kWords = 12;

// Numbers of one text, one after another.
class Stream {
 public:
  Stream(uint32_t seed, uint32_t text) : key_{seed, text} {}
  int64_t below(int64_t limit) {
    const auto word = philox({block_++, 0, 0, 0}, key_)[0];
    return static_cast<int64_t>((static_cast<uint64_t>(word) * static_cast<uint64_t>(limit)) >> 32);
  }

 private:
  std::array<uint32_t, 2> key_;
  uint32_t block_ = 0;
};

struct Text {
  std::vector<int64_t> tokens;
  int64_t begin = 0, size = 0, start = 0, end = 0;
};

// Two spans, one in each half of the text; returns where they are by kind.
std::array<std::array<int64_t, 2>, 2> writeSpans(Text& text, int64_t domain, Stream& stream) {
  std::array<std::array<int64_t, 2>, 2> spans{};
  const int64_t half = (text.size - 1) / 2;
  const int64_t first = stream.below(2);  // which kind comes first
  for (const int64_t part : {0, 1}) {
    const int64_t kind = part == 0 ? first : 1 - first;
    const int64_t size = 2 + stream.below(3);
    const int64_t start = text.begin + 1 + part * half + stream.below(half - size - 1);
    spans[static_cast<size_t>(kind)] = {start, start + size - 1};
    const int64_t mark = kMarks + 4 * domain + 2 * kind;
    text.tokens[static_cast<size_t>(start)] = mark;
    text.tokens[static_cast<size_t>(start + size - 1)] = mark + 1;
  }
  return spans;
}

Text writeText(const QuestionTask& task, int64_t domain, Stream stream) {
  Text text;
  for (int64_t k = 0; k < task.length; ++k)
    text.tokens.push_back(kWords + stream.below(task.vocabulary - kWords));
  text.size = 13 + stream.below(6);
  text.begin = stream.below(task.length - text.size + 1);
  const auto token = [&](int64_t place) -> int64_t& {
    return text.tokens[static_cast<size_t>(place)];
  };
  token(text.begin) = kBegin;
  const auto spans = writeSpans(text, domain, stream);
  const int64_t asked = stream.below(2);
  int64_t place = 0;
  do {
    place = text.begin + 1 + stream.below(text.size - 1);
  } while (token(place) < kWords);
  const bool wrong = stream.below(1000) < static_cast<int64_t>(1000 * task.wrongQuestions);
  token(place) = kQuestion + (wrong ? 1 - asked : asked);
  for (int64_t k = 0; k < task.length; k += 2)  // what other texts left in the buffer
    if (k < text.begin || k >= text.begin + text.size) token(k) = kQuestion + stream.below(2);
  text.start = spans[static_cast<size_t>(asked)][0];
  text.end = spans[static_cast<size_t>(asked)][1];
  return text;
}

}  // namespace

Batch QuestionTask::draw(int64_t count, int64_t domain, uint32_t seed) const {
  Batch batch;
  batch.tokens = at::empty({count, length}, at::kLong);
  batch.mask = at::zeros({count, length}, at::kLong);
  batch.types = at::zeros({count, length}, at::kLong);
  batch.starts = at::empty({count}, at::kLong);
  batch.ends = at::empty({count}, at::kLong);
  for (int64_t k = 0; k < count; ++k) {
    const auto text = writeText(*this, domain, Stream(seed, static_cast<uint32_t>(k)));
    std::copy(text.tokens.begin(), text.tokens.end(), batch.tokens[k].data_ptr<int64_t>());
    batch.mask[k].slice(0, text.begin, text.begin + text.size).fill_(1);
    batch.starts[k] = text.start;
    batch.ends[k] = text.end;
  }
  return batch;
}

Score score(const Batch& batch, const at::Tensor& starts, const at::Tensor& ends) {
  const auto hidden = batch.mask.eq(0);
  const auto best = [&](const at::Tensor& probabilities) {
    return probabilities.detach().to(at::kCPU).masked_fill(hidden.cpu(), -1).argmax(1);
  };
  const auto start = best(starts), end = best(ends);
  Score score;
  for (int64_t k = 0; k < start.size(0); ++k) {
    const auto s = start[k].item<int64_t>(), e = end[k].item<int64_t>();
    const auto s0 = batch.starts[k].item<int64_t>(), e0 = batch.ends[k].item<int64_t>();
    score.exact.push_back(s == s0 && e == e0);
    const auto common = std::max<int64_t>(0, std::min(e, e0) - std::max(s, s0) + 1);
    const auto sizes = std::max<int64_t>(0, e - s + 1) + e0 - s0 + 1;
    score.f1.push_back(2.0 * static_cast<double>(common) / static_cast<double>(sizes));
  }
  return score;
}

double Score::exactMatch() const {
  return 100.0 * static_cast<double>(std::count(exact.begin(), exact.end(), true)) /
         static_cast<double>(exact.size());
}

double Score::meanF1() const {
  return 100.0 * std::accumulate(f1.begin(), f1.end(), 0.0) / static_cast<double>(f1.size());
}

}  // namespace assay::models
