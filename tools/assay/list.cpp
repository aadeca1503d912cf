// assay list: which operators there are and how they are judged.
#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "fixtures/core/known_defects.h"
#include "fixtures/core/text.h"
#include "tools/assay/commands.h"
#include "tools/assay/goldens.h"

namespace assay {
namespace {

using nlohmann::json;

struct Listed {
  GoldenRow row;
  json file;
};

bool isNamed(const Listed& one, const std::string& pattern) {
  return globMatches(pattern, one.row.name) ||
         globMatches(pattern, one.row.family + "/" + one.row.name) ||
         globMatches(pattern, schemaName(one.file));
}

// With ATen's names for patterns that name no operator: "add" is aten::add.Tensor and
// aten::add.Scalar.
std::vector<std::string> withAtenNames(const std::vector<std::string>& patterns,
                                       const std::vector<Listed>& all) {
  auto result = patterns;
  for (const auto& pattern : patterns) {
    if (std::ranges::any_of(all, [&](const auto& one) { return isNamed(one, pattern); })) continue;
    result.push_back("aten::" + pattern);
    result.push_back("aten::" + pattern + ".*");
  }
  return result;
}

std::string joined(const std::set<std::string>& texts) {
  std::string text;
  for (const auto& one : texts) text += (text.empty() ? "" : ", ") + one;
  return text;
}

std::vector<Listed> select(const ListOptions& options) {
  const auto rows = readIndex(options.goldens);
  std::set<std::string> families;
  std::vector<Listed> selected;
  for (const auto& row : rows) {
    families.insert(row.family);
    if (options.family.empty() || row.family == options.family)
      selected.push_back({row, readOperator(row)});
  }
  if (!options.family.empty() && !families.contains(options.family)) {
    throw Problem("there is no family \"" + options.family + "\": use one of " + joined(families));
  }
  const auto wanted = withAtenNames(options.patterns, selected);
  std::erase_if(selected, [&](const auto& one) {
    return !wanted.empty() &&
           std::ranges::none_of(wanted, [&](const auto& pattern) { return isNamed(one, pattern); });
  });
  if (selected.empty()) {
    std::string patterns;
    for (const auto& pattern : options.patterns) patterns += " " + pattern;
    const bool family = options.patterns.size() == 1 && families.contains(options.patterns[0]);
    throw Problem("no operator matches" + patterns +
                  (options.family.empty() ? "" : " in the family " + options.family) +
                  (family ? ": for the family of that name, assay list --family" + patterns
                          : ": assay list without a pattern shows all"));
  }
  return selected;
}

std::set<std::string> sourcesOf(const json& file) {
  std::set<std::string> sources;
  for (const auto& item : file.at("cases")) {
    if (const auto source = textOf(item, "source"); !source.empty()) sources.insert(source);
  }
  return sources;
}

// One line a gauge, bound and why, with all dtypes and maths that share them.
void printTolerance(const json& table, const std::string& title) {
  std::vector<std::pair<json, std::string>> lines;
  for (const auto& [dtype, maths] : table.items()) {
    for (const auto& [math, tolerance] : maths.items()) {
      std::string place = dtype;
      place.append(" ").append(math);
      const auto same =
          std::find_if(lines.begin(), lines.end(),
                       [&wanted = tolerance](const auto& line) { return line.first == wanted; });
      if (same == lines.end()) {
        lines.emplace_back(tolerance, place);
      } else {
        same->second += ", " + place;
      }
    }
  }
  for (const auto& [tolerance, places] : lines) {
    std::cout << "    " << title << places << ": " << textOf(tolerance, "gauge") << ", bound "
              << figureOf(tolerance.value("bound", json()), 6);
    if (const auto why = textOf(tolerance, "why"); !why.empty()) std::cout << " (" << why << ")";
    std::cout << "\n";
  }
}

void printCase(const json& item, const std::map<std::string, TensorEntry>& tensors) {
  std::string line = "      " + textOf(item, "name") + ":";
  for (const auto& [name, value] : item.at("args").items())
    line += " " + name + "=" + argumentText(value, tensors);
  if (item.value("expect", "value") == "error") line += "; must throw";
  if (!item.contains("gradients")) line += "; forward only";
  if (const auto source = textOf(item, "source"); !source.empty()) line += "; " + source;
  if (const auto note = textOf(item, "note"); !note.empty()) line += "; " + note;
  std::cout << line << "\n";
  if (item.contains("tolerance")) printTolerance(item["tolerance"], "    of this case, ");
  if (item.contains("backward_tolerance"))
    printTolerance(item["backward_tolerance"], "    of this case's gradients, ");
}

void printOperator(const Listed& one, bool cases) {
  const json& file = one.file;
  std::cout << "  " << one.row.name << "  " << schemaName(file) << ", "
            << counted(file.at("cases").size(), "case", "cases") << "\n";
  printTolerance(file.at("tolerance"), "");
  if (file.contains("backward_tolerance") && file["backward_tolerance"] != file["tolerance"])
    printTolerance(file["backward_tolerance"], "gradients, ");
  const json libraries = file.value("library_tolerance", json::object());  // items() refers to it
  for (const auto& [library, table] : libraries.items())
    printTolerance(table, library + " on a GPU, ");
  std::cout << "    modes: " << joined(file.at("modes").get<std::set<std::string>>()) << "\n";
  if (const auto sources = sourcesOf(file); !sources.empty())
    std::cout << "    sources: " << joined(sources) << "\n";
  if (!cases) return;
  const auto tensors = readTensors(one.row, file);
  for (const auto& item : file.at("cases")) printCase(item, tensors);
}

size_t countCases(const std::vector<Listed>& selected) {
  size_t cases = 0;
  for (const auto& one : selected) cases += one.file.at("cases").size();
  return cases;
}

void printText(const std::vector<Listed>& selected, bool cases) {
  std::map<std::string, std::vector<const Listed*>> families;
  for (const auto& one : selected) families[one.row.family].push_back(&one);
  for (const auto& [family, members] : families) {
    std::cout << family << "\n";
    for (const Listed* one : members) printOperator(*one, cases);
  }
  std::cout << counted(selected.size(), "operator", "operators") << " in "
            << counted(families.size(), "family", "families") << ", "
            << counted(countCases(selected), "case", "cases") << "\n";
}

void printJson(const std::vector<Listed>& selected, bool cases) {
  json operators = json::array();
  std::set<std::string> families;
  for (const auto& one : selected) {
    families.insert(one.row.family);
    json entry{{"operator", one.row.name},
               {"family", one.row.family},
               {"schema", schemaName(one.file)},
               {"cases", one.file.at("cases").size()},
               {"sources", sourcesOf(one.file)}};
    for (const char* field : {"tolerance", "backward_tolerance", "library_tolerance", "modes",
                              "nondeterministic", "certified"}) {
      if (one.file.contains(field)) entry[field] = one.file[field];
    }
    if (cases) entry["cases"] = one.file.at("cases");
    operators.push_back(std::move(entry));
  }
  std::cout << json{{"format", 1},
                    {"operators", operators},
                    {"totals",
                     {{"operators", selected.size()},
                      {"families", families.size()},
                      {"cases", countCases(selected)}}}}
                   .dump(2)
            << "\n";
}

}  // namespace

int listOperators(const ListOptions& options) {
  const auto selected = select(options);
  if (options.asJson) {
    printJson(selected, options.cases);
  } else {
    printText(selected, options.cases);
  }
  return 0;
}

}  // namespace assay
