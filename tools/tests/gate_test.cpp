// The gate: each verdict from a planted pair of runs, what cannot be judged, and its speed.
#include "tools/assay/gate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>

#include "fixtures/core/command.h"
#include "fixtures/core/files.h"
#include "tools/assay/drift.h"
#include "tools/tests/run_folder.h"

namespace assay {
namespace {

using nlohmann::json;

using Runs = std::vector<Run>;  // inside a TEST, Run is GoogleTest's
using OneRun = Run;
using Edit = std::function<void(OneRun&)>;

json environment() {
  return {{"format", 1},
          {"assay", "0.1.0+g1"},
          {"goldens_sha256", "ab"},
          {"fault", nullptr},
          {"time", "2026-01-01"},
          {"host", "a"},
          {"libtorch", {{"loaded", "2.11.0"}}},
          {"cpu", {{"model", "x"}, {"capability", "AVX2"}}},
          {"gpus", {{{"name", "H200"}, {"compute_capability", "9.0"}, {"clock_sm_mhz", 1980}}}}};
}

CheckRecord check(const std::string& test, Status status = Status::kPassed) {
  CheckRecord one;
  one.test = "Matmul/OperatorTest.Conforms/" + test;
  one.suite = "matmul";
  one.device = "cuda0";
  one.operatorName = "mm";
  one.variantName = "cuda0_float32_forward";
  one.status = status;
  one.sha256 = "00";
  one.error = 1;
  one.bound = 16;
  one.effectiveBits = 23;
  one.seconds = 1;
  if (status == Status::kFailed) one.message = "wrong", one.failing = 3, one.error = 100;
  return one;
}

Run run(std::vector<CheckRecord> checks) {
  Run result;
  static int count = 0;
  result.folder = "results/run" + std::to_string(++count);
  result.checks = std::move(checks);
  result.environment = environment();
  return result;
}

// What comes of one check, beside one that is the same on both sides.
Comparison verdict(const std::vector<CheckRecord>& before, const std::vector<CheckRecord>& after) {
  static Runs a, b;  // the comparison points into them
  a.clear(), b.clear();
  for (const auto& one : before) a.push_back(run({check("same"), one}));
  for (const auto& one : after) b.push_back(run({check("same"), one}));
  const auto gate = compareRuns(a, b);
  EXPECT_TRUE(gate.problems.empty()) << gate.problems.front();
  EXPECT_EQ(gate.checks.at(0).change, Change::kIdentical);
  EXPECT_EQ(gate.code(), gate.checks.at(1).rejects ? 1 : 0);
  return gate.checks.at(1);
}

CheckRecord other(CheckRecord one, double bits = 22.5) {
  one.sha256 = "11";
  one.effectiveBits = bits;
  return one;
}

void expectChange(const Comparison& one, Change change, bool rejects) {
  EXPECT_EQ(changeName(one.change), changeName(change)) << one.reason;
  EXPECT_EQ(one.rejects, rejects) << one.reason;
}

TEST(Gate, OneRunASide) {
  const auto good = check("x"), bad = check("x", Status::kFailed);
  const auto known = check("x", Status::kKnown), idle = check("x", Status::kSkipped);
  expectChange(verdict({good}, {good}), Change::kIdentical, false);
  expectChange(verdict({good}, {other(good)}), Change::kDrift, false);
  expectChange(verdict({good}, {bad}), Change::kRegression, true);
  expectChange(verdict({good}, {check("x", Status::kCrashed)}), Change::kRegression, true);
  expectChange(verdict({bad}, {good}), Change::kFix, false);
  expectChange(verdict({known}, {good}), Change::kFix, false);
  expectChange(verdict({known}, {known}), Change::kKnown, false);
  expectChange(verdict({good}, {known}), Change::kKnown, false);
  EXPECT_FALSE(verdict({good}, {known}).reason.empty());
  expectChange(verdict({bad}, {bad}), Change::kFailing, false);
  expectChange(verdict({good}, {idle}), Change::kCoverageLost, true);
  expectChange(verdict({good}, {check("x", Status::kUnavailable)}), Change::kCoverageLost, true);
  expectChange(verdict({idle}, {idle}), Change::kNotChecked, false);
  expectChange(verdict({idle}, {good}), Change::kNew, false);
  expectChange(verdict({idle}, {bad}), Change::kNew, true);
}

TEST(Gate, AFailureThatGetsWorse) {
  const auto bad = check("x", Status::kFailed);
  auto worse = bad;
  worse.failing = 4;
  expectChange(verdict({bad}, {worse}), Change::kRegression, true);
  worse = bad;
  worse.error = 201;
  expectChange(verdict({bad}, {worse}), Change::kRegression, true);
  worse.error = 199;
  expectChange(verdict({bad}, {worse}), Change::kFailing, false);
  worse.status = Status::kCrashed;
  expectChange(verdict({bad}, {worse}), Change::kRegression, true);
  worse = bad;
  for (const double error : {INFINITY, NAN}) {
    worse.error = error;
    expectChange(verdict({bad}, {worse}), Change::kRegression, true);
  }
}

TEST(Gate, PrecisionIsAPromiseWhereIeeeWasAskedFor) {
  const auto ieee = check("x");
  expectChange(verdict({ieee}, {other(ieee, 11)}), Change::kPrecision, true);
  auto tf32 = ieee;
  tf32.variantName = "cuda0_float32_forward_tf32";
  expectChange(verdict({tf32}, {other(tf32, 11)}), Change::kDrift, false);
  auto wide = ieee;
  wide.variantName = "cuda0_float64_forward", wide.effectiveBits = 52;
  expectChange(verdict({wide}, {other(wide, 24)}), Change::kPrecision, true);
}

TEST(Gate, RepeatsShowWhatIsUnstable) {
  const auto good = check("x"), bad = check("x", Status::kFailed);
  expectChange(verdict({good, other(good)}, {good, good}), Change::kUnstable, false);
  expectChange(verdict({good, good}, {good, other(good)}), Change::kDeterminism, true);
  expectChange(verdict({good, bad}, {bad, bad}), Change::kUnstable, false);
  expectChange(verdict({good, bad}, {check("x", Status::kCrashed)}), Change::kRegression, true);
  expectChange(verdict({good, good}, {good, bad}), Change::kRegression, true);
  expectChange(verdict({good, other(good)}, {bad, good}), Change::kRegression, true);
  expectChange(verdict({good}, {good, other(good)}), Change::kUnstable, false);
}

TEST(Gate, EveryRunOfTheCandidateCounts) {
  const auto good = check("x"), bad = check("x", Status::kFailed);
  const auto idle = check("x", Status::kSkipped), known = check("x", Status::kKnown);
  expectChange(verdict({good}, {good, idle}), Change::kCoverageLost, true);
  expectChange(verdict({good}, {good, other(good, 11)}), Change::kPrecision, true);
  expectChange(verdict({good}, {good, bad}), Change::kRegression, true);
  const Runs whole{run({check("same"), good})};
  const Runs cut{run({check("same"), good}), run({check("same")})};
  expectChange(compareRuns(whole, cut).checks.at(1), Change::kMissing, true);
  // An unstable baseline excuses no more than what failed in it.
  expectChange(verdict({good, idle}, {bad}), Change::kRegression, true);
  expectChange(verdict({good, known}, {bad}), Change::kRegression, true);
  expectChange(verdict({good, bad}, {idle}), Change::kCoverageLost, true);
  expectChange(verdict({good, idle}, {idle}), Change::kCoverageLost, true);
}

TEST(Gate, FewerElementsAreLessCoverage) {
  auto many = check("x"), few = check("x");
  many.checked = 40, few.checked = 39;
  expectChange(verdict({many}, {few}), Change::kCoverageLost, true);
  expectChange(verdict({few}, {many}), Change::kIdentical, false);
}

TEST(Gate, RunsThatAreNoRepetitions) {
  const auto words = [](const Gate& gate) { return gate.problems.empty() ? "" : gate.problems[0]; };
  const auto one = run({check("x")}), two = run({check("x")});
  EXPECT_NE(words(compareRuns({one}, {one})).find("named twice"), std::string::npos);
  EXPECT_NE(words(compareRuns({one, one}, {two})).find("named twice"), std::string::npos);
  auto changed = run({check("x")});
  changed.environment["libtorch"]["loaded"] = "2.15.0";
  EXPECT_NE(words(compareRuns({one, changed}, {two})).find("no repetitions"), std::string::npos);
  EXPECT_NE(words(compareRuns({one}, {two, changed})).find("no repetitions"), std::string::npos);
}

TEST(Gate, NewAndMissing) {
  const Runs small{run({check("same")})};
  const Runs large{run({check("same"), check("x")})};
  const auto missing = compareRuns(large, small);
  expectChange(missing.checks.at(1), Change::kMissing, true);
  EXPECT_EQ(missing.code(), 1);
  const auto added = compareRuns(small, large);
  expectChange(added.checks.at(1), Change::kNew, false);
  EXPECT_EQ(added.code(), 0);
  const Runs broken{run({check("same"), check("x", Status::kFailed)})};
  expectChange(compareRuns(small, broken).checks.at(1), Change::kNew, true);
}

TEST(Gate, WhatCannotBeJudged) {
  const Runs good{run({check("x")})};
  const auto problem = [&](const Edit& edit, const std::string& words) {
    Runs candidate{run({check("x")})};
    edit(candidate[0]);
    const auto gate = compareRuns(good, candidate);
    EXPECT_EQ(gate.code(), 2) << words;
    ASSERT_FALSE(gate.problems.empty()) << words;
    EXPECT_NE(gate.problems[0].find(words), std::string::npos) << gate.problems[0];
    EXPECT_EQ(gateText(gate).rfind("CANNOT JUDGE", 0), 0U);
  };
  problem([](OneRun& r) { r.environment["goldens_sha256"] = "cd"; }, "the goldens differ");
  problem([](OneRun& r) { r.environment["assay"] = "0.2.0"; }, "the versions of Assay differ");
  problem([](OneRun& r) { r.environment["gpus"][0]["name"] = "A100"; }, "the machines differ");
  problem([](OneRun& r) { r.environment["gpus"] = json::array(); }, "the machines differ");
  problem([](OneRun& r) { r.environment["fault"] = "ignore-ieee"; }, "planted fault");
  problem([](OneRun& r) { r.environment = nullptr; }, "no environment.json");
  for (const char* field : {"goldens_sha256", "assay", "libtorch", "cpu"})
    problem([=](OneRun& r) { r.environment.erase(field); }, "environment.json lacks");
  problem([](OneRun& r) { r.contradicted = {"x failed, and did not"}; }, "x failed, and did not");
  problem([](OneRun& r) { r.lost = {"matmul.cuda0.jsonl breaks off in line 9"}; }, "breaks off");
  problem([](OneRun& r) { r.checks[0].test = "y"; }, "no check was run on both sides");
  problem([](OneRun& r) { r.checks[0].status = Status::kSkipped; },
          "no check was run on both sides");
}

TEST(Gate, TheEnvironmentIsTheSuspect) {
  const Runs before{run({check("x")})};
  Runs after{run({check("x")})};
  after[0].environment["libtorch"]["loaded"] = "2.15.0";
  after[0].environment["time"] = "later";
  after[0].environment["gpus"][0]["clock_sm_mhz"] = 1200;
  const auto gate = compareRuns(before, after);
  ASSERT_EQ(gate.environment.size(), 1U);
  EXPECT_EQ(gate.environment[0], "libtorch/loaded: 2.11.0 -> 2.15.0");
}

TEST(Gate, SlowerIsANoteOnceRepeatsConfirmIt) {
  auto slow = check("x");
  slow.seconds = 4;
  const auto quick = [] { return run({check("x")}); };
  EXPECT_TRUE(compareRuns({quick()}, {run({slow})}).notes.empty());
  EXPECT_TRUE(compareRuns({quick(), quick()}, {run({slow}), quick()}).notes.empty());
  const Runs a{quick(), quick()}, b{run({slow}), run({slow})};
  const auto gate = compareRuns(a, b);
  ASSERT_EQ(gate.notes.size(), 1U);
  EXPECT_NE(gate.notes[0].find("matmul on cuda0 is slower"), std::string::npos);
  EXPECT_EQ(gate.code(), 0);
}

TEST(Gate, TextJsonAndMarkdownSayTheSame) {
  const Runs before{run({check("x"), check("y"), check("z")})};
  const Runs after{
      run({check("x", Status::kFailed), check("y", Status::kFailed), other(check("z"), 20)})};
  const auto gate = compareRuns(before, after);
  const auto text = gateText(gate);
  EXPECT_EQ(text.rfind("REJECT\n", 0), 0U) << text;
  EXPECT_NE(text.find("and 1 more of mm"), std::string::npos) << text;
  EXPECT_NE(text.find("1 lost 1 to 3 bits; most: Matmul/OperatorTest.Conforms/z, 23 to 20 bits"),
            std::string::npos)
      << text;
  const auto machine = gateJson(gate);
  EXPECT_EQ(machine["verdict"], "REJECT");
  EXPECT_EQ(machine["counts"]["regression"], 2);
  EXPECT_EQ(machine["checks"].size(), 3U);
  EXPECT_NE(gateMarkdown(gate).find("# Gate: REJECT"), std::string::npos);
}

TEST(Drift, CountsNumbersOfTheDtype) {
  EXPECT_EQ(ulpBetween(1.0F, std::nextafter(1.0F, 2.0F)), 1U);
  EXPECT_EQ(ulpBetween(1.0, 1.0 + 0x1p-51), 2U);
  EXPECT_EQ(ulpBetween(0.0F, -0.0F), 0U);
  EXPECT_EQ(ulpBetween(-0x1p-149F, 0x1p-149F), 2U);
  EXPECT_EQ(ulpBetween(NAN, NAN), 0U);
  EXPECT_EQ(ulpBetween(1.0, static_cast<double>(NAN)), UlpDrift::kNotFinite);
  EXPECT_EQ(ulpBetween(INFINITY, 3e38F), UlpDrift::kNotFinite);
  EXPECT_EQ(ulpBetween(-std::numeric_limits<double>::max(), std::numeric_limits<double>::max()),
            2 * 0x7fefffffffffffffU);
}

// From the outputs that both sides kept.
TEST(Drift, OfRunsOnDisk) {
  namespace fs = std::filesystem;
  const auto folder = fs::path(testing::TempDir()) / ("assay_drift_" + std::to_string(getpid()));
  fs::remove_all(folder);
  const auto write = [&](const char* name, float second, const std::string& digest) {
    fs::create_directories(folder / name);
    std::ofstream(folder / name / "environment.json") << environment();
    const std::array<float, 3> values{1, second, NAN};
    std::ofstream(folder / name / "matmul.cuda0.outputs", std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()), sizeof values);
    std::ofstream file(folder / name / "matmul.cuda0.jsonl");
    for (const char* test : {"mm__kept", "mm__not_kept"}) {
      const bool kept = test == std::string("mm__kept");
      const json stored = {
          {{"what", "output 0"}, {"dtype", "Float"}, {"shape", {3}}, {"offset", 0}, {"bytes", 12}}};
      file << json{{"test", std::string("Matmul/T.C/") + test},
                   {"suite", "matmul"},
                   {"device", "cuda0"},
                   {"operator", "mm"},
                   {"status", "PASSED"},
                   {"sha256", digest},
                   {"error", 1.5},
                   {"bound", 16},
                   {"stored", kept ? stored : json()}}
                  .dump()
           << "\n";
    }
    file.close();
    writePlans(folder / name);
  };
  write("a", 2, "00");
  write("b", std::nextafter(2.0F, 3.0F), "01");
  const Runs before{readRun(folder / "a")}, after{readRun(folder / "b")};
  const auto drift = ulpDrift(compareRuns(before, after), before, after);
  EXPECT_EQ(drift.checks, 1U);
  EXPECT_EQ(drift.without, 1U);
  EXPECT_EQ(drift.elements, 3U);
  EXPECT_EQ(drift.moved, 1U);
  EXPECT_EQ(drift.histogram[1], 1U);
  EXPECT_EQ(drift.operators.at("mm").largest, 1U);
  const auto output =
      runCommand("cd " + shellQuoted(folder.string()) + " && " + shellQuoted(ASSAY_PROGRAM) +
                 " gate --baseline a --candidate b --html g.html 2>&1");
  EXPECT_NE(output.text.find("1 of 3 elements moved, 1 by 1 ulp; most: Matmul/T.C/mm__kept"),
            std::string::npos)
      << output.text;
  std::ifstream page(folder / "g.html");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  EXPECT_NE(text.find("\"largest\":1"), std::string::npos);
  EXPECT_EQ(text.find("@DATA@"), std::string::npos);
  EXPECT_EQ(text.find("@STYLE@"), std::string::npos);
  fs::remove_all(folder);
}

// As a program: two runs on disk, files written, and what cannot be written.
TEST(Gate, TheCommand) {
  namespace fs = std::filesystem;
  const auto folder = fs::path(testing::TempDir()) / ("assay_gate_" + std::to_string(getpid()));
  fs::remove_all(folder);
  for (const char* name : {"a", "b"}) {
    fs::create_directories(folder / name);
    std::ofstream(folder / name / "environment.json") << environment();
    std::ofstream file(folder / name / "matmul.cuda0.jsonl");
    for (int k = 0; k < 50000; ++k) {
      file << json{{"test", "Matmul/T.C/mm__k" + std::to_string(k)},
                   {"suite", "matmul"},
                   {"device", "cuda0"},
                   {"operator", "mm"},
                   {"status", "PASSED"},
                   {"sha256", std::string(64, '0')},
                   {"error", 1.5},
                   {"bound", 16},
                   {"worst", json::array()},
                   {"seconds", 1e-3}}
                  .dump()
           << "\n";
    }
    file.close();
    writePlans(folder / name);
  }
  const auto assay = [&](const std::string& arguments) {
    return runCommand("cd " + shellQuoted(folder.string()) + " && " + shellQuoted(ASSAY_PROGRAM) +
                      " gate " + arguments + " 2>&1");
  };
  const auto start = std::chrono::steady_clock::now();
  const auto same = assay("--baseline a --candidate b --json g.json --markdown g.md");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(same.code, 0) << same.text;
  EXPECT_NE(same.text.find("ACCEPT"), std::string::npos) << same.text;
  EXPECT_LT(took.count(), 5) << "two runs of 50,000 checks";
  EXPECT_EQ(json::parse(std::ifstream(folder / "g.json"))["counts"]["identical"], 50000);
  EXPECT_TRUE(fs::exists(folder / "g.md"));
  EXPECT_EQ(assay("--baseline a --candidate b --json no/such/folder.json").code, 2);
  EXPECT_EQ(assay("--baseline a --candidate nothing").code, 2);
  std::ofstream(folder / "waivers") << R"({"format": 1, "waivers": [{"id": "w", "test": "*__none",
    "reason": "a reason", "owner": "a team", "expires": "2999-12-31"}]})";
  const auto waived = assay("--baseline a --candidate b --waivers waivers");
  EXPECT_EQ(waived.code, 2) << waived.text;
  EXPECT_NE(waived.text.find("waiver w matches no check"), std::string::npos) << waived.text;
  EXPECT_EQ(assay("--baseline a").code, 2);
  EXPECT_EQ(assay("a b").text, assay("--baseline a --candidate b").text);
  for (const char* few : {"", "a", "a b c", "a b --candidate b"})
    EXPECT_EQ(assay(few).code, 2) << few;
  std::ofstream(folder / "b/matmul.cuda0.jsonl", std::ios::app) << R"({"test": "Mat)";
  const auto cut = assay("--baseline a --candidate b");
  EXPECT_EQ(cut.code, 2) << cut.text;
  EXPECT_NE(cut.text.find("CANNOT JUDGE"), std::string::npos) << cut.text;
  fs::remove_all(folder);
}

