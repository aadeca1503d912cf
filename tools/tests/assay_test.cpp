// The command `assay`, as a program: what it prints, its exit codes, and what it says of runs that
// are missing, empty, damaged or killed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "fixtures/core/command.h"
#include "fixtures/core/files.h"
#include "tools/assay/determinism_words.h"
#include "tools/assay/goldens.h"
#include "tools/assay/records.h"
#include "tools/assay/words.h"
#include "tools/tests/run_folder.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kPrefix = "Convolution/OperatorTest.Conforms/";

json record(const std::string& check, const std::string& status) {
  auto one = passedFields();
  one.update({{"test", kPrefix + check},
              {"suite", "convolution"},
              {"operator", check.substr(0, check.find("__"))},
              {"case", "s11_d11_g1_p00"},
              {"variant_name", "cpu_float32_forward"},
              {"variant",
               {{"device", "cpu"},
                {"dtype", "float32"},
                {"direction", "forward"},
                {"layout", "contiguous"},
                {"form", "functional"},
                {"lengths", false},
                {"math", "ieee"},
                {"cudnn", true},
                {"benchmark", false},
                {"deterministic", false},
                {"threads", 0}}},
              {"status", status},
              {"worst", json::array()},
              {"repro", "build/convolution_suite --gtest_filter='x'"},
              {"details", nullptr}});
  return one;
}

// A failure as TF32 gives it.
json failure(const std::string& check) {
  json line = record(check, "FAILED");
  line["message"] = "output 0: 3 of 40 elements beyond the bound";
  line["error"] = 7000.5;
  line["effective_bits"] = 11.2;
  line["failing"] = 3;
  line["worst"] = {{{"index", {0, 3}}, {"got", 1.5}, {"want", 1.25}, {"error", 7000.5}},
                   {{"index", {1, 2}}, {"got", "nan"}, {"want", 2.0}, {"error", "inf"}}};
  return line;
}

class AssayTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("assay_test_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "results/run");
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Appends text to a file of records of the run.
  void append(const std::string& text, const std::string& file = "convolution.cpu.jsonl",
              const std::string& run = "run") const {
    fs::create_directories(folder_ / "results" / run);
    std::ofstream(folder_ / "results" / run / file, std::ios::app) << text;
  }
  void add(const json& line) const { append(line.dump() + "\n"); }

  // Runs assay in the temporary folder, whose results/ is then the nearest one.
  CommandOutput assay(const std::string& arguments, const std::string& environment = "") const {
    for (const auto& run : fs::directory_iterator(folder_ / "results")) writePlans(run.path());
    return runCommand("cd " + shellQuoted(folder_.string()) +
                      " && env -u ASSAY_RESULTS -u ASSAY_GOLDENS " + environment + " " +
                      shellQuoted(ASSAY_PROGRAM) + " " + arguments + " 2>&1");
  }

  void expect(const std::string& arguments, int code, const std::vector<std::string>& words,
              const std::string& environment = "") const {
    const auto output = assay(arguments, environment);
    EXPECT_EQ(output.code, code) << arguments << "\n" << output.text;
    for (const auto& word : words)
      EXPECT_NE(output.text.find(word), std::string::npos)
          << arguments << " lacks \"" << word << "\"\n"
          << output.text;
  }

  fs::path folder_;
};

TEST_F(AssayTest, BadInputIsOneSentenceAndExitCodeTwo) {
  add(record("conv2d__a__cpu_float32_forward", "PASSED"));
  for (const char* arguments : {"", "--bogus", "bogus", "summary --bogus", "summary run more",
                                "explain", "env --bogus", "list --bogus", "summary no_such_run",
                                "explain x no_such_run", "env no_such_run", "list no_such_operator",
                                "list --family no_such_family", "list --goldens /no/such/folder"}) {
    const auto output = assay(arguments);
    EXPECT_EQ(output.code, 2) << arguments << "\n" << output.text;
    EXPECT_EQ(output.text.rfind("assay: ", 0), 0U) << arguments << "\n" << output.text;
    EXPECT_EQ(std::count(output.text.begin(), output.text.end(), '\n'), 1) << arguments << "\n"
                                                                           << output.text;
  }
}

