#include "tools/assay/records.h"

#include <algorithm>
#include <cstdlib>
#include <future>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "fixtures/core/files.h"
#include "fixtures/core/known_defects.h"
#include "fixtures/core/shape.h"
#include "fixtures/core/text.h"
#include "tools/assay/record_line.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Of several records of one test the last one stays.
struct Once {
  std::unordered_map<std::string, size_t> places;
  size_t repeated = 0;
  std::vector<std::string> contradicted;

  void keep(std::vector<CheckRecord>& checks, CheckRecord check) {
    const auto [known, isNew] = places.emplace(check.suite + "\n" + check.test, checks.size());
    if (isNew) return checks.push_back(std::move(check));
    auto& earlier = checks[known->second];
    if (failed(earlier) && !failed(check))
      contradicted.push_back(check.test +
                             " failed, and did not when it ran again into the same folder: run "
                             "again into a fresh one");
    earlier = std::move(check);
    ++repeated;
  }
};

// What one file holds.
struct FileRecords {
  std::vector<CheckRecord> checks;
  size_t repeated = 0;
  std::optional<std::string> cut;
  std::vector<std::string> contradicted;
};

class FileReader {
 public:
  FileReader(fs::path path, size_t file) : path_(std::move(path)), file_(file) {}

  FileRecords read() && {
    const auto bytes = readFile(path_);
    if (!bytes) throw Problem("cannot read " + path_.string());
    const std::string_view text = *bytes;
    for (size_t start = 0; start < text.size();) {
      const size_t end = std::min(text.find('\n', start), text.size());
      ++line_;
      take(text.substr(start, end - start), start, end == text.size());
      start = end + 1;
    }
    found_.repeated = once_.repeated;
    found_.contradicted = std::move(once_.contradicted);
    return std::move(found_);
  }

 private:
  // `open`: the line has no end, as the last one of a run that was killed while it wrote.
  void take(std::string_view line, size_t offset, bool open) {
    CheckRecord check{.file = file_, .line = line_, .offset = offset, .bytes = line.size()};
    const std::string problem = parseLine(line, check);
    if (problem.empty()) return keep(std::move(check));
    if (!open || problem != kNotJson) {
      throw Problem(path_.string() + ", line " + std::to_string(line_) + ", " + problem +
                    ": the file was altered or damaged; run again into a fresh folder");
    }
    found_.cut = path_.filename().string() + " breaks off in line " + std::to_string(line_) +
                 ": the run was killed, and that check's record is lost";
  }

  void keep(CheckRecord check) { once_.keep(found_.checks, std::move(check)); }

  fs::path path_;
  size_t file_;
  size_t line_ = 0;
  FileRecords found_;
  Once once_;
};

// The files of a folder whose names end so, sorted by name.
std::vector<fs::path> filesOf(const fs::path& folder, const std::string& ending) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().string().ends_with(ending)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// A pipe or a device under the name of a file would be waited for.
void demandPlain(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored))
    throw Problem(path.string() + " is no plain file: take it out of the run's folder");
}

// The run's plans, sorted by file name.
void readPlans(Run& run) {
  for (const auto& path : filesOf(run.folder, ".plan.json")) {
    demandPlain(path);
    const auto text = readFile(path).value_or("");
    try {
      run.plans.push_back(planFromJson(parseForeign(text)));
      if (planFileName(run.plans.back()) != path.filename())
        throw std::invalid_argument("is another suite's plan");
    } catch (const std::invalid_argument& error) {
      run.lost.push_back(
          path.filename().string() +
          (text.empty() ? " is empty: its suite was killed as it started"
                        : std::string(" ") + error.what() + ": the file was altered or damaged"));
    }
  }
}

