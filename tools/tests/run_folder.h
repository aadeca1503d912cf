// Plans for a folder of records that a test wrote by hand.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures/core/plan.h"

namespace assay {

// What a record of a check that passed says beside its names.
inline nlohmann::json passedFields() {
  return {{"overload", ""},         {"device", "cpu"},    {"reason", ""},
          {"message", ""},          {"what", "output 0"}, {"gauge", "conditioned"},
          {"error", 2.0},           {"bound", 16},        {"why", "docs/numerics.md#conditioned"},
          {"effective_bits", 23.5}, {"failing", 0},       {"checked", 40},
          {"sha256", "0123"},       {"seconds", 1e-3},    {"defect", ""}};
}

// Writes the plan that each record file of `folder` fulfils.
inline void writePlans(const std::filesystem::path& folder) {
  std::map<std::string, Plan> plans;
  std::map<std::string, std::map<std::string, bool>> tests;  // whether each failed at last
  std::vector<std::filesystem::path> old;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().string().ends_with(".plan.json")) old.push_back(entry.path());
  }
  for (const auto& path : old) std::filesystem::remove(path);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (!name.ends_with(".jsonl")) continue;
    const auto stem = name.substr(0, name.size() - 6);
    Plan plan{.suite = stem.substr(0, stem.find('.')),
              .deviceKind = stem.substr(stem.rfind('.') + 1),
              .smoke = stem.find(".smoke.") != std::string::npos,
              .started = "2026-12-01T00:00:00Z",
              .ended = "2026-12-01T00:01:00Z",
              .exitCode = 0};
    while (!plan.deviceKind.empty() && std::isdigit(plan.deviceKind.back()))
      plan.deviceKind.pop_back();
    plans.emplace(planFileName(plan), plan);
    auto& names = tests[planFileName(plan)];
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      const auto record = nlohmann::json::parse(line, nullptr, false);
      if (!record.is_object() || !record.contains("test")) continue;
      const auto status = record.value("status", "");
      names[record["test"]] = status == "FAILED" || status == "CRASHED";
    }
  }
  for (auto& [name, plan] : plans) {
    std::vector<std::string> names;
    for (const auto& [test, failed] : tests[name]) {
      names.push_back(test);
      if (failed) plan.exitCode = 1;
    }
    plan.checks = names.size();
    plan.testsSha256 = hashOfTests(names);
    std::ofstream(folder / name) << toJson(plan);
  }
}

}  // namespace assay