TEST_F(AssayTest, HelpSaysWhatThereIs) {
  expect("--help", 0, {"env", "list", "summary", "explain", "Exit codes"});
  expect("explain --help", 0, {"TEST", "RUN"});
  expect("--version", 0, {"assay 0."});
}

TEST_F(AssayTest, StartsAtOnceAndWithoutLibTorch) {
  const auto output = runCommand("ldd " + shellQuoted(ASSAY_PROGRAM));
  EXPECT_EQ(output.text.find("torch"), std::string::npos) << output.text;
}

// ---- summary

TEST_F(AssayTest, SummaryCountsEveryStatus) {
  add(record("a__x__cpu", "PASSED"));
  add(record("b__x__cpu", "PASSED"));
  add(record("c__x__cpu", "KNOWN"));
  add(record("d__x__cpu", "FIXED"));
  add(record("e__x__cpu", "SKIPPED"));
  add(record("f__x__cpu", "UNAVAILABLE"));
  expect("summary", 0,
         {"convolution", "known", "fixed", "skipped", "unavailable", "results/run",
          "no environment.json"});
  EXPECT_EQ(assay("summary").text.find("crashed"), std::string::npos);
  add(failure("g__x__cpu"));
  json crash = record("h__x__cpu", "CRASHED");
  crash["message"] = "killed by SIGSEGV";
  add(crash);
  const auto output = assay("summary");
  EXPECT_EQ(output.code, 1);
  EXPECT_NE(output.text.find("total                                 2        1        1        1"
                             "        1        1           1"),
            std::string::npos)
      << output.text;
  EXPECT_NE(output.text.find("3 of 40 elements beyond the bound"), std::string::npos);
  EXPECT_NE(output.text.find("killed by SIGSEGV"), std::string::npos);
}

TEST_F(AssayTest, SummaryRepeatsRemarksOnWhatPassed) {
  json remark = record("a__x__cpu", "PASSED");
  remark["operator"] = "lstm",
  remark["message"] = "18.5 effective bits, inside the library's bound";
  add(remark);
  remark["test"] = "b__x__cpu";
  add(remark);
  add(record("c__x__cpu", "PASSED"));
  const auto output = assay("summary");
  EXPECT_EQ(output.code, 0);
  EXPECT_NE(output.text.find("remark on lstm (2 checks): 18.5 effective bits"), std::string::npos)
      << output.text;
  EXPECT_EQ(output.text.find("remark on conv"), std::string::npos) << output.text;
}

TEST_F(AssayTest, SummaryFitsAScreen) {
  for (int i = 0; i < 40; ++i)
    add(failure("op" + std::to_string(i / 2) + "__" + std::to_string(i) + "__cpu"));
  const auto output = assay("summary");
  EXPECT_LT(std::count(output.text.begin(), output.text.end(), '\n'), 25) << output.text;
  EXPECT_NE(output.text.find("and 1 more of op0"), std::string::npos) << output.text;
  EXPECT_NE(output.text.find("and 30 failures of other operators"), std::string::npos)
      << output.text;
}

TEST_F(AssayTest, SuitesThatOnlySkippedTakeOneLine) {
  add(record("a__x__cpu", "PASSED"));
  for (const char* suite : {"one", "two"}) {
    json skip = record("no_gpu", "SKIPPED");
    skip["suite"] = suite, skip["device"] = "cuda", skip["reason"] = "NO_GPU";
    append(skip.dump() + "\n", std::string(suite) + ".cuda.jsonl");
  }
  expect("summary", 0, {"skipped on cuda: NO_GPU (2 suites)"});
  fs::remove(folder_ / "results/run/convolution.cpu.jsonl");
  expect("summary", 0, {"nothing was checked"});
}

