#include "tools/assay/recheck.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "fixtures/core/files.h"
#include "fixtures/core/sha256.h"
#include "fixtures/core/text.h"
#include "tools/assay/arithmetic.h"

namespace assay {
namespace {

using nlohmann::json;

bool close(double a, double b) {
  return a == b || (std::isfinite(a) && std::isfinite(b) &&
                    std::fabs(a - b) <= 1e-9 * std::max(std::fabs(a), std::fabs(b)));
}

bool isUnchecked(const json& output) {
  return output.contains("unchecked") && !output["unchecked"].is_null();
}

// Does `bound` stand anywhere in the output's golden (an item's, an alternative's)?
bool standsIn(const json& value, double bound) {
  if (value.is_object()) {
    const auto found = value.find("bound");
    if (found != value.end() && found->is_number() && close(found->get<double>(), bound))
      return true;
  }
  return value.is_structured() && std::any_of(value.begin(), value.end(), [&](const json& one) {
           return standsIn(one, bound);
         });
}

// What the golden asks of a check: the outputs that are looked at.
std::vector<const json*> lookedAt(const json& item, const json& variant) {
  std::vector<const json*> outputs;
  const auto add = [&](const char* field) {
    const auto found = item.find(field);
    if (found == item.end()) return;
    for (const auto& one : *found) {
      if (!isUnchecked(one)) outputs.push_back(&one);
    }
  };
  if (textOf(variant, "direction") == "backward") {
    add("gradients");
  } else {
    add("outputs");
    add("mutates");
  }
  return outputs;
}

// Of several outputs, which one an out= argument takes is not known here.
bool severalOut(const json& item, const json& variant) {
  return textOf(variant, "form") == "out" && lookedAt(item, variant).size() > 1;
}

}  // namespace

// The recorded gauge and bound are the golden's.
void Recheck::bound(const CheckRecord& check, const GoldenData& golden, const json& variant) {
  const bool passed = check.status == Status::kPassed || check.status == Status::kFixed;
  if (!passed && check.gauge.empty()) return;  // it threw, or failed otherwise
  const auto& item = goldenCase(golden.file, check.caseName);
  if (item.contains("expect") && check.what.starts_with("the call ")) {
    if (check.bound != 0 && !check.gauge.empty())
      throw Problem("an error was asked for, and it has a bound");
    return;
  }
  if (check.gauge.empty()) {
    for (const auto* output : lookedAt(item, variant)) {
      if (goldenBytes(golden, *output).value_or(1) != 0)
        throw Problem("says PASSED, and nothing was compared");
    }
    return;
  }
  const auto* output = goldenOutput(item, check.what, variant);
  if (!output && severalOut(item, variant)) return;
  if (!output) throw Problem("the golden knows no \"" + check.what + "\"");
  const auto rule = gaugeBoundOf(golden.file, item, *output, variant);
  if (!rule) throw Problem("the golden has no bound for it");
  ++counts_.bounds;
  const auto type = expectedDtype(golden, *output, textOf(variant, "dtype"));
  const bool whole = type == "Long" || type == "Int" || type == "Bool";
  if (check.gauge == "exact" && check.bound == 0 && (whole || rule->gauge == "exact")) return;
  // The bounds of the other gauges stand with their items and alternatives; 1 for a statistic.
  const std::string gauge = output->contains("residual")    ? "residual"
                            : output->contains("members")   ? "members"
                            : output->contains("statistic") ? "statistical"
                                                            : rule->gauge;
  const bool plain = gauge == rule->gauge;
  const bool right =
      close(rule->bound, check.bound) ||
      (!plain && (gauge == "statistical" ? check.bound == 1 : standsIn(*output, check.bound)));
  if (gauge != check.gauge || !right)
    throw Problem("the bound is " + figureOf(check.bound, 6) + " (" + check.gauge +
                  "), the golden's is " + figureOf(rule->bound, 6) + " (" + gauge + ")");
}

// Did --store choose the check, and are its outputs small enough?
bool Recheck::mustBeStored(const CheckRecord& check, const GoldenData& golden, const json& item,
                           const json& variant) const {
  auto stem = run_.files.at(check.file).stem().string();
  while (!stem.empty() && std::isdigit(static_cast<unsigned char>(stem.back()))) stem.pop_back();
  const auto choice = stores_.find(stem);
  if (choice == stores_.end() || !choice->second.keeps(check.test)) return false;
  if (check.status != Status::kPassed || check.sha256.empty() || item.contains("expect") ||
      variant.value("lengths", false))
    return false;
  size_t bytes = 0;
  const auto outputs = lookedAt(item, variant);
  for (const auto* output : outputs) {
    const auto size = goldenBytes(golden, *output);
    if (!size) return false;
    bytes += *size;
  }
  return !outputs.empty() && bytes <= kMostStoredBytes;
}

// The outputs that were kept: their digest, and their error against the golden.
void Recheck::stored(const CheckRecord& check, const GoldenData& golden, const json& whole,
                     const json& variant) {
  const auto list = whole.value("stored", json());
  const auto& item = goldenCase(golden.file, check.caseName);
  if (list.is_null()) {
    if (mustBeStored(check, golden, item, variant))
      throw Problem("its outputs were to be kept, and are not there");
    return;
  }
  if (!list.is_array() || list.empty()) throw Problem("has a \"stored\" of the wrong type");
  const auto& bytes = outputsOf(check);
  std::string joined;
  std::vector<StoredOutput> outputs;
  for (const auto& one : list) {
    const auto offset = one.at("offset").get<size_t>(), size = one.at("bytes").get<size_t>();
    if (offset > bytes.size() || size > bytes.size() - offset)
      throw Problem("its stored outputs are cut off");
    outputs.push_back(
        {textOf(one, "what"), textOf(one, "dtype"), std::string_view(bytes).substr(offset, size)});
    joined += outputs.back().bytes;
  }
  if (sha256Hex(joined) != check.sha256)
    throw Problem("its stored outputs are not the ones of its digest");
  // In place and out= tell the written arguments too.
  const size_t asked = lookedAt(item, variant).size();
  const bool form = textOf(variant, "form") != "functional";
  if (check.status == Status::kPassed && (form ? outputs.size() < asked : outputs.size() != asked))
    throw Problem("its stored outputs are not the ones that the golden looks at");
  for (const auto& output : outputs) compare(check, golden, item, variant, output);
}

void Recheck::compare(const CheckRecord& check, const GoldenData& golden, const json& item,
                      const json& variant, const StoredOutput& output) {
  const auto* want = goldenOutput(item, output.what, variant);
  if (!want && !severalOut(item, variant))
    throw Problem("the golden knows no \"" + output.what + "\"");
  const auto type = want ? expectedDtype(golden, *want, textOf(variant, "dtype")) : "";
  if (!type.empty() && type != output.dtype && check.status == Status::kPassed)
    throw Problem(output.what + " is " + output.dtype + ", it must be " + type);
  const auto rule = want ? gaugeBoundOf(golden.file, item, *want, variant) : std::nullopt;
  const auto figure = rule ? figureAgain(golden, *want, *rule, output) : std::nullopt;
  if (!figure) {
    ++counts_.beyond;
    return;
  }
  ++counts_.outputs;
  if (figure->checked == 0) return;  // an empty output of an empty golden
  if (check.status == Status::kPassed && figure->failing > 0)
    throw Problem("says PASSED, and " + output.what + " has an error of " +
                  figureOf(figure->error, 4));
  // An operator that may vary was judged twice: the record has the worse of two runs.
  const bool once = golden.file.value("nondeterministic", json::array()).empty();
  if (output.what == check.what && once && figure->failing != check.failing)
    throw Problem("the record counts " + std::to_string(check.failing) + " wrong elements, " +
                  output.what + " has " + std::to_string(figure->failing));
  if (output.what == check.what &&
      (figure->error > check.error * (1 + 1e-9) || (once && !close(figure->error, check.error))))
    throw Problem("the recorded error is " + figureOf(check.error, 6) + ", that of " + output.what +
                  " is " + figureOf(figure->error, 6));
}

const std::string& Recheck::outputsOf(const CheckRecord& check) {
  auto path = run_.files.at(check.file);
  path.replace_extension(".outputs");
  const auto found = outputs_.find(path.string());
  if (found != outputs_.end()) return found->second;
  return outputs_[path.string()] = readFile(path).value_or("");
}

}  // namespace assay
