// Which variants of a case a whole run must hold, from the golden alone (fixtures/variant.cpp
// derives them all; those that hang on what a dispatcher or a tensor's shape says, forms and
// lengths, are not told here).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace assay {

// "cuda0_float32_forward_channels_last_tf32", … on `device` ("cuda0"); none where the case is not
// for that kind of device.
std::vector<std::string> expectedVariants(const nlohmann::json& file, const nlohmann::json& item,
                                          const std::string& device);

// The name that a record's `variant` spells.
std::string variantNameOf(const nlohmann::json& variant);

}  // namespace assay