TEST_F(AssayTest, TheLastOfSeveralRecordsCounts) {
  add(failure("a__x__cpu"));
  add(record("a__x__cpu", "PASSED"));
  expect("summary", 0, {"1 record of checks that ran again later left out"});
  add(failure("a__x__cpu"));
  expect("summary", 1, {"2 records"});
  expect("explain a__x__cpu", 0, {"FAILED Convolution"});
}

TEST_F(AssayTest, TheNewestRunIsTheDefault) {
  append(record("a__x__cpu", "PASSED").dump() + "\n", "a.cpu.jsonl", "20260101T000000Z");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  append(record("a__x__cpu", "PASSED").dump() + "\n", "a.cpu.jsonl", "20250101T000000Z");
  fs::create_directories(folder_ / "results/20270101T000000Z");  // no records: no run
  expect("summary", 0, {"records: results/20250101T000000Z"});
  expect("summary 20260101T000000Z", 0, {"records: results/20260101T000000Z"});
  expect("summary", 0, {"records: results/20260101T000000Z"},
         "ASSAY_RESULTS=results/20260101T000000Z");
}

// ---- damage

TEST_F(AssayTest, ARunWithoutRecords) {
  expect("summary results/run", 2, {"there are no records in results/run"});
  append("");
  expect("summary results/run", 2, {"there are no records"});
  expect("explain x results/run", 2, {"there are no records"});
  append(R"({"test":"a)");
  expect("summary results/run", 2, {"there are no records", "breaks off in line 1"});
}

TEST_F(AssayTest, ALastLineThatBreaksOffIsTold) {
  add(record("a__x__cpu", "PASSED"));
  const std::string line = record("b__x__cpu", "PASSED").dump();
  append(line.substr(0, line.size() / 2));
  expect("summary", 1, {"INCOMPLETE convolution.cpu.jsonl breaks off in line 2"});
  expect("explain a__x__cpu", 0, {"PASSED Convolution", "breaks off in line 2"});
}

TEST_F(AssayTest, AWholeLastLineWithoutItsEndCounts) {
  append(record("a__x__cpu", "PASSED").dump());
  expect("summary", 0, {"convolution"});
}

TEST_F(AssayTest, ABrokenLineInTheMiddleIsNamed) {
  const std::string good = record("a__x__cpu", "PASSED").dump();
  for (const auto& [bad, what] :
       {std::pair<std::string, std::string>{good.substr(0, 100), "is not JSON"},
        {good + good, "is not JSON"},
        {"", "is not JSON"},
        {std::string(8, '\0'), "is not JSON"},
        {"[1]", "has no \"test\""},
        {"7", "is no object"},
        {R"({"status": "PASSED"})", "has no \"test\""},
        {R"({"test": "x"})", "has no \"status\""},
        {R"({"test": "x", "status": "FINE"})", "has the unknown status \"FINE\""}}) {
    fs::remove(folder_ / "results/run/convolution.cpu.jsonl");
    append(good + "\n" + bad + "\n" + good + "\n");
    expect("summary", 2, {"convolution.cpu.jsonl, line 2, " + what});
    expect("explain a__x__cpu", 2, {"line 2"});
  }
  // Whole JSON is no line that breaks off, even where its end is missing.
  fs::remove(folder_ / "results/run/convolution.cpu.jsonl");
  append(good + "\n" + R"({"test": "x", "status": "FINE"})");
  expect("summary", 2, {"unknown status"});
}

TEST_F(AssayTest, ADamagedManifestIsNamed) {
  add(record("a__x__cpu", "PASSED"));
  for (const char* text : {"{", "[]", R"({"format": 2})"}) {
    std::ofstream(folder_ / "results/run/environment.json") << text;
    expect("summary", 2, {"environment.json is not a manifest of format 1"});
    expect("env run", 2, {"environment.json is not a manifest of format 1"});
  }
}

// ---- explain

