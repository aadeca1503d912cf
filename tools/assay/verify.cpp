// assay verify: is a bundle what it claims, and does it hold what a profile asks for?
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "fixtures/core/command.h"
#include "fixtures/core/files.h"
#include "fixtures/core/sha256.h"
#include "fixtures/core/shape.h"
#include "fixtures/core/text.h"
#include "fixtures/core/version.h"
#include "tools/assay/bundle.h"
#include "tools/assay/commands.h"
#include "tools/assay/evidence.h"
#include "tools/assay/gate.h"
#include "tools/assay/profile.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Outcome {
  std::vector<std::string> cannot, problems, notes;
  [[nodiscard]] int code() const { return !problems.empty() ? 1 : !cannot.empty() ? 2 : 0; }
  [[nodiscard]] const char* verdict() const {
    return code() == 0 ? "ACCEPT" : code() == 1 ? "REJECT" : "CANNOT JUDGE";
  }
};

json readManifest(const ArchiveFiles& files, const fs::path& bundle) {
  const auto found = files.find(kManifest);
  json manifest = found == files.end() ? json() : parseForeign(found->second);
  if (!manifest.is_object() || manifest.value("format", json()) != 1 ||
      !manifest.value("files", json()).is_object() || !manifest.value("runs", json()).is_array())
    throw Problem(bundle.string() + " has no manifest of format 1: it is no bundle of Assay's");
  if (const auto wrong = misshaped(
          manifest, json::parse(R"({"files": {"*": "text"}, "runs": [{"folder": "text"}]})"));
      !wrong.empty())
    throw Problem(bundle.string() + ": in its manifest " + wrong + ": it is no bundle of Assay's");
  return manifest;
}

// Every file is listed with its hash, and every listed file is there.
void checkHashes(const ArchiveFiles& files, const json& manifest, Outcome& outcome) {
  const auto& hashes = manifest["files"];
  for (const auto& [name, bytes] : files) {
    if (name == kManifest || name == kSignature) continue;
    const auto listed = hashes.find(name);
    if (listed == hashes.end())
      outcome.problems.push_back(name + " is not in the manifest");
    else if (*listed != sha256Hex(bytes))
      outcome.problems.push_back(name + " was altered: its hash is not the manifest's");
  }
  for (const auto& [name, hash] : hashes.items()) {
    if (!files.contains(name))
      outcome.problems.push_back(name + " is in the manifest and not in the bundle");
  }
}

// Whose signature is it? By the verifier's file of allowed signers (ssh-keygen(1)).
void checkSignature(const ArchiveFiles& files, const fs::path& signers, Outcome& outcome) {
  const auto signature = files.find(kSignature);
  if (signers.empty()) {
    outcome.notes.emplace_back(
        signature == files.end()
            ? "the bundle is not signed: the manifest's hash, by another way, tells whose it is"
            : "the signature was not checked: name the allowed signers with --signers");
    return;
  }
  if (signature == files.end()) {
    outcome.problems.emplace_back("the bundle is not signed");
    return;
  }
  if (!fs::is_regular_file(signers))
    throw Problem("there is no file of allowed signers " + signers.string());
  const ScratchFolder scratch;
  const auto sig = scratch.path() / kSignature, text = scratch.path() / kManifest;
  writeFile(sig, signature->second);
  writeFile(text, files.at(kManifest));
  const auto quoted = [](const fs::path& path) { return shellQuoted(path.string()); };
  auto who = runCommand("ssh-keygen -Y find-principals -f " + quoted(signers) + " -s " +
                        quoted(sig) + " 2>/dev/null");
  who.text = who.text.substr(0, who.text.find('\n'));
  const auto verified =
      runCommand("ssh-keygen -Y verify -f " + quoted(signers) + " -I " + shellQuoted(who.text) +
                 " -n " + kSignatureSpace + " -s " + quoted(sig) + " <" + quoted(text) + " 2>&1");
  if (who.code != 0 || who.text.empty() || verified.code != 0)
    outcome.problems.emplace_back("the signature is of none of the allowed signers");
  else
    outcome.notes.push_back("signed by " + who.text);
}

// The bundle's runs as folders again.
std::vector<Run> unpackRuns(const ArchiveFiles& files, const json& manifest, const fs::path& into) {
  std::vector<Run> runs;
  for (const auto& one : manifest["runs"]) {
    const auto folder = textOf(one, "folder");
    if (folder.find_first_not_of("0123456789", 5) != std::string::npos ||
        !folder.starts_with("runs/") || folder.size() == 5)
      throw Problem("the manifest names a run \"" + folder + "\"");
    fs::create_directories(into / folder);
    for (const auto& [name, bytes] : files) {
      if (name.starts_with(folder + "/") && name.find('/', folder.size() + 1) == std::string::npos)
        writeFile(into / name, bytes);
    }
    runs.push_back(readRun(into / folder));
  }
  return runs;
}

// Repetitions are of one environment, and none is a copy of another.
void checkDistinct(const std::vector<Run>& runs, Outcome& outcome) {
  std::set<std::string> started;
  for (const auto& run : runs) {
    const auto name = "run " + run.folder.filename().string();
    bool copied = false;
    for (const auto& plan : run.plans)
      copied = !started.insert(plan.suite + plan.deviceKind + plan.started).second || copied;
    if (copied)
      outcome.problems.push_back(
          name + " started in the same second as an earlier run: it is a copy, or ran beside it");
    if (!run.environment.is_object() || !runs[0].environment.is_object()) continue;
    const auto changes = environmentChanges(runs[0].environment, run.environment);
    if (!changes.empty() || textOf(run.environment, "host") != textOf(runs[0].environment, "host"))
      outcome.problems.push_back(name + " is of another environment than the first (" +
                                 (changes.empty() ? "host" : changes.front()) +
                                 "): it is no repetition");
  }
}

