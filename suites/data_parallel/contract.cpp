#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>

#include "fixtures/argument.h"
#include "suites/data_parallel/memory.h"
#include "suites/data_parallel/parts.h"

namespace assay::data_parallel {
namespace {

constexpr int64_t kBatch = 64;
constexpr int64_t kRepeats = 64;  // of the batch, so that rates are sharp

// Half the width of the interval that a count of fair draws leaves with probability below 1e-10:
// Hoeffding's inequality.
double halfWidth(int64_t draws) {
  return std::sqrt(static_cast<double>(draws) * std::log(2 / 1e-10) / 2);
}

// The golden without dropout, as dropout leaves it: doubled where `kept`, else zero.
GoldenOutput masked(const GoldenOutput& plain, const at::Tensor& kept) {
  GoldenOutput golden;
  golden.golden = at::where(kept, plain.golden.repeat({kRepeats, 1}) * 2, 0.0);
  golden.scale = plain.scale.repeat({kRepeats, 1}) * 2;
  return golden;
}

// Every replica drops half of its elements; on one device no two of them the same ones.
void judgeMasks(Tally& tally, Record& record, const Tensors& masks, const Devices& devices) {
  auto equal = nlohmann::json::array();
  for (size_t k = 0; k < masks.size(); ++k) {
    const auto kept = masks[k].sum().item<int64_t>();
    const auto draws = masks[k].numel();
    tally.demand(
        std::fabs(static_cast<double>(kept) - static_cast<double>(draws) / 2) <= halfWidth(draws),
        "replica " + std::to_string(k) + " kept " + std::to_string(kept) + " of " +
            std::to_string(draws) + " elements; half of them is right");
    for (size_t other = 0; other < k; ++other) {
      if (masks[k].sizes() != masks[other].sizes() || !at::equal(masks[k], masks[other])) continue;
      equal.push_back({other, k});
      tally.demand(devices[k] != devices[other], "replicas " + std::to_string(other) + " and " +
                                                     std::to_string(k) + " drew the same mask");
    }
  }
  record.details["equal_masks"] = equal;
  if (!equal.empty() && record.status == Status::kPassed)
    record.message =
        "one seed serves every GPU: replicas on different GPUs drew the same dropout mask";
}

bool drawsFromCpuGenerator(const std::shared_ptr<Net>& net, const Devices& devices) {
  const auto& generator = at::detail::getDefaultCPUGenerator();
  const auto before = generator.get_state();
  replicate(net, devices);
  return !at::equal(before, generator.get_state());
}

}  // namespace

Record dropout(const GoldenNet& mlp, const Setup& setup, const Variant& variant,
               const Fault& fault) {
  Record record;
  Tally tally(record, variant.dtype);
  const auto net = mlp.make(variant.dtype, setup.home().str());
  net->train();
  const auto input = inputOf(mlp, kBatch, setup, variant).repeat({kRepeats, 1});
  record.details["replicate_draws_from_cpu_generator"] = drawsFromCpuGenerator(net, setup.devices);
  at::manual_seed(20240229);
  const auto output = forward(net, input, setup, 0, fault).output;
  const auto kept = output.detach().cpu().ne(0);
  tally.compare("kept outputs", output, masked(mlp.layout(kBatch, 1).output, kept));
  const auto count = static_cast<int64_t>(setup.count());
  judgeMasks(tally, record, kept.chunk(count), setup.devices);
  output.sum().backward();
  if (fault.differentiated) fault.differentiated(*net);
  // Each kept output adds 1 / (1 - p) = 2 to the gradient of its bias: integers, exact in any
  // order.
  tally.demandSame("gradient of fc2.bias", net->named_parameters()["fc2.bias"].grad(),
                   (kept.sum(0) * 2).to(scalarType(variant.dtype)));
  return record;
}

Record gradMode(const GoldenNet& golden, const Setup& setup, const Variant& variant, bool enabled,
                const Between& between) {
  Record record;
  if (!hasThreads()) {
    record.status = Status::kUnavailable;
    record.reason = "built without OpenMP: parallel_apply has no worker threads";
    return record;
  }
  Tally tally(record, variant.dtype);
  record.why = "the caller's grad mode holds in every replica";
  const at::AutoGradMode guard(enabled);
  const auto run =
      runPieces(netFor(golden, setup, variant), inputOf(golden, kBatch, setup, variant),
                setup.devices, setup.output, 0, between);
  for (size_t k = 0; k < run.outputs.size(); ++k) {
    tally.demand(run.outputs[k].requires_grad() == enabled,
                 "replica " + std::to_string(k) +
                     (enabled ? " recorded no graph" : " recorded a graph under no_grad"));
  }
  tally.demand(run.output.requires_grad() == enabled, "the gathered output's grad mode is another");
  return record;
}

namespace {

// What running `input` throws; empty: nothing.
std::string thrownBy(const std::shared_ptr<Net>& net, const at::Tensor& input, const Setup& setup,
                     const Between& between) {
  try {
    forward(net, input, setup, 0, between);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

Record refusal(const GoldenNet& mlp, const Setup& setup, const Variant& variant,
               const Between& between) {
  Record record;
  Tally tally(record, variant.dtype);
  const int64_t batch = 7;
  const auto& layout = mlp.layout(batch, static_cast<int64_t>(setup.count()));
  const auto net = mlp.make(refusing(), variant.dtype, setup.home().str());
  net->eval();
  const auto good = inputOf(mlp, batch, setup, variant);
  auto all = good.clone();
  int64_t first = 0;
  for (size_t k = 0; k < layout.shards.size(); ++k) {
    auto bad = good.clone();
    bad[first][0] = all[first][0] = kRefused + static_cast<double>(k);
    const auto text = thrownBy(net, bad, setup, between);
    tally.demand(text == "sample " + std::to_string(k) + " is refused",
                 "replica " + std::to_string(k) + " threw, the caller got: '" + text + "'");
    first += layout.shards[k];
  }
  const auto text = thrownBy(net, all, setup, between);
  tally.demand(text.starts_with("sample ") && text.ends_with(" is refused"),
               "every replica threw, the caller got: '" + text + "'");
  tally.compare("output behind the exceptions", forward(net, good, setup).output, layout.output);
  return record;
}

namespace {

// A replica's own tensors: equal to the module's, on its device, in memory of their own.
void judgeCopies(Tally& tally, const std::string& whose, const auto& originals, auto copies,
                 at::Device device, std::vector<const void*>& seen) {
  tally.demand(originals.size() == copies.size(), whose + " lacks a tensor");
  for (const auto& one : originals) {
    const auto& copy = copies[one.key()];
    const auto what = std::string(whose).append(": ").append(one.key());
    tally.demandSame(what, copy, one.value());
    tally.demand(copy.device() == device, what + " is on another device");
    for (const auto* other : seen)
      tally.demand(copy.data_ptr() != other, what + " shares another replica's memory");
    tally.demand(copy.data_ptr() != one.value().data_ptr(), what + " shares the module's memory");
  }
  for (const auto& one : copies) seen.push_back(one.value().data_ptr());
}

}  // namespace

Record replicas(const GoldenNet& golden, const Setup& setup, const Variant& variant,
                const Between& between) {
  Record record;
  Tally tally(record, variant.dtype);
  const auto net = netFor(golden, setup, variant);
  auto all = replicate(net, setup.devices);
  if (between.replicated) between.replicated(all);
  std::vector<const void*> seen;
  for (size_t k = 0; k < all.size(); ++k) {
    const auto whose = "replica " + std::to_string(k);
    auto parameters = all[k]->named_parameters();
    judgeCopies(tally, whose, net->named_parameters(), parameters, setup.devices[k], seen);
    judgeCopies(tally, whose, net->named_buffers(), all[k]->named_buffers(), setup.devices[k],
                seen);
    for (const auto& one : parameters)
      tally.demand(one.value().requires_grad() && one.value().grad_fn(),
                   whose + ": no gradient reaches the module from " + one.key());
    if (parameters.contains("second.weight"))
      tally.demand(parameters["first.weight"].is_same(parameters["second.weight"]),
                   whose + ": a layer that is used twice became two");
  }
  return record;
}

namespace {

// Training steps in a row, and what of their tensors is still there afterwards.
struct Repetition {
  const GoldenNet& golden;
  const Setup& setup;
  const Variant& variant;
  const Between& between;
  std::shared_ptr<Net> net = netFor(golden, setup, variant);
  int64_t alive = 0;  // tensors of steps that are over

  void run(int calls) {
    std::vector<c10::weak_intrusive_ptr<at::TensorImpl>> left;
    for (int k = 0; k < calls; ++k) {
      net->zero_grad();
      const auto step = trainingStep(golden, net, kBatch, setup, variant, {between});
      for (const auto* tensors : {&step.pieces.shards, &step.pieces.outputs}) {
        for (const auto& one : *tensors) left.emplace_back(one.getIntrusivePtr());
      }
      left.emplace_back(step.output.getIntrusivePtr());
    }
    net->zero_grad();
    for (const auto& one : left) alive += one.expired() ? 0 : 1;
  }
};

}  // namespace

Record repeated(const GoldenNet& golden, const Setup& setup, const Variant& variant,
                const Between& between) {
  constexpr int kRounds = 3, kCalls = 15;
  Record record;
  Tally tally(record, variant.dtype);
  const MemoryWatch watch(setup.devices);
  Repetition repetition{golden, setup, variant, between};
  repetition.run(kCalls);  // to warm up
  repetition.alive = 0;
  const auto nets = Net::live();
  // A leak grows in every round; a workspace that a library makes once does not.
  auto bytes = std::numeric_limits<int64_t>::max(), storages = bytes;
  for (int round = 0; round < kRounds; ++round) {
    const auto before = watch.inUse();
    repetition.run(kCalls);
    const auto after = watch.inUse();
    bytes = std::min(bytes, after.bytes - before.bytes);
    storages = std::min(storages, after.storages - before.storages);
  }
  const auto perRound = " more in each round of " + std::to_string(kCalls) + " calls";
  tally.demand(Net::live() == nets, std::to_string(Net::live() - nets) + " replicas stay alive");
  tally.demand(repetition.alive == 0, std::to_string(repetition.alive) + " tensors stay alive");
  tally.demand(bytes <= 0, std::to_string(bytes) + " bytes" + perRound);
  tally.demand(storages <= 0, std::to_string(storages) + " storages" + perRound);
  record.details["repeated"] = {
      {"calls", kRounds * kCalls}, {"bytes_per_round", bytes}, {"storages_per_round", storages}};
  return record;
}

Record twoModules(const GoldenNet& one, const GoldenNet& other, const Setup& setup,
                  const Variant& variant, const Fault& fault) {
  Record record;
  Tally tally(record, variant.dtype);
  const auto steps = [&](const GoldenNet& golden) {
    constexpr int kSteps = 5;
    std::vector<Step> done;
    done.reserve(kSteps);
    for (int k = 0; k < kSteps; ++k)
      done.push_back(
          trainingStep(golden, netFor(golden, setup, variant), kBatch, setup, variant, fault));
    return done;
  };
  auto beside = std::async(std::launch::async, steps, std::cref(other));
  const auto here = steps(one);
  const auto there = beside.get();
  const auto count = static_cast<int64_t>(setup.count());
  for (const auto& step : here) judgeStep(tally, step, one.layout(kBatch, count), setup, one);
  for (const auto& step : there) judgeStep(tally, step, other.layout(kBatch, count), setup, other);
  return record;
}

std::vector<Part> contractParts(const Goldens& goldens, const Setup& setup) {
  std::vector<Part> parts;
  const auto add = [&](const GoldenNet& golden, const std::string& name, bool backward, auto run) {
    parts.push_back({.model = golden.name,
                     .name = name + "_" + setup.name(),
                     .backward = backward,
                     .smoke = setup.count() == 2,
                     .run = [=](const Variant& variant) { return run(variant); }});
  };
  const auto cnn = goldens.cnn, mlp = goldens.mlp, tied = goldens.tied;
  add(*mlp, "dropout", true, [=](const Variant& v) { return dropout(*mlp, setup, v); });
  add(*mlp, "exception", false, [=](const Variant& v) { return refusal(*mlp, setup, v); });
  add(*cnn, "repeated", true, [=](const Variant& v) { return repeated(*cnn, setup, v); });
  add(*cnn, "two_modules", true,
      [=](const Variant& v) { return twoModules(*cnn, *tied, setup, v); });
  add(*mlp, "frozen", true, [=](const Variant& v) { return frozen(*mlp, setup, v); });
  if (setup.count() > 1) {
    add(*mlp, "frozen_all", false, [=](const Variant& v) { return allFrozen(*mlp, setup, v); });
    add(*mlp, "experts", true, [=](const Variant& v) { return experts(*mlp, setup, v); });
    add(*cnn, "one_shard_used", true, [=](const Variant& v) { return oneUsed(*cnn, setup, v); });
  }
  if (setup.whole) return parts;
  for (const auto& golden : {cnn, tied})
    add(*golden, "replicas", false, [=](const Variant& v) { return replicas(*golden, setup, v); });
  add(*mlp, "grad_mode_on", false,
      [=](const Variant& v) { return gradMode(*mlp, setup, v, true); });
  if (setup.count() > 1) {
    add(*mlp, "grad_mode_off", false,
        [=](const Variant& v) { return gradMode(*mlp, setup, v, false); });
  }
  return parts;
}

}  // namespace assay::data_parallel