TEST_F(AssayTest, ExplainsAPassedCheck) {
  add(record("conv2d__s11_d11_g1_p00__cpu_float32_forward", "PASSED"));
  expect(
      "explain conv2d__s11_d11_g1_p00__cpu_float32_forward", 0,
      {"PASSED Convolution/OperatorTest.Conforms/conv2d__s11_d11_g1_p00__cpu_float32_forward",
       "aten::conv2d (convolution), case s11_d11_g1_p00", "on the CPU, float32, forward",
       "input: [", "stride: (1, 1)", "output 0: float64 [", "40 of 40 elements",
       "conditioned error 2, bound 16: 8 times below the bound", "docs/numerics.md#conditioned",
       "23.5 effective bits; 24 is all that float32 has", "again       build/convolution_suite"});
}

TEST_F(AssayTest, ExplainsAFailure) {
  json line = failure("conv2d__s11_d11_g1_p00__cuda0_float32_forward");
  line["variant"]["device"] = "cuda0";
  add(line);
  expect("explain cuda0_float32_forward", 0,
         {"FAILED ", "on GPU 0", "3 of 40 elements beyond the bound", "37 of 40 elements within",
          "438 times the bound", "11.2 effective bits", "this is as good as TF32", "[0,3]", "1.25",
          "[1,2]", "nan", "inf"});
}

TEST_F(AssayTest, NamesTheCauseThatAModelWasAskedFor) {
  json line = failure("free_running__cuda0_float32_forward");
  line["details"] = {{"cause", "unmasked padding: other tokens"}, {"evidence", json::object()}};
  add(line);
  expect("explain free_running", 0, {"\ncause       unmasked padding: other tokens\n"});
}

TEST_F(AssayTest, ExplainsAKnownDefect) {
  json line = failure("conv2d__s11_d11_g1_p00__cpu_float32_forward");
  line["status"] = "KNOWN", line["defect"] = "made_up";
  add(line);
  const json defect{{"id", "made_up"},       {"operator", "conv2d"}, {"case", "*"},
                    {"variant", "*"},        {"device", "cpu"},      {"elements", 3},
                    {"report", "pytorch#1"}, {"got", "1.5"},         {"want", "1.25"},
                    {"why", "of a fault"}};
  std::ofstream(folder_ / "defects.json") << json{{"format", 1}, {"defects", {defect}}};
  expect("explain conv2d --known-defects defects.json", 0,
         {"KNOWN ", "made_up, a known wrong answer", "pytorch#1", "of a fault"});
  std::ofstream(folder_ / "defects.json") << json{{"format", 1}, {"defects", json::array()}};
  expect("explain conv2d --known-defects defects.json", 0, {"no longer lists"});
  expect("explain conv2d --known-defects nowhere.json", 2, {"cannot be read"});
}

TEST_F(AssayTest, ExplainsWhatNoGoldenKnows) {
  json line = record("no_such_operator__x__cpu", "CRASHED");
  line["gauge"] = nullptr, line["error"] = nullptr, line["bound"] = nullptr;
  line["effective_bits"] = nullptr, line["message"] = "killed by SIGSEGV";
  line["details"] = {{"layer", "conv1"}};
  add(line);
  expect("explain no_such", 0,
         {"CRASHED", "killed by SIGSEGV", "no element was compared", "conv1"});
}