// Real runs as tools/gate and run-assay make them, each with a folder and variables of its own.
TEST(GateCommand, RepetitionsInFoldersOfTheirOwn) {
  namespace fs = std::filesystem;
  const auto home = fs::path(testing::TempDir()) / ("assay_repeats_" + std::to_string(getpid()));
  fs::remove_all(home);
  fs::create_directories(home);
  const auto in = [&](const std::string& command) {
    return runCommand("cd " + shellQuoted(home.string()) + " && " + command + " 2>&1");
  };
  for (const std::string name : {"a", "b", "c", "d"}) {
    const auto made = in("env -u ASSAY_RUN_FILE ASSAY_RESULTS=" + name + " ASSAY_STORE=all" +
                         (name == "d" ? " ASSAY_RESUME=1 " : " ") + ASSAY_MATMUL_SUITE +
                         " --device cpu --gtest_filter='*/mm__*float64_forward'");
    ASSERT_EQ(made.code, 0) << made.text;
  }
  const auto gate = in(shellQuoted(ASSAY_PROGRAM) + " gate --baseline a b --candidate c d");
  EXPECT_EQ(gate.code, 0) << gate.text;
  EXPECT_NE(gate.text.find("ACCEPT"), std::string::npos) << gate.text;
  fs::remove_all(home);
}

}  // namespace
}  // namespace assay
