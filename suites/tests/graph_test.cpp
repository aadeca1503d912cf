// cuDNN's graph API without a GPU: the graphs are described rightly, their references are right,
// what an engine notes becomes the right promise, and an engine that breaks it fails. Where cuDNN
// is there, its own library takes every graph for a GPU that is only described.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <set>
#include <string_view>

#include "suites/determinism/graph_checks.h"
#include "suites/determinism/graph_engine.h"
#include "suites/determinism/graph_reference.h"
#include "suites/determinism/routine.h"
#ifdef ASSAY_HAS_CUDNN
#include "suites/determinism/graph_backend.h"
#endif

namespace assay::determinism {
namespace {

const GraphCase& graphNamed(std::string_view operation, std::string_view name = "",
                            at::ScalarType dtype = at::kFloat) {
  static const auto all = graphCases();
  for (const auto& graph : all) {
    if (graph.operation == operation && graph.dtype == dtype &&
        (name.empty() || graph.name == name))
      return graph;
  }
  throw std::logic_error("no graph " + std::string(operation) + " " + std::string(name));
}

// ---- descriptions

TEST(GraphCase, EveryGraphIsDescribedRightly) {
  std::set<std::string> names, operations;
  for (const auto& graph : graphCases()) {
    EXPECT_EQ(misdescribed(graph), "") << graph.operation << " " << graph.name;
    EXPECT_TRUE(names.insert(graph.operation + graph.name + c10::toString(graph.dtype)).second);
    EXPECT_FALSE(graph.poisoned.empty()) << graph.operation;
    EXPECT_LE(graph.terms, 8192) << graph.operation;
    operations.insert(graph.operation);
  }
  EXPECT_GE(operations.size(), 12U);
}

TEST(GraphCase, ASlipInADescriptionIsSeen) {
  const auto slip = [](const auto& change) {
    GraphCase graph = graphNamed("MatmulBiasGelu");
    change(graph);
    return misdescribed(graph);
  };
  EXPECT_EQ(slip([](GraphCase& g) {
              g.tensors.push_back({"more", {1, 1, 1}});
            }),
            "more is not used");
  EXPECT_EQ(slip([](GraphCase& g) { std::get<MatmulStep>(g.steps[0]).c = "a"; }),
            "a is no output and is written");
  EXPECT_EQ(slip([](GraphCase& g) { std::swap(g.steps[0], g.steps[1]); }), "c is read too early");
  EXPECT_EQ(slip([](GraphCase& g) { g.steps.push_back(g.steps[2]); }), "z is written twice");
  EXPECT_EQ(slip([](GraphCase& g) {
              g.tensors[2].sizes = {1, 1, 95};
            }),
            "bias has values of another shape");
  EXPECT_EQ(slip([](GraphCase& g) { g.poisoned.emplace_back("z"); }),
            "z is no input that can hold a NaN");
  EXPECT_THROW(slip([](GraphCase& g) { std::get<MatmulStep>(g.steps[0]).a = "q"; }),
               std::logic_error);
}

TEST(GraphCase, Strides) {
  EXPECT_EQ((GraphTensor{"x", {2, 3, 4, 5}}.strides()), (std::vector<int64_t>{60, 20, 5, 1}));
  EXPECT_EQ((GraphTensor{"x", {2, 3, 4, 5}, Use::kInput, at::kFloat, true}.strides()),
            (std::vector<int64_t>{60, 1, 15, 3}));
}

// ---- references, against LibTorch's float64 kernels: a slip in an index would show in every digit

void expectClose(const Sums& sums, const at::Tensor& want) {
  EXPECT_TRUE(at::allclose(sums.value, want.detach(), 1e-11, 1e-11));
  EXPECT_TRUE(at::ge(sums.scale * (1 + 1e-12), sums.value.abs()).all().item<bool>());
}

at::Tensor some(const std::vector<int64_t>& shape, int key) {
  return fullMantissa(shape, key, at::kDouble);
}

TEST(GraphReference, Products) {
  const auto a = some({2, 5, 7}, 1), b = some({2, 7, 3}, 2);
  const auto sums = multiplied(a, b);
  expectClose(sums, at::matmul(a, b));
  EXPECT_TRUE(at::allclose(sums.scale, at::matmul(a.abs(), b.abs()), 1e-12, 0));
  const auto x = some({40}, 3) * 3;
  expectClose(each(exact(x), [](Measured m, int64_t) { return gelu(m); }), at::gelu(x));
  expectClose(each(exact(x), [](Measured m, int64_t) { return rectified(m); }), at::relu(x));
  expectClose(each(exact(x), [](Measured m, int64_t) { return hyperbolicTangent(m); }),
              at::tanh(x));
}

TEST(GraphReference, Pooling) {
  const auto x = some({2, 3, 7, 6}, 1).requires_grad_();
  const auto maximum = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1});
  const auto average = at::avg_pool2d(x, {3, 3}, {2, 2}, {1, 1}, false, false);
  const auto dy = some(maximum.sizes().vec(), 2), plain = x.detach();
  expectClose(pooledMaximum(plain, 3, 2, 1), maximum);
  expectClose(pooledAverage(plain, 3, 2, 1), average);
  expectClose(maximumGradient(plain, dy, 3, 2, 1), torch::autograd::grad({maximum}, {x}, {dy})[0]);
  expectClose(averageGradient(dy, {2, 3, 7, 6}, 3, 2, 1),
              torch::autograd::grad({average}, {x}, {dy})[0]);
}