// What a suite lacks of its plan; empty: nothing. `failed`: a check failed or crashed.
std::string missing(const Plan& plan, const std::vector<std::string>& recorded, bool failed) {
  const std::string suite = stemOf(plan.suite, plan.smoke) + " on " + plan.deviceKind + ": ";
  if (!plan.problem.empty()) return suite + "could not run: " + plan.problem;
  if (plan.ended.empty())
    return suite + std::to_string(recorded.size()) + " of " + std::to_string(plan.checks) +
           " checks are recorded, and the suite did not end: go on with --resume";
  if (recorded.size() != plan.checks)
    return suite + std::to_string(plan.checks) + " checks were planned, " +
           std::to_string(recorded.size()) + " are recorded: the records were altered";
  if (hashOfTests(recorded) != plan.testsSha256)
    return suite + "the records are of other checks than were planned: they were altered";
  if (plan.exitCode != 0 && plan.exitCode != 1 && plan.exitCode != 77)
    return suite + "it ended with exit code " + std::to_string(plan.exitCode) +
           ", which no suite has: the plan was altered";
  if (failed != (plan.exitCode == 1))
    return suite + "it ended with exit code " + std::to_string(plan.exitCode) + ", and " +
           (failed ? "a check" : "no check") + " failed by its records: they were altered";
  return "";
}

// Are the records all that the suites set out for?
void comparePlans(Run& run, const std::vector<FileRecords>& found) {
  std::vector<bool> claimed(found.size());
  for (const auto& plan : run.plans) {
    std::vector<std::string> tests;
    bool bad = false;
    for (size_t i = 0; i < found.size(); ++i) {
      if (!holdsRecordsOf(run.files[i].filename().string(), plan)) continue;
      claimed[i] = true;
      for (const auto& check : found[i].checks) {
        tests.push_back(check.test);
        bad = bad || failed(check);
      }
    }
    const auto lack = missing(plan, tests, bad);
    if (!lack.empty()) run.lost.push_back(lack);
  }
  for (size_t i = 0; i < found.size(); ++i) {
    if (!claimed[i] && !found[i].cut)
      run.lost.push_back(run.files[i].filename().string() +
                         " has no plan beside it: whether it is whole is not known");
  }
}

// Into run.checks, each test once: a smoke run may stand beside the whole one.
void joinFiles(Run& run, std::vector<FileRecords>& found) {
  Once once;
  for (auto& file : found) {
    for (auto& check : file.checks) once.keep(run.checks, std::move(check));
    run.repeated += file.repeated;
    std::move(file.contradicted.begin(), file.contradicted.end(),
              std::back_inserter(run.contradicted));
  }
  run.repeated += once.repeated;
  std::move(once.contradicted.begin(), once.contradicted.end(),
            std::back_inserter(run.contradicted));
}

void readFiles(Run& run) {
  std::vector<std::future<FileRecords>> readers;
  for (size_t i = 0; i < run.files.size(); ++i) {
    readers.push_back(std::async(std::launch::async,
                                 [path = run.files[i], i] { return FileReader(path, i).read(); }));
  }
  std::vector<FileRecords> found;
  for (auto& reader : readers) {
    found.push_back(reader.get());
    if (found.back().cut)
      run.lost.push_back(*found.back().cut);
    else if (found.back().checks.empty())
      run.lost.push_back(run.files[found.size() - 1].filename().string() +
                         " is empty: its suite was killed before the first record");
  }
  comparePlans(run, found);
  joinFiles(run, found);
}

// The folders that hold runs, the nearest first.
std::vector<fs::path> resultFolders() {
  return {fs::path("results"), (programFolder() / "../results").lexically_normal()};
}

fs::path newestRun() {
  fs::path newest;
  fs::file_time_type time = fs::file_time_type::min();
  std::error_code ignored;
  for (const auto& results : resultFolders()) {
    for (const auto& run : fs::directory_iterator(results, ignored)) {
      for (const auto& file : filesOf(run.path(), ".jsonl")) {
        const auto written = fs::last_write_time(file, ignored);
        if (written > time) newest = run.path(), time = written;
      }
    }
  }
  if (newest.empty()) {
    throw Problem("there is no run under " + resultFolders()[0].string() + "/ or " +
                  resultFolders()[1].string() + "/: run tools/conformance, or name a run's folder");
  }
  return newest;
}

std::string ambiguous(const std::string& name, const std::vector<const CheckRecord*>& found) {
  std::string text = "\"" + name + "\" means " + std::to_string(found.size()) +
                     " checks: give more of the name, or the whole one.";
  for (size_t i = 0; i < std::min<size_t>(found.size(), 10); ++i) text += "\n  " + found[i]->test;
  if (found.size() > 10) text += "\n  and " + std::to_string(found.size() - 10) + " more";
  return text;
}

}  // namespace

