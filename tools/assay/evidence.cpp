#include "tools/assay/evidence.h"

#include <cmath>
#include <set>

#include "fixtures/core/files.h"
#include "fixtures/core/sha256.h"
#include "fixtures/core/text.h"
#include "tools/assay/arithmetic.h"
#include "tools/assay/coverage.h"

namespace assay {
namespace {

using nlohmann::json;

// Of each kind of complaint a few, then a count: 50,000 sentences help nobody.
constexpr size_t kMostOfAKind = 5;

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
  return a == b || std::fabs(a - b) <= 1e-9 * std::max(std::fabs(a), std::fabs(b));
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
    if (const auto fault = textOf(environment, "fault"); !fault.empty())
      found_.problems.push_back("the run had a planted fault (" + fault + ")");
    if (textOf(environment, "assay").find("-dirty") != std::string::npos)
      found_.problems.emplace_back("Assay was built from files with uncommitted changes");
    for (const auto& gpu : environment.value("gpus", json::array()))
      gpus_.insert(withoutColon(textOf(gpu, "device")));
    capability_ = environment.value(json::json_pointer("/cpu/capability"), json()).dump();
    std::erase(capability_, '"');
    libtorch_ = environment.value(json::json_pointer("/libtorch/loaded"), std::string());
  }

  void plans(const std::string& challenge) {
    for (const auto& plan : run_.plans) {
      if (!challenge.empty() && !plan.store.ends_with(":" + challenge) && plan.store != "all")
        complain("the outputs were not kept by the challenge \"" + challenge + "\"",
                 plan.suite + " on " + plan.deviceKind);
    }
  }

  void record(const CheckRecord& check) {
    place(check);
    // A crash or a skip is a record too: the check was not dropped.
    seen_.insert(check.operatorName + "\n" + check.caseName + "\n" + check.variantName);
    if (check.status == Status::kUnavailable)
      unavailable_.insert(check.operatorName + "\n" + check.device);
    const json whole =
        json::parse(texts_.at(check.file).substr(check.offset, check.bytes), nullptr, false);
    const json variant = whole.value("variant", json());
    verdict(check);
    const auto* golden = judge_.golden(check.operatorName);
    const bool judged = check.status == Status::kPassed || check.status == Status::kKnown ||
                        check.status == Status::kFailed || check.status == Status::kFixed;
    if (!golden || !judged || !variant.is_object()) return;
    if (variantNameOf(variant) != check.variantName)
      complain("its variant is another than its name says", check.test);
    operators_[check.suite].insert(check.device);
    try {
      bound(check, *golden, variant);
      stored(check, *golden, whole, variant);
    } catch (const Problem& problem) {
      complain(problem.what(), check.test);
    }
  }

  // Is the record where and of what it says?
  void place(const CheckRecord& check) {
    const auto file = run_.files.at(check.file).filename().string();
    if (!isDevice(check.device) && !check.variantName.empty())
      complain("names no device", check.test);
    if (!file.ends_with("." + check.device + ".jsonl"))
      complain("the record stands in the file of another device (" + file + ")", check.test);
    if (!file.starts_with(check.suite + "."))
      complain("the record stands in the file of another suite (" + file + ")", check.test);
    if (check.device.starts_with("cuda") && check.device != "cuda" && !gpus_.contains(check.device))
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
        if (check.failing > 0 || (!check.gauge.empty() && !(check.error <= check.bound)))
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
        if (!isSkipReason(check.reason))
          complain("skipped for \"" + check.reason + "\", which is no reason", check.test);
        break;
      case Status::kUnavailable:
        ++found_.skipped;
        if (!check.caseName.empty()) complain("says UNAVAILABLE of one case", check.test);
        break;
    }
  }

  bool knownHere(const CheckRecord& check) const {
    const std::string kind = check.device.starts_with("cuda") ? "cuda" : check.device;
    const DefectQuery query{check.operatorName, check.caseName, check.variantName, kind,
                            capability_,        libtorch_};
    for (const auto& defect : judge_.defects_) {
      if (defect.id != check.defect || !concerns(defect, query)) continue;
      return covers(defect, {check.failing, check.error, false}) || defect.crash;
    }
    return false;
  }

  // The recorded gauge and bound are the golden's.
  void bound(const CheckRecord& check, const GoldenData& golden, const json& variant) {
    const auto& item = goldenCase(golden.file, check.caseName);
    const auto* output = goldenOutput(item, check.what, variant);
    if (check.gauge.empty() || !output) return;
    const auto rule = gaugeBoundOf(golden.file, item, *output, variant);
    // An integer output is exact whatever the table says; the other gauges' bounds stand with their
    // items in the golden.
    if (!rule || check.gauge == "residual" || check.gauge == "members" ||
        check.gauge == "statistical")
      return;
    ++found_.bounds;
    const bool exact = check.gauge == "exact" && check.bound == 0;
    if (!exact && (rule->gauge != check.gauge || !close(rule->bound, check.bound)))
      complain("the bound is " + figureOf(check.bound, 6) + " (" + check.gauge +
                   "), the golden's is " + figureOf(rule->bound, 6) + " (" + rule->gauge + ")",
               check.test);
  }

  // The outputs that were kept: their digest, and their error against the golden.
  void stored(const CheckRecord& check, const GoldenData& golden, const json& whole,
              const json& variant) {
    const auto list = whole.value("stored", json());
    if (!list.is_array()) return;
    const auto& bytes = outputsOf(check);
    std::string joined;
    std::vector<StoredOutput> outputs;
    for (const auto& one : list) {
      const auto offset = one.value("offset", size_t{0}), size = one.value("bytes", size_t{0});
      if (offset > bytes.size() || size > bytes.size() - offset)
        throw Problem("its stored outputs are cut off");
      outputs.push_back({textOf(one, "what"), textOf(one, "dtype"),
                         std::string_view(bytes).substr(offset, size)});
      joined += outputs.back().bytes;
    }
    if (sha256Hex(joined) != check.sha256)
      throw Problem("its stored outputs are not the ones of its digest");
    const auto& item = goldenCase(golden.file, check.caseName);
    for (const auto& output : outputs) compare(check, golden, item, variant, output);
  }

  void compare(const CheckRecord& check, const GoldenData& golden, const json& item,
               const json& variant, const StoredOutput& output) {
    const auto* want = goldenOutput(item, output.what, variant);
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
      if (!plan.filter.empty() || plan.smoke || !operators_.contains(plan.suite)) continue;
      for (const auto& device : operators_[plan.suite]) {
        if (!device.starts_with(plan.deviceKind)) continue;
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
  std::set<std::string> seen_;         // "operator\ncase\nvariant" of each record
  std::set<std::string> unavailable_;  // "operator\ndevice"
  std::map<std::string, std::set<std::string>>
      operators_;  // suite → devices with operators' checks
  std::map<std::string, std::string> outputs_;
  std::vector<std::string> texts_;
  std::string capability_, libtorch_;
};

EvidenceJudge::EvidenceJudge(std::filesystem::path goldens,
                             const std::filesystem::path& knownDefects)
    : goldens_(std::move(goldens)), defects_(loadKnownDefects(knownDefects)) {
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