TEST_F(AssayTest, ExplainsWhatDeterminismCanAndCannotExplain) {
  json line = record("repeated_training__small__cpu_float32_forward", "PASSED");
  const json spread{{"runs", 10}, {"differing", 0}};
  line["details"]["determinism"] = {{"verdict", "STABLE"}, {"promise", "equal bits"},
                                    {"source", "a page"},  {"kinds", {{"again", spread}}},
                                    {"rate", 0.5},         {"miss_probability", 0.00098}};
  add(line);
  expect("explain repeated_training", 0,
         {"promise     equal bits (a page)", "STABLE, 0 of 10 runs differ (again)",
          "differs in 50 % of its runs is missed with probability 0.00098"});
  const json distance{{"losses", {1e-8, 1.5e-7}}, {"parameters", 3e-7}};
  line["details"]["training"] = {{"distances", {{"cpu_float32", distance}}},
                                 {"growth", {{"losses", {8e-8, 4e-8, 3e-8, 2e-8, 9e-8}}}}};
  line["test"] = kPrefix + std::string("trained__small__cpu");
  add(line);
  expect("explain trained", 0,
         {"from the CPU's float32: 1.5e-07 in the last loss, 3e-07 in the weights",
          "8e-08 behind step 1, 9e-08 behind step 5", "32 % against 43 %", "padding", "dropout",
          "position_beyond_the_sequence"});
  EXPECT_TRUE(determinismInWords(json()).empty());
  EXPECT_TRUE(determinismInWords({{"rows", json::array()}}).empty());
}

TEST_F(AssayTest, ANameIsWholeOrUnique) {
  add(record("mm__k16__cpu_float32_forward", "PASSED"));
  add(record("mm__k16__cpu_float32_forward_strided", "PASSED"));
  add(record("mm__k32__cpu_float32_forward", "PASSED"));
  const std::string whole = kPrefix + std::string("mm__k16__cpu_float32_forward");
  for (const std::string& name :
       {whole, std::string("mm__k16__cpu_float32_forward"), std::string("k32"),
        std::string("'*k16*strided'"), std::string("'*mm__k3?_*'")}) {
    expect("explain " + name, 0, {"PASSED"});
  }
  expect("explain mm__k16__cpu_float32_forward", 0, {whole + "\n"});
  expect("explain k16", 2, {"\"k16\" means 2 checks", "forward_strided"});
  expect("explain '*mm__*'", 2, {"means 3 checks"});
  expect("explain zz", 2, {"no check of results/run is called \"zz\""});
}

TEST_F(AssayTest, OtherGoldensThanTheRunsAreTold) {
  add(record("conv2d__s11_d11_g1_p00__cpu_float32_forward", "PASSED"));
  std::ofstream(folder_ / "results/run/environment.json")
      << json{{"format", 1}, {"goldens_sha256", "0000"}};
  expect("explain conv2d", 0, {"are not those of the run"});
}

// ---- list

TEST_F(AssayTest, ListsOperators) {
  expect("list conv2d", 0,
         {"convolution\n", "aten::conv2d", "float32 ieee, float64 ieee: conditioned, bound 16",
          "float32 tf32", "modes: ", "sources: ", "1 operator in 1 family"});
  expect("list aten::conv2d", 0, {"1 operator in"});
  expect("list add", 0, {"aten::add.Tensor", "aten::add.Scalar", "2 operators in"});
  expect("list add.Tensor", 0, {"aten::add.Tensor", "1 operator in"});
  expect("list 'convolution/*' --family convolution --cases", 0, {"s11_d11_g1_p00", "input=["});
  const auto all = json::parse(assay("list --json").text, nullptr, false);
  ASSERT_TRUE(all.is_object());
  EXPECT_EQ(all["operators"].size(), readIndex(fs::path(ASSAY_SOURCE_DIR) / "golden").size());
  EXPECT_EQ(all["totals"]["operators"], all["operators"].size());
  const auto one = json::parse(assay("list conv2d --json --cases").text, nullptr, false);
  EXPECT_TRUE(one["operators"][0]["cases"].is_array());
  EXPECT_EQ(one["operators"][0]["tolerance"]["float32"]["ieee"]["gauge"], "conditioned");
}

TEST_F(AssayTest, AnAlteredGoldenIsNamed) {
  fs::create_directories(folder_ / "golden");
  std::ofstream(folder_ / "golden/a.json") << "{}";
  const json row{{"operator", "a"}, {"family", "f"}, {"json", "a.json"}, {"sha256", "00"}};
  std::ofstream(folder_ / "golden/index.json") << json{{"format", 1}, {"operators", {row}}};
  expect("list --goldens golden", 2, {"a.json does not match its hash"});
  std::ofstream(folder_ / "golden/index.json") << "{";
  expect("list --goldens golden", 2, {"index.json is not of format 1"});
}

