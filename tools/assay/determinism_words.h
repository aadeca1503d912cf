// What a record of the determinism suites says, in sentences: what was promised and seen, and for
// the training run of report 1 what determinism can explain of a difference and what it cannot.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace assay {

// (heading, text) pairs from a record's `details`; empty where another suite wrote it.
std::vector<std::pair<std::string, std::string>> determinismInWords(const nlohmann::json& details);

}  // namespace assay
