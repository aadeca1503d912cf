// The DataParallel checks, broken on purpose: each planted fault must fail the check that guards
// against it, and the same check without the fault must pass.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <set>

#include "suites/data_parallel/resnet.h"

namespace assay::data_parallel {
namespace {

const Goldens& goldens() {
  static const Goldens kGoldens = loadGoldens(std::filesystem::path(ASSAY_SOURCE_DIR) / "golden");
  return kGoldens;
}

Setup shards(size_t count) { return onOneDevice(at::kCPU, count, false); }

Variant onCpu(const std::string& dtype = "float32") { return {.device = "cpu", .dtype = dtype}; }

// What a suite's worker would record as FAILED.
void expectFailure(const std::function<Record(const Variant&)>& check, const std::string& words) {
  try {
    const auto record = check(onCpu());
    EXPECT_EQ(record.status, Status::kFailed);
    EXPECT_GT(record.verdict.failing, 0);
    EXPECT_NE(record.message.find(words), std::string::npos) << record.message;
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
}

void expectPass(const Record& record) {
  EXPECT_EQ(record.status, Status::kPassed) << record.message;
  EXPECT_GT(record.verdict.checked, 0);
}

// A training step of the CNN in `count` shards with a fault.
std::function<Record(const Variant&)> broken(int64_t batch, size_t count, const Fault& fault) {
  return [=](const Variant& variant) {
    return train(*goldens().cnn, batch, shards(count), variant, fault);
  };
}

Fault scattered(const std::function<void(Tensors&)>& change) { return {{.scattered = change}}; }
Fault replicated(const std::function<void(Nets&)>& change) { return {{.replicated = change}}; }
Fault applied(const std::function<void(Tensors&)>& change) { return {{.applied = change}}; }
Fault differentiated(const std::function<void(Net&)>& change) {
  Fault fault;
  fault.differentiated = change;
  return fault;
}

TEST(DataParallel, WithoutAFaultAllPass) {
  for (const auto& golden : goldens().all()) {
    for (const size_t count : {2, 4}) {
      for (const int64_t batch : {5, 64}) expectPass(train(*golden, batch, shards(count), onCpu()));
    }
  }
  expectPass(evaluate(*goldens().cnn, 65, shards(4), onCpu()));
  expectPass(otherDimension(*goldens().mlp, shards(3), onCpu()));
  expectPass(severalTensors(*goldens().tied, shards(4), onCpu()));
  expectPass(dropout(*goldens().mlp, shards(4), onCpu()));
  expectPass(refusal(*goldens().mlp, shards(3), onCpu()));
  expectPass(replicas(*goldens().tied, shards(3), onCpu()));
  expectPass(repeated(*goldens().cnn, shards(2), onCpu()));
  expectPass(gradMode(*goldens().mlp, shards(2), onCpu(), true));
}

TEST(Planted, ShardsSwapped) {
  const auto fault = scattered([](Tensors& all) { std::swap(all[0], all[1]); });
  expectFailure(broken(64, 2, fault), "output");
  expectFailure(broken(64, 2, fault), "gradient of fc.weight");
  expectFailure([=](const Variant& v) { return evaluate(*goldens().cnn, 64, shards(2), v, fault); },
                "output");
}

TEST(Planted, GatheredInAnotherOrder) {
  const auto fault = applied([](Tensors& all) { std::swap(all[1], all[2]); });
  expectFailure(broken(63, 3, fault), "output");
  expectFailure(
      [=](const Variant& v) { return otherDimension(*goldens().mlp, shards(4), v, fault); },
      "output");
}

TEST(Planted, GradientAveragedInsteadOfSummed) {
  const auto fault = differentiated([](Net& net) {
    for (auto& parameter : net.parameters()) parameter.mutable_grad().div_(2);
  });
  expectFailure(broken(64, 2, fault), "gradient of conv.weight");
}

TEST(Planted, OneReplicasGradientLost) {
  const auto fault = replicated([](Nets& all) {
    for (auto& parameter : all[1]->parameters())
      parameter.register_hook([](const at::Tensor& gradient) { return gradient * 0; });
  });
  expectFailure(broken(64, 4, fault), "gradient of conv.weight");
}

// As they were before a small optimizer step.
TEST(Planted, ReplicaWithStaleWeights) {
  const auto fault =
      replicated([](Nets& all) { all[1]->named_parameters()["conv.weight"].data().add_(1e-4); });
  expectFailure(broken(64, 2, fault), "output");
  expectFailure([=](const Variant& v) { return replicas(*goldens().cnn, shards(2), v, fault); },
                "replica 1: conv.weight");
}

TEST(Planted, ReplicaWithAnotherBuffer) {
  const auto fault = replicated([](Nets& all) { all[1]->named_buffers()["scale"].add_(1e-4); });
  expectFailure([=](const Variant& v) { return train(*goldens().tied, 64, shards(2), v, fault); },
                "output");
}

TEST(Planted, LastRaggedShardDropped) {
  const auto fault = scattered([](Tensors& all) { all.pop_back(); });
  expectFailure(broken(65, 4, fault), "to match target batch_size");  // the loss refuses it
  expectFailure([=](const Variant& v) { return evaluate(*goldens().cnn, 65, shards(4), v, fault); },
                "the result is");
  const auto silent = applied([](Tensors& all) { all.back() = all.back() * 0; });
  expectFailure(broken(65, 4, silent), "output");
}

TEST(Planted, StatisticsOfTheWholeBatch) {
  for (const int64_t count : {2, 3, 4, 8}) {
    expectFailure(
        [=](const Variant& variant) {
          Record record;
          Tally tally(record, variant.dtype);
          const auto& cnn = *goldens().cnn;
          const auto whole = shards(1);
          judgeStep(tally, trainingStep(cnn, netFor(cnn, whole, variant), 64, whole, variant),
                    cnn.layout(64, count), whole, cnn);
          return record;
        },
        "gradient of conv.weight");
  }
}

// LibTorch's own replicas leave the module's statistics alone (pytorch#21144).
TEST(Planted, StatisticsWrittenIntoTheModule) {
  Record record;
  Tally tally(record, "float32");
  const auto& cnn = *goldens().cnn;
  auto step = trainingStep(cnn, netFor(cnn, shards(2), onCpu()), 64, shards(2), onCpu());
  step.net->named_buffers()["bn.running_mean"].copy_(
      step.pieces.replicas[0]->named_buffers()["bn.running_mean"]);
  judgeStep(tally, step, cnn.layout(64, 2), shards(2), cnn);
  EXPECT_EQ(record.status, Status::kFailed);
  EXPECT_EQ(record.message, "bn.running_mean of the module: other bits than it must have");
}

// What TF32 keeps of a number: 10 bits behind the leading one.
void cutToTf32(at::Tensor& values) {
  const auto [mantissa, exponent] = at::frexp(values.to(at::kDouble));
  values.copy_(at::ldexp(at::round(mantissa * 2048) / 2048, exponent));
}

TEST(Planted, Tf32WhereIeeeWasAskedFor) {
  Fault fault;
  fault.scattered = [](Tensors& all) {
    for (auto& shard : all) cutToTf32(shard = shard.clone());
  };
  fault.replicated = [](Nets& all) {
    for (auto& replica : all) {
      for (const char* name : {"conv.weight", "fc.weight"}) {
        auto weight = replica->named_parameters()[name].data();
        cutToTf32(weight);
      }
    }
  };
  for (const int64_t batch : kBatches) expectFailure(broken(batch, 4, fault), "output");
}

TEST(Planted, DropoutMaskNotPerReplica) {
  const auto fault = applied([](Tensors& all) { all[1] = all[0] + all[1] * 0; });
  expectFailure([=](const Variant& v) { return dropout(*goldens().mlp, shards(2), v, fault); },
                "replicas 0 and 1 drew the same mask");
}

TEST(Planted, DropoutOfAnotherRate) {
  const auto fault = applied([](Tensors& all) {
    all[1] = all[1].slice(1, 0, 3).repeat({1, 2}) * 0;
  });
  expectFailure([=](const Variant& v) { return dropout(*goldens().mlp, shards(2), v, fault); },
                "replica 1 kept 0 of");
  const auto unscaled = applied([](Tensors& all) { all[1] = all[1] / 2; });
  expectFailure([=](const Variant& v) { return dropout(*goldens().mlp, shards(2), v, unscaled); },
                "kept outputs");
}

TEST(Planted, GradientWithAnotherMask) {
  const auto fault = differentiated(
      [](Net& net) { net.named_parameters()["fc2.bias"].mutable_grad()[0].add_(2); });
  expectFailure([=](const Variant& v) { return dropout(*goldens().mlp, shards(2), v, fault); },
                "gradient of fc2.bias");
}

TEST(Planted, GradModeLost) {
  const auto fault = replicated([](Nets& all) {
    for (auto& parameter : all[1]->parameters()) parameter.detach_();
  });
  expectFailure(
      [=](const Variant& v) { return gradMode(*goldens().mlp, shards(2), v, true, fault); },
      "replica 1 recorded no graph");
}

TEST(Planted, FrozenParameterGetsAGradient) {
  expectPass(frozen(*goldens().mlp, shards(2), onCpu()));
  const auto fault = differentiated([](Net& net) {
    auto weight = net.named_parameters()["fc1.weight"];
    weight.mutable_grad() = at::zeros_like(weight);
  });
  expectFailure([=](const Variant& v) { return frozen(*goldens().mlp, shards(2), v, fault); },
                "fc1.weight is frozen, yet it has a gradient");
}

TEST(Planted, ReplicaThatIsNotAskedAddsToTheGradient) {
  expectPass(oneUsed(*goldens().cnn, shards(3), onCpu()));
  const auto fault = applied([](Tensors& all) { all[0] = all[0] + all[1] * 1e-3; });
  expectFailure([=](const Variant& v) { return oneUsed(*goldens().cnn, shards(3), v, fault); },
                "gradient of conv.weight");
}

// A parameter that a replica does not use: LibTorch's ReduceAdd throws
// (suites/known_defects.json). With a graph to every parameter of every replica, times zero, the
// check passes; without the zero it fails.
TEST(DataParallel, ExpertsOfReplicas) {
  expectFailure([](const Variant& v) { return experts(*goldens().mlp, shards(3), v); },
                "All inputs of ReduceAdd must have the same size");
  const auto joined = [](double times) {
    const auto replicas = std::make_shared<Nets>();
    Fault fault = replicated([=](Nets& all) { *replicas = all; });
    fault.applied = [=](Tensors& all) {
      for (size_t k = 0; k < all.size(); ++k) {
        for (const auto& parameter : (*replicas)[k]->parameters())
          all[0] = all[0] + parameter.sum() * times;
      }
    };
    return fault;
  };
  expectPass(experts(*goldens().mlp, shards(3), onCpu(), joined(0)));
  expectFailure(
      [=](const Variant& v) { return experts(*goldens().mlp, shards(3), v, joined(1e-3)); },
      "output of the first shard");
}

// LibTorch again: the replicas' parameters want a gradient whatever the module's do.
TEST(DataParallel, FrozenModule) {
  expectFailure([](const Variant& v) { return allFrozen(*goldens().mlp, shards(2), v); },
                "every parameter is frozen, yet the output wants a gradient");
  const auto mended = replicated([](Nets& all) {
    for (const auto& replica : all) {
      for (auto& parameter : replica->parameters()) parameter.detach_();
    }
  });
  expectPass(allFrozen(*goldens().mlp, shards(2), onCpu(), mended));
}

// pytorch#28980, in the LibTorch under test itself: suites/known_defects.json.
TEST(DataParallel, WorkerThreadsForgetNoGrad) {
  if (!hasThreads()) GTEST_SKIP() << "built without OpenMP";
  const auto record = gradMode(*goldens().mlp, shards(4), onCpu(), false);
  EXPECT_EQ(record.status, Status::kFailed);
  EXPECT_EQ(record.verdict.failing, 3);  // the caller's own thread keeps it
}

TEST(Planted, ExceptionSwallowed) {
  const auto fault = scattered([](Tensors& all) {
    for (auto& shard : all) shard = shard.clamp_max(1);
  });
  expectFailure([=](const Variant& v) { return refusal(*goldens().mlp, shards(3), v, fault); },
                "replica 2 threw, the caller got: ''");
}

TEST(Planted, ReplicasShareMemory) {
  const auto fault = replicated([](Nets& all) { all[1] = all[0]; });
  expectFailure([=](const Variant& v) { return replicas(*goldens().cnn, shards(2), v, fault); },
                "shares another replica's memory");
}

TEST(Planted, SharedLayerBecomesTwo) {
  static const Net::Definition kApart{[](Net& net) {
                                        net.register_module("first", torch::nn::Linear(7, 7));
                                        net.register_module("second", torch::nn::Linear(7, 7));
                                        net.register_buffer("scale", at::ones({7}));
                                      },
                                      [](Net&, const at::Tensor& input) { return input; }};
  const auto fault = replicated([](Nets& all) { all[1] = std::make_shared<Net>(kApart); });
  expectFailure([=](const Variant& v) { return replicas(*goldens().tied, shards(2), v, fault); },
                "a layer that is used twice became two");
}

TEST(Planted, Leak) {
  static Tensors kept;
  const auto fault = applied([](Tensors& all) { kept.push_back(all[0]); });
  expectFailure([=](const Variant& v) { return repeated(*goldens().cnn, shards(2), v, fault); },
                "tensors stay alive");
  kept.clear();
  static Nets nets;
  const auto forgotten = replicated([](Nets& all) { nets.push_back(all[0]); });
  expectFailure([=](const Variant& v) { return repeated(*goldens().cnn, shards(2), v, forgotten); },
                "replicas stay alive");
  nets.clear();
  static Tensors storages;
  const auto lost = applied([](Tensors& all) { storages.push_back(all[0].detach().clone()); });
  expectFailure([=](const Variant& v) { return repeated(*goldens().cnn, shards(2), v, lost); },
                "storages more in each round of 15 calls");
  storages.clear();
}

TEST(Planted, LabelsCutInAnotherOrder) {
  expectFailure(
      [](const Variant& v) {
        return severalTensors(*goldens().tied, shards(4), v,
                              [](Tensors& labels) { std::swap(labels[0], labels[1]); });
      },
      "loss");
}

TEST(Planted, SecondModuleDisturbed) {
  const auto fault = replicated([](Nets& all) {
    auto parameters = all[0]->named_parameters();
    if (parameters.contains("first.weight")) parameters["first.weight"].data().add_(1e-4);
  });
  expectFailure(
      [=](const Variant& v) {
        return twoModules(*goldens().cnn, *goldens().tied, shards(2), v, fault);
      },
      "output");
}

Fault cutSecond() {
  return replicated([](Nets& all) {
    for (auto& parameter : all[1]->parameters()) {
      auto values = parameter.data();
      cutToTf32(values);
    }
  });
}

TEST(Planted, ResNet50Eval) {
  const auto check = [=](const Fault& fault) {
    return [=](const Variant& v) {
      return evaluateResnet(goldens().resnet->eval(), shards(2), v, fault);
    };
  };
  expectPass(check({})(onCpu()));
  const auto swapped = scattered([](Tensors& all) { std::swap(all[0], all[1]); });
  expectFailure(check(swapped), "logits image0/fc");
  expectFailure(check(cutSecond()), "logits image1/fc");
}

TEST(Planted, ResNet50Train) {
  const auto check = [=](const Fault& fault) {
    return [=](const Variant& v) {
      return trainResnet(goldens().resnet->train(), shards(2), v, fault);
    };
  };
  expectFailure(check(scattered([](Tensors& all) { std::swap(all[0], all[1]); })), "shards2/stem");
  expectFailure(check(cutSecond()), "shards2/stem");
  expectFailure(check(differentiated([](Net& net) {
                  for (auto& parameter : net.parameters()) parameter.mutable_grad().div_(2);
                })),
                "shards2/gradient/fc.bias");
  expectFailure(
      check(replicated([](Nets& all) {
        for (auto& parameter : all[1]->parameters())
          parameter.register_hook([](const at::Tensor& gradient) { return gradient * 0; });
      })),
      "shards2/gradient/fc.bias");
  expectFailure(check(replicated([](Nets& all) {
                  for (auto& one : all[1]->named_buffers())
                    if (one.key() == "bn1.running_mean") one.value().add_(1e-3);
                })),
                "shards2/bn1.running_mean");
  expectFailure(
      check(differentiated([](Net& net) { net.named_buffers()["bn1.running_mean"].add_(1e-3); })),
      "bn1.running_mean of the module");
}

// The report's difference is that of the shards' statistics: the golden of the same shards has it.
TEST(DataParallel, ResNet50PartsFromTheWholeBatchByItsStatisticsAlone) {
  const auto record = trainResnet(goldens().resnet->train(), shards(2), onCpu("float64"));
  expectPass(record);
  for (const auto& row : record.details.at("differences")) {
    EXPECT_LT(row.at("from_own_golden").get<double>(), 1e-7) << row;
    EXPECT_GT(row.at("from_unsharded").get<double>(), 1e-4) << row;
  }
}

// A copy with one bit flipped, in one size alone.
at::Tensor flipped(const at::Tensor& tensor, at::Device to) {
  auto copy = directCopy()(tensor, to);
  if (copy.scalar_type() == at::kByte && copy.numel() == 4097) copy[4096].bitwise_xor_(16);
  return copy;
}

// A copy that goes through arithmetic: it quiets signalling NaNs.
at::Tensor quieted(const at::Tensor& tensor, at::Device to) {
  if (tensor.scalar_type() != at::kFloat) return directCopy()(tensor, to);
  return tensor.to(at::kDouble).to(at::kFloat).to(to);
}

TEST(Planted, OneBitFlippedInACopy) {
  expectPass(copies(at::kCPU, at::kCPU, onCpu(), directCopy()));
  const auto record = copies(at::kCPU, at::kCPU, onCpu(), flipped);
  EXPECT_EQ(record.status, Status::kFailed);
  EXPECT_EQ(record.message, "4097 bytes: 1 of 4097 bytes differ");
  EXPECT_EQ(copies(at::kCPU, at::kCPU, onCpu(), quieted).status, Status::kFailed);
}

TEST(Setups, ShardsOverGpusInTurn) {
  const auto setup = overGpus(3, 8, true, true);
  const at::Device last(at::kCUDA, 1);  // 7 mod 3
  EXPECT_EQ(setup.devices.size(), 8);
  EXPECT_EQ(setup.home(), at::Device(at::kCUDA, 0));
  EXPECT_EQ(setup.devices[5], at::Device(at::kCUDA, 2));
  EXPECT_EQ(setup.output, last);
}

TEST(Setups, EveryPairOfGpusCopies) {
  std::set<std::string> pairs;
  for (const auto& part : severalGpuParts(4, goldens())) {
    if (part.model == "copy") pairs.insert(part.name);
  }
  EXPECT_EQ(pairs.size(), 16);
  EXPECT_TRUE(pairs.contains("cuda3_to_cuda1"));
}

// What needs two GPUs is skipped where there are none: never passed.
TEST(Setups, TooFewGpusIsASkip) {
  Options options;
  const auto checks = checksOf(severalGpuParts(2, goldens()), "cuda:0", options, "TOO_FEW_GPUS");
  EXPECT_GT(checks.size(), 400);
  std::set<std::string> names;
  for (const auto& check : checks) {
    EXPECT_TRUE(names.insert(check.name).second) << check.name;
    const auto record = check.run();
    EXPECT_EQ(record.status, Status::kSkipped);
    EXPECT_TRUE(isSkipReason(record.reason));
  }
}

TEST(Goldens, ALayoutThatIsMissingIsAnError) {
  EXPECT_THROW(goldens().cnn->layout(64, 5), GoldenError);
  EXPECT_THROW(loadGoldenNet(std::filesystem::path(ASSAY_SOURCE_DIR) / "golden", "no_such_net"),
               GoldenError);
}

}  // namespace
}  // namespace assay::data_parallel
