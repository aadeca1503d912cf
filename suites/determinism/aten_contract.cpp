#include "suites/determinism/aten_contract.h"

#include <ATen/ATen.h>

#include <functional>
#include <iterator>

#include "fixtures/call.h"
#include "fixtures/mode.h"
#include "suites/determinism/aten_calls.h"
#include "suites/determinism/capture.h"
#include "suites/determinism/verdict.h"

namespace assay::determinism {
namespace {

constexpr const char* kSource = "torch.use_deterministic_algorithms's documentation";

std::string promiseOf(const AtenRow& row, const Variant& variant) {
  if (variant.deterministic) return "equal bits";
  // On the CPU, and where the documentation does not list a call, nothing is said without the mode.
  return row.listed == Listed::kNotListed || !variant.onGpu() ? "none" : "may vary";
}

// The call threw in deterministic mode: as it should, unless the documentation says that it has a
// deterministic kernel.
void refused(Record& record, const AtenRow& row, const std::string& text) {
  record.details["determinism"] = {{"verdict", "REFUSES"},
                                   {"promise", "equal bits or an error"},
                                   {"source", kSource},
                                   {"kinds", nlohmann::json::object()},
                                   {"message", text.substr(0, 200)}};
  record.verdict.checked = 1;
  record.status = row.listed == Listed::kDeterministic ? Status::kFailed : Status::kPassed;
  if (record.status == Status::kFailed)
    record.message = "the documentation lists it as deterministic, but it throws: " + text;
}

// `body` in the variant's mode; an error that speaks of determinism is an answer there.
Record guarded(const AtenRow& row, const Variant& variant, const std::string& how,
               const std::function<void(Record&, const Subject&)>& body) {
  Record record;
  // Every supported LibTorch has them: a misspelt row must not pass for one that was looked at.
  if (!available(row.file()))
    throw std::logic_error("this LibTorch has no aten::" + row.name + "." + row.overload);
  record.details["row"] = row.item().name + (row.backward ? ", backward" : "") + how +
                          (variant.deterministic ? ", mode on, " : ", mode off, ") + variant.dtype;
  record.details["listed"] = row.listed == Listed::kDeterministic ? "acts deterministically"
                             : row.listed == Listed::kThrows      ? "throws"
                                                                  : "not listed";
  const ModeGuard guard(variant, false);
  try {
    record.status = Status::kPassed;
    body(record, {promiseOf(row, variant), kSource, callOf(row, variant)});
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (!variant.deterministic || text.find("deterministic") == std::string::npos) throw;
    refused(record, row, text);
  }
  return record;
}

}  // namespace

Record runRow(const AtenRow& row, const Variant& variant, bool smoke) {
  return guarded(row, variant, "", [&](Record& record, const Subject& subject) {
    const auto first = subject.call();
    auto seen = repeatAll(subject.call, first, smoke);
    auto more = otherConditions(row, variant, subject.call, first, smoke);
    seen.insert(seen.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
    conclude(record, subject, first, seen, rateOf(variant.onGpu(), smoke));
  });
}

Record runReplayed(const AtenRow& row, const Variant& variant, bool smoke) {
  return guarded(row, variant, ", graph", [&](Record& record, const Subject& subject) {
    judgeReplayed(record, subject, smoke);
  });
}

}  // namespace assay::determinism
