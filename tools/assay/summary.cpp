// assay summary: one screen of a run.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <map>
#include <set>
#include <vector>

#include "fixtures/core/text.h"
#include "tools/assay/commands.h"
#include "tools/assay/records.h"
#include "tools/assay/twins.h"

namespace assay {
namespace {

using nlohmann::json;

constexpr size_t kShown = 5;  // operators whose first failure is shown, so that all fits one screen

// In the order of the columns; every Status has one.
constexpr std::array kColumns{Status::kPassed,     Status::kFailed, Status::kCrashed,
                              Status::kKnown,      Status::kFixed,  Status::kSkipped,
                              Status::kUnavailable};
static_assert(kColumns.size() == kStatusNames.size());

using Counts = std::array<size_t, kStatusNames.size()>;

size_t at(const Counts& counts, Status status) { return counts[static_cast<size_t>(status)]; }

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return result;
}

struct Table {
  std::map<std::pair<std::string, std::string>, Counts> rows;  // by suite and device
  std::map<std::string, size_t> idle;  // "cuda: NO_GPU" → suites that did nothing else there
  Counts total{};
};

bool onlySkips(const Counts& counts) {
  size_t all = 0;
  for (const size_t count : counts) all += count;
  return all == at(counts, Status::kSkipped);
}

Table count(const Run& run) {
  Table table;
  std::map<std::pair<std::string, std::string>, std::string> reasons;
  for (const auto& check : run.checks) {
    const std::pair key{check.suite, check.device};
    ++table.rows[key][static_cast<size_t>(check.status)];
    ++table.total[static_cast<size_t>(check.status)];
    if (check.status == Status::kSkipped) reasons[key] = check.reason;
  }
  for (const auto& [key, counts] : table.rows) {
    if (onlySkips(counts)) ++table.idle[key.second + ": " + reasons[key]];
  }
  std::erase_if(table.rows, [](const auto& row) { return onlySkips(row.second); });
  return table;
}

// Columns that are zero everywhere are left out, but for passed and failed.
void printRow(const std::string& suite, const std::string& device, const Counts* counts,
              const Counts& total) {
  std::printf("%-22s %-7s", suite.c_str(), device.c_str());
  for (const Status status : kColumns) {
    if (at(total, status) == 0 && status != Status::kPassed && status != Status::kFailed) continue;
    const std::string text =
        counts ? std::to_string(at(*counts, status)) : lower(statusName(status));
    std::printf(" %*s", status == Status::kUnavailable ? 11 : 8, text.c_str());
  }
  std::printf("\n");
}

void printTable(const Table& table) {
  printRow("suite", "device", nullptr, table.total);
  for (const auto& [key, counts] : table.rows)
    printRow(key.first, key.second, &counts, table.total);
  printRow("total", "", &table.total, table.total);
  for (const auto& [reason, suites] : table.idle)
    std::printf("skipped on %s (%s)\n", reason.c_str(), counted(suites, "suite", "suites").c_str());
}

void printEnvironment(const json& environment) {
  if (environment.is_null()) {
    std::printf("no environment.json: which machine and LibTorch this was is not known\n");
    return;
  }
  const auto text = [&](const char* field) {
    const json value = environment.value(json::json_pointer(field), json());
    return value.is_string() ? value.get<std::string>() : std::string("none");
  };
  std::printf("%s, %s, LibTorch %s, driver %s, Assay %s\n", text("/host").c_str(),
              text("/time").c_str(), text("/libtorch/loaded").c_str(), text("/driver").c_str(),
              text("/assay").c_str());
  std::string gpus;
  for (const auto& gpu : environment.value("gpus", json::array()))
    gpus += (gpus.empty() ? "" : ", ") + textOf(gpu, "name");
  std::printf("CPU %s %s; %s\n", text("/cpu/model").c_str(), text("/cpu/capability").c_str(),
              gpus.empty() ? text("/gpu_problem").c_str() : gpus.c_str());
  if (const auto fault = textOf(environment, "fault"); !fault.empty())
    std::printf("with a planted fault: %s\n", fault.c_str());
}

// One failure an operator: the others of it mostly have the same cause.
void printFailures(const Run& run, size_t failures) {
  std::vector<std::pair<const CheckRecord*, size_t>> first;
  for (const auto& check : run.checks) {
    if (check.status != Status::kFailed && check.status != Status::kCrashed) continue;
    const auto same = std::find_if(first.begin(), first.end(), [&](const auto& known) {
      return known.first->suite == check.suite && known.first->operatorName == check.operatorName;
    });
    if (same == first.end()) {
      first.emplace_back(&check, 0);
    } else {
      ++same->second;
    }
  }
  size_t left = failures;
  for (size_t i = 0; i < std::min(first.size(), kShown); ++i) {
    const auto& [check, more] = first[i];
    left -= 1 + more;
    std::printf(
        "%s %s%s\n  %s\n", std::string(statusName(check->status)).c_str(), check->test.c_str(),
        more > 0 ? (" and " + std::to_string(more) + " more of " + check->operatorName).c_str()
                 : "",
        check->message.substr(0, check->message.find('\n')).c_str());
  }
  if (left > 0)
    std::printf("and %s of other operators\n", counted(left, "failure", "failures").c_str());
  if (failures > 0) std::printf("more of one: assay explain '<test>' '%s'\n", run.folder.c_str());
}

// Suites that shared several GPUs: how much of their work went on at once. Only the time in which
// one of them ran counts.
void printSpeedUp(const Run& run) {
  std::set<std::string> gpus;
  double all = 0;
  for (const auto& check : run.checks) {
    if (!check.device.starts_with("cuda") || check.device == "cuda") continue;
    gpus.insert(check.device);
    all += check.seconds;
  }
  std::vector<std::pair<std::string, std::string>> spans;
  for (const auto& plan : run.plans) {
    if (plan.deviceKind == "cuda" && !plan.ended.empty())
      spans.emplace_back(plan.started, plan.ended);
  }
  std::sort(spans.begin(), spans.end());
  int64_t wall = 0;
  std::string until;
  for (const auto& [started, ended] : spans) {
    if (ended <= until) continue;
    wall += secondsBetween(std::max(started, until), ended);
    until = ended;
  }
  if (gpus.size() < 2 || wall <= 0) return;
  std::printf("%zu GPUs: %.0f s of checks in %lld s, %.1f at once\n", gpus.size(), all,
              static_cast<long long>(wall), all / static_cast<double>(wall));
}

// Checks that pass with a remark: inside a library's wider bound, or with a floor moved as it may
// be.
void printRemarks(const Run& run) {
  std::map<std::string, std::pair<size_t, const CheckRecord*>> operators;
  for (const auto& check : run.checks) {
    if (check.status != Status::kPassed || check.message.empty()) continue;
    auto& [times, first] = operators[check.operatorName];
    if (times++ == 0) first = &check;
  }
  for (const auto& [name, remark] : operators) {
    std::printf("remark on %s (%s): %s\n", name.c_str(),
                counted(remark.first, "check", "checks").c_str(), remark.second->message.c_str());
  }
}

}  // namespace

int summarize(const std::optional<std::string>& name) {
  const Run run = readRun(findRun(name));
  const Table table = count(run);
  const size_t failures = at(table.total, Status::kFailed) + at(table.total, Status::kCrashed);
  printEnvironment(run.environment);
  printTable(table);
  printFailures(run, failures);
  printRemarks(run);
  if (const auto line = twinsLine(compareGpus(run)); !line.empty())
    std::printf("%s\n", line.c_str());
  printSpeedUp(run);
  if (run.repeated > 0)
    std::printf("%s of checks that ran again later left out\n",
                counted(run.repeated, "record", "records").c_str());
  for (const auto& cut : run.lost) std::printf("INCOMPLETE %s\n", cut.c_str());
  if (failures == 0 && at(table.total, Status::kPassed) + at(table.total, Status::kKnown) +
                               at(table.total, Status::kFixed) ==
                           0) {
    std::printf("nothing was checked\n");
  }
  std::printf("records: %s\n", run.folder.c_str());
  return failures > 0 || !run.lost.empty() ? 1 : 0;
}

}  // namespace assay
