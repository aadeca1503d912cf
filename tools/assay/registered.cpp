#include "tools/assay/registered.h"

#include <algorithm>
#include <cctype>

#include "fixtures/core/files.h"
#include "fixtures/core/plan.h"
#include "fixtures/core/shape.h"
#include "fixtures/core/text.h"

namespace assay {
namespace {

using nlohmann::json;

// The test of another GPU as that of the first: tools/registered-checks names it so.
std::string onFirstGpu(std::string test, const std::string& device) {
  if (!device.starts_with("cuda")) return test;
  for (size_t at = 0; (at = test.find(device, at)) != std::string::npos; at += 5) {
    const size_t end = at + device.size();
    if (end == test.size() || !std::isdigit(static_cast<unsigned char>(test[end])))
      test.replace(at, device.size(), "cuda0");
  }
  return test;
}

}  // namespace

std::filesystem::path defaultRegistered() {
  return besideProgram({"../suites/checks.json", "../share/assay/checks.json"},
                       "suites/checks.json");
}

RegisteredChecks::RegisteredChecks(const std::filesystem::path& path) {
  static const json kShape = json::parse(R"({"suites": {"*": {
      "open": "flag", "cpu": {"*": ["any"]}, "cuda": {"*": ["any"]}, "gpus": {"*": {"*": ["any"]}}}}})");
  const auto text = readFile(path);
  if (!text)
    throw Problem("cannot read " + path.string() + ": name the list of checks with --checks");
  const json file = parseForeign(*text);
  if (!file.is_object() || file.value("format", json()) != 1 ||
      !file.value("suites", json()).is_object())
    throw Problem(path.string() + " is no list of checks of format 1: check it out again");
  if (const auto wrong = misshaped(file, kShape); !wrong.empty())
    throw Problem(path.string() + ": " + wrong + ": check it out again");
  suites_ = file["suites"];
}

bool RegisteredChecks::knows(const std::string& suite) const { return suites_.contains(suite); }

std::vector<std::string> RegisteredChecks::devices(const std::string& suite,
                                                   const std::string& kind,
                                                   const std::vector<std::string>& gpus) const {
  const auto& row = suites_.at(suite);
  if (kind == "cpu")
    return row.contains("cpu") ? std::vector<std::string>{"cpu"} : std::vector<std::string>{};
  if (kind != "cuda" || gpus.empty()) return {};
  // The checks of all GPUs together are named after the first.
  return row.contains("gpus") ? std::vector<std::string>{"cuda0"} : gpus;
}

std::vector<std::string> RegisteredChecks::differences(
    const std::string& suite, const std::string& device, size_t gpus,
    const std::map<std::string, std::vector<std::string>>& tests) const {
  const auto& row = suites_.at(suite);
  const auto together = row.find("gpus");
  const auto count = std::to_string(std::max<size_t>(gpus, 2));
  if (together != row.end() && !together->contains(count))
    throw Problem("which checks " + suite + " has on " + count + " GPUs is not listed");
  const json wanted = device == "cpu"         ? row.value("cpu", json::object())
                      : together != row.end() ? (*together)[count]
                                              : row.value("cuda", json::object());
  const bool open = row.value("open", false);
  std::vector<std::string> found;
  for (const auto& [name, group] : wanted.items()) {
    std::vector<std::string> names;
    if (const auto recorded = tests.find(name); recorded != tests.end()) {
      for (const auto& test : recorded->second) names.push_back(onFirstGpu(test, device));
    }
    if (open) {  // these and, as the GPU's library tells, more
      const auto lacks = std::count_if(group.begin(), group.end(), [&](const json& one) {
        return std::find(names.begin(), names.end(), one.get<std::string>()) == names.end();
      });
      if (lacks > 0)
        found.push_back(std::to_string(lacks) + " of " + std::to_string(group.size()) +
                        " checks of " + name + " are not recorded");
      continue;
    }
    if (group.size() != 2) throw Problem("the list of checks has no count and hash for " + name);
    if (names.size() != group.at(0))
      found.push_back(std::to_string(names.size()) + " of " + group.at(0).dump() + " checks of " +
                      name + " are recorded");
    else if (hashOfTests(names) != group.at(1).get<std::string>())
      found.push_back("the checks of " + name + " are other ones than the suite registers");
  }
  if (open) return found;
  for (const auto& [name, unused] : tests) {
    if (!wanted.contains(name)) found.push_back("the suite registers no check of " + name);
  }
  return found;
}

}  // namespace assay
