#include "tools/assay/evidence.h"

#include <cmath>
#include <set>

#include "fixtures/core/files.h"
#include "fixtures/core/sha256.h"
#include "fixtures/core/store_choice.h"
#include "fixtures/core/text.h"
#include "tools/assay/arithmetic.h"
#include "tools/assay/coverage.h"

namespace assay {
namespace {

using nlohmann::json;

// Of each kind of complaint a few, then a count: 50,000 sentences help nobody.
constexpr size_t kMostOfAKind = 5;
// Rarer than one in so many, and what a challenge chose says little.
constexpr uint64_t kRarestStored = 64;

bool isDevice(const std::string& device) {
  return device == "cpu" || (device.starts_with("cuda") && device.size() > 4 &&
                             device.find_first_not_of("0123456789", 4) == std::string::npos);
}

// "cuda:1" → "cuda1".
std::string withoutColon(std::string device) {
  std::erase(device, ':');
  return device;
}

bool close(double a, double b) {
  return a == b || (std::isfinite(a) && std::isfinite(b) &&
                    std::fabs(a - b) <= 1e-9 * std::max(std::fabs(a), std::fabs(b)));
}

bool isJudged(const CheckRecord& check) {
  return check.status == Status::kPassed || check.status == Status::kKnown ||
         check.status == Status::kFailed || check.status == Status::kFixed;
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

// The work on one run.
class EvidenceJudge::OneRun {
 public:
  OneRun(EvidenceJudge& judge, const Run& run) : judge_(judge), run_(run) {}

  Evidence all(const std::string& challenge) && {
    environment();
    if (!found_.cannot.empty()) return std::move(found_);
    for (const auto& one : run_.lost) found_.problems.push_back(one);
    for (const auto& one : run_.contradicted) found_.problems.push_back(one);
    if (run_.repeated > 0)
      found_.problems.push_back(counted(run_.repeated, "test has", "tests have") +
                                " two records in one run");
    plans(challenge);
    for (const auto& file : run_.files) texts_.push_back(readFile(file).value_or(""));
    for (const auto& check : run_.checks) record(check);
    coverage();
    for (const auto& [kind, count] : counts_) {
      if (count > kMostOfAKind)
        found_.problems.push_back("and " + std::to_string(count - kMostOfAKind) + " more: " + kind);
    }
    return std::move(found_);
  }

 private:
  void complain(const std::string& kind, const std::string& where) {
    if (++counts_[kind] <= kMostOfAKind) found_.problems.push_back(where + ": " + kind);
  }

  void environment() {
    const auto& environment = run_.environment;
    if (!environment.is_object()) {
      found_.cannot.push_back(run_.folder.filename().string() + " has no environment.json");
      return;
    }
    if (textOf(environment, "goldens_sha256") != judge_.indexSha256_)
      found_.cannot.emplace_back(
          "the run was made with other goldens than the ones here: verify with the same Assay (" +
          textOf(environment, "assay") + ")");
    for (const char* path : {"/assay", "/libtorch/loaded", "/cpu/model", "/time", "/host"}) {
      if (!environment.value(json::json_pointer(path), json()).is_string())
        found_.problems.push_back(std::string("environment.json lacks ") + (path + 1));
    }
    if (!environment.value("fault", json()).is_null())
      found_.problems.push_back("the run had a planted fault (" + environment["fault"].dump() +
                                ")");
    if (const auto made = textOf(environment, "assay"); made.find("-dirty") != std::string::npos)
      found_.problems.emplace_back("Assay was built from files with uncommitted changes");
    else if (made != judge_.version_)
      found_.cannot.push_back("the run was made by Assay " + made + ", this is " + judge_.version_ +
                              ": verify with the same one, or name it with --assay");
    for (const auto& gpu : environment.value("gpus", json::array()))
      gpus_.insert(withoutColon(textOf(gpu, "device")));
    capability_ = environment.value(json::json_pointer("/cpu/capability"), json()).dump();
    std::erase(capability_, '"');
    libtorch_ = environment.value(json::json_pointer("/libtorch/loaded"), std::string());
  }

  void plans(const std::string& challenge) {
    for (const auto& plan : run_.plans) {
      const std::string where = plan.suite + " on " + plan.deviceKind;
      try {
        const auto choice = parseStoreChoice(plan.store);
        stores_[stemOf(plan.suite, plan.smoke) + "." + plan.deviceKind] = choice;
        if (!challenge.empty() && choice.one != 1 &&
            (choice.word != challenge || choice.one == 0 || choice.one > kRarestStored))
          complain("the outputs were not kept by the challenge \"" + challenge + "\"", where);
      } catch (const std::invalid_argument& error) {
        complain(error.what(), where);
      }
    }
  }

  void record(const CheckRecord& check) {
    place(check);
    // A crash or a skip is a record too: the check was not dropped.
    if (inFamily(check))
      seen_.insert(check.operatorName + "\n" + check.caseName + "\n" + check.variantName);
    if (check.status == Status::kUnavailable)
      unavailable_.insert(check.operatorName + "\n" + check.device);
    verdict(check);
    if (!isJudged(check)) return;
    if (check.variantName.empty() || !isDevice(check.device))
      return complain("it was judged, and names no variant or device", check.test);
    if (!inFamily(check)) return;
    ++found_.family;
    try {
      const json whole =
          json::parse(texts_.at(check.file).substr(check.offset, check.bytes), nullptr, false);
      const json& variant = whole.at("variant");
      if (variantNameOf(variant) != check.variantName)
        complain("its variant is another than its name says", check.test);
      const auto& golden = *judge_.golden(check.operatorName);
      bound(check, golden, variant);
      stored(check, golden, whole, variant);
    } catch (const Problem& problem) {
      complain(problem.what(), check.test);
    } catch (const json::exception&) {
      complain("a field is missing or of the wrong type", check.test);
    }
  }

  // Is it a check of a golden of the suite's own family? Other suites use operators' names too.
  [[nodiscard]] bool inFamily(const CheckRecord& check) const {
    const auto row = judge_.rows_.find(check.operatorName);
    return row != judge_.rows_.end() && row->second.family == check.suite;
  }

  // Is the record where and of what it says?
  void place(const CheckRecord& check) {
    const auto file = run_.files.at(check.file).filename().string();
    const bool noGpu = check.status == Status::kSkipped && check.device == "cuda";
    if (!isDevice(check.device) && !noGpu) complain("names no device", check.test);
    if (!file.ends_with("." + check.device + ".jsonl"))
      complain("the record stands in the file of another device (" + file + ")", check.test);
    if (!file.starts_with(check.suite + "."))
      complain("the record stands in the file of another suite (" + file + ")", check.test);
    if (check.device.starts_with("cuda") && !noGpu && !gpus_.contains(check.device))
      complain("its GPU is not among those of environment.json", check.test);
    if (check.variantName.empty()) return;
    const std::string name = check.operatorName + "__" + check.caseName + "__" + check.variantName;
    if (!check.test.ends_with("/" + name) ||
        (check.variantName != check.device && !check.variantName.starts_with(check.device + "_")))
      complain("the test's name is not that of its operator, case, variant and device", check.test);
  }

  // The status from error, bound and known defects.
  void verdict(const CheckRecord& check) {
    ++found_.verdicts;
    switch (check.status) {
      case Status::kPassed:
      case Status::kFixed:
        if (check.status == Status::kPassed) ++found_.passed;
        if (check.status == Status::kFixed) ++found_.failed;
        if (check.failing > 0 || (!check.gauge.empty() && !isWithin(check)))
          complain("says " + std::string(statusName(check.status)) + " beyond its bound",
                   check.test);
        break;
      case Status::kKnown:
        ++found_.known;
        if (!knownHere(check))
          complain("no known defect " + check.defect + " covers it here", check.test);
        break;
      case Status::kFailed:
      case Status::kCrashed:
        ++found_.failed;
        break;
      case Status::kSkipped:
        ++found_.skipped;
        ++found_.skips[check.reason];
        if (!maySkip(check))
          complain("skipped for \"" + check.reason + "\", which is no reason here", check.test);
        break;
      case Status::kUnavailable:
        ++found_.skipped;
        if (!check.caseName.empty()) complain("says UNAVAILABLE of one case", check.test);
        break;
    }
  }

  static bool isWithin(const CheckRecord& check) {
    return check.error >= 0 && check.error <= check.bound && std::isfinite(check.bound);
  }

  bool maySkip(const CheckRecord& check) const {
    if (check.reason == "NO_DETERMINISTIC_KERNEL")
      return check.variantName.find("_deterministic") != std::string::npos;
    if (check.reason == "TOO_FEW_GPUS" || check.reason == "TOO_LITTLE_MEMORY")
      return !inFamily(check);
    if (check.reason == "NO_CUDNN") return check.device.starts_with("cuda");
    return check.reason == "NO_GPU" && gpus_.empty();
  }

  bool knownHere(const CheckRecord& check) const {
    const std::string kind = check.device.starts_with("cuda") ? "cuda" : check.device;
    const DefectQuery query{check.operatorName, check.caseName, check.variantName, kind,
                            capability_,        libtorch_};
    for (const auto& defect : judge_.defects_) {
      if (defect.id != check.defect || !concerns(defect, query)) continue;
      const bool crashed = defect.crash && check.gauge.empty() && check.failing == 0;
      return crashed || covers(defect, {check.failing, check.error, false});
    }
    return false;
  }

  // The recorded gauge and bound are the golden's.
  void bound(const CheckRecord& check, const GoldenData& golden, const json& variant) {
    const bool passed = check.status == Status::kPassed || check.status == Status::kFixed;
    if (!passed && check.gauge.empty()) return;  // it threw, or failed otherwise
    const auto& item = goldenCase(golden.file, check.caseName);
    if (item.contains("expect") && check.what.starts_with("the call ")) {
      if (check.bound != 0 && !check.gauge.empty())
        complain("an error was asked for, and it has a bound", check.test);
      return;
    }
    if (check.gauge.empty()) {
      for (const auto* output : lookedAt(item, variant)) {
        if (goldenBytes(golden, *output).value_or(1) != 0)
          return complain("says PASSED, and nothing was compared", check.test);
      }
      return;
    }
    const auto* output = goldenOutput(item, check.what, variant);
    if (!output && severalOut(item, variant)) return;
    if (!output) return complain("the golden knows no \"" + check.what + "\"", check.test);
    const auto rule = gaugeBoundOf(golden.file, item, *output, variant);
    if (!rule) return complain("the golden has no bound for it", check.test);
    ++found_.bounds;
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
      complain("the bound is " + figureOf(check.bound, 6) + " (" + check.gauge +
                   "), the golden's is " + figureOf(rule->bound, 6) + " (" + gauge + ")",
               check.test);
  }

  // Did --store choose the check, and are its outputs small enough?
  bool mustBeStored(const CheckRecord& check, const GoldenData& golden, const json& item,
                    const json& variant) {
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
  void stored(const CheckRecord& check, const GoldenData& golden, const json& whole,
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
      outputs.push_back({textOf(one, "what"), textOf(one, "dtype"),
                         std::string_view(bytes).substr(offset, size)});
      joined += outputs.back().bytes;
    }
    if (sha256Hex(joined) != check.sha256)
      throw Problem("its stored outputs are not the ones of its digest");
    // In place and out= tell the written arguments too.
    const size_t asked = lookedAt(item, variant).size();
    const bool form = textOf(variant, "form") != "functional";
    if (check.status == Status::kPassed &&
        (form ? outputs.size() < asked : outputs.size() != asked))
      throw Problem("its stored outputs are not the ones that the golden looks at");
    for (const auto& output : outputs) compare(check, golden, item, variant, output);
  }

  void compare(const CheckRecord& check, const GoldenData& golden, const json& item,
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
      ++found_.beyond;
      return;
    }
    ++found_.outputs;
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
      throw Problem("the recorded error is " + figureOf(check.error, 6) + ", that of " +
                    output.what + " is " + figureOf(figure->error, 6));
  }

  const std::string& outputsOf(const CheckRecord& check) {
    auto path = run_.files.at(check.file);
    path.replace_extension(".outputs");
    const auto found = outputs_.find(path.string());
    if (found != outputs_.end()) return found->second;
    return outputs_[path.string()] = readFile(path).value_or("");
  }

  // Each case of a family that ran whole has the checks that its golden asks for.
  void coverage() {
    for (const auto& plan : run_.plans) {
      if (!plan.filter.empty() || plan.smoke) continue;
      std::set<std::string> devices;
      for (const auto& check : run_.checks) {
        if (check.suite == plan.suite && isDevice(check.device) &&
            check.device.starts_with(plan.deviceKind))
          devices.insert(check.device);
      }
      for (const auto& device : devices) {
        for (const auto& [name, row] : judge_.rows_) {
          if (row.family == plan.suite) operatorCovered(name, device);
        }
      }
    }
  }

  void operatorCovered(const std::string& name, const std::string& device) {
    if (unavailable_.contains(name + "\n" + device)) return;
    const auto& file = judge_.golden(name)->file;
    for (const auto& item : file.at("cases")) {
      for (const auto& variant : expectedVariants(file, item, device)) {
        if (!seen_.contains(name + "\n" + textOf(item, "name") + "\n" + variant))
          complain("a check that its golden asks for has no record",
                   name + "__" + textOf(item, "name") + "__" + variant);
      }
    }
  }

  EvidenceJudge& judge_;
  const Run& run_;
  Evidence found_;
  std::map<std::string, size_t> counts_;
  std::set<std::string> gpus_;
  std::set<std::string> seen_;                 // "operator\ncase\nvariant" of each record
  std::set<std::string> unavailable_;          // "operator\ndevice"
  std::map<std::string, StoreChoice> stores_;  // "<stem>.<kind>" → what its plan kept
  std::map<std::string, std::string> outputs_;
  std::vector<std::string> texts_;
  std::string capability_, libtorch_;
};

EvidenceJudge::EvidenceJudge(std::filesystem::path goldens,
                             const std::filesystem::path& knownDefects, std::string version)
    : goldens_(std::move(goldens)),
      version_(std::move(version)),
      defects_(loadKnownDefects(knownDefects)) {
  for (auto& row : readIndex(goldens_)) rows_.emplace(row.name, row);
  indexSha256_ = sha256Hex(readFile(goldens_ / "index.json").value_or(""));
}

const GoldenData* EvidenceJudge::golden(const std::string& operatorName) {
  const auto found = data_.find(operatorName);
  if (found != data_.end()) return &found->second;
  const auto row = rows_.find(operatorName);
  if (row == rows_.end()) return nullptr;
  return &(data_[operatorName] = readGoldenData(row->second));
}

Evidence EvidenceJudge::judge(const Run& run, const std::string& challenge) {
  return OneRun(*this, run).all(challenge);
}

}  // namespace assay
