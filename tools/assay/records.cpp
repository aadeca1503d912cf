#include "tools/assay/records.h"

#include <algorithm>
#include <cstdlib>
#include <future>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "fixtures/core/files.h"
#include "fixtures/core/known_defects.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kNotJson = "is not JSON";

using TextField = std::string CheckRecord::*;
using NumberField = double CheckRecord::*;
using CountField = int64_t CheckRecord::*;

// Fills one CheckRecord while nlohmann's parser walks over a line. Returning false ends the walk.
class LineHandler {
 public:
  using number_integer_t = json::number_integer_t;
  using number_unsigned_t = json::number_unsigned_t;
  using number_float_t = json::number_float_t;
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  explicit LineHandler(CheckRecord& check) : check_(check) {}

  // The parser dictates these names.
  // NOLINTBEGIN(readability-identifier-naming)
  bool null() { return value(); }
  bool boolean(bool) { return value(); }
  bool number_integer(number_integer_t number) { return integer(number); }
  bool number_unsigned(number_unsigned_t number) { return integer(static_cast<int64_t>(number)); }
  bool number_float(number_float_t number, const string_t&) {
    if (depth_ == 1 && number_) check_.*number_ = number;
    return value();
  }
  bool string(string_t& text) {
    if (depth_ == 1) {
      if (text_) {
        check_.*text_ = std::move(text);
      } else if (isStatus_) {
        readStatus(text);
      } else if (number_) {
        check_.*number_ = text == "inf"    ? std::numeric_limits<double>::infinity()
                          : text == "-inf" ? -std::numeric_limits<double>::infinity()
                                           : std::numeric_limits<double>::quiet_NaN();
      }
    }
    return value();
  }
  bool binary(binary_t&) { return value(); }
  bool start_object(size_t) { return open(); }
  bool end_object() { return close(); }
  bool start_array(size_t) { return open(); }
  bool end_array() { return close(); }
  bool key(string_t& name) {
    if (depth_ == 1) choose(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const json::exception&) {
    problem_ = kNotJson;
    return false;
  }
  // NOLINTEND(readability-identifier-naming)

  // Why the line is no record; empty where it is one.
  [[nodiscard]] std::string problem() const {
    if (!problem_.empty()) return problem_;
    if (check_.test.empty()) return "has no \"test\"";
    if (!hasStatus_) return "has no \"status\"";
    if (check_.status == Status::kPassed && (check_.failing > 0 || check_.error > check_.bound))
      return "says PASSED beyond its bound";
    return "";
  }

 private:
  void choose(const std::string& name) {
    static const std::unordered_map<std::string_view, TextField> kTexts{
        {"test", &CheckRecord::test},
        {"suite", &CheckRecord::suite},
        {"device", &CheckRecord::device},
        {"operator", &CheckRecord::operatorName},
        {"overload", &CheckRecord::overload},
        {"case", &CheckRecord::caseName},
        {"variant_name", &CheckRecord::variantName},
        {"reason", &CheckRecord::reason},
        {"message", &CheckRecord::message},
        {"what", &CheckRecord::what},
        {"gauge", &CheckRecord::gauge},
        {"sha256", &CheckRecord::sha256},
        {"defect", &CheckRecord::defect}};
    static const std::unordered_map<std::string_view, NumberField> kNumbers{
        {"error", &CheckRecord::error},
        {"bound", &CheckRecord::bound},
        {"effective_bits", &CheckRecord::effectiveBits},
        {"seconds", &CheckRecord::seconds}};
    static const std::unordered_map<std::string_view, CountField> kCounts{
        {"failing", &CheckRecord::failing}, {"checked", &CheckRecord::checked}};
    forget();
    if (const auto text = kTexts.find(name); text != kTexts.end()) {
      text_ = text->second;
    } else if (const auto number = kNumbers.find(name); number != kNumbers.end()) {
      number_ = number->second;
    } else if (const auto count = kCounts.find(name); count != kCounts.end()) {
      count_ = count->second;
    }
    isStatus_ = name == "status";
  }

  void readStatus(const std::string& text) {
    try {
      check_.status = statusFromName(text);
      hasStatus_ = true;
    } catch (const std::invalid_argument&) {
      problem_ = "has the unknown status \"" + text + "\" (a newer Assay's?)";
    }
  }

  bool integer(int64_t number) {
    if (depth_ == 1) {
      if (count_) check_.*count_ = number;
      if (number_) check_.*number_ = static_cast<double>(number);
    }
    return value();
  }

  void forget() {
    text_ = nullptr, number_ = nullptr, count_ = nullptr;
    isStatus_ = false;
  }

  bool value() {
    if (depth_ == 0) problem_ = "is no object";
    return problem_.empty();
  }
  bool open() {
    if (depth_ > 0) forget();
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  CheckRecord& check_;
  int depth_ = 0;
  TextField text_ = nullptr;
  NumberField number_ = nullptr;
  CountField count_ = nullptr;
  bool isStatus_ = false;
  bool hasStatus_ = false;
  std::string problem_;
};

// Why `line` is no record; empty where `check` holds it now.
std::string parseLine(std::string_view line, CheckRecord& check) {
  LineHandler handler(check);
  json::sax_parse(line.begin(), line.end(), &handler);
  return handler.problem();
}

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

  void keep(CheckRecord check) {
    const auto [known, isNew] = places_.emplace(check.test, found_.checks.size());
    if (isNew) {
      found_.checks.push_back(std::move(check));
    } else {
      auto& earlier = found_.checks[known->second];
      const auto failed = [](const CheckRecord& one) {
        return one.status == Status::kFailed || one.status == Status::kCrashed;
      };
      if (failed(earlier) && !failed(check))
        found_.contradicted.push_back(check.test +
                                      " failed, and did not when it ran again into "
                                      "the same folder: run again into a fresh one");
      earlier = std::move(check);
      ++found_.repeated;
    }
  }

  fs::path path_;
  size_t file_;
  size_t line_ = 0;
  FileRecords found_;
  std::unordered_map<std::string, size_t> places_;
};

void readFiles(Run& run) {
  std::vector<std::future<FileRecords>> readers;
  for (size_t i = 0; i < run.files.size(); ++i) {
    readers.push_back(std::async(std::launch::async,
                                 [path = run.files[i], i] { return FileReader(path, i).read(); }));
  }
  for (auto& reader : readers) {
    FileRecords found = reader.get();
    std::move(found.checks.begin(), found.checks.end(), std::back_inserter(run.checks));
    run.repeated += found.repeated;
    if (found.cut)
      run.cut.push_back(*found.cut);
    else if (found.checks.empty())
      run.cut.push_back(run.files[&reader - readers.data()].filename().string() +
                        " is empty: its suite was killed before the first record");
    std::move(found.contradicted.begin(), found.contradicted.end(),
              std::back_inserter(run.contradicted));
  }
}

std::vector<fs::path> recordFiles(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
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
      for (const auto& file : recordFiles(run.path())) {
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
  return record;
}

Run readRun(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw Problem("there is no run in " + folder.string() + ": name a run's folder");
  Run run;
  run.folder = folder;
  run.files = recordFiles(folder);
  run.environment = readEnvironment(folder).value_or(json());
  readFiles(run);
  if (run.checks.empty()) {
    throw Problem("there are no records in " + folder.string() + ": was a suite run?" +
                  (run.cut.empty() ? "" : " (" + run.cut.front() + ")"));
  }
  return run;
}

std::optional<json> readEnvironment(const fs::path& folder) {
  const auto text = readFile(folder / "environment.json");
  if (!text) return std::nullopt;
  json environment = json::parse(*text, nullptr, false);
  if (!environment.is_object() || environment.value("format", json()) != 1) {
    throw Problem((folder / "environment.json").string() +
                  " is not a manifest of format 1: the file was altered, or is a newer Assay's");
  }
  return environment;
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

const CheckRecord& findCheck(const Run& run, const std::string& name) {
  std::vector<const CheckRecord*> whole, last, part, glob;
  for (const auto& check : run.checks) {
    if (check.test == name) whole.push_back(&check);
    if (check.test.ends_with("/" + name)) last.push_back(&check);
    if (check.test.find(name) != std::string::npos) part.push_back(&check);
    if (globMatches(name, check.test)) glob.push_back(&check);
  }
  for (const auto* found : {&whole, &last, &part, &glob}) {
    if (found->size() == 1) return *found->front();
    if (!found->empty()) throw Problem(ambiguous(name, *found));
  }
  throw Problem("no check of " + run.folder.string() + " is called \"" + name +
                "\": give a test's name, a part of it, or a pattern with * and ?");
}

}  // namespace assay
