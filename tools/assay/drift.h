// How far the results of checks whose bytes changed have moved, in units in the last place: from
// the outputs that both sides of a gate kept (--store).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/assay/gate.h"

namespace assay {

struct OperatorDrift {
  size_t checks = 0;
  size_t moved = 0;      // elements
  uint64_t largest = 0;  // ulp; kNotFinite where a number became a NaN or an infinity, or back
  std::string test;      // with the largest
};

struct UlpDrift {
  static constexpr uint64_t kNotFinite = ~uint64_t{0};
  static constexpr std::array<std::string_view, 8> kBins{"0",    "1",       "2",    "3–4",
                                                         "5–16", "17–1024", "more", "not finite"};
  size_t checks = 0;    // whose outputs were compared
  size_t without = 0;   // whose bytes differ too, and which kept none
  size_t elements = 0;  // of them
  size_t moved = 0;
  std::array<size_t, kBins.size()> histogram{};  // elements by ulp
  std::map<std::string, OperatorDrift> operators;
};

// The distance of two numbers of one floating dtype, counted in numbers of that dtype; zeros of
// either sign are one, NaN is at no distance from NaN.
uint64_t ulpBetween(double a, double b);
uint64_t ulpBetween(float a, float b);

// Of the gate's checks that drifted, with the runs that it points into.
UlpDrift ulpDrift(const Gate& gate, const std::vector<Run>& baseline,
                  const std::vector<Run>& candidate);

// "12 checks …: 40 of 600 elements moved: 30 by 1 ulp, …; most: conv2d, 3 ulp"; empty: nothing was
// compared.
std::string ulpLine(const UlpDrift& drift);
nlohmann::json toJson(const UlpDrift& drift);

}  // namespace assay