// ---- env

TEST_F(AssayTest, ShowsTheManifestOfARun) {
  const json environment{{"format", 1},
                         {"host", "runner7"},
                         {"driver", "580.159.04"},
                         {"gpus", {{{"device", "cuda:0"}, {"name", "H200"}, {"ecc", true}}}},
                         {"fault", "ignore-ieee"}};
  std::ofstream(folder_ / "results/run/environment.json") << environment;
  expect("env run", 0, {"runner7", "580.159.04", "cuda:0", "H200", "ecc", "planted fault"});
  EXPECT_EQ(json::parse(assay("env run --json").text, nullptr, false), environment);
  fs::remove(folder_ / "results/run/environment.json");
  expect("env run", 2, {"there is no environment.json"});
}

TEST_F(AssayTest, ResourcesForCTest) {
  const auto gpus = [&](const json& list) {
    std::ofstream(folder_ / "results/run/environment.json")
        << json{{"format", 1}, {"gpus", list}, {"gpu_problem", "no driver"}};
  };
  gpus({{{"device", "cuda:0"}}, {{"device", "cuda:1"}}});
  expect("resources run --slots 3 -o spec.json", 0, {});
  std::ifstream file(folder_ / "spec.json");
  EXPECT_EQ(json::parse(file), json::parse(R"({"version": {"major": 1, "minor": 0},
      "local": [{"gpus": [{"id": "0", "slots": 3}, {"id": "1", "slots": 3}]}]})"));
  expect("resources run", 0, {R"("slots": 1)"});
  expect("resources run -o nowhere/spec.json", 2, {"nowhere/spec.json"});
  expect("resources run --slots 0", 2, {"--slots"});
  gpus(json::array());
  expect("resources run", 2, {"no GPU to spread suites over: no driver"});
}

// The plan of the run says that its suites took a minute.
TEST_F(AssayTest, TheSpeedUpOfSeveralGpus) {
  for (const char* device : {"cuda", "cuda0", "cuda1"}) {  // the first: a skip for want of GPUs
    json line = record("a__b__" + std::string(device) + "_float32", "PASSED");
    line["device"] = device, line["seconds"] = 54;
    append(line.dump() + "\n", "convolution." + std::string(device) + ".jsonl");
    const bool told = assay("summary").text.find("at once") != std::string::npos;
    EXPECT_EQ(told, std::string(device) == "cuda1");
  }
  expect("summary", 0, {"2 GPUs: 108 s of checks in 60 s, 1.8 at once"});
}

TEST_F(AssayTest, ShowsThisMachine) {
  expect("env", 0, {"libtorch", "cudnn", "capability"});
  const auto environment = json::parse(assay("env --json").text, nullptr, false);
  ASSERT_TRUE(environment.is_object());
  EXPECT_TRUE(environment["libtorch"]["loaded"].is_string());
  fs::copy_file(ASSAY_PROGRAM, folder_ / "alone");
  const auto alone = runCommand(shellQuoted((folder_ / "alone").string()) + " env 2>&1");
  EXPECT_EQ(alone.code, 2);
  EXPECT_NE(alone.text.find("assay_probe is not there"), std::string::npos) << alone.text;
  std::ofstream(folder_ / "assay_probe") << "#!/bin/sh\nexit 127\n";
  fs::permissions(folder_ / "assay_probe", fs::perms::owner_all);
  const auto bare = runCommand(shellQuoted((folder_ / "alone").string()) + " env 2>&1");
  EXPECT_EQ(bare.code, 2);
  EXPECT_NE(bare.text.find("LD_LIBRARY_PATH"), std::string::npos) << bare.text;
}