TEST(GraphReference, Norms) {
  const auto x = some({4, 3, 5, 6}, 1).requires_grad_(), scale = some({3}, 2).requires_grad_(),
             bias = some({3}, 3).requires_grad_();
  const auto wide = [](const at::Tensor& t) { return t.detach().reshape({1, 3, 1, 1}); };
  const auto norm = normalized(x.detach(), wide(scale), wide(bias), 1e-5, Group::kChannel, true);
  const auto [y, mean, inverse] = at::native_batch_norm(x, scale, bias, {}, {}, true, 0.1, 1e-5);
  expectClose(norm.y, y);
  expectClose(norm.mean, wide(mean));
  expectClose(norm.inverse, wide(inverse));
  expectClose(norm.variance, x.detach().var({0, 2, 3}, false, true));
  const auto dy = some({4, 3, 5, 6}, 4);
  const auto gradients = torch::autograd::grad({y}, {x, scale, bias}, {dy});
  const auto mine =
      batchNormGradients(x.detach(), dy, wide(scale), norm.mean.value, norm.inverse.value);
  expectClose(mine.dx, gradients[0]);
  expectClose(mine.dScale, wide(gradients[1]));
  expectClose(mine.dBias, wide(gradients[2]));
  expectClose(normalized(x.detach(), wide(scale), wide(bias), 1e-5, Group::kChannelOfImage, true).y,
              at::instance_norm(x, scale, bias, {}, {}, true, 0.1, 1e-5, false));
  const auto rows = some({6, 8, 1, 1}, 5), gain = some({1, 8, 1, 1}, 6),
             shift = some({1, 8, 1, 1}, 7);
  expectClose(normalized(rows, gain, shift, 1e-5, Group::kImage, true).y,
              at::layer_norm(rows.flatten(1), {8}, gain.flatten(), shift.flatten(), 1e-5)
                  .reshape({6, 8, 1, 1}));
  expectClose(
      normalized(rows, gain, shift, 1e-5, Group::kImage, false).y,
      at::rms_norm(rows.flatten(1), {8}, gain.flatten(), 1e-5).reshape({6, 8, 1, 1}) + shift);
}

TEST(GraphReference, Attention) {
  const auto q = some({2, 3, 5, 4}, 1), k = some({2, 3, 6, 4}, 2), v = some({2, 3, 6, 4}, 3);
  const auto scores = at::matmul(q, k.transpose(2, 3)) * 0.3;
  const auto mine = attended(q, k, v, 0.3);
  expectClose(mine.y, at::matmul(at::softmax(scores, 3), v));
  expectClose(mine.logSums, at::logsumexp(scores, {3}, true));
}

TEST(GraphReference, ANaNReachesWhatDependsOnIt) {
  const auto host = hostOf(graphNamed("PoolingForward", "max_nchw"));
  ASSERT_EQ(host.poisoned.size(), 1U);
  const auto reached = host.poisoned[0].reached.at("y").sum().item<int64_t>();
  EXPECT_GE(reached, 1);  // the windows that hold one pixel
  EXPECT_LE(reached, 4);
  const auto norm = hostOf(graphNamed("LayerNorm"));
  EXPECT_EQ(norm.poisoned[0].reached.at("y").sum().item<int64_t>(), 128);  // one row
}

// ---- notes and promises

EngineNotes with(std::set<Note> notes) { return {std::move(notes), {}}; }

