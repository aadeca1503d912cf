// Which gradients reach the module, where a replica or a parameter takes no part.
#include <ATen/ATen.h>

#include "suites/data_parallel/parts.h"

namespace assay::data_parallel {
namespace {

// The gradients against the layout's; of parameters whose name starts with `frozen` there is none.
void judgeGradients(Tally& tally, Net& net, const Layout& layout, const std::string& frozen) {
  for (const auto& parameter : net.named_parameters()) {
    if (parameter.key().starts_with(frozen)) {
      tally.demand(!parameter->grad().defined(),
                   parameter.key() + " is frozen, yet it has a gradient");
    } else {
      tally.compare("gradient of " + parameter.key(), parameter->grad(),
                    layout.gradients.at(parameter.key()));
    }
  }
}

}  // namespace

Record frozen(const GoldenNet& mlp, const Setup& setup, const Variant& variant,
              const Fault& fault) {
  constexpr int64_t kBatch = 64;
  Record record;
  Tally tally(record, variant.dtype);
  const auto net = netFor(mlp, setup, variant);
  for (auto& parameter : net->named_parameters()) {
    if (parameter.key().starts_with("fc1.")) parameter->set_requires_grad(false);
  }
  trainingStep(mlp, net, kBatch, setup, variant, fault);
  judgeGradients(tally, *net, mlp.layout(kBatch, static_cast<int64_t>(setup.count())), "fc1.");
  return record;
}

Record allFrozen(const GoldenNet& mlp, const Setup& setup, const Variant& variant,
                 const Between& between) {
  Record record;
  Tally tally(record, variant.dtype);
  const auto net = netFor(mlp, setup, variant);
  for (auto& parameter : net->parameters()) parameter.set_requires_grad(false);
  const auto input = inputOf(mlp, 64, setup, variant);
  tally.demand(!net->forward(input).requires_grad(), "one device's output wants a gradient");
  tally.demand(!forward(net, input, setup, 0, between).output.requires_grad(),
               "every parameter is frozen, yet the output wants a gradient");
  return record;
}

namespace {

constexpr int64_t kUsed = 7;  // samples a shard

// The loss of the first shard alone, judged with its gradient: as if there were no other.
void judgeFirst(Tally& tally, Net& net, const at::Tensor& output, const GoldenNet& golden,
                const Fault& fault, const std::string& untouched) {
  const auto& alone = golden.layout(kUsed, 1);
  const auto first = output.narrow(0, 0, kUsed);
  tally.compare("output of the first shard", first, alone.output);
  const auto loss =
      at::cross_entropy_loss(first, golden.labels.narrow(0, 0, kUsed).to(first.device()));
  tally.compare("loss", loss, alone.loss);
  loss.backward();
  if (fault.differentiated) fault.differentiated(net);
  judgeGradients(tally, net, alone, untouched);
}

}  // namespace

Record oneUsed(const GoldenNet& golden, const Setup& setup, const Variant& variant,
               const Fault& fault) {
  Record record;
  Tally tally(record, variant.dtype);
  const auto net = netFor(golden, setup, variant);
  const auto batch = kUsed * static_cast<int64_t>(setup.count());
  const auto run = forward(net, inputOf(golden, batch, setup, variant), setup, 0, fault);
  judgeFirst(tally, *net, run.output, golden, fault, "none");
  return record;
}

Record experts(const GoldenNet& mlp, const Setup& setup, const Variant& variant,
               const Fault& fault) {
  Record record;
  Tally tally(record, variant.dtype);
  const auto net = mlp.make(choosing(), variant.dtype, setup.home().str());
  net->eval();
  for (auto& parameter : net->named_parameters()) {
    if (parameter.key().starts_with("other.")) parameter->set_requires_grad(false);
  }
  const auto count = static_cast<int64_t>(setup.count());
  auto input = inputOf(mlp, kUsed * count, setup, variant).clone();
  for (int64_t k = 1; k < count; ++k) input[k * kUsed][0] = kRefused;
  const auto run = forward(net, input, setup, 0, fault);
  judgeFirst(tally, *net, run.output, mlp, fault, "other.");
  return record;
}

}  // namespace assay::data_parallel