// ---- the library

TEST_F(AssayTest, ReadsEveryField) {
  json line = failure("conv2d__x__cpu");
  line["error"] = "inf", line["effective_bits"] = "nan", line["defect"] = "d",
  line["reason"] = "r \" ü";
  add(record("a__x__cpu", "PASSED"));
  add(line);
  const auto run = readRun(folder_ / "results/run");
  ASSERT_EQ(run.checks.size(), 2U);
  const CheckRecord& check = run.checks[1];
  EXPECT_EQ(check.test, line["test"].get<std::string>());
  EXPECT_EQ(check.suite, "convolution");
  EXPECT_EQ(check.operatorName, "conv2d");
  EXPECT_EQ(check.caseName, "s11_d11_g1_p00");
  EXPECT_EQ(check.variantName, "cpu_float32_forward");
  EXPECT_EQ(check.status, Status::kFailed);
  EXPECT_EQ(check.reason, "r \" ü");
  EXPECT_EQ(check.gauge, "conditioned");
  EXPECT_TRUE(std::isinf(check.error));
  EXPECT_EQ(check.bound, 16);
  EXPECT_TRUE(std::isnan(check.effectiveBits));
  EXPECT_EQ(check.failing, 3);
  EXPECT_EQ(check.checked, 40);
  EXPECT_EQ(check.seconds, 1e-3);
  EXPECT_EQ(check.defect, "d");
  EXPECT_EQ(check.line, 2U);
  EXPECT_EQ(run.whole(check), line);
  fs::resize_file(run.files[0], 10);
  EXPECT_THROW((void)run.whole(check), Problem);
}

// A field of the same name deeper in the record is another field.
TEST_F(AssayTest, NestedFieldsAreNotTheRecords) {
  json line = record("a__x__cpu", "PASSED");
  line["details"] = {{"status", "FAILED"}, {"test", "other"}, {"error", 99}};
  add(line);
  const auto run = readRun(folder_ / "results/run");
  EXPECT_EQ(run.checks[0].status, Status::kPassed);
  EXPECT_EQ(run.checks[0].test, line["test"].get<std::string>());
  EXPECT_EQ(run.checks[0].error, 2);
}

TEST_F(AssayTest, FiftyThousandRecordsAreReadFast) {
  std::string text;
  for (int i = 0; i < 50'000; ++i)
    text += record("op__c" + std::to_string(i) + "__cpu", "PASSED").dump() + "\n";
  append(text);
  const std::clock_t start = std::clock();
  EXPECT_EQ(readRun(folder_ / "results/run").checks.size(), 50'000U);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 1.5)
      << "0.5 s of processor time where this was written";
}

TEST(Words, EveryAxisIsSpelled) {
  const json variant{{"device", "cuda1"},
                     {"dtype", "float32"},
                     {"direction", "backward"},
                     {"layout", "channels_last"},
                     {"form", "inplace"},
                     {"lengths", true},
                     {"math", "tf32"},
                     {"cudnn", false},
                     {"benchmark", true},
                     {"deterministic", true},
                     {"threads", 1},
                     {"train", false}};
  const std::string words = variantInWords(variant);
  for (const char* word :
       {"on GPU 1", "float32", "backward", "channels_last", "in-place", "lengths", "TF32 allowed",
        "cuDNN off", "benchmark", "deterministic", "one thread", "train = false"}) {
    EXPECT_NE(words.find(word), std::string::npos) << word << "\n" << words;
  }
}

TEST(Words, EffectiveBits) {
  EXPECT_NE(bitsInWords(11.2, "float32").find("as good as TF32"), std::string::npos);
  EXPECT_EQ(bitsInWords(23, "float32").find("as good as TF32"), std::string::npos);
  EXPECT_NE(bitsInWords(52, "float64").find("53"), std::string::npos);
  EXPECT_EQ(bitsInWords(std::nan(""), "float64"), "");
}

}  // namespace
}  // namespace assay
