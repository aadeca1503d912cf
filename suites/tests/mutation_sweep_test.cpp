// The mutation sweep against planted faults: each is caught, and the first layer that diverges is
// named; a discontinuity may move inside its margin and nowhere else.
#include "suites/models/mutation_sweep.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

#include "fixtures/core/sha256.h"
#include "fixtures/tests/tf32.h"

namespace assay::models {
namespace {

const std::vector<SweepMutant>& sweep() {
  static const auto kSweep = loadSweep(ASSAY_SOURCE_DIR "/golden");
  return kSweep;
}

Variant onCpu(const std::string& dtype, const std::string& math = "ieee") {
  Variant variant{.device = "cpu", .dtype = dtype};
  variant.math = math;
  return variant;
}

// The result that is named first.
std::string firstOf(const Record& record) {
  return record.message.substr(0, record.message.find(' '));
}

// Plants the fault in every mutant's layers where it fits; both checks must name the layer. Returns
// how often it was planted.
int plant(const std::function<bool(Mutant&, MutantLayer&)>& fault) {
  int planted = 0;
  for (const auto& golden : sweep()) {
    for (size_t k = 0; k < golden.mutant.layers.size(); ++k) {
      auto device = golden.mutant;
      if (!fault(device, device.layers[k])) continue;
      ++planted;
      const auto& name = device.layers[k].name;
      const auto variant = onCpu(planted % 2 == 0 ? "float32" : "float64");
      const auto whole = sweepFree(golden, device, variant);
      EXPECT_EQ(whole.status, Status::kFailed) << golden.mutant.name;
      EXPECT_EQ(firstOf(whole), name) << golden.mutant.name << ": " << whole.message;
      const auto alone = sweepLayers(golden, device, variant);
      EXPECT_EQ(firstOf(alone), name) << golden.mutant.name << ": " << alone.message;
    }
  }
  return planted;
}

// An output of another shape breaks the layers behind it, so only convolutions are looked at.
TEST(MutationSweep, AWrongStrideIsNamed) {
  EXPECT_GT(plant([](Mutant&, MutantLayer& layer) {
              if (!layer.isConvolution()) return false;
              ++layer.stride[layer.name == "conv1" ? 0 : 1];
              return true;
            }),
            80);
}

TEST(MutationSweep, RoundForFloorIsNamed) {
  EXPECT_EQ(plant([](Mutant&, MutantLayer& layer) {
              if (layer.op != "floor") return false;
              layer.op = "round";
              return true;
            }),
            7);
}

TEST(MutationSweep, ATransposedKernelThatIsNotFlippedIsNamed) {
  EXPECT_GT(plant([](Mutant& device, MutantLayer& layer) {
              if (layer.op != "conv_transpose2d") return false;
              auto& weight = device.weights.at(layer.name + ".weight");
              weight = weight.flip({2, 3}).contiguous();
              return true;
            }),
            20);
}

TEST(MutationSweep, ADilationAndAnActivationAreNamed) {
  EXPECT_GT(plant([](Mutant&, MutantLayer& layer) {
              if (!layer.isConvolution() || layer.dilation[0] == 1) return false;
              layer.dilation[0] = 1;
              layer.outputPadding[0] =
                  std::min<int64_t>(layer.outputPadding[0], layer.stride[0] - 1);
              return true;
            }),
            10);
  EXPECT_GT(plant([](Mutant&, MutantLayer& layer) {
              if (layer.op != "elu") return false;
              layer.parameter = 0.125;
              return true;
            }),
            3);
}

TEST(MutationSweep, PassesAsItIs) {
  EXPECT_GE(sweep().size(), 48U);
  for (const auto& golden : sweep())
    for (const char* dtype : {"float32", "float64"})
      for (const auto& check : {sweepFree, sweepLayers, sweepTraining}) {
        const auto record = check(golden, golden.mutant, onCpu(dtype), false);
        EXPECT_EQ(record.status, Status::kPassed) << golden.mutant.name << ": " << record.message;
        EXPECT_GT(record.verdict.checked, 500);
      }
}

// The mutant's floor, with something added to one element.
class MovedFloor : public testing::Test {
 protected:
  MovedFloor() : library_(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__) {
    library_.impl(
        "floor", +[](const at::Tensor& x) {
          auto y = (x - 0.5).round();
          y.view(-1)[place] += by;
          return y;
        });
  }
  ~MovedFloor() override { by = 0; }
  static void move(int64_t where, double amount) {
    place = where;
    by = amount;
  }
  // How far above the golden's floors TF32's error may bring them, flattened.
  [[nodiscard]] at::Tensor room() const {
    const double error = golden_.bounds.at("fc2").at("float32_tf32");
    const auto range = host::range(golden_.mutant.layers[10], golden_.host.outputs[9], error);
    return (range.high - golden_.host.outputs[10]).reshape({-1});
  }
  Record free(const std::string& math) {
    return sweepFree(golden_, golden_.mutant, onCpu("float32", math));
  }

