// One line of a record file, taken apart as a stream: only what comparing and counting need is
// kept.
#pragma once

#include <string>
#include <string_view>

#include "tools/assay/records.h"

namespace assay {

inline constexpr std::string_view kNotJson = "is not JSON";

// Why `line` is no record (kNotJson, or another reason); empty where `check` holds it now.
std::string parseLine(std::string_view line, CheckRecord& check);

// The types of all of a record's fields (fixtures/core/shape.h), for those who read it whole.
const nlohmann::json& recordShape();

}  // namespace assay
