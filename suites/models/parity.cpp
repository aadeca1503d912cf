#include "suites/models/parity.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace assay::models {
namespace {

// P(|T| > t) by Simpson's rule over the angle: the density of atan(T / sqrt(n)) is cos^(n-1).
double tail(double t, int64_t freedom) {
  const auto n = static_cast<double>(freedom);
  const double from = std::atan(t / std::sqrt(n)), to = std::acos(0.0);
  const auto integral = [&](double a, double b) {
    constexpr int kPieces = 2000;
    const double step = (b - a) / kPieces;
    double sum = 0;
    for (int k = 0; k <= kPieces; ++k) {
      const double weight = k == 0 || k == kPieces ? 1 : k % 2 == 1 ? 4 : 2;
      sum += weight * std::pow(std::max(0.0, std::cos(a + k * step)), n - 1);
    }
    return sum * step / 3;
  };
  return integral(from, to) / integral(0, to);
}

Comparison over(const std::vector<double>& differences) {
  const auto count = static_cast<double>(differences.size());
  double mean = 0, square = 0;
  for (const double d : differences) mean += d / count;
  for (const double d : differences) square += (d - mean) * (d - mean) / (count - 1);
  const double t = studentQuantile(kConfidence, static_cast<int64_t>(differences.size()) - 1);
  return {mean, t * std::sqrt(square / count)};
}

std::string said(const char* what, const Comparison& one) {
  char text[160];
  std::snprintf(text, sizeof text, "%s differs by %.2f points, interval %.2f to %.2f", what,
                one.difference, one.difference - one.halfWidth, one.difference + one.halfWidth);
  return text;
}

// An empty text: within the margin.
std::string complaint(const char* what, const Comparison& one) {
  if (std::abs(one.difference) + one.halfWidth <= kMargin) return "";
  const bool apart = std::abs(one.difference) - one.halfWidth > kMargin;
  const bool differs = std::abs(one.difference) > one.halfWidth;
  char margin[32];
  std::snprintf(margin, sizeof margin, "%g points", kMargin);
  return said(what, one) +
         (apart     ? ": beyond the margin of "
          : differs ? ": it differs, and not surely by less than "
                    : ": too uncertain to tell that it is less than ") +
         margin;
}

nlohmann::json seedsOf(const std::vector<Score>& a, const std::vector<Score>& b) {
  auto rows = nlohmann::json::array();
  for (size_t k = 0; k < a.size(); ++k)
    rows.push_back({{"reference_exact", a[k].exactMatch()},
                    {"device_exact", b[k].exactMatch()},
                    {"reference_f1", a[k].meanF1()},
                    {"device_f1", b[k].meanF1()}});
  return rows;
}

// What is said of the first seed that did not learn; an empty text: there is none.
std::string idleSeed(const std::vector<Score>& reference) {
  for (size_t k = 0; k < reference.size(); ++k) {
    if (reference[k].exactMatch() >= kLearned) continue;
    char text[160];
    std::snprintf(
        text, sizeof text,
        "the reference did not learn the task with seed %zu: %.1f %% exact matches, %g %% "
        "are needed",
        k + 1, reference[k].exactMatch(), kLearned);
    return text;
  }
  return "";
}

}  // namespace

double studentQuantile(double confidence, int64_t freedom) {
  if (freedom < 1) throw std::invalid_argument("an interval needs two seeds");
  double low = 0, high = 1e6;
  for (int k = 0; k < 200; ++k) {
    const double middle = (low + high) / 2;
    (tail(middle, freedom) > 1 - confidence ? low : high) = middle;
  }
  return high;
}

double mcnemar(int64_t b, int64_t c) {
  const auto n = static_cast<double>(b + c);
  double sum = 0;
  for (int64_t k = 0; k <= std::min(b, c); ++k) {
    const auto i = static_cast<double>(k);
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(i + 1) - std::lgamma(n - i + 1) -
                    n * std::log(2.0));
  }
  return std::min(1.0, 2 * sum);
}

Parity compare(const std::vector<Score>& reference, const std::vector<Score>& device) {
  if (reference.size() != device.size() || reference.size() < 2)
    throw std::invalid_argument("two seeds or more, the same on both");
  Parity parity;
  std::vector<double> exact, f1;
  for (size_t k = 0; k < reference.size(); ++k) {
    const auto &a = reference[k], &b = device[k];
    if (a.exact.size() != b.exact.size() || a.exact.empty())
      throw std::invalid_argument("other questions on the device than on the reference");
    exact.push_back(b.exactMatch() - a.exactMatch());
    f1.push_back(b.meanF1() - a.meanF1());
    parity.referenceExact += a.exactMatch() / static_cast<double>(reference.size());
    parity.deviceExact += b.exactMatch() / static_cast<double>(reference.size());
    for (size_t i = 0; i < a.exact.size(); ++i) {
      parity.onlyReference += a.exact[i] && !b.exact[i] ? 1 : 0;
      parity.onlyDevice += b.exact[i] && !a.exact[i] ? 1 : 0;
    }
  }
  parity.exact = over(exact);
  parity.f1 = over(f1);
  parity.mcnemar = mcnemar(parity.onlyReference, parity.onlyDevice);
  parity.message = idleSeed(reference);
  for (const auto& one : {complaint("exact match", parity.exact), complaint("F1", parity.f1)})
    if (!one.empty()) parity.message += (parity.message.empty() ? "" : "; ") + one;
  parity.equivalent = parity.message.empty();
  return parity;
}

Record judgeParity(const std::vector<Score>& reference, const std::vector<Score>& device,
                   const Evidence& evidence) {
  const auto parity = compare(reference, device);
  const auto cause = knownCauseOf(evidence);
  Record record;
  record.what = "exact match and F1 over seeds, percent";
  record.why = "docs/numerics.md#models: equivalence within a margin";
  record.verdict.gauge = GaugeKind::kStatistical;
  record.verdict.checked = static_cast<int64_t>(reference.size() * reference.front().exact.size());
  for (const auto& one : {parity.exact, parity.f1})
    record.verdict.error = std::max(record.verdict.error, std::abs(one.difference) + one.halfWidth);
  record.verdict.bound = kMargin;
  record.verdict.pass = parity.equivalent && cause.empty();
  record.verdict.failing = record.verdict.pass ? 0 : 1;
  record.status = record.verdict.pass ? Status::kPassed : Status::kFailed;
  record.message = parity.message;
  if (!cause.empty()) record.message += (parity.equivalent ? "" : "; ") + cause;
  record.details = {{"seeds", seedsOf(reference, device)},
                    {"reference_exact", parity.referenceExact},
                    {"device_exact", parity.deviceExact},
                    {"exact_difference", parity.exact.difference},
                    {"exact_half_width", parity.exact.halfWidth},
                    {"f1_difference", parity.f1.difference},
                    {"f1_half_width", parity.f1.halfWidth},
                    {"only_reference", parity.onlyReference},
                    {"only_device", parity.onlyDevice},
                    {"mcnemar", parity.mcnemar},
                    {"evidence", evidence.json()}};
  if (!record.verdict.pass) record.details["cause"] = causeOf(evidence);
  return record;
}

}  // namespace assay::models
