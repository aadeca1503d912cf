#include "tools/assay/profile.h"

#include <algorithm>

#include "fixtures/core/files.h"
#include "fixtures/core/known_defects.h"
#include "fixtures/core/shape.h"
#include "fixtures/core/text.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path profileFile(const std::string& name) {
  if (fs::is_regular_file(name)) return name;
  auto shipped =
      besideProgram({"../profiles", "../share/assay/profiles"}, "profiles") / (name + ".json");
  if (!fs::is_regular_file(shipped))
    throw Problem("there is no profile \"" + name +
                  "\": name a file, or one of datacenter, training, inference");
  return shipped;
}

std::vector<std::string> texts(const json& file, const std::string& field, bool needed) {
  const auto list = file.value(field, json::array());
  if (needed && list.empty()) throw Problem("\"" + field + "\" must be a list of texts");
  std::vector<std::string> found;
  for (const auto& one : list) {
    if (one == "") throw Problem("\"" + field + "\" must be a list of texts, none of them empty");
    found.push_back(one.get<std::string>());
  }
  return found;
}

Profile parse(const json& file) {
  static const json kShape = json::parse(R"({
      "format": "count", "name": "text", "why": "text", "device": "text", "gpu": "text", "runs": "count",
      "suites": ["text"], "operators": ["text"], "skips": ["text"], "unavailable": "flag", "defects": ["text"]})");
  if (!file.is_object() || file.value("format", json()) != 1)
    throw Problem("it is no profile of format 1");
  for (const auto& [field, value] : file.items()) {
    if (!kShape.contains(field)) throw Problem("it has an unknown field \"" + field + "\"");
    if (value.is_null()) throw Problem("\"" + field + "\" is null: leave it out, or give it");
  }
  if (const auto wrong = misshaped(file, kShape); !wrong.empty()) throw Problem(wrong);
  Profile profile;
  profile.name = textOf(file, "name"), profile.why = textOf(file, "why");
  profile.deviceKind = textOf(file, "device"), profile.gpu = textOf(file, "gpu");
  if (profile.name.empty() || profile.deviceKind.empty() || profile.why.empty())
    throw Problem(R"(it needs a "name", a "device" and a "why")");
  profile.runs = file.value("runs", size_t{1});
  if (profile.runs == 0) throw Problem(R"("runs" must be a positive number)");
  profile.suites = texts(file, "suites", true);
  profile.operators = texts(file, "operators", true);
  profile.skips = texts(file, "skips", false);
  profile.defects = texts(file, "defects", false);
  for (const auto& reason : profile.skips) {
    if (!isSkipReason(reason))
      throw Problem("it allows skips for \"" + reason + "\", no reason of Assay's");
  }
  if (!profile.gpu.empty() && profile.deviceKind != "cuda")
    throw Problem("it names a GPU, and its device is " + profile.deviceKind);
  profile.unavailable = file.value("unavailable", false);
  return profile;
}

bool onKind(const CheckRecord& check, const Profile& profile) {
  return check.device.starts_with(profile.deviceKind);
}

bool judged(const CheckRecord& check) {
  return check.status != Status::kSkipped && check.status != Status::kUnavailable;
}

bool isWhole(const Plan& plan, const std::string& suite, const Profile& profile) {
  return plan.suite == suite && plan.deviceKind == profile.deviceKind && plan.filter.empty() &&
         !plan.smoke && plan.complete();
}

void lackingInRun(const Profile& profile, const Run& run,
                  const std::function<bool(const CheckRecord&)>& againstGolden,
                  std::vector<std::string>& lacks) {
  const std::string where = " (" + run.folder.filename().string() + ")";
  for (const auto& suite : profile.suites) {
    const bool ran = std::any_of(run.plans.begin(), run.plans.end(),
                                 [&](const Plan& plan) { return isWhole(plan, suite, profile); });
    const bool checked = std::any_of(run.checks.begin(), run.checks.end(), [&](const auto& check) {
      return check.suite == suite && onKind(check, profile) && judged(check);
    });
    if (!ran || !checked)
      lacks.push_back("the suite " + suite + " was not run whole on " + profile.deviceKind + where);
  }
  for (const auto& pattern : profile.operators) {
    const bool found = std::any_of(run.checks.begin(), run.checks.end(), [&](const auto& check) {
      return onKind(check, profile) && check.status == Status::kPassed &&
             globMatches(pattern, check.operatorName) && againstGolden(check);
    });
    if (!found)
      lacks.push_back("no check of the operator " + pattern + " against a golden passed on " +
                      profile.deviceKind + where);
  }
  for (const auto& gpu : run.environment.value("gpus", json::array())) {
    const auto name = textOf(gpu, "name");
    if (!profile.gpu.empty() && !globMatches(profile.gpu, name))
      lacks.push_back("the GPU is a " + name + ", not a " + profile.gpu + where);
  }
}

// What may not be in a run.
void unacceptable(const Profile& profile, const Run& run, std::vector<std::string>& lacks) {
  std::map<std::string, size_t> counts;
  for (const auto& check : run.checks) {
    if (!onKind(check, profile)) continue;
    if (check.status == Status::kUnavailable && !profile.unavailable)
      ++counts["an operator is unavailable: " + check.operatorName];
    if (check.status == Status::kSkipped &&
        std::find(profile.skips.begin(), profile.skips.end(), check.reason) == profile.skips.end())
      ++counts["skipped for " + check.reason + ", which the profile does not allow"];
    for (const auto& pattern : profile.defects) {
      if (check.status == Status::kKnown && globMatches(pattern, check.defect))
        ++counts["the known defect " + check.defect + " is not acceptable"];
    }
  }
  for (const auto& [what, count] : counts)
    lacks.push_back(what + " (" + counted(count, "check", "checks") + " of " +
                    run.folder.filename().string() + ")");
}

}  // namespace

Profile readProfile(const std::string& name) {
  const auto path = profileFile(name);
  try {
    return parse(parseForeign(readFile(path).value_or("")));
  } catch (const Problem& problem) {
    throw Problem("the profile " + path.string() + " cannot be used: " + problem.what());
  }
}

std::vector<std::string> lacking(const Profile& profile, const std::vector<Run>& runs,
                                 const std::function<bool(const CheckRecord&)>& againstGolden) {
  std::vector<std::string> lacks;
  if (runs.size() < profile.runs)
    lacks.push_back(std::to_string(profile.runs) + " runs are wanted, the bundle holds " +
                    std::to_string(runs.size()));
  for (const auto& run : runs) {
    lackingInRun(profile, run, againstGolden, lacks);
    unacceptable(profile, run, lacks);
  }
  return lacks;
}

}  // namespace assay
