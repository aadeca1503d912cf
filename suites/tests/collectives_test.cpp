// The checks of NCCL's collectives on several shards of a CPU: what goes by a ring passes, and each
// planted fault fails.
#include "suites/data_parallel/collectives.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

namespace assay::data_parallel {
namespace {

const Exchange kAllReduce{Collective::kAllReduce}, kReduce{Collective::kReduce},
    kScatter{Collective::kReduceScatter}, kBroadcast{Collective::kBroadcast},
    kGather{Collective::kAllGather};

Record run(const Exchange& one, const Communicator& communicator,
           const std::string& dtype = "float32") {
  return exchange(one, Devices(4, at::kCPU), {.device = "cpu", .dtype = dtype}, communicator, 1);
}

using Break = std::function<void(const Tensors& inputs, Tensors& outputs)>;
// A ring, and then something is broken in the outputs, or in the inputs.
void expectFailure(const Exchange& one, const Break& change, const std::string& words) {
  const auto record =
      run(one, [=](const Exchange& exchange, const Tensors& inputs, Tensors& outputs) {
        ringInOrder()(exchange, inputs, outputs);
        change(inputs, outputs);
      });
  EXPECT_EQ(record.status, Status::kFailed) << one.name();
  EXPECT_GT(record.verdict.failing, 0);
  EXPECT_NE(record.message.find(words), std::string::npos) << record.message.substr(0, 400);
}

TEST(Collectives, ARingPasses) {
  std::set<std::string> names;
  for (const auto& one : allExchanges()) {
    names.insert(one.name());
    for (const char* dtype : {"float32", "float64"}) {
      const auto record = run(one, ringInOrder(), dtype);
      EXPECT_EQ(record.status, Status::kPassed) << one.name() << ": " << record.message;
      EXPECT_GT(record.verdict.checked, 400);
    }
  }
  EXPECT_EQ(names.size(), 14);
}

// A tree adds in another order: other bits than the ring's, within the same bound.
TEST(Collectives, ATreePasses) {
  int64_t differing = 0;
  const auto record =
      run(kAllReduce, [&](const Exchange& exchange, const Tensors& inputs, Tensors& outputs) {
        ringInOrder()(exchange, inputs, outputs);
        const auto sum = (inputs[0] + inputs[1]) + (inputs[2] + inputs[3]);
        differing += sum.ne(outputs[0]).sum().item<int64_t>();
        for (auto& output : outputs) output.copy_(sum);
      });
  EXPECT_EQ(record.status, Status::kPassed) << record.message;
  EXPECT_GT(differing, 1000);
  EXPECT_GT(record.verdict.error, 0);
}

TEST(Collectives, ARankIsLeftOut) {
  for (const auto& one : {kAllReduce, kReduce})
    expectFailure(
        one,
        [](const Tensors& inputs, Tensors& outputs) {
          for (auto& output : outputs) output.sub_(inputs[3]);
        },
        "rank 3");
}

TEST(Collectives, ThePrecisionOfHalvesIsFound) {
  for (const auto& one : {kAllReduce, kReduce, kScatter})
    expectFailure(
        one,
        [](const Tensors&, Tensors& outputs) {
          for (auto& output : outputs) output.copy_(output.to(at::kBFloat16).to(output.dtype()));
        },
        "elements");
}

TEST(Collectives, TheLastElementIsNotWritten) {
  for (const auto& one : allExchanges())
    expectFailure(
        one, [](const Tensors&, Tensors& outputs) { outputs.back().slice(0, -1).fill_(NAN); },
        "rank 3");
}

TEST(Collectives, PartsComeInAnotherOrder) {
  expectFailure(
      kGather,
      [](const Tensors& inputs, Tensors& outputs) {
        outputs[1].copy_(at::cat({inputs[1], inputs[0], inputs[2], inputs[3]}));
      },
      "rank 1");
  expectFailure(
      kScatter,
      [](const Tensors&, Tensors& outputs) {
        const auto first = outputs[0].clone();
        outputs[0].copy_(outputs[1]);
        outputs[1].copy_(first);
      },
      "rank 0");
}

TEST(Collectives, AnotherRootIsBroadcast) {
  expectFailure(
      kBroadcast,
      [](const Tensors& inputs, Tensors& outputs) {
        for (auto& output : outputs) output.copy_(inputs[1]);
      },
      "rank 2");
}

TEST(Collectives, RanksDisagreeByABit) {
  expectFailure(
      kAllReduce,
      [](const Tensors& inputs, Tensors& outputs) {
        outputs[2].copy_((inputs[3] + inputs[2]) + (inputs[1] + inputs[0]));
      },
      "rank 2 beside rank 0: other bits");
}

TEST(Collectives, ACallVaries) {
  int calls = 0;
  expectFailure(
      kReduce,
      [&](const Tensors& inputs, Tensors& outputs) {
        if (++calls % 2 == 0) outputs[0].copy_((inputs[3] + inputs[2]) + (inputs[1] + inputs[0]));
      },
      "call 2, rank 3: other bits");
}

// A switch that adds may vary; where it is ruled out, nothing may.
TEST(Collectives, ASumInTheSwitchMayVary) {
  int calls = 0;
  const Communicator varying = [&](const Exchange& exchange, const Tensors& inputs,
                                   Tensors& outputs) {
    ringInOrder()(exchange, inputs, outputs);
    if (++calls % 2 == 1) return;
    for (auto& output : outputs) output.copy_((inputs[3] + inputs[2]) + (inputs[1] + inputs[0]));
  };
  const auto free = run(kAllReduce, varying);
  EXPECT_EQ(free.status, Status::kPassed) << free.message;
  EXPECT_GT(free.details.at("calls_with_other_bits").get<int>(), 0);
  EXPECT_FALSE(free.details.at("equal_bits_promised").get<bool>());
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  const auto bound = run(kAllReduce, varying);
  unsetenv("NCCL_NVLS_ENABLE");
  EXPECT_EQ(bound.status, Status::kFailed);
  EXPECT_NE(bound.message.find("call 2"), std::string::npos) << bound.message.substr(0, 200);
}

TEST(Collectives, WhatStandsBesideIsWritten) {
  expectFailure(
      kBroadcast,
      [](const Tensors&, Tensors& outputs) {
        auto& one = outputs[1];
        one.as_strided({1}, {1}, one.storage_offset() + one.numel()).fill_(0);
      },
      "memory beside the output of rank 1");
  expectFailure(
      kGather,
      [](const Tensors&, Tensors& outputs) {
        auto& one = outputs[0];
        one.as_strided({1}, {1}, one.storage_offset() - 1).fill_(0);
      },
      "memory beside the output of rank 0");
}

TEST(Collectives, AnInputIsChanged) {
  expectFailure(
      kScatter, [](const Tensors& inputs, Tensors&) { inputs[1].slice(0, 0, 1).add_(1); },
      "input of rank 1");
}

// NCCL itself, on a machine with a GPU: a rank alone gets what it gave.
TEST(CollectivesOnTheGpu, OneRank) {
  if (visibleDevices("cuda").empty()) GTEST_SKIP() << "needs a GPU";
  for (const auto& one : allExchanges()) {
    for (const char* dtype : {"float32", "float64"}) {
      const auto record =
          exchange(one, {at::Device("cuda:0")}, {.device = "cuda:0", .dtype = dtype}, nccl());
      EXPECT_EQ(record.status, Status::kPassed) << one.name() << ": " << record.message;
    }
  }
}

}  // namespace
}  // namespace assay::data_parallel
