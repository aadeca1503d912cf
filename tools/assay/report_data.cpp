#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "fixtures/core/text.h"
#include "tools/assay/report.h"
#include "tools/assay/twins.h"

namespace assay {
namespace {

using nlohmann::json;

constexpr size_t kFailuresShown = 500;
constexpr std::array kStatuses{Status::kPassed,     Status::kFailed, Status::kCrashed,
                               Status::kKnown,      Status::kFixed,  Status::kSkipped,
                               Status::kUnavailable};
static_assert(kStatuses.size() == kStatusNames.size());

size_t place(Status status) {
  return std::find(kStatuses.begin(), kStatuses.end(), status) - kStatuses.begin();
}

bool wrong(const CheckRecord& check) {
  return check.status == Status::kFailed || check.status == Status::kCrashed;
}

// Texts that many checks share, as numbers.
class Names {
 public:
  size_t operator()(const std::string& text) {
    const auto [found, isNew] = places_.emplace(text, all_.size());
    if (isNew) all_.push_back(text);
    return found->second;
  }
  [[nodiscard]] const json& all() const { return all_; }

 private:
  std::unordered_map<std::string, size_t> places_;
  json all_ = json::array();
};

// May tensor cores cut the operands? LibTorch's flag, or cuDNN's math types other than FMA, or an
// engine of its graph API (its notes say which).
bool tensorCores(const CheckRecord& check) {
  const auto& name = check.variantName;
  return name.find("_tf32") != std::string::npos ||
         (check.suite == "cudnn_legacy" && name.find("_fma") == std::string::npos) ||
         check.suite == "cudnn_graph";
}

std::string has(const CheckRecord& check, const char* one, const char* other) {
  return check.variantName.find(one) != std::string::npos ? one : other;
}

// ---- parts of the page

json environmentRows(const json& environment) {
  json rows = json::array();
  const auto add = [&](const char* name, const char* pointer) {
    const json value = environment.value(json::json_pointer(pointer), json());
    if (!value.is_null())
      rows.push_back({name, value.is_string() ? value.get<std::string>() : value.dump()});
  };
  add("machine", "/host");
  add("time", "/time");
  add("Assay", "/assay");
  add("goldens", "/goldens_sha256");
  add("planted fault", "/fault");
  add("LibTorch", "/libtorch/loaded");
  add("CUDA", "/cuda/runtime");
  add("cuDNN", "/cudnn/loaded");
  add("NCCL", "/nccl");
  add("driver", "/driver");
  for (const auto& gpu : environment.value("gpus", json::array()))
    rows.push_back({"GPU " + figureOf(gpu.value("device", json()), 2),
                    textOf(gpu, "name") + ", compute capability " +
                        textOf(gpu, "compute_capability") + ", " + textOf(gpu, "uuid")});
  add("no GPU", "/gpu_problem");
  add("CPU", "/cpu/model");
  add("vector unit", "/cpu/capability");
  add("threads", "/cpu/threads");
  add("system", "/system/distribution");
  const json variables = environment.value("variables", json::object());
  for (const auto& [name, value] : variables.items())
    rows.push_back({name, value.is_string() ? value.get<std::string>() : value.dump()});
  return rows;
}

void countSuites(const Run& run, json& data) {
  std::map<std::pair<std::string, std::string>,
           std::pair<std::array<size_t, kStatuses.size()>, double>>
      suites;
  std::map<std::string, size_t> skips;
  std::array<size_t, kStatuses.size()> total{};
  for (const auto& check : run.checks) {
    auto& [counts, seconds] = suites[{check.suite, check.device}];
    ++counts[place(check.status)];
    ++total[place(check.status)];
    seconds += check.seconds;
    if (check.status == Status::kSkipped) ++skips[check.reason];
  }
  data["suites"] = json::array();
  for (const auto& [key, row] : suites)
    data["suites"].push_back({{"suite", key.first},
                              {"device", key.second},
                              {"counts", row.first},
                              {"seconds", row.second}});
  data["skips"] = json::array();
  for (const auto& [reason, count] : skips) data["skips"].push_back({reason, count});
  data["total"] = total;
}

void addVerdict(const Run& run, const std::vector<std::string>& problems, json& data) {
  const auto count = [&](Status status) { return data["total"][place(status)].get<size_t>(); };
  const size_t bad = count(Status::kFailed) + count(Status::kCrashed) + count(Status::kFixed);
  const size_t checked = count(Status::kPassed) + count(Status::kKnown) + bad;
  std::map<std::string, size_t> waivers;
  size_t waived = 0;
  for (const auto& check : run.checks) {
    if (!check.defect.starts_with("waiver ")) continue;
    ++waivers[check.defect];
    ++waived;
  }
  const std::string fault = run.environment.is_object() ? textOf(run.environment, "fault") : "";
  data["lines"] = json::array();
  const auto say = [&](const std::string& line) { data["lines"].push_back(line); };
  say(counted(checked, "check", "checks") + ": " + std::to_string(count(Status::kPassed)) +
      " passed, " + std::to_string(count(Status::kFailed)) + " failed, " +
      std::to_string(count(Status::kCrashed)) + " crashed, " +
      std::to_string(count(Status::kKnown) - waived) + " known defects, " +
      (waived > 0 ? std::to_string(waived) + " waived, " : "") +
      std::to_string(count(Status::kFixed)) + " known defects that are gone");
  if (const auto line = twinsLine(compareGpus(run)); !line.empty()) say(line);
  for (const auto& [waiver, checks] : waivers)
    say(waiver + " covers " + counted(checks, "failed check", "failed checks"));
  for (const auto& cut : run.lost) say("INCOMPLETE: " + cut);
  for (const auto& one : run.contradicted) say(one);
  for (const auto& problem : problems) say(problem);
  if (!fault.empty()) say("with a planted fault: " + fault);
  const bool known =
      run.environment.is_object() &&
      run.environment.value(json::json_pointer("/libtorch/loaded"), json()).is_string() &&
      !textOf(run.environment, "assay").empty();
  if (!known) say("environment.json does not say which Assay and LibTorch this was");
  data["good"] = bad == 0 && checked > 0 && run.lost.empty() && fault.empty() && problems.empty() &&
                 run.contradicted.empty() && known;
  data["verdict"] = checked == 0   ? "NOTHING WAS CHECKED"
                    : data["good"] ? "PASSED"
                    : bad == 0     ? "NOT A VALID RUN"
                                   : "FAILED";
}

void addFailures(const Run& run, json& data) {
  std::map<std::string, std::pair<size_t, std::string>> known, remarks, unavailable;
  data["failures"] = json::array();
  size_t left = 0;
  const auto count = [](auto& into, const std::string& key, const std::string& message) {
    auto& [times, first] = into[key];
    if (times++ == 0) first = message;
  };
  for (const auto& check : run.checks) {
    if (wrong(check) || check.status == Status::kFixed) {
      if (data["failures"].size() == kFailuresShown) {
        ++left;
        continue;
      }
      const json whole = run.whole(check);
      data["failures"].push_back(
          {{"test", check.test},
           {"operator", check.operatorName},
           {"status", statusName(check.status)},
           {"message", check.status == Status::kFixed
                           ? "no longer wrong: take " + check.defect + " out of known_defects.json"
                           : check.message},
           {"worst", whole.value("worst", json::array())},
           {"repro", textOf(whole, "repro")}});
    }
    if (check.status == Status::kKnown) count(known, check.defect, check.message);
    if (check.status == Status::kUnavailable) count(unavailable, check.operatorName, check.reason);
    if (check.status == Status::kPassed && !check.message.empty())
      count(remarks, check.operatorName, check.message);
  }
  data["failuresLeft"] = left;
  for (const auto& [name, into] : {std::pair{"known", &known}, std::pair{"remarks", &remarks},
                                   std::pair{"unavailable", &unavailable}}) {
    data[name] = json::array();
    for (const auto& [key, one] : *into) data[name].push_back({key, one.first, one.second});
  }
}

// The fewest bits of each operator, dtype and math, and the checks by error over bound.
void addPlots(const Run& run, json& data) {
  std::map<std::array<std::string, 4>, std::pair<double, bool>> bits;
  std::array<size_t, 16> bins{};  // 2^-12 and less, …, 2^0, …, 2^2 and more
  std::array<size_t, 2> exact{};  // bound 0: equal, not equal
  for (const auto& check : run.checks) {
    if (!std::isnan(check.effectiveBits)) {
      auto& [least, bad] =
          bits.try_emplace({check.suite, check.operatorName, has(check, "float64", "float32"),
                            tensorCores(check) ? "tf32" : "ieee"},
                           99.0, false)
              .first->second;
      least = std::min(least, check.effectiveBits);
      bad = bad || wrong(check) || check.status == Status::kKnown;
    }
    if (check.bound == 0) ++exact[check.error == 0 ? 0 : 1];
    if (check.bound > 0 && !std::isnan(check.error)) {
      const double power = check.error > 0 ? std::ceil(std::log2(check.error / check.bound)) : -12;
      ++bins[static_cast<size_t>(std::clamp(power, -12.0, 3.0) + 12)];
    }
  }
  data["bits"] = json::array();
  for (const auto& [key, one] : bits)
    data["bits"].push_back({{"suite", key[0]},
                            {"operator", key[1]},
                            {"dtype", key[2]},
                            {"math", key[3]},
                            {"bits", one.first},
                            {"wrong", one.second}});
  data["headroom"] = json::array({{"exact", exact[0], false}, {"not", exact[1], true}});
  for (size_t k = 0; k < bins.size(); ++k)
    data["headroom"].push_back(
        {(k == 0                 ? "≤ "
          : k + 1 == bins.size() ? "> "
                                 : "") +
             std::to_string(static_cast<int>(k) - (k + 1 == bins.size() ? 13 : 12)),
         bins[k], k > 12});
}

void addDetails(const Run& run, json& data) {
  static const std::set<std::string> kDeterminism{"cudnn_legacy", "cudnn_graph", "aten_contract",
                                                  "repeated_training"};
  data["determinism"] = json::array();
  data["models"] = json::array();
  for (const auto& check : run.checks) {
    const bool determinism = kDeterminism.contains(check.suite);
    if (!determinism && check.caseName != "free_running") continue;
    const json whole = run.whole(check);
    const json details = whole.value("details", json());
    if (!details.is_object()) continue;
    if (details.value("layers", json()).is_array())
      data["models"].push_back({{"model", check.operatorName},
                                {"variant", check.variantName},
                                {"layers", details["layers"]},
                                {"message", check.message}});
    const json seen = details.value("determinism", json());
    if (!seen.is_object()) continue;
    double runs = 0, differing = 0, spread = 0;
    const json kinds = seen.value("kinds", json::object());  // items() refers to it
    for (const auto& [kind, one] : kinds.items()) {
      runs += numberOf(one, "runs");
      differing += numberOf(one, "differing");
      spread = std::max(spread, numberOf(one, "relative"));
    }
    data["determinism"].push_back({{"routine", check.operatorName},
                                   {"problem", check.caseName},
                                   {"variant", check.variantName},
                                   {"promise", textOf(seen, "promise")},
                                   {"seen", textOf(seen, "verdict")},
                                   {"runs", runs},
                                   {"differing", differing},
                                   {"spread", spread}});
  }
}

void addChecks(const Run& run, json& data) {
  Names names;
  std::map<std::string, json> columns;
  for (const char* name :
       {"suite", "operator", "case", "variant", "status", "bits", "ratio", "seconds"})
    columns[name] = json::array();
  for (const auto& check : run.checks) {
    columns["suite"].push_back(names(check.suite));
    columns["operator"].push_back(names(check.operatorName));
    columns["case"].push_back(names(check.caseName));
    columns["variant"].push_back(names(check.variantName));
    columns["status"].push_back(place(check.status));
    const auto rounded = [](double value) {
      return std::isfinite(value) ? json(static_cast<float>(std::round(value * 1e4) / 1e4))
                                  : json();
    };
    columns["bits"].push_back(rounded(check.effectiveBits));
    const double ratio = check.error / check.bound;
    columns["ratio"].push_back(std::isinf(ratio) ? json("∞")
                               : check.bound > 0 ? rounded(ratio)
                                                 : json());
    columns["seconds"].push_back(rounded(check.seconds));
  }
  data["checks"] = columns;
  data["names"] = names.all();
}

}  // namespace

json reportData(const Run& run, const std::vector<std::string>& problems) {
  json data{{"statuses", json::array()}};
  for (const Status status : kStatuses) data["statuses"].push_back(statusName(status));
  data["environment"] =
      environmentRows(run.environment.is_null() ? json::object() : run.environment);
  data["environment"].push_back({"records", run.folder.string()});
  countSuites(run, data);
  addVerdict(run, problems, data);
  addFailures(run, data);
  addPlots(run, data);
  addDetails(run, data);
  addChecks(run, data);
  return data;
}

}  // namespace assay
