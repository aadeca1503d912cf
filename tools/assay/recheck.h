// A record of an operator with a golden, worked out again: is its bound the golden's, and do the
// outputs that the run kept give the recorded error? By a second implementation of the gauges.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "fixtures/core/store_choice.h"
#include "tools/assay/arithmetic.h"
#include "tools/assay/goldens.h"
#include "tools/assay/records.h"

namespace assay {

class Recheck {
 public:
  struct Counts {
    size_t bounds = 0;   // bounds that were looked up in the golden
    size_t outputs = 0;  // stored outputs whose error was computed again
    size_t beyond = 0;   // stored outputs that the second implementation does not reach
  };

  explicit Recheck(const Run& run) : run_(run) {}

  // "<stem>.<kind>" ("convolution.cpu") keeps the outputs of so many checks.
  void keeps(const std::string& stem, const StoreChoice& choice) { stores_[stem] = choice; }

  // The recorded gauge and bound are the golden's. Throws Problem: what contradicts it.
  void bound(const CheckRecord& check, const GoldenData& golden, const nlohmann::json& variant);

  // The outputs that were kept are the ones of the digest, and have the recorded error; those that
  // were to be kept are there. `whole`: every field of the record. Throws Problem.
  void stored(const CheckRecord& check, const GoldenData& golden, const nlohmann::json& whole,
              const nlohmann::json& variant);

  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  bool mustBeStored(const CheckRecord& check, const GoldenData& golden, const nlohmann::json& item,
                    const nlohmann::json& variant) const;
  void compare(const CheckRecord& check, const GoldenData& golden, const nlohmann::json& item,
               const nlohmann::json& variant, const StoredOutput& output);
  const std::string& outputsOf(const CheckRecord& check);

  const Run& run_;
  std::map<std::string, StoreChoice> stores_;
  std::map<std::string, std::string> outputs_;  // by file
  Counts counts_;
};

}  // namespace assay
