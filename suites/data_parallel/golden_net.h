// A model of golden/models/data_parallel_*.py: its weights and inputs, drawn again, and for every
// layout of shards what output, loss, gradients and running statistics must be.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fixtures/golden.h"
#include "suites/data_parallel/net.h"

namespace assay::data_parallel {

// The model under one way of cutting a batch.
struct Layout {
  int64_t batch = 0;
  std::vector<int64_t> shards;  // samples of each shard
  std::set<int64_t> counts;     // numbers of devices that lead to these shards
  GoldenOutput output, loss;
  std::map<std::string, GoldenOutput> gradients;  // by parameter: the sum over the shards
  std::map<std::string, GoldenOutput> states;     // by buffer: (shards, …), each shard's own
};

struct GoldenNet {
  std::string name;
  std::map<std::string, at::Tensor> parameters, buffers;  // float64, by name
  at::Tensor input, labels;  // all samples; a batch is the first of them
  std::vector<Layout> layouts;
  GoldenOutput eval;                         // of all samples; undefined: the layouts' own is
  int64_t tracedBatch = 0;                   // the batch of `layers`
  std::map<std::string, at::Tensor> layers;  // unsharded, by name

  const Layout& layout(int64_t batch, int64_t count) const;  // GoldenError: there is none
  // The net with the golden's weights and buffers.
  std::shared_ptr<Net> make(const Net::Definition& definition, const std::string& dtype,
                            const std::string& device) const;
  std::shared_ptr<Net> make(const std::string& dtype, const std::string& device) const;
};

// Throws GoldenError.
std::shared_ptr<const GoldenNet> loadGoldenNet(const std::filesystem::path& goldens,
                                               const std::string& name);

// The first `batch` samples of a golden output.
GoldenOutput firstOf(const GoldenOutput& golden, int64_t batch);

}  // namespace assay::data_parallel
