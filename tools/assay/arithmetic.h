// A verdict's arithmetic done again, from a stored output and its golden: the exact, ulp and
// conditioned gauges a second time, in plain C++ and without LibTorch (docs/numerics.md has the
// formulas). What the first implementation (fixtures/gauge_elementwise.cpp) and this one agree on
// was not made up.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/assay/goldens.h"

namespace assay {

// Gauge ("exact", "ulp", "conditioned", …) and bound.
struct GaugeBound {
  std::string gauge;
  double bound = 0;
};

// The case of that name; throws Problem where there is none.
const nlohmann::json& goldenCase(const nlohmann::json& file, const std::string& name);

// What the golden says of a result: `what` is "output 0", "gradient of weight" or "argument
// running_mean after the call" (in place and out= forms put the output there); nullptr: nothing, or
// which of several outputs an out= argument takes is not known.
const nlohmann::json* goldenOutput(const nlohmann::json& item, const std::string& what,
                                   const nlohmann::json& variant);

// Gauge and bound of a result in a variant (a record's `variant`), by the rule of docs/numerics.md:
// the output's own, then the case's, then the running library's, then the operator's. Nothing where
// the golden has none for it.
std::optional<GaugeBound> gaugeBoundOf(const nlohmann::json& file, const nlohmann::json& item,
                                       const nlohmann::json& output, const nlohmann::json& variant);

// Bytes that a result of this golden has at most; nothing where it does not tell its shape.
std::optional<size_t> goldenBytes(const GoldenData& golden, const nlohmann::json& output);

// The dtype, as LibTorch spells it, that a result must have in the variant's dtype; empty: not
// told.
std::string expectedDtype(const GoldenData& golden, const nlohmann::json& output,
                          const std::string& dtype);

struct StoredOutput {
  std::string what;
  std::string dtype;  // as LibTorch spells it: "Float", "Double", "Long", "Bool", "ComplexFloat"
  std::string_view bytes;
};

struct Figure {
  double error = 0;  // the largest, in the gauge's unit
  int64_t failing = 0;
  int64_t checked = 0;
};

// Nothing where this second implementation does not reach: other gauges, sampled goldens, results
// beyond the dtype's range. Throws Problem where output and golden have not the same size.
std::optional<Figure> figureAgain(const GoldenData& golden, const nlohmann::json& output,
                                  const GaugeBound& rule, const StoredOutput& stored);

}  // namespace assay