TEST(GraphNotes, WhatANoteTakesBack) {
  const auto& graph = graphNamed("ConvolutionForward", "2d_k3_nchw");
  const auto none = promiseOf({}, graph);
  EXPECT_EQ(none.bits, "equal bits");
  EXPECT_EQ(none.precision, Precision::kFull);
  EXPECT_NEAR(none.bound, 256 * std::sqrt(144.0 / 2048), 1e-9);
  EXPECT_EQ(promiseOf(with({Note::kNondeterministic}), graph).bits, "may vary");
  EXPECT_EQ(promiseOf(with({Note::kTensorCore}), graph).precision, Precision::kTf32);
  EXPECT_EQ(promiseOf(with({Note::kTensorCore, Note::kDownConvertInputs}), graph).precision,
            Precision::kReduced);
  EXPECT_EQ(promiseOf(with({Note::kReducedPrecisionReduction}), graph).precision,
            Precision::kReduced);
  for (const auto note : {Note::kFft, Note::kWinograd, Note::kWinogradTile4x4}) {
    EXPECT_TRUE(promiseOf(with({note}), graph).wholeTiles);
    EXPECT_EQ(promiseOf(with({note}), graph).bound, 256);
    EXPECT_EQ(promiseOf(with({note}), graph).precision, Precision::kFull);
  }
  EXPECT_EQ(with({Note::kTensorCore, Note::kNondeterministic}).text(),
            "TENSOR_CORE, NONDETERMINISTIC");
  EXPECT_EQ(noteName(static_cast<Note>(12)), "NOTE_12");
}

TEST(GraphNotes, ATensorCoreLowersNothingButFloat32Products) {
  const auto tensorCore = with({Note::kTensorCore});
  EXPECT_EQ(promiseOf(tensorCore, graphNamed("ConvolutionForward", "", at::kDouble)).precision,
            Precision::kFull);
  EXPECT_EQ(promiseOf(tensorCore, graphNamed("Pointwise")).precision, Precision::kFull);
  EXPECT_EQ(promiseOf(tensorCore, graphNamed("Reduction")).precision, Precision::kFull);
  EXPECT_EQ(promiseOf(tensorCore, graphNamed("Matmul")).precision, Precision::kTf32);
}

// ---- planted engines

// Computes by the definition and rounds once, after `spoil` has seen the inputs.
GraphEngine fake(const GraphCase& graph, const GraphHost& host,
                 const std::function<void(Values&)>& spoil = {}) {
  GraphEngine engine{.name = "engine 0", .source = "a test"};
  engine.compute = [&graph, spoil](const Values& given) {
    Values inputs = given;
    for (auto& [name, values] : inputs) values = values.clone();
    if (spoil) spoil(inputs);
    std::map<std::string, at::Tensor> outputs;
    for (const auto& [name, sums] : graph.reference(inputs))
      outputs[name] = sums.value.to(graph.tensor(name).dtype);
    return outputs;
  };
  engine.call = [&graph, first = engine.compute(host.inputs)] {
    std::vector<at::Tensor> outputs;
    for (const auto* output : graph.with(Use::kOutput))
      outputs.push_back(first.at(output->name).clone());
    return outputs;
  };
  return engine;
}

Record judged(const GraphCase& graph, const GraphHost& host, const GraphEngine& engine) {
  Record record;
  judgeEngine(record, graph, host, engine, true);
  return record;
}

std::string seen(const Record& record, const char* what) {
  return record.details["graph"][what]["seen"].get<std::string>();
}

TEST(GraphEngine, ARightEnginePassesOnEveryGraph) {
  for (const auto& graph : graphCases()) {
    const auto host = hostOf(graph);
    const auto record = judged(graph, host, fake(graph, host));
    EXPECT_EQ(record.status, Status::kPassed) << graph.operation << ": " << record.message;
    EXPECT_LE(record.verdict.error, 2 * (graph.dtype == at::kHalf ? 8192 : 1)) << graph.operation;
    EXPECT_GT(record.verdict.checked, 0);
    EXPECT_EQ(seen(record, "nan"), "REACHES") << graph.operation;
    EXPECT_EQ(record.details["determinism"]["verdict"].get<std::string>(), "STABLE");
  }
}