  const SweepMutant& golden_ = sweep().front();
  torch::Library library_;
  static inline int64_t place = 0;
  static inline double by = 0;
};

TEST_F(MovedFloor, InsideItsMarginItIsJudgedByThat) {
  ASSERT_EQ(golden_.mutant.layers[10].op, "floor");
  const auto undecided = room().gt(0).nonzero();
  ASSERT_GT(undecided.numel(), 0);
  move(undecided[0].item<int64_t>(), 1);
  const auto record = free("tf32");
  EXPECT_EQ(record.status, Status::kPassed) << record.message;
  EXPECT_NE(record.message.find("act4 (floor) moved 1 elements, 0 of them outside"),
            std::string::npos)
      << record.message;
  // Alone the floor is wrong in any mode.
  EXPECT_EQ(firstOf(sweepLayers(golden_, golden_.mutant, onCpu("float32", "tf32"))), "act4");
}

TEST_F(MovedFloor, OutsideItsMarginItFails) {
  move(0, 1);  // IEEE's error decides it
  EXPECT_EQ(firstOf(free("ieee")), "act4");
  move(0, room()[0].item<double>() + 1);
  const auto record = free("tf32");
  EXPECT_EQ(firstOf(record), "act4") << record.message;
  EXPECT_EQ(seenIn(record, "rows").at(10).beyond, 1);
}

// May float32 itself move the mutant's discontinuity? Then the bounds behind it are wide.
bool undecidedInIeee(const SweepMutant& golden) {
  const auto& layers = golden.mutant.layers;
  return std::any_of(layers.begin(), layers.end(), [&](const MutantLayer& layer) {
    return layer.isStep() && golden.bounds.at(layer.name).at("float32_ieee") > 0.01;
  });
}

TEST(MutationSweep, DiscontinuitiesOfEveryKindAreDecidedInMostMutants) {
  EXPECT_LT(std::count_if(sweep().begin(), sweep().end(), undecidedInIeee), 8);
}

TEST(MutationSweep, Tf32IsNamedWhereItIs) {
  torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  library.impl("addmm", &addmmInTf32);
  int moved = 0, number = 0;
  for (const auto& golden : sweep()) {
    if (++number % 3 != 0) continue;  // the plain product is slow
    if (!undecidedInIeee(golden)) {
      const auto whole = sweepFree(golden, golden.mutant, onCpu("float32"));
      EXPECT_EQ(firstOf(whole).substr(0, 2), "fc") << golden.mutant.name << whole.message;
    }
    EXPECT_EQ(firstOf(sweepLayers(golden, golden.mutant, onCpu("float32"))), "fc1");
    for (const auto& check : {sweepFree, sweepLayers}) {  // asked for TF32, it is right
      const auto record = check(golden, golden.mutant, onCpu("float32", "tf32"), false);
      EXPECT_EQ(record.status, Status::kPassed) << golden.mutant.name << ": " << record.message;
      if (record.details.contains("moved") && !record.details.at("moved").empty()) ++moved;
    }
  }
  EXPECT_GT(moved, 0) << "no discontinuity moved: the sweep's draws are too tame";
}

TEST(MutationSweep, WrongLabelsAndABackwardWithoutItsMask) {
  for (const auto& golden : sweep()) {
    auto device = golden.mutant;
    device.labels = (device.labels + 1).remainder(10);
    EXPECT_EQ(firstOf(sweepTraining(golden, device, onCpu("float32"), false)), "loss");
  }
  torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  library.impl(
      "threshold_backward",
      +[](const at::Tensor& g, const at::Tensor&, const at::Scalar&) { return g.clone(); });
  int caught = 0;
  for (const auto& golden : sweep()) {
    const auto& layers = golden.mutant.layers;
    if (layers[8].op != "relu" || layers[10].isStep()) continue;  // act3, which a gradient reaches
    const auto record = sweepTraining(golden, golden.mutant, onCpu("float32"), false);
    EXPECT_EQ(firstOf(record), "gradient/fc1.weight") << golden.mutant.name << record.message;
    for (const auto& row : seenIn(record, "rows")) {
      // "backward/act3" is the gradient in front of act3, behind fc1.
      if (row.name == "backward/act3") {
        EXPECT_GT(row.beyond, 0);
      } else if (row.name == "backward/fc3") {
        EXPECT_EQ(row.beyond, 0);
      }
    }
    ++caught;
  }
  EXPECT_GT(caught, 0);
}

// The sweep's files, copied, with one edit of the JSON and hashes that fit.
void refuses(const std::function<void(nlohmann::json&)>& edit, const std::string& words) {
  namespace fs = std::filesystem;
  const auto folder = fs::path(testing::TempDir()) / ("assay_sweep_" + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder / "data");
  const fs::path source = ASSAY_SOURCE_DIR "/golden/data/models";
  for (const char* ending : {".json", ".safetensors"})
    fs::copy(source / (std::string("mutation_sweep") + ending), folder / "data");
  const auto file = folder / "data/mutation_sweep.json";
  auto json = nlohmann::json::parse(std::ifstream(file));
  edit(json);
  const auto text = json.dump();
  std::ofstream(file) << text;
  std::ofstream(folder / "index.json") << nlohmann::json{{"format", 1},
                                                         {"models",
                                                          {{{"model", "mutation_sweep"},
                                                            {"json", "data/mutation_sweep.json"},
                                                            {"sha256", sha256Hex(text)}}}}};
  try {
    loadSweep(folder);
    ADD_FAILURE() << "not refused: " << words;
  } catch (const GoldenError& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
  fs::remove_all(folder);
}

TEST(MutationSweep, DamagedGoldensAreRefused) {
  refuses(
      [](auto& json) {
        json["mutants"][3]["layers"][0]["stride"] = {3, 3};
      },
      "the host's run is not the golden's");
  refuses([](auto& json) { json["mutants"][0]["layers"][10]["op"] = "ceil"; },
          "act4: the host's run is not the golden's");
  refuses([](auto& json) { json["mutants"][0]["layers"][10]["op"] = "fractional"; },
          "no layer is called fractional");
  refuses([](auto& json) { json["mutants"][0]["layers"][0]["strides"] = 1; }, "unknown field");
  refuses([](auto& json) { json["mutants"][0]["layers"][0]["stride"] = {0, 1}; }, "cannot be");
  refuses([](auto& json) { json["mutants"].erase(51); }, "not one mutant for each");
}

}  // namespace
}  // namespace assay::models
