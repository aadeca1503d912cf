// The axes of a variant and the gauges in words, for a reader who does not know the names.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace assay {

// The variant of a record as one sentence: "on the CPU, float32, forward, inputs with gaps between
// their elements (strided)". An axis that this Assay does not know is spelled as it is.
std::string variantInWords(const nlohmann::json& variant);

// What a gauge's figure counts: "units in the last place". Empty for an unknown gauge.
std::string gaugeInWords(const std::string& gauge);

// What so many effective bits mean in this dtype ("float32", "float64"); empty where `bits` is NaN.
std::string bitsInWords(double bits, const std::string& dtype);

}  // namespace assay
