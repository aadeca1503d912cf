// assay explain: one check from its golden to its verdict.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>

#include "fixtures/core/files.h"
#include "fixtures/core/known_defects.h"
#include "fixtures/core/sha256.h"
#include "fixtures/core/text.h"
#include "tools/assay/commands.h"
#include "tools/assay/determinism_words.h"
#include "tools/assay/goldens.h"
#include "tools/assay/records.h"
#include "tools/assay/words.h"

namespace assay {
namespace {

using nlohmann::json;

void row(const std::string& name, const std::string& text) {
  if (!text.empty())
    std::cout << std::left << std::setw(11) << name << std::right << " " << text << "\n";
}

// The operator's golden file and the case in it, as far as the goldens here have them.
struct Golden {
  GoldenRow row;
  json file;
  json item;
  std::map<std::string, TensorEntry> tensors;
};

std::optional<Golden> findGolden(const std::filesystem::path& goldens, const CheckRecord& check) {
  for (const auto& one : readIndex(goldens)) {
    if (one.name != check.operatorName) continue;
    Golden golden{.row = one, .file = readOperator(one)};
    for (const auto& item : golden.file.at("cases")) {
      if (textOf(item, "name") == check.caseName) golden.item = item;
    }
    if (golden.item.is_null()) return std::nullopt;
    golden.tensors = readTensors(one, golden.file);
    return golden;
  }
  return std::nullopt;
}

// The golden of the output or gradient that the record judged.
json judgedOut(const json& item, const std::string& what) {
  const auto behind = [&](const std::string& words) {
    return what.rfind(words, 0) == 0 ? what.substr(words.size()) : "";
  };
  const json outputs = item.value("outputs", json::array());
  if (const auto number = behind("output "); !number.empty()) {
    const size_t k = std::strtoul(number.c_str(), nullptr, 10);
    return k < outputs.size() ? outputs[k] : json();
  }
  if (const auto name = behind("gradient of "); !name.empty())
    return item.value("gradients", json::object()).value(name, json());
  const json mutates = item.value("mutates", json::object());  // items() refers to it
  for (const auto& [name, out] : mutates.items()) {
    if (what.find(name) != std::string::npos) return out;
  }
  return {};
}

std::string certifiedText(const json& file) {
  const json certified = file.value("certified", json());
  if (certified.is_number())
    return ", its own error at most 2^" + certified.dump() + " of its scale";
  return certified == "exact" ? ", exact" : "";
}

std::string goldenText(const Golden& golden, const std::string& what) {
  if (textOf(golden.item, "expect") == "error") return "the call must throw";
  const json out = judgedOut(golden.item, what);
  if (!out.is_object()) return "";
  if (const auto reason = textOf(out, "unchecked"); !reason.empty()) return "unchecked: " + reason;
  std::string text = what + ": ";
  if (out.contains("members")) {
    text += "one of " + std::to_string(out["members"].size()) + " allowed answers";
  } else if (out.contains("residual")) {
    text += "residuals of the result itself";
  } else if (out.contains("statistic")) {
    text += "support and counts of random numbers";
  } else {
    text += "float64 " + shapeText(out, golden.tensors) + certifiedText(golden.file);
  }
  return text + " (" + golden.row.path.filename().string() + ", case " +
         textOf(golden.item, "name") + ")";
}

void printGolden(const Golden& golden, const std::string& what) {
  row("source", textOf(golden.item, "source"));
  row("note", textOf(golden.item, "note"));
  bool first = true;
  for (const auto& [name, value] : golden.item.at("args").items()) {
    row(first ? "arguments" : "", name + ": " + argumentText(value, golden.tensors));
    first = false;
  }
  row("golden", goldenText(golden, what));
}

// The goldens here may be newer than the run.
void warnOfOtherGoldens(const Run& run, const std::filesystem::path& goldens) {
  const auto index = readFile(goldens / "index.json");
  const std::string then =
      run.environment.is_object() ? textOf(run.environment, "goldens_sha256") : "";
  if (index && !then.empty() && sha256Hex(*index) != then) {
    std::cout << "note: the goldens in " << goldens.string()
              << " are not those of the run; what is said of the case may have changed\n";
  }
}

// How far inside or outside of its bound a figure is.
std::string headroom(const CheckRecord& check) {
  if (std::isnan(check.error)) return "not a number: never within a bound";
  if (check.error > check.bound) {
    return check.bound > 0 ? figureOf(check.error / check.bound, 3) + " times the bound"
                           : "nothing is allowed";
  }
  if (check.error == 0) return check.bound > 0 ? "all of the bound is left" : "as it must be";
  return figureOf(check.bound / check.error, 3) + " times below the bound";
}

void printFigures(const CheckRecord& check, const json& record) {
  if (check.gauge.empty()) {
    row("result", "no element was compared");
    return;
  }
  row("result", std::to_string(check.checked - check.failing) + " of " +
                    std::to_string(check.checked) + " elements within the bound" +
                    (check.what.empty() ? "" : "; worst: " + check.what));
  row("figure", check.gauge + " error " + figureOf(record.value("error", json()), 4) + ", bound " +
                    figureOf(record.value("bound", json()), 6) + ": " + headroom(check));
  row("", gaugeInWords(check.gauge));
  row("bound", textOf(record, "why"));
  if (!std::isnan(check.effectiveBits)) {
    row("precision", figureOf(check.effectiveBits, 3) + " effective bits; " +
                         bitsInWords(check.effectiveBits,
                                     textOf(record.value("variant", json::object()), "dtype")));
  }
}

// Where a model was asked for the known causes of a difference (suites/models/evidence.h).
void printCause(const json& details) {
  if (!details.is_object() || !details.contains("evidence")) return;
  row("cause", textOf(details, "cause"));
}

void printWorst(const json& record) {
  const json worst = record.value("worst", json::array());
  if (worst.empty()) return;
  std::cout << "\n"
            << std::left << std::setw(20) << "index" << std::right << std::setw(26) << "got"
            << std::setw(26) << "want" << std::setw(13) << "error"
            << "\n";
  for (const auto& element : worst) {
    std::cout << std::left << std::setw(20) << element.value("index", json()).dump() << std::right
              << std::setw(26) << figureOf(element.value("got", json()), 17) << std::setw(26)
              << figureOf(element.value("want", json()), 17) << std::setw(13)
              << figureOf(element.value("error", json()), 4) << "\n";
  }
}

void printDefect(const CheckRecord& check, const std::filesystem::path& knownDefects) {
  if (check.defect.empty()) return;
  const auto defects = loadKnownDefects(knownDefects);
  const auto found = std::find_if(defects.begin(), defects.end(),
                                  [&](const auto& defect) { return defect.id == check.defect; });
  std::cout << "\n";
  if (found == defects.end()) {
    row("defect", check.defect + ", which " + knownDefects.string() + " no longer lists");
    return;
  }
  row("defect", found->id + (check.status == Status::kFixed
                                 ? ", no longer wrong: its entry in known_defects.json is stale"
                                 : ", a known wrong answer of LibTorch"));
  row("  report", found->report.empty() ? "none" : found->report);
  row("  got", found->got);
  row("  want", found->want);
  row("  why", found->why);
}

}  // namespace

int explain(const ExplainOptions& options) {
  const Run run = readRun(findRun(options.run));
  const CheckRecord& check = findCheck(run, options.test);
  const json record = run.whole(check);
  std::cout << statusName(check.status) << " " << check.test << "\n";
  row("run", run.folder.string());
  for (const auto& cut : run.lost) row("", cut);
  const auto golden = findGolden(options.goldens, check);
  row("check",
      golden ? schemaName(golden->file) + " (" + golden->row.family + "), case " + check.caseName
             : check.operatorName + (check.caseName.empty() ? "" : ", case " + check.caseName));
  row("variant", variantInWords(record.value("variant", json())));
  if (golden) printGolden(*golden, check.what);
  std::cout << "\n";
  row("verdict", check.message);
  row("reason", check.reason);
  printCause(record.value("details", json::object()));
  printFigures(check, record);
  for (const auto& [name, text] : determinismInWords(record.value("details", json())))
    row(name, text);
  printWorst(record);
  if (const json details = record.value("details", json()); !details.is_null())
    std::cout << "\ndetails " << details.dump(2) << "\n";
  printDefect(check, options.knownDefects);
  std::cout << "\n";
  row("again", textOf(record, "repro"));
  if (golden) warnOfOtherGoldens(run, options.goldens);
  return 0;
}

}  // namespace assay