TEST(GraphEngine, APlantedRaceIsABrokenPromise) {
  const auto& graph = graphNamed("Matmul");
  const auto host = hostOf(graph);
  auto engine = fake(graph, host);
  engine.call = [steady = engine.call, count = std::make_shared<int>(0)] {
    auto outputs = steady();
    if (++*count % 10 == 0) outputs[0].view(at::kInt).flatten()[7] += 1;
    return outputs;
  };
  const auto record = judged(graph, host, engine);
  EXPECT_EQ(record.status, Status::kFailed);
  EXPECT_NE(record.message.find("lacks the note NONDETERMINISTIC"), std::string::npos)
      << record.message;
  EXPECT_EQ(record.details["determinism"]["verdict"].get<std::string>(), "BROKEN PROMISE");
  engine.notes = with({Note::kNondeterministic});
  const auto noted = judged(graph, host, engine);
  EXPECT_EQ(noted.status, Status::kPassed) << noted.message;
  EXPECT_EQ(noted.details["determinism"]["verdict"].get<std::string>(), "VARIES");
}

// Operands cut to TF32's 11 bits.
void cut(Values& inputs) {
  for (auto& [name, values] : inputs) {
    const auto bits = values.to(at::kFloat).view(at::kInt).bitwise_and(~0x1FFF);
    values = bits.view(at::kFloat).to(at::kDouble);
  }
}

TEST(GraphEngine, PlantedTf32IsABrokenPromiseUnlessNoted) {
  for (const char* operation : {"ConvolutionForward", "ConvolutionBackwardData",
                                "ConvolutionBackwardFilter", "Matmul", "MatmulBiasGelu"}) {
    const auto& graph = graphNamed(operation);
    const auto host = hostOf(graph);
    auto engine = fake(graph, host, cut);
    const auto record = judged(graph, host, engine);
    EXPECT_EQ(record.status, Status::kFailed) << operation;
    EXPECT_EQ(seen(record, "precision"), "BROKEN PROMISE") << operation;
    EXPECT_NE(record.message.find("TF32's precision came"), std::string::npos) << record.message;
    engine.notes = with({Note::kTensorCore});
    EXPECT_EQ(judged(graph, host, engine).status, Status::kPassed) << operation;
    engine.notes = with({Note::kWinograd});  // that is a note on tiles, not on operands
    EXPECT_EQ(judged(graph, host, engine).status, Status::kFailed) << operation;
  }
}

TEST(GraphEngine, ASwallowedNaNIsABrokenPromise) {
  for (const char* operation : {"ConvolutionForward", "PoolingForward", "LayerNorm", "Reduction"}) {
    const auto& graph = graphNamed(operation);
    const auto host = hostOf(graph);
    const auto engine = fake(graph, host, [](Values& inputs) {
      for (auto& [name, values] : inputs) values.nan_to_num_(0);
    });
    const auto record = judged(graph, host, engine);
    EXPECT_EQ(record.status, Status::kFailed) << operation;
    EXPECT_EQ(seen(record, "nan"), "BROKEN PROMISE") << operation;
    EXPECT_NE(record.message.find("a NaN in "), std::string::npos) << record.message;
    EXPECT_EQ(seen(record, "precision"), "as promised");
  }
}

TEST(GraphEngine, WhatIsNotWrittenOrWrongFails) {
  const auto& graph = graphNamed("BatchNormTraining");
  const auto host = hostOf(graph);
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), 0.0}) {
    auto engine = fake(graph, host);
    engine.compute = [right = engine.compute, value](const Values& inputs) {
      auto outputs = right(inputs);
      outputs.at("new_variance").fill_(value);
      return outputs;
    };
    const auto record = judged(graph, host, engine);
    EXPECT_EQ(record.status, Status::kFailed);
    EXPECT_EQ(record.what, "new_variance");
    EXPECT_EQ(seen(record, "precision"), "WRONG");
  }
}

TEST(GraphEngine, SixteenBitsAreComparedAsBits) {
  const auto first = some({64}, 1).to(at::kHalf);
  auto moved = first.clone();
  moved.view(at::kShort)[3] += 1;
  const auto spread = repeat([&] { return std::vector{moved}; }, {first}, 3, Kind::kAgain);
  EXPECT_EQ(spread.differing, 3);
  EXPECT_EQ(spread.elements, 1);
  EXPECT_EQ(spread.ulp, 1);
}

