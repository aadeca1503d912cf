#include "tools/assay/evidence.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "fixtures/core/files.h"
#include "fixtures/core/sha256.h"
#include "fixtures/core/shape.h"
#include "fixtures/core/store_choice.h"
#include "fixtures/core/text.h"
#include "tools/assay/coverage.h"
#include "tools/assay/record_line.h"

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

bool isJudged(const CheckRecord& check) {
  return check.status == Status::kPassed || check.status == Status::kKnown ||
         check.status == Status::kFailed || check.status == Status::kFixed;
}

}  // namespace

// The work on one run.
class EvidenceJudge::OneRun {
 public:
  OneRun(EvidenceJudge& judge, const Run& run) : judge_(judge), run_(run), recheck_(run) {}

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
    found_.again = recheck_.counts();
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
    capability_ = textOf(environment.value("cpu", json()), "capability");
    libtorch_ = textOf(environment.value("libtorch", json()), "loaded");
  }

  void plans(const std::string& challenge) {
    for (const auto& plan : run_.plans) {
      const std::string where = plan.suite + " on " + plan.deviceKind;
      try {
        const auto choice = parseStoreChoice(plan.store);
        recheck_.keeps(stemOf(plan.suite, plan.smoke) + "." + plan.deviceKind, choice);
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
    if (judge_.againstGolden(check))
      seen_.insert(check.operatorName + "\n" + check.caseName + "\n" + check.variantName);
    else
      others_[check.suite + "\n" + check.device][check.operatorName].push_back(check.test);
    if (check.status == Status::kUnavailable)
      unavailable_.insert(check.operatorName + "\n" + check.device);
    verdict(check);
    if (!isJudged(check)) return;
    if (check.variantName.empty() || !isDevice(check.device))
      return complain("it was judged, and names no variant or device", check.test);
    if (!judge_.againstGolden(check)) return;
    ++found_.family;
    try {
      const json whole =
          json::parse(texts_.at(check.file).substr(check.offset, check.bytes), nullptr, false);
      if (const auto wrong = misshaped(whole, recordShape()); !wrong.empty())
        return complain(wrong, check.test);
      const json& variant = whole.at("variant");
      if (variantNameOf(variant) != check.variantName)
        complain("its variant is another than its name says", check.test);
      const auto& golden = *judge_.golden(check.operatorName);
      recheck_.bound(check, golden, variant);
      recheck_.stored(check, golden, whole, variant);
    } catch (const Problem& problem) {
      complain(problem.what(), check.test);
    } catch (const json::exception&) {
      complain("a field is missing or of the wrong type", check.test);
    }
  }

  // Is the record where and of what it says?
  void place(const CheckRecord& check) {
    const auto file = run_.files.at(check.file).filename().string();
    const bool noGpu =
        check.status == Status::kSkipped && check.device.starts_with("cuda") && gpus_.empty();
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

  void failed(const CheckRecord& check) {
    if (found_.failed++ == 0) found_.failedTest = check.test;
  }

  // The status from error, bound and known defects.
  void verdict(const CheckRecord& check) {
    ++found_.verdicts;
    switch (check.status) {
      case Status::kPassed:
      case Status::kFixed:
        if (check.status == Status::kPassed) ++found_.passed;
        if (check.status == Status::kFixed) failed(check);
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
        failed(check);
        break;
      case Status::kSkipped:
        ++found_.skipped;
        ++found_.skips[check.reason];
        if (!maySkip(check))
          complain("skipped for \"" + check.reason + "\", which is no reason here", check.test);
        break;
      case Status::kUnavailable:
        ++found_.skipped;
        if (judge_.againstGolden(check) && !check.caseName.empty())
          complain("says UNAVAILABLE of one case", check.test);
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
      return !judge_.againstGolden(check);
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

  // A suite that ran whole has, on every device of its kind, the checks that its goldens ask for or
  // that it registers.
  void coverage() {
    for (const auto& plan : run_.plans) {
      const bool family =
          std::any_of(judge_.rows_.begin(), judge_.rows_.end(),
                      [&](const auto& row) { return row.second.family == plan.suite; });
      if (!family && !judge_.registered_.knows(plan.suite))
        complain("this Assay has no such suite", plan.suite);
      if (!plan.filter.empty() || plan.smoke) continue;
      if (family)
        familyCovered(plan);
      else if (judge_.registered_.knows(plan.suite))
        othersCovered(plan);
    }
  }

  void familyCovered(const Plan& plan) {
    for (const auto& device : plan.deviceKind == "cuda" ? gpus_ : std::set<std::string>{"cpu"}) {
      for (const auto& [name, row] : judge_.rows_) {
        if (row.family == plan.suite) operatorCovered(name, device);
      }
    }
  }

  void othersCovered(const Plan& plan) {
    try {
      for (const auto& device :
           judge_.registered_.devices(plan.suite, plan.deviceKind, {gpus_.begin(), gpus_.end()})) {
        for (const auto& difference : judge_.registered_.differences(
                 plan.suite, device, gpus_.size(), others_[plan.suite + "\n" + device]))
          complain(difference, plan.suite + " on " + device);
      }
    } catch (const Problem& problem) {
      found_.cannot.emplace_back(problem.what());
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
  Recheck recheck_;
  Evidence found_;
  std::map<std::string, size_t> counts_;
  std::set<std::string> gpus_;
  std::set<std::string> seen_;         // "operator\ncase\nvariant" of each record
  std::set<std::string> unavailable_;  // "operator\ndevice"
  // "suite\ndevice" → operator → tests, of suites without operator goldens.
  std::map<std::string, std::map<std::string, std::vector<std::string>>> others_;
  std::vector<std::string> texts_;
  std::string capability_, libtorch_;
};

EvidenceJudge::EvidenceJudge(std::filesystem::path goldens,
                             const std::filesystem::path& knownDefects,
                             const std::filesystem::path& registered, std::string version)
    : goldens_(std::move(goldens)),
      version_(std::move(version)),
      defects_(loadKnownDefects(knownDefects)),
      registered_(registered) {
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

bool EvidenceJudge::againstGolden(const CheckRecord& check) const {
  const auto row = rows_.find(check.operatorName);
  return row != rows_.end() && row->second.family == check.suite;
}

Evidence EvidenceJudge::judge(const Run& run, const std::string& challenge) {
  return OneRun(*this, run).all(challenge);
}

}  // namespace assay
