#include "fixtures/mode.h"
#include "suites/data_parallel/parts.h"

namespace assay::data_parallel {
namespace {

Record blockedBy(const std::string& reason) {
  Record record;
  record.status = Status::kSkipped;
  record.reason = reason;
  return record;
}

}  // namespace

std::vector<Check> checksOf(const std::vector<Part>& parts, const std::string& device,
                            const Options& options, const std::string& blocked) {
  std::vector<Check> checks;
  const bool ignoreIeee = options.fault == "ignore-ieee";
  for (const auto& part : parts) {
    for (const auto& dtype : part.dtypes) {
      Variant variant{.device = device, .dtype = dtype, .backward = part.backward};
      variant.layout = part.layout;
      auto check = checkOf(part.model, part.name, variant);
      check.smoke = part.smoke && dtype == "float32";
      check.run = [=, run = part.run] {
        if (!blocked.empty()) return blockedBy(blocked);
        const ModeGuard guard(variant, ignoreIeee);
        return run(variant);
      };
      if (!options.smoke || check.smoke) checks.push_back(std::move(check));
    }
  }
  return checks;
}

}  // namespace assay::data_parallel