TEST(GraphEngine, TheTableHasEachEngineAndWhoRefuses) {
  const auto& graph = graphNamed("Reduction");
  const auto host = hostOf(graph);
  auto engine = fake(graph, host);
  engine.notes = with({Note::kTensorCore, Note::kNondeterministic});
  auto record = judged(graph, host, engine);
  record.operatorName = graph.operation;
  record.caseName = graph.name;
  record.variant = {{"dtype", "float32"}};
  auto sweep = record;
  sweep.details = {
      {"graph", {{"engines", 3}, {"refused", {{"what: CUDNN_STATUS_NOT_SUPPORTED", {1, 2}}}}}}};
  testing::internal::CaptureStdout();
  printGraphTable({record, sweep});
  const auto table = testing::internal::GetCapturedStdout();
  for (const char* part : {"Reduction sum_nhwc float32", "engine 0",
                           "TENSOR_CORE, NONDETERMINISTIC", "STABLE, not promised", "as promised",
                           "REACHES", "3 engines, 2 refuse (2 CUDNN_STATUS_NOT_SUPPORTED)"})
    EXPECT_NE(table.find(part), std::string::npos) << part << " is not in:\n" << table;
}

// ---- cuDNN itself, for a GPU of compute capability 9.0 that is only described

#ifdef ASSAY_HAS_CUDNN

// What an H200 reports, in the form in which cuDNN writes a device's properties.
std::string describedDevice() {
  return nlohmann::json{{"maxGridSize", {2147483647, 65535, 65535}},
                        {"maxBlockSize", {1024, 1024, 64}},
                        {"regsPerBlock", 65536},
                        {"multiProcessorCount", 132},
                        {"smClockRateKHz", 1980000},
                        {"memClockRateKHz", 3201000},
                        {"l2CacheSize", 62914560},
                        {"warpSize", 32},
                        {"maxSharedMemoryPerBlock", 49152},
                        {"maxSharedMemoryPerBlockOptin", 232448},
                        {"reservedSharedMemoryPerBlock", 1024},
                        {"maxRegistersPerSM", 65536},
                        {"pciDeviceId", 0},
                        {"maxCtasPerSM", 32},
                        {"maxThreadsPerBlock", 1024},
                        {"maxThreadsPerSM", 2048},
                        {"isTccDriver", 0},
                        {"supportCoopLaunch", 1},
                        {"deviceVer", 900},
                        {"driverVer", 13000},
                        {"cudaDeviceId", 0},
                        {"totalGlobalMem", 150000000000},
                        {"deviceName", "NVIDIA H200"}}
      .dump();
}

// An engine of the graph gets as far as a plan, or lacks only the driver, to which it compiles.
bool isPlanned(const std::shared_ptr<const OperationGraph>& graph, int64_t index) {
  try {
    EnginePlan plan(graph, index);
    for (const auto note : plan.notes().numerical)
      EXPECT_EQ(noteName(note).find("NOTE_"), std::string::npos) << noteName(note);
    plan.plan();
  } catch (const NotSupported& problem) {
    const std::string told = problem.what();
    EXPECT_NE(told.find("CUDNN_STATUS_"), std::string::npos) << told;
    return told.find("CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING") !=
           std::string::npos;
  }
  return true;
}

TEST(GraphBackend, CudnnHasEnginesForEveryGraph) {
  const GraphTarget target(describedDevice());
  for (const auto& described : graphCases()) {
    if (wantsKnobs(described)) continue;
    const auto graph = std::make_shared<const OperationGraph>(described, target);
    int64_t planned = 0;
    for (int64_t index = 0; index < graph->engines(); ++index) planned += isPlanned(graph, index);
    EXPECT_GT(planned, 0) << described.operation << " " << described.name;
  }
}

TEST(GraphBackend, WhatCudnnDoesNotTakeBecomesASentence) {
  EXPECT_THROW(GraphTarget("{}"), std::runtime_error);
  const GraphTarget target(describedDevice());
  auto wrong = graphNamed("Matmul");
  wrong.tensors[0].sizes = {4, 64, 255};
  try {
    const OperationGraph graph(wrong, target);
    FAIL() << "a product of matrices that do not fit was taken";
  } catch (const std::runtime_error& problem) {
    EXPECT_NE(std::string(problem.what()).find("CUDNN_STATUS_"), std::string::npos)
        << problem.what();
  }
  const auto graph = std::make_shared<const OperationGraph>(graphNamed("Matmul"), target);
  EXPECT_THROW(EnginePlan(graph, graph->engines()), NotSupported);
}

#endif

TEST(GraphChecks, TheSmokeTestTakesSome) {
  int64_t taken = 0;
  for (const auto& graph : graphCases()) taken += smokeGraph(graph.operation, graph.name);
  EXPECT_GE(taken, 1);
  EXPECT_LE(taken, 3);
}

}  // namespace
}  // namespace assay::determinism
