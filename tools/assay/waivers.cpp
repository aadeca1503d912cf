#include "tools/assay/waivers.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <set>
#include <sstream>

#include "fixtures/core/files.h"
#include "fixtures/core/known_defects.h"
#include "fixtures/core/text.h"

namespace assay {
namespace {

using nlohmann::json;

// "2027-01-31" and nothing else.
bool isDate(const std::string& text) {
  int year = 0, month = 0, day = 0, length = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &length) != 3) return false;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  return text.size() == 10 && length == 10 && date.ok();
}

std::vector<std::string> texts(const json& value) {
  std::vector<std::string> result;
  for (const auto& one : value.is_array() ? value : json::array({value})) {
    if (!one.is_string() || one.get<std::string>().empty()) return {};
    result.push_back(one.get<std::string>());
  }
  return result;
}

Waiver parse(const json& value, const std::string& where) {
  static const std::set<std::string> kFields{"id",      "test",        "reason",   "owner",
                                             "expires", "environment", "max_error"};
  const auto fail = [&](const std::string& what) -> void { throw Problem(where + " " + what); };
  if (!value.is_object()) fail("is not an object");
  for (const auto& [name, unused] : value.items()) {
    if (!kFields.contains(name)) fail("has an unknown field \"" + name + "\"");
  }
  Waiver waiver;
  for (const auto& [name, field] :
       {std::pair{"id", &Waiver::id}, std::pair{"reason", &Waiver::reason},
        std::pair{"owner", &Waiver::owner}, std::pair{"expires", &Waiver::expires}}) {
    waiver.*field = textOf(value, name);
    if ((waiver.*field).empty()) fail("needs a text as \"" + std::string(name) + "\"");
  }
  if (!isDate(waiver.expires)) fail("needs a date such as 2027-01-31 as \"expires\"");
  waiver.tests = texts(value.value("test", json()));
  if (waiver.tests.empty()) fail("needs a glob or a list of globs as \"test\"");
  const json environment = value.value("environment", json::object());
  if (!environment.is_object()) fail("needs {path: glob} as \"environment\"");
  for (const auto& [path, glob] : environment.items()) {
    if (!glob.is_string()) fail("needs a glob for \"" + path + R"(" in "environment")");
    waiver.environment.emplace_back(path, glob.get<std::string>());
  }
  if (value.contains("max_error")) {
    if (!value["max_error"].is_number()) fail("needs a number as \"max_error\"");
    waiver.maxError = value["max_error"];
    waiver.boundsError = true;
  }
  return waiver;
}

// "gpus/0/name" in the manifest; null where it has no such field.
json valueAt(const json& environment, const std::string& path) {
  const json* value = &environment;
  std::istringstream steps(path);
  for (std::string step; std::getline(steps, step, '/');) {
    const bool place = !step.empty() && step.size() < 10 &&
                       step.find_first_not_of("0123456789") == std::string::npos;
    if (value->is_array() && place && std::stoul(step) < value->size())
      value = &(*value)[std::stoul(step)];
    else if (value->is_object() && value->contains(step))
      value = &(*value)[step];
    else
      return nullptr;
  }
  return *value;
}

bool holdsHere(const Waiver& waiver, const json& environment) {
  return std::all_of(waiver.environment.begin(), waiver.environment.end(), [&](const auto& one) {
    const json value = environment.is_object() ? valueAt(environment, one.first) : json();
    return globMatches(one.second, value.is_string() ? value.get<std::string>() : value.dump());
  });
}

bool names(const Waiver& waiver, const CheckRecord& check) {
  return std::any_of(waiver.tests.begin(), waiver.tests.end(),
                     [&](const std::string& glob) { return globNames(glob, check); });
}

bool allows(const Waiver& waiver, double error) {
  return !waiver.boundsError || error <= waiver.maxError;
}

}  // namespace

std::vector<Waiver> readWaivers(const std::filesystem::path& path) {
  const auto text = readFile(path);
  if (!text) throw Problem("cannot read the waivers " + path.string());
  const json file = json::parse(*text, nullptr, false);
  if (!file.is_object() || file.value("format", json()) != 1 || !file.contains("waivers") ||
      !file["waivers"].is_array() || file.size() != 2)
    throw Problem(path.string() + R"( is not {"format": 1, "waivers": [...]})");
  std::vector<Waiver> waivers;
  std::set<std::string> ids;
  for (const auto& one : file["waivers"]) {
    const std::string where =
        path.string() + ": waiver " + std::to_string(waivers.size() + 1) +
        (one.is_object() && !textOf(one, "id").empty() ? " (" + textOf(one, "id") + ")" : "");
    waivers.push_back(parse(one, where));
    if (!ids.insert(waivers.back().id).second) throw Problem(where + " has the id of another one");
  }
  return waivers;
}

std::vector<std::string> applyWaivers(Run& run, const std::vector<Waiver>& waivers,
                                      const std::string& today) {
  std::vector<std::string> problems;
  for (const auto& waiver : waivers) {
    if (!holdsHere(waiver, run.environment)) continue;
    if (waiver.expires < today) {
      problems.push_back("waiver " + waiver.id + " of " + waiver.owner + " expired on " +
                         waiver.expires + ": renew it or take it out");
      continue;
    }
    size_t matched = 0;
    const CheckRecord* passing = nullptr;
    for (auto& check : run.checks) {
      if (!names(waiver, check)) continue;
      ++matched;
      if (check.status == Status::kPassed && !passing) passing = &check;
      if (check.status != Status::kFailed || !allows(waiver, check.error)) continue;
      check.status = Status::kKnown;
      check.defect = "waiver " + waiver.id;
      check.message =
          waiver.reason + " (" + waiver.owner + ", until " + waiver.expires + "): " + check.message;
    }
    if (matched == 0)
      problems.push_back("waiver " + waiver.id +
                         " matches no check: take it out, or mend its \"test\"");
    if (passing)
      problems.push_back("waiver " + waiver.id + " covers " + passing->test +
                         ", which passes: narrow it or take it out");
  }
  return problems;
}

std::string today() {
  const auto days = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  const std::chrono::year_month_day date(days);
  char text[16];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  return text;
}

}  // namespace assay
