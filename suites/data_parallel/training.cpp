#include <ATen/ATen.h>

#include <algorithm>

#include "fixtures/argument.h"
#include "suites/data_parallel/resnet.h"

namespace assay::data_parallel {
namespace {

// The samples' outputs in eval mode: no layout plays a part.
GoldenOutput evalOf(const GoldenNet& golden, int64_t batch) {
  return firstOf(
      golden.eval.golden.defined() ? golden.eval : golden.layout(golden.input.size(0), 1).output,
      batch);
}

std::string caseName(const std::string& what, int64_t batch, const Setup& setup) {
  return what + "_b" + std::to_string(batch) + "_" + setup.name();
}

}  // namespace

Goldens loadGoldens(const std::filesystem::path& folder) {
  return {loadGoldenNet(folder, "data_parallel_cnn"), loadGoldenNet(folder, "data_parallel_mlp"),
          loadGoldenNet(folder, "data_parallel_tied"), std::make_shared<ResnetGoldens>(folder)};
}

Record train(const GoldenNet& golden, int64_t batch, const Setup& setup, const Variant& variant,
             const Fault& fault) {
  Record record;
  Tally tally(record, variant.dtype);
  const auto& layout = golden.layout(batch, static_cast<int64_t>(setup.count()));
  const auto step =
      trainingStep(golden, netFor(golden, setup, variant), batch, setup, variant, fault);
  judgeStep(tally, step, layout, setup, golden);
  return record;
}

Record evaluate(const GoldenNet& golden, int64_t batch, const Setup& setup, const Variant& variant,
                const Between& between) {
  Record record;
  Tally tally(record, variant.dtype);
  const at::NoGradGuard guard;
  const auto net = golden.make(variant.dtype, setup.home().str());
  net->eval();
  const auto input = inputOf(golden, batch, setup, variant);
  const auto result = forward(net, input, setup, 0, between).output;
  const auto alone = net->forward(input);
  const auto want = evalOf(golden, batch);
  tally.compare("output", result, want);
  tally.compare("output of one device", alone, want);
  tally.demand(!result.requires_grad(), "the output wants a gradient under no_grad");
  tally.demand(result.device() == setup.output, "the output is on another device than asked");
  if (result.sizes() != alone.sizes()) return record;
  record.details["from_one_device"] =
      (result.cpu().to(at::kDouble) - alone.cpu().to(at::kDouble)).abs().max().item<double>();
  return record;
}

Record emptyBatch(const GoldenNet& golden, const Setup& setup, const Variant& variant) {
  Record record;
  Tally tally(record, variant.dtype);
  const at::NoGradGuard guard;
  const auto net = golden.make(variant.dtype, setup.home().str());
  net->eval();
  const auto input = inputOf(golden, 1, setup, variant).narrow(0, 0, 0);
  const auto result = forward(net, input, setup).output;
  const auto want = evalOf(golden, 1).golden.sizes();
  tally.demand(result.sizes() == at::IntArrayRef({0, want[1]}),
               c10::str("an empty batch gave an output of shape ", result.sizes()));
  tally.demand(result.scalar_type() == scalarType(variant.dtype) && result.device() == setup.output,
               "an empty batch gave an output of another dtype or device");
  return record;
}

Record otherDimension(const GoldenNet& mlp, const Setup& setup, const Variant& variant,
                      const Between& between) {
  Record record;
  Tally tally(record, variant.dtype);
  const int64_t batch = 7;
  const auto net = mlp.make(batchLast(), variant.dtype, setup.home().str());
  net->eval();
  const auto run = forward(net, inputOf(mlp, batch, setup, variant).t(), setup, /*dim=*/1, between);
  const auto& layout = mlp.layout(batch, static_cast<int64_t>(setup.count()));
  tally.compare("output", run.output.t(), layout.output);
  at::cross_entropy_loss(run.output.t(), mlp.labels.narrow(0, 0, batch).to(run.output.device()))
      .backward();
  auto parameters = net->named_parameters();
  for (const auto& [name, gradient] : layout.gradients)
    tally.compare("gradient of " + name, parameters[name].grad(), gradient);
  return record;
}

Record severalTensors(const GoldenNet& golden, const Setup& setup, const Variant& variant,
                      const std::function<void(Tensors& labels)>& cut) {
  Record record;
  Tally tally(record, variant.dtype);
  const int64_t batch = 65;
  const auto net = netFor(golden, setup, variant);
  auto labels = scatter(golden.labels.narrow(0, 0, batch).to(setup.home()), setup.devices);
  if (cut) cut(labels);
  const auto run =
      runPieces(net, inputOf(golden, batch, setup, variant), setup.devices, setup.output);
  tally.demand(labels.size() == run.outputs.size(), "two tensors were cut into other shards");
  Tensors losses;
  for (size_t k = 0; k < run.outputs.size() && k < labels.size(); ++k) {
    tally.demand(labels[k].device() == run.outputs[k].device(), "labels are on another device");
    losses.push_back(
        at::cross_entropy_loss(run.outputs[k], labels[k], {}, at::Reduction::Sum).reshape({1}));
  }
  const auto loss = gather(losses, setup.output).sum() / static_cast<double>(batch);
  loss.backward();
  const auto& layout = golden.layout(batch, static_cast<int64_t>(setup.count()));
  tally.compare("loss", loss, layout.loss);
  auto parameters = net->named_parameters();
  for (const auto& [name, gradient] : layout.gradients)
    tally.compare("gradient of " + name, parameters[name].grad(), gradient);
  return record;
}

std::vector<Part> trainingParts(const Goldens& goldens, const Setup& setup) {
  std::vector<Part> parts;
  for (const auto& golden : goldens.all()) {
    for (const int64_t batch : kBatches) {
      parts.push_back({.model = golden->name,
                       .name = caseName("train", batch, setup),
                       .backward = true,
                       .smoke = batch == 5,
                       .run = [=](const Variant& v) { return train(*golden, batch, setup, v); }});
      if (golden == goldens.tied) continue;
      parts.push_back(
          {.model = golden->name,
           .name = caseName("eval", batch, setup),
           .run = [=](const Variant& v) { return evaluate(*golden, batch, setup, v); }});
    }
  }
  const auto add = [&](const GoldenNet& golden, const std::string& name, bool backward, auto run) {
    parts.push_back({.model = golden.name,
                     .name = name + "_" + setup.name(),
                     .backward = backward,
                     .run = [=](const Variant& variant) { return run(variant); }});
  };
  const auto cnn = goldens.cnn, mlp = goldens.mlp, tied = goldens.tied;
  for (const char* layout : {"strided", "offset", "transposed", "channels_last"}) {
    parts.push_back({.model = cnn->name,
                     .name = caseName("train_input", 65, setup),
                     .backward = true,
                     .layout = layout,
                     .run = [=](const Variant& v) { return train(*cnn, 65, setup, v); }});
  }
  add(*cnn, "empty_batch", false, [=](const Variant& v) { return emptyBatch(*cnn, setup, v); });
  add(*mlp, "dim_1", true, [=](const Variant& v) { return otherDimension(*mlp, setup, v); });
  if (!setup.whole) {
    add(*tied, "several_tensors", true,
        [=](const Variant& v) { return severalTensors(*tied, setup, v); });
  }
  return parts;
}

}  // namespace assay::data_parallel