// An error is a function of the outputs: where the bytes are the same, so is it.
void checkRepetitions(const std::vector<Run>& runs, Outcome& outcome) {
  std::map<std::string, const CheckRecord*> first;
  size_t contradicted = 0;
  std::string example;
  for (const auto& run : runs) {
    for (const auto& check : run.checks) {
      if (check.sha256.empty() || std::isnan(check.error)) continue;
      const auto& earlier = *first.emplace(check.test + check.sha256, &check).first->second;
      if (earlier.error == check.error) continue;
      if (contradicted++ == 0) example = check.test;
    }
  }
  if (contradicted > 0)
    outcome.problems.push_back(counted(contradicted, "check has", "checks have") +
                               " the same outputs in two runs and another error: " + example);
}

void judgeRun(EvidenceJudge& judge, const Run& run, const std::string& challenge,
              Outcome& outcome) {
  const std::string name = "run " + run.folder.filename().string();
  const Evidence found = judge.judge(run, challenge);
  for (const auto& one : found.cannot) outcome.cannot.push_back(name + ": " + one);
  for (const auto& one : found.problems) outcome.problems.push_back(name + ": " + one);
  if (!found.cannot.empty()) return;
  if (found.failed > 0)
    outcome.problems.push_back(name + ": " +
                               counted(found.failed, "check failed: ", "checks failed, first ") +
                               found.failedTest);
  if (found.passed + found.known + found.failed == 0)
    outcome.problems.push_back(name + ": nothing was checked");
  if (found.again.outputs == 0 && found.family > 0)
    outcome.problems.push_back(name +
                               ": it kept no output whose error could be computed again (--store)");
  outcome.notes.push_back(
      name + ": " + counted(found.verdicts, "verdict", "verdicts") + " worked out again, " +
      std::to_string(found.again.bounds) + " bounds looked up in the goldens, " +
      counted(found.again.outputs, "output", "outputs") + " compared with them again (" +
      std::to_string(found.again.beyond) + " of other gauges not); " +
      std::to_string(found.passed) + " passed, " + std::to_string(found.known) +
      " known defects, " + std::to_string(found.skipped) + " not checked");
  for (const auto& [reason, count] : found.skips)
    outcome.notes.push_back(name + ": " + counted(count, "check", "checks") + " skipped for " +
                            reason);
  const auto& environment = run.environment;
  std::string machine = name + ": host " + textOf(environment, "host") + ", " +
                        textOf(environment, "time") + ", LibTorch " +
                        textOf(environment.value("libtorch", json::object()), "loaded");
  for (const auto& gpu : environment.value("gpus", json::array()))
    machine += ", " + textOf(gpu, "name") + " " + textOf(gpu, "uuid");
  outcome.notes.push_back(machine);
}

void print(const Outcome& outcome, bool originKnown) {
  std::printf("%s%s\n", outcome.verdict(),
              outcome.code() == 0 && !originKnown ? ", but by whom it was made is not shown" : "");
  constexpr size_t kShown = 40;
  for (size_t k = 0; k < std::min(outcome.problems.size(), kShown); ++k)
    std::printf("  wrong: %s\n", printable(outcome.problems[k].substr(0, 400)).c_str());
  if (outcome.problems.size() > kShown)
    std::printf("  and %zu more\n", outcome.problems.size() - kShown);
  for (const auto& one : outcome.cannot)
    std::printf("  cannot judge: %s\n", printable(one).c_str());
  for (const auto& one : outcome.notes) std::printf("  %s\n", printable(one).c_str());
}

}  // namespace

int verify(const VerifyOptions& options) {
  const auto files = unpackArchive(options.bundle);
  const json manifest = readManifest(files, options.bundle);
  Outcome outcome;
  checkHashes(files, manifest, outcome);
  checkSignature(files, options.signers, outcome);
  const ScratchFolder scratch;
  EvidenceJudge judge(options.goldens, options.knownDefects, options.checks,
                      options.assay.empty() ? assayVersion() : options.assay);
  if (outcome.problems.empty()) {  // altered bytes are no ground to judge on
    const auto runs = unpackRuns(files, manifest, scratch.path());
    if (runs.empty()) outcome.problems.emplace_back("the bundle holds no run");
    checkDistinct(runs, outcome);
    checkRepetitions(runs, outcome);
    for (const auto& run : runs) judgeRun(judge, run, options.challenge, outcome);
    if (options.profile.empty()) {
      outcome.notes.emplace_back(
          "no --profile: that the bundle holds all that an acceptance needs was not checked");
    } else {
      const auto profile = readProfile(options.profile);
      const auto counts = [&](const CheckRecord& check) { return judge.againstGolden(check); };
      for (const auto& one : lacking(profile, runs, counts))
        outcome.problems.push_back("profile " + profile.name + ": " + one);
    }
  }
  outcome.notes.push_back("manifest " + sha256Hex(files.at(kManifest)));
  print(outcome, !options.signers.empty());
  if (!options.json.empty())
    writeFile(options.json, json{{"format", 1},
                                 {"verdict", outcome.verdict()},
                                 {"problems", outcome.problems},
                                 {"cannot", outcome.cannot},
                                 {"notes", outcome.notes}}
                                    .dump(2, ' ', false, json::error_handler_t::replace) +
                                "\n");
  return outcome.code();
}

}  // namespace assay
