// The report's three forms, and the command that writes them.
#include <cstdio>
#include <fstream>

#include "fixtures/core/text.h"
#include "tools/assay/commands.h"
#include "tools/assay/report.h"
#include "tools/assay/waivers.h"

namespace assay {

extern const char* const kReportPage;  // page/report.html, made into a string by CMake

namespace {

using nlohmann::json;

// Text inside XML; control characters and U+FFFE and U+FFFF, which XML 1.0 cannot hold, become
// spaces.
std::string escaped(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (const auto piece = std::string_view(text).substr(i, 3);
        piece == "\xEF\xBF\xBE" || piece == "\xEF\xBF\xBF") {
      result += ' ';
      i += 2;
      continue;
    }
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += static_cast<unsigned char>(c) < 32 && c != '\n' ? ' ' : c;
    }
  }
  return result;
}

std::string junitCase(const CheckRecord& check) {
  char head[64];
  const bool sane = check.seconds >= 0 && check.seconds < 1e9;  // an altered record's may not be
  std::snprintf(head, sizeof head, R"(" time="%.6f")", sane ? check.seconds : 0.0);
  std::string text = "    <testcase classname=\"" + escaped(check.suite + "." + check.device) +
                     "\" name=\"" + escaped(check.test) + head;
  const auto child = [&](const char* tag, const std::string& message) {
    return text + "><" + tag + " message=\"" + escaped(message) + "\"/></testcase>\n";
  };
  switch (check.status) {
    case Status::kFailed:
      return child("failure", check.message);
    case Status::kCrashed:
      return child("error", check.message);
    case Status::kFixed:
      return child("failure",
                   "no longer wrong: take " + check.defect + " out of known_defects.json");
    case Status::kKnown:
      return child("skipped", "known defect " + check.defect + ": " + check.message);
    case Status::kSkipped:
    case Status::kUnavailable:
      return child("skipped", check.reason);
    case Status::kPassed:
      break;
  }
  return text + "/>\n";
}

}  // namespace

std::string reportPage(const json& data) { return filledPage(kReportPage, data); }

std::string filledPage(std::string page, const json& data) {
  std::string text = data.dump(-1, ' ', false, json::error_handler_t::replace);
  // "</script>" inside the data would end it, "<!--<script>" would hide its end.
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos; at += 6)
    text.replace(at, 1, "\\u003c");
  const std::string mark = "@DATA@";
  return page.replace(page.find(mark), mark.size(), text);
}

std::string reportMarkdown(const json& data) {
  std::string text = "# Assay: " + data["verdict"].get<std::string>() + "\n\n";
  for (const auto& line : data["lines"]) text += line.get<std::string>() + "\n";
  text += "\n## Environment\n";
  for (const auto& row : data["environment"])
    text += "- " + row[0].get<std::string>() + ": " + row[1].get<std::string>() + "\n";
  text += "\n## Suites\n| suite | device |";
  std::string rule = "|---|---|";
  const auto& total = data["total"];
  for (size_t k = 0; k < total.size(); ++k) {
    if (k > 1 && total[k] == 0) continue;
    text += " " + data["statuses"][k].get<std::string>() + " |";
    rule += "---|";
  }
  text += "\n" + rule + "\n";
  for (const auto& suite : data["suites"]) {
    text += "| " + suite["suite"].get<std::string>() + " | " + suite["device"].get<std::string>() +
            " |";
    for (size_t k = 0; k < total.size(); ++k) {
      if (k < 2 || total[k] != 0) text += " " + suite["counts"][k].dump() + " |";
    }
    text += "\n";
  }
  if (!data["failures"].empty()) text += "\n## Failures\n";
  for (const auto& one : data["failures"])
    text += "- " + one["status"].get<std::string>() + " `" + one["test"].get<std::string>() +
            "`: " + one["message"].get<std::string>() + "\n";
  if (data["failuresLeft"] > 0) text += "- and " + data["failuresLeft"].dump() + " more\n";
  return text;
}

std::string reportJunit(const Run& run) {
  size_t failures = 0, errors = run.lost.size(), skipped = 0;
  std::string cases;
  for (const auto& check : run.checks) {
    failures += check.status == Status::kFailed || check.status == Status::kFixed;
    errors += check.status == Status::kCrashed;
    skipped += check.status == Status::kKnown || check.status == Status::kSkipped ||
               check.status == Status::kUnavailable;
    cases += junitCase(check);
  }
  for (const auto& cut : run.lost)
    cases += R"(    <testcase classname="records" name="whole"><error message=")" + escaped(cut) +
             "\"/></testcase>\n";
  const auto count = [](const char* name, size_t value) {
    return std::string(" ") + name + "=\"" + std::to_string(value) + "\"";
  };
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"assay\"" +
         count("tests", run.checks.size() + run.lost.size()) + count("failures", failures) +
         count("errors", errors) + count("skipped", skipped) + ">\n" + cases +
         "  </testsuite>\n</testsuites>\n";
}

int report(const ReportOptions& options) {
  Run run = readRun(findRun(options.run));
  std::vector<std::string> problems;
  if (!options.waivers.empty()) problems = applyWaivers(run, readWaivers(options.waivers), today());
  const json data = reportData(run, problems);
  const auto beside = [&](const std::filesystem::path& named, const char* name) {
    return named.empty() ? run.folder / name : named;
  };
  const auto write = [](const std::filesystem::path& path, const std::string& text) {
    writeFile(path, text);
    std::printf("%s\n", path.c_str());
  };
  write(beside(options.html, "report.html"), reportPage(data));
  write(beside(options.junit, "junit.xml"), reportJunit(run));
  write(beside(options.markdown, "report.md"), reportMarkdown(data));
  std::printf("%s\n", data["verdict"].get<std::string>().c_str());
  for (const auto& line : data["lines"]) std::printf("  %s\n", line.get<std::string>().c_str());
  return data["good"] ? 0 : 1;
}

}  // namespace assay
