// One run as a page that needs no network, as JUnit XML for a CI server, and as Markdown.
// docs/report.md says what stands where.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/assay/records.h"

namespace assay {

// What the page shows, as JSON. `good`: every check passed or is a known defect, at least one was
// checked, no record is lost, no fault was planted, and there are no `problems` (with waivers).
nlohmann::json reportData(const Run& run, const std::vector<std::string>& problems = {});

std::string reportPage(const nlohmann::json& data);
// A page of tools/assay/page with `data` in it.
std::string filledPage(std::string page, const nlohmann::json& data);
std::string reportMarkdown(const nlohmann::json& data);
// One test case a check. A known defect is a skipped one with its id; a lost record an error.
std::string reportJunit(const Run& run);

}  // namespace assay