json Run::whole(const CheckRecord& check) const {
  const auto bytes = readFile(files.at(check.file));
  json record;
  if (bytes && check.offset + check.bytes <= bytes->size())
    record = json::parse(bytes->substr(check.offset, check.bytes), nullptr, false);
  if (!record.is_object() || record.value("test", json()) != check.test)
    throw Problem(files.at(check.file).string() + " changed while it was read: try again");
  if (const auto wrong = misshaped(record, recordShape()); !wrong.empty())
    throw Problem(files.at(check.file).string() + ", line " + std::to_string(check.line) + ": " +
                  wrong + ": the file was altered or damaged");
  return printable(record);
}

Run readRun(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw Problem("there is no run in " + folder.string() + ": name a run's folder");
  Run run;
  run.folder = folder;
  run.files = filesOf(folder, ".jsonl");
  for (const auto* ending : {".jsonl", ".outputs"}) {
    for (const auto& file : filesOf(folder, ending)) demandPlain(file);
  }
  run.environment = readEnvironment(folder).value_or(json());
  readPlans(run);
  readFiles(run);
  if (run.checks.empty()) {
    throw Problem("there are no records in " + folder.string() + ": was a suite run?" +
                  (run.lost.empty() ? "" : " (" + run.lost.front() + ")"));
  }
  return run;
}

std::optional<json> readEnvironment(const fs::path& folder) {
  static const json kShape = json::parse(R"({
      "time": "text", "host": "text", "assay": "text", "goldens_sha256": "text", "known_defects_sha256": "text",
      "fault": "text", "libtorch": {"*": "text"}, "cuda": {"*": "text"}, "cudnn": {"*": "text"}, "nccl": "text",
      "driver": "text", "gpu_problem": "text",
      "gpus": [{"device": "text", "name": "text", "uuid": "text", "compute_capability": "text", "sm_count": "count"}],
      "cpu": {"model": "text", "microcode": "text", "capability": "text", "logical_cpus": "count",
              "threads": "count", "interop_threads": "count"},
      "flags": {}, "variables": {"*": "text"}, "system": {"*": "text"}})");
  demandPlain(folder / "environment.json");
  const auto text = readFile(folder / "environment.json");
  if (!text) return std::nullopt;
  json environment = parseForeign(*text);
  if (!environment.is_object() || environment.value("format", json()) != 1) {
    throw Problem((folder / "environment.json").string() +
                  " is not a manifest of format 1: the file was altered, or is a newer Assay's");
  }
  if (const auto wrong = misshaped(environment, kShape); !wrong.empty())
    throw Problem((folder / "environment.json").string() + ": " + wrong +
                  ": the file was altered, or is another Assay's");
  return printable(environment);
}

fs::path findRun(const std::optional<std::string>& name) {
  if (!name) {
    const char* folder = std::getenv("ASSAY_RESULTS");
    return folder && *folder ? fs::path(folder) : newestRun();
  }
  if (fs::is_directory(*name)) return *name;
  for (const auto& results : resultFolders()) {
    if (fs::is_directory(results / *name)) return results / *name;
  }
  throw Problem("there is no run \"" + *name +
                "\": name a run's folder, or its name under results/");
}

bool globNames(const std::string& glob, const CheckRecord& check) {
  return globMatches(glob, check.test) ||
         globMatches(glob, check.test.substr(check.test.rfind('/') + 1));
}

const CheckRecord& findCheck(const Run& run, const std::string& name) {
  std::vector<const CheckRecord*> whole, last, part, glob;
  for (const auto& check : run.checks) {
    if (check.test == name) whole.push_back(&check);
    if (check.test.ends_with("/" + name)) last.push_back(&check);
    if (check.test.find(name) != std::string::npos) part.push_back(&check);
    if (globNames(name, check)) glob.push_back(&check);
  }
  for (const auto* found : {&whole, &last, &part, &glob}) {
    if (found->size() == 1) return *found->front();
    if (!found->empty()) throw Problem(ambiguous(name, *found));
  }
  throw Problem("no check of " + run.folder.string() + " is called \"" + name +
                "\": give a test's name, a part of it, or a pattern with * and ?");
}

}  // namespace assay
