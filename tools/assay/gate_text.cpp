// The gate's verdict for readers: a terminal, a program, a page.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <tuple>

#include "fixtures/core/text.h"
#include "tools/assay/commands.h"
#include "tools/assay/drift.h"
#include "tools/assay/gate.h"
#include "tools/assay/report.h"
#include "tools/assay/waivers.h"

namespace assay {

extern const char* const kGatePage;  // page/gate.html, made into a string by CMake

namespace {

using nlohmann::json;

constexpr size_t kShown = 20;  // operators whose first rejected check is shown

std::string verdictOf(const Gate& gate) {
  if (!gate.problems.empty()) return "CANNOT JUDGE";
  return gate.rejects() ? "REJECT" : "ACCEPT";
}

using Counts = std::array<size_t, kChangeNames.size()>;

// By suite and device, and over all ("total").
std::vector<std::pair<std::string, Counts>> countsOf(const Gate& gate) {
  std::map<std::string, Counts> rows;
  Counts total{};
  for (const auto& one : gate.checks) {
    ++rows[one.any().suite + " " + one.any().device][static_cast<size_t>(one.change)];
    ++total[static_cast<size_t>(one.change)];
  }
  std::vector<std::pair<std::string, Counts>> result(rows.begin(), rows.end());
  result.emplace_back("total", total);
  return result;
}

// Checks that share operator and change, the first of them with how many more there are: mostly
// they have one cause.
std::vector<std::pair<const Comparison*, size_t>> grouped(
    const Gate& gate, const std::function<bool(const Comparison&)>& wanted) {
  std::vector<std::pair<const Comparison*, size_t>> groups;
  std::map<std::tuple<std::string, std::string, Change>, size_t> places;
  for (const auto& one : gate.checks) {
    if (!wanted(one)) continue;
    const auto [place, isNew] = places.emplace(
        std::tuple(one.any().suite, one.any().operatorName, one.change), groups.size());
    if (isNew)
      groups.emplace_back(&one, 0);
    else
      ++groups[place->second].second;
  }
  return groups;
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  return result;
}

std::string firstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// Of the checks whose bytes changed: how many bits they gained or lost.
struct Drift {
  std::array<size_t, 5> bins{};  // lost > 3, 1 to 3, within 1, gained 1 to 3, > 3
  const Comparison* worst = nullptr;
  double lost = 0;
};
constexpr std::array kDriftNames{"lost more than 3 bits", "lost 1 to 3 bits", "within 1 bit",
                                 "gained 1 to 3 bits", "gained more than 3 bits"};

Drift driftOf(const Gate& gate) {
  Drift drift;
  for (const auto& one : gate.checks) {
    if (one.change != Change::kDrift) continue;
    const double lost = one.before->effectiveBits - one.after->effectiveBits;
    if (std::isnan(lost)) continue;
    ++drift.bins[lost > 3 ? 0 : lost > 1 ? 1 : lost >= -1 ? 2 : lost >= -3 ? 3 : 4];
    if (lost > drift.lost) drift.lost = lost, drift.worst = &one;
  }
  return drift;
}

std::string driftLine(const Drift& drift) {
  std::string text;
  for (size_t k = 0; k < drift.bins.size(); ++k) {
    if (drift.bins[k])
      text += (text.empty() ? "" : ", ") + std::to_string(drift.bins[k]) + " " + kDriftNames[k];
  }
  if (drift.worst)
    text += "; most: " + drift.worst->any().test + ", " +
            figureOf(drift.worst->before->effectiveBits, 3) + " to " +
            figureOf(drift.worst->after->effectiveBits, 3) + " bits";
  return text;
}

// What is to be said of checks that drifted.
std::vector<std::string> driftLines(const Gate& gate) {
  std::vector<std::string> lines{driftLine(driftOf(gate)), gate.ulp ? ulpLine(*gate.ulp) : ""};
  std::erase(lines, "");
  return lines;
}

}  // namespace

std::string gateText(const Gate& gate) {
  std::string text = verdictOf(gate) + "\n";
  for (const auto& problem : gate.problems) text += "  " + problem + "\n";
  text +=
      gate.environment.empty() ? "the environment is the same\n" : "changed in the environment:\n";
  for (const auto& change : gate.environment) text += "  " + change + "\n";
  const auto rows = countsOf(gate);
  const auto& total = rows.back().second;
  char cell[64];
  std::snprintf(cell, sizeof cell, "%-30s", "");
  text += cell;
  for (size_t k = 0; k < total.size(); ++k) {
    if (total[k]) text += "  " + std::string(kChangeNames[k]);
  }
  text += "\n";
  for (const auto& [name, counts] : rows) {
    std::snprintf(cell, sizeof cell, "%-30s", name.c_str());
    text += cell;
    for (size_t k = 0; k < total.size(); ++k) {
      if (!total[k]) continue;
      std::snprintf(cell, sizeof cell, "  %*zu", static_cast<int>(kChangeNames[k].size()),
                    counts[k]);
      text += cell;
    }
    text += "\n";
  }
  const auto rejected = grouped(gate, [](const Comparison& one) { return one.rejects; });
  for (size_t k = 0; k < std::min(rejected.size(), kShown); ++k) {
    const auto& [one, more] = rejected[k];
    text += upper(changeName(one->change)) + " " + one->any().test +
            (more ? " and " + std::to_string(more) + " more of " + one->any().operatorName : "") +
            "\n  " + firstLine(one->reason) + "\n";
  }
  if (rejected.size() > kShown)
    text += "and " + counted(rejected.size() - kShown, "operator", "operators") +
            " more (--json has all)\n";
  for (const auto& [one, more] : grouped(gate, [](const Comparison& c) {
         return !c.rejects && !c.reason.empty() && c.change == Change::kKnown;
       }))
    text += "note: " + one->any().operatorName + ", " + counted(more + 1, "check", "checks") +
            ": " + one->reason + "\n";
  for (const auto& line : driftLines(gate)) text += "drift: " + line + "\n";
  for (const auto& note : gate.notes) text += "note: " + note + "\n";
  return text;
}

json gateJson(const Gate& gate) {
  json result{{"format", 1},
              {"verdict", verdictOf(gate)},
              {"code", gate.code()},
              {"problems", gate.problems},
              {"environment", gate.environment},
              {"notes", gate.notes},
              {"counts", json::object()},
              {"suites", json::array()},
              {"ulp", gate.ulp ? toJson(*gate.ulp) : json()},
              {"checks", json::array()}};
  const auto rows = countsOf(gate);
  for (const auto& [name, counts] : rows) {
    json row = json::object();
    for (size_t k = 0; k < counts.size(); ++k) {
      if (counts[k]) row[std::string(kChangeNames[k])] = counts[k];
    }
    result["suites"].push_back({name, row});
  }
  for (size_t k = 0; k < kChangeNames.size(); ++k)
    result["counts"][std::string(kChangeNames[k])] = rows.back().second[k];
  const auto side = [](const CheckRecord* check) -> json {
    if (!check) return nullptr;
    const auto number = [](double value) { return std::isfinite(value) ? json(value) : json(); };
    return {{"status", statusName(check->status)},
            {"error", number(check->error)},
            {"effective_bits", number(check->effectiveBits)},
            {"failing", check->failing},
            {"sha256", check->sha256}};
  };
  for (const auto& one : gate.checks) {
    if (one.change == Change::kIdentical) continue;
    result["checks"].push_back({{"test", one.any().test},
                                {"device", one.any().device},
                                {"change", changeName(one.change)},
                                {"rejects", one.rejects},
                                {"reason", one.reason},
                                {"before", side(one.before)},
                                {"after", side(one.after)}});
  }
  return result;
}

std::string gateMarkdown(const Gate& gate) {
  std::string text = "# Gate: " + verdictOf(gate) + "\n\n";
  for (const auto& problem : gate.problems) text += "- " + problem + "\n";
  text += "## Environment\n";
  if (gate.environment.empty()) text += "The same.\n";
  for (const auto& change : gate.environment) text += "- " + change + "\n";
  const auto rows = countsOf(gate);
  const auto& total = rows.back().second;
  std::string head = "\n| suite |", rule = "|---|";
  for (size_t k = 0; k < total.size(); ++k) {
    if (total[k]) head += " " + std::string(kChangeNames[k]) + " |", rule += "---|";
  }
  text += head + "\n" + rule + "\n";
  for (const auto& [name, counts] : rows) {
    text += "| " + name + " |";
    for (size_t k = 0; k < total.size(); ++k) {
      if (total[k]) text += " " + std::to_string(counts[k]) + " |";
    }
    text += "\n";
  }
  const auto rejected = grouped(gate, [](const Comparison& one) { return one.rejects; });
  if (!rejected.empty()) text += "\n## What rejects it\n";
  for (const auto& [one, more] : rejected)
    text += "- **" + std::string(changeName(one->change)) + "** `" + one->any().test + "`" +
            (more ? " and " + std::to_string(more) + " more of this operator" : "") + ": " +
            firstLine(one->reason) + "\n";
  for (const auto& line : driftLines(gate)) text += "\nDrift: " + line + "\n";
  for (const auto& note : gate.notes) text += "\n" + note + "\n";
  return text;
}

std::string gatePage(const Gate& gate) { return filledPage(kGatePage, gateJson(gate)); }

int gate(const GateOptions& options) {
  std::vector<Run> baseline, candidate;
  for (const auto& name : options.baseline) baseline.push_back(readRun(findRun(name)));
  for (const auto& name : options.candidate) candidate.push_back(readRun(findRun(name)));
  std::vector<std::string> problems;
  if (!options.waivers.empty()) {
    const auto waivers = readWaivers(options.waivers);
    for (auto& run : candidate) {
      for (auto& problem : applyWaivers(run, waivers, today()))
        problems.push_back(std::move(problem));
    }
  }
  Gate result = compareRuns(baseline, candidate);
  result.ulp = std::make_shared<UlpDrift>(ulpDrift(result, baseline, candidate));
  result.problems.insert(result.problems.end(), problems.begin(), problems.end());
  std::fputs(gateText(result).c_str(), stdout);
  if (!options.json.empty())
    writeFile(options.json,
              gateJson(result).dump(1, ' ', false, json::error_handler_t::replace) + "\n");
  if (!options.html.empty()) writeFile(options.html, gatePage(result));
  if (!options.markdown.empty()) writeFile(options.markdown, gateMarkdown(result));
  return result.code();
}

}  // namespace assay
