// ATen's contract: under use_deterministic_algorithms(true) a call repeats itself bit for bit or
// throws and says why. With the mode off, which calls vary, and by how much.
#include "fixtures/suite.h"
#include "fixtures/variant.h"
#include "suites/determinism/aten_contract.h"
#include "suites/determinism/filled.h"
#include "suites/determinism/verdict.h"

namespace {

using assay::Variant;
namespace determinism = assay::determinism;

std::vector<assay::Check> checksOf(const assay::Options& options) {
  std::vector<assay::Check> checks;
  for (const auto& device : assay::visibleDevices(options.deviceKind)) {
    for (const auto& row : determinism::atenRows()) {
      const bool listed = row.listed != determinism::Listed::kNotListed;
      for (const char* dtype : {"float32", "float64"}) {
        for (const bool deterministic : {false, true}) {
          Variant variant{.device = device, .dtype = dtype, .backward = row.backward};
          variant.deterministic = deterministic;
          auto check = assay::checkOf(row.name, row.item().name, variant);
          check.overload = row.overload;
          // What is promised, and one operator that is known to vary without the promise.
          check.smoke =
              variant.dtype == "float32" && listed && (deterministic || row.name == "index_add");
          check.run = [=, smoke = options.smoke] {
            return determinism::runRow(row, variant, smoke);
          };
          checks.push_back(check);
          if (!variant.onGpu()) continue;
          check = assay::checkOf(row.name, row.item().name + "_graph", variant);
          check.overload = row.overload;
          check.smoke = variant.dtype == "float32" && listed && deterministic;
          check.run = [=, smoke = options.smoke] {
            return determinism::runReplayed(row, variant, smoke);
          };
          checks.push_back(std::move(check));
        }
      }
    }
    for (const auto& name : determinism::fillingCalls()) {
      for (const char* dtype : {"float32", "float64", "int64", "bool"}) {
        Variant variant{.device = device, .dtype = dtype};
        variant.deterministic = true;
        auto check = assay::checkOf(name, "fill_uninitialized_memory", variant);
        check.smoke = true;
        check.run = [=] { return determinism::runFilled(name, variant); };
        checks.push_back(std::move(check));
      }
    }
  }
  return checks;
}

}  // namespace

int main(int argc, char** argv) {
  return assay::runSuite(argc, argv,
                         {.name = "aten_contract",
                          .testSuite = "Determinism/AtenContractTest",
                          .test = "KeepsItsPromise",
                          .checks = checksOf,
                          .epilogue = determinism::printTable});
}
