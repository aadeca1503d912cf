// The sweep of mutated LeNets against golden/data/models/mutation_sweep.json. The golden stores a
// few elements and a checksum of each result, and the largest error that rounding explains. The
// host's run of the mutant must agree with those to float64's bound, and then judges every element
// of the device's run: free-running under the golden's bounds (docs/numerics.md#models), and layer
// by layer fed what the device itself fed it.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "fixtures/observed_model.h"
#include "fixtures/suite.h"
#include "suites/models/mutant.h"
#include "suites/models/mutant_host.h"

namespace assay::models {

// A mutant with what the golden says of it.
struct SweepMutant {
  Mutant mutant;
  host::Run host;  // agrees with the golden
  // Result → mode ("float32_ieee", "float32_cudnn", "float32_tf32", "float64_ieee") → the largest
  // free-running error, absolute. Results: layers, "loss", "gradient/conv1.weight".
  std::map<std::string, std::map<std::string, double>> bounds;
};

// GoldenError where a file is damaged, or the host's run is not the golden's.
std::vector<SweepMutant> loadSweep(const std::filesystem::path& goldens);

// What runs on the device: the mutant itself, or what a test plants in its place.
// Forward: every layer's output within its bound of the host's; a discontinuity may answer what its
// input's allowed error leaves open, and nothing else.
Record sweepFree(const SweepMutant& golden, const Mutant& device, const Variant& variant,
                 bool ignoreIeee = false);
// Forward, each layer against what the device fed it.
Record sweepLayers(const SweepMutant& golden, const Mutant& device, const Variant& variant,
                   bool ignoreIeee = false);
// Loss and gradients: free-running, and each layer's backward against what the device fed it.
Record sweepTraining(const SweepMutant& golden, const Mutant& device, const Variant& variant,
                     bool ignoreIeee = false);

Suite mutationSweep();

}  // namespace assay::models
