#include "tools/assay/drift.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "fixtures/core/files.h"
#include "fixtures/core/text.h"

namespace assay {
namespace {

using nlohmann::json;

// The number's place among all of its dtype, in order.
template <typename Bits, typename Float>
int64_t placeOf(Float x) {
  const auto bits = std::bit_cast<Bits>(x);
  const auto magnitude = static_cast<int64_t>(bits & (~Bits{0} >> 1));
  return std::signbit(x) ? -magnitude : magnitude;
}

template <typename Bits, typename Float>
uint64_t between(Float a, Float b) {
  if (std::isnan(a) && std::isnan(b)) return 0;
  if (a == b) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return UlpDrift::kNotFinite;
  const auto p = placeOf<Bits>(a), q = placeOf<Bits>(b);
  return p > q ? static_cast<uint64_t>(p) - static_cast<uint64_t>(q)
               : static_cast<uint64_t>(q) - static_cast<uint64_t>(p);
}

size_t binOf(uint64_t ulp) {
  if (ulp == UlpDrift::kNotFinite) return 7;
  if (ulp <= 2) return ulp;
  return ulp <= 4 ? 3 : ulp <= 16 ? 4 : ulp <= 1024 ? 5 : 6;
}

// The stored outputs of records, whose files are read once.
class Outputs {
 public:
  explicit Outputs(const std::vector<Run>& runs) : runs_(runs) {}

  // The record's `stored` with the bytes of each; empty: it kept none.
  std::vector<std::pair<std::string, std::string_view>> of(const CheckRecord& check) {
    std::vector<std::pair<std::string, std::string_view>> result;
    const Run* run = runOf(check);
    if (!run) return result;
    const auto& path = run->files.at(check.file);
    const auto& text = file(path);
    if (check.offset + check.bytes > text.size()) return result;
    const auto record = json::parse(text.substr(check.offset, check.bytes), nullptr, false);
    if (!record.is_object()) return result;
    const auto& bytes = file(std::filesystem::path(path).replace_extension(".outputs"));
    for (const auto& one : record.value("stored", json::array())) {
      if (!one.is_object() || !one.value("offset", json()).is_number_unsigned() ||
          !one.value("bytes", json()).is_number_unsigned())
        return {};
      const auto offset = one["offset"].get<size_t>(), size = one["bytes"].get<size_t>();
      if (offset > bytes.size() || size > bytes.size() - offset) return {};  // cut off
      result.emplace_back(textOf(one, "dtype"), std::string_view(bytes).substr(offset, size));
    }
    return result;
  }

 private:
  [[nodiscard]] const Run* runOf(const CheckRecord& check) const {
    for (const auto& run : runs_) {
      if (!run.checks.empty() && &check >= run.checks.data() &&
          &check < run.checks.data() + run.checks.size())
        return &run;
    }
    return nullptr;
  }

  const std::string& file(const std::filesystem::path& path) {
    const auto found = files_.find(path.string());
    if (found != files_.end()) return found->second;
    return files_[path.string()] = readFile(path).value_or("");
  }

  const std::vector<Run>& runs_;
  std::map<std::string, std::string> files_;
};

template <typename Number, typename Distance>
void compareAs(std::string_view a, std::string_view b, const Distance& distance, UlpDrift& drift,
               OperatorDrift& one, const std::string& test) {
  for (size_t i = 0; i + sizeof(Number) <= a.size(); i += sizeof(Number)) {
    Number x, y;
    std::memcpy(&x, a.data() + i, sizeof x);
    std::memcpy(&y, b.data() + i, sizeof y);
    const uint64_t ulp = distance(x, y);
    ++drift.elements;
    ++drift.histogram.at(binOf(ulp));
    if (ulp == 0) continue;
    ++drift.moved, ++one.moved;
    if (ulp > one.largest) one.largest = ulp, one.test = test;
  }
}

bool isSingle(const std::string& dtype) { return dtype == "Float" || dtype == "ComplexFloat"; }
bool isDouble(const std::string& dtype) { return dtype == "Double" || dtype == "ComplexDouble"; }

}  // namespace

uint64_t ulpBetween(double a, double b) { return between<uint64_t>(a, b); }
uint64_t ulpBetween(float a, float b) { return between<uint32_t>(a, b); }

UlpDrift ulpDrift(const Gate& gate, const std::vector<Run>& baseline,
                  const std::vector<Run>& candidate) {
  UlpDrift drift;
  Outputs before(baseline), after(candidate);
  for (const auto& check : gate.checks) {
    if (check.change != Change::kDrift) continue;
    const auto a = before.of(*check.before), b = after.of(*check.after);
    const auto alike = [](const auto& x, const auto& y) {
      return x.first == y.first && x.second.size() == y.second.size();
    };
    if (a.empty() || !std::equal(a.begin(), a.end(), b.begin(), b.end(), alike)) {
      ++drift.without;
      continue;
    }
    ++drift.checks;
    auto& one = drift.operators[check.any().operatorName];
    ++one.checks;
    for (size_t k = 0; k < a.size(); ++k) {
      if (isSingle(a[k].first))
        compareAs<float>(
            a[k].second, b[k].second, [](float x, float y) { return ulpBetween(x, y); }, drift, one,
            check.any().test);
      else if (isDouble(a[k].first))
        compareAs<double>(
            a[k].second, b[k].second, [](double x, double y) { return ulpBetween(x, y); }, drift,
            one, check.any().test);
    }
  }
  return drift;
}

std::string ulpLine(const UlpDrift& drift) {
  if (drift.checks == 0) return "";
  std::string text = counted(drift.checks, "check", "checks") + " kept the outputs (" +
                     std::to_string(drift.without) + " did not): " + std::to_string(drift.moved) +
                     " of " + counted(drift.elements, "element", "elements") + " moved";
  for (size_t k = 1; k < drift.histogram.size(); ++k) {
    if (drift.histogram[k])
      text += ", " + std::to_string(drift.histogram[k]) + " " + (k == 7 ? "" : "by ") +
              std::string(UlpDrift::kBins[k]) + (k < 6 ? " ulp" : "");
  }
  const auto most = std::max_element(
      drift.operators.begin(), drift.operators.end(),
      [](const auto& a, const auto& b) { return a.second.largest < b.second.largest; });
  if (most != drift.operators.end() && most->second.largest > 0)
    text += "; most: " + most->second.test;
  return text;
}

json toJson(const UlpDrift& drift) {
  json result{{"checks", drift.checks}, {"without", drift.without},   {"elements", drift.elements},
              {"moved", drift.moved},   {"histogram", json::array()}, {"operators", json::array()}};
  for (size_t k = 0; k < drift.histogram.size(); ++k)
    result["histogram"].push_back({UlpDrift::kBins[k], drift.histogram[k]});
  for (const auto& [name, one] : drift.operators)
    result["operators"].push_back(
        {{"operator", name},
         {"checks", one.checks},
         {"moved", one.moved},
         {"largest", one.largest == UlpDrift::kNotFinite ? json() : json(one.largest)},
         {"test", one.test}});
  return result;
}

}  // namespace assay
