// The report: what makes a run good, what its three forms hold, and its speed.
#include "tools/assay/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>

#include "fixtures/core/command.h"
#include "tools/tests/run_folder.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json record(const std::string& test, const std::string& status) {
  return {{"test", "Matmul/T.C/" + test},
          {"suite", "matmul"},
          {"device", "cuda0"},
          {"operator", "mm"},
          {"case", "k16"},
          {"variant_name", "cuda0_float32_forward"},
          {"status", status},
          {"message", status == "FAILED" ? "3 of 4 <elements> & \"more\" wrong </script>" : ""},
          {"defect", status == "KNOWN" ? "mm-wrong" : ""},
          {"reason", status == "SKIPPED" ? "NO_CUDNN" : ""},
          {"sha256", "00"},
          {"error", 2.0},
          {"bound", 16.0},
          {"effective_bits", 22.5},
          {"worst", {{{"index", {1, 2}}, {"got", 1.5}, {"want", "nan"}, {"error", "inf"}}}},
          {"repro", "build/matmul_suite"},
          {"seconds", 0.25}};
}

json manifest() {
  return {{"format", 1},
          {"assay", "0.1.0"},
          {"fault", nullptr},
          {"host", "a"},
          {"libtorch", {{"loaded", "2.11.0"}}}};
}

class Report : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("assay_report_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    environment(manifest());
  }
  void TearDown() override { fs::remove_all(folder_); }

  void environment(const json& manifest) const {
    std::ofstream(folder_ / "environment.json") << manifest;
  }
  void add(const std::string& text) const {
    std::ofstream(folder_ / "matmul.cuda0.jsonl", std::ios::app) << text;
  }
  void add(const json& line) const { add(line.dump() + "\n"); }
  CommandOutput assay(const std::string& arguments = "") const {
    if (plans_) writePlans(folder_);
    return runCommand(shellQuoted(ASSAY_PROGRAM) + " report " + shellQuoted(folder_.string()) +
                      " " + arguments + " 2>&1");
  }
  std::string file(const std::string& name) const {
    std::ifstream in(folder_ / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // The verdict of the run as it stands.
  void expectVerdict(const std::string& verdict, int code) const {
    const auto output = assay();
    EXPECT_EQ(output.code, code) << output.text;
    EXPECT_NE(output.text.find(verdict + "\n"), std::string::npos) << output.text;
    EXPECT_NE(file("report.md").find("# Assay: " + verdict), std::string::npos);
    EXPECT_NE(file("report.html").find("\"verdict\":\"" + verdict + "\""), std::string::npos);
  }

  fs::path folder_;
  bool plans_ = true;  // write the plans that the records fulfil
};

TEST_F(Report, AGoodRun) {
  add(record("a", "PASSED"));
  add(record("b", "KNOWN"));
  add(record("c", "SKIPPED"));
  expectVerdict("PASSED", 0);
  EXPECT_NE(file("junit.xml").find("tests=\"3\" failures=\"0\" errors=\"0\" skipped=\"2\""),
            std::string::npos);
  EXPECT_NE(file("junit.xml").find("known defect mm-wrong"), std::string::npos);
}

TEST_F(Report, WhatIsNotGood) {
  add(record("c", "SKIPPED"));
  expectVerdict("NOTHING WAS CHECKED", 1);
  add(record("a", "PASSED"));
  expectVerdict("PASSED", 0);
  auto planted = manifest();
  planted["fault"] = "ignore-ieee";
  environment(planted);
  expectVerdict("NOT A VALID RUN", 1);
  fs::remove(folder_ / "environment.json");
  expectVerdict("NOT A VALID RUN", 1);
  environment({{"format", 1}, {"fault", nullptr}});
  expectVerdict("NOT A VALID RUN", 1);
  environment(manifest());
  expectVerdict("PASSED", 0);
  add(std::string(R"({"test": "Mat)"));
  expectVerdict("NOT A VALID RUN", 1);
  EXPECT_NE(file("junit.xml").find("breaks off"), std::string::npos);
}

// Records are measured against what the suite set out for.
TEST_F(Report, RecordsThatAreNotWhatWasPlanned) {
  const auto expectLost = [&](const std::string& words) {
    expectVerdict("NOT A VALID RUN", 1);
    EXPECT_NE(file("report.md").find(words), std::string::npos) << file("report.md");
  };
  plans_ = false;
  add(record("a", "PASSED"));
  add(record("b", "PASSED"));
  expectLost("has no plan beside it");
  writePlans(folder_);
  expectVerdict("PASSED", 0);
  const auto plan = [&](const std::string& field, const json& value) {
    writePlans(folder_);
    json one = json::parse(file("matmul.cuda.plan.json"));
    one[field] = value;
    std::ofstream(folder_ / "matmul.cuda.plan.json") << one;
  };
  plan("ended", nullptr);
  expectLost("2 of 2 checks are recorded, and the suite did not end");
  plan("checks", 3);
  expectLost("3 checks were planned, 2 are recorded");
  plan("tests_sha256", std::string(64, '0'));
  expectLost("of other checks than were planned");
  plan("exit_code", 1);
  expectLost("exit code 1, and no check failed");
  plan("problem", "a golden of format 7");
  expectLost("could not run: a golden of format 7");
  plan("format", 2);
  expectLost("is no plan of format 1");
  plan("suite", "other");
  expectLost("is another suite's plan");
  writePlans(folder_);
  std::ofstream(folder_ / "conv.cpu.plan.json").flush();
  expectLost("conv.cpu.plan.json is empty");
  fs::remove(folder_ / "conv.cpu.plan.json");
  expectVerdict("PASSED", 0);
}

// The smoke subset may stand beside the whole suite: its checks count once.
TEST_F(Report, ASmokeRunBesideTheWholeOne) {
  add(record("a", "PASSED"));
  fs::copy(folder_ / "matmul.cuda0.jsonl", folder_ / "matmul.smoke.cuda0.jsonl");
  expectVerdict("PASSED", 0);
  EXPECT_NE(file("junit.xml").find("tests=\"1\""), std::string::npos);
}

TEST_F(Report, AnEmptyFileIsALostSuite) {
  add(record("a", "PASSED"));
  std::ofstream(folder_ / "conv.cuda0.jsonl").flush();
  expectVerdict("NOT A VALID RUN", 1);
  EXPECT_NE(file("report.md").find("conv.cuda0.jsonl is empty"), std::string::npos);
}

// A failure that a second run into the same folder hides.
TEST_F(Report, AFailureThatThenPassed) {
  add(record("a", "FAILED"));
  add(record("a", "PASSED"));
  expectVerdict("NOT A VALID RUN", 1);
  EXPECT_NE(file("report.md").find("failed, and did not when it ran again"), std::string::npos);
}

TEST_F(Report, ARecordThatContradictsItself) {
  auto line = record("a", "PASSED");
  line["error"] = 500;
  add(line);
  const auto output = assay();
  EXPECT_EQ(output.code, 2);
  EXPECT_NE(output.text.find("says PASSED beyond its bound"), std::string::npos) << output.text;
}

TEST_F(Report, FailuresOfEveryKind) {
  for (const char* status : {"FAILED", "CRASHED", "FIXED"}) {
    fs::remove(folder_ / "matmul.cuda0.jsonl");
    add(record("a", "PASSED"));
    add(record("b", status));
    expectVerdict("FAILED", 1);
  }
}

TEST_F(Report, AWaiverAcceptsAFailureAndMustStayTrue) {
  add(record("a", "PASSED"));
  add(record("b", "FAILED"));
  const auto waive = [&](const std::string& test) {
    std::ofstream(folder_ / "waivers") << json{{"format", 1},
                                               {"waivers",
                                                {{{"id", "w"},
                                                  {"test", test},
                                                  {"reason", "a reason"},
                                                  {"owner", "a team"},
                                                  {"expires", "2999-12-31"}}}}};
    return assay("--waivers " + shellQuoted((folder_ / "waivers").string()));
  };
  EXPECT_EQ(waive("b").code, 0);
  EXPECT_NE(file("report.html").find("waiver w"), std::string::npos);
  EXPECT_NE(file("report.md").find("waiver w covers 1 failed check"), std::string::npos);
  EXPECT_EQ(waive("*").code, 1);  // it covers one that passes
  EXPECT_NE(file("report.md").find("which passes: narrow it"), std::string::npos);
  EXPECT_EQ(waive("c").code, 1);  // it covers nothing
  EXPECT_EQ(waive("").code, 2);
}

TEST_F(Report, ExactInfiniteAndUnavailableChecksAreShown) {
  auto exact = record("a", "FAILED");
  exact["bound"] = 0, exact["error"] = 3;
  add(exact);
  auto infinite = record("b", "FAILED");
  infinite["error"] = "inf";
  add(infinite);
  auto missing = record("c", "UNAVAILABLE");
  missing["reason"] = "this LibTorch has no aten::qr";
  add(missing);
  EXPECT_EQ(assay().code, 1);
  const auto page = file("report.html");
  EXPECT_NE(page.find("[\"not\",1,true]"), std::string::npos);
  EXPECT_NE(page.find("[\"mm\",1,\"this LibTorch has no aten::qr\"]"), std::string::npos);
  EXPECT_NE(page.find("\"∞\""), std::string::npos);
}

// The same check on two GPUs; one operator's bytes differ.
TEST_F(Report, GpusAreComparedWithEachOther) {
  for (const char* test : {"same", "other"}) {
    for (const char* device : {"cuda0", "cuda1"}) {
      auto line = record(std::string(test) + device, "PASSED");
      line["case"] = test, line["device"] = device, line["operator"] = test;
      line["variant_name"] = std::string(device) + "_float32_forward";
      if (std::string(test) + device == "othercuda1") line["sha256"] = "01";
      add(line);
    }
  }
  EXPECT_EQ(assay().code, 0);
  const std::string words = "between GPUs: 2 checks, 1 with equal bytes; different: other (1)";
  EXPECT_NE(file("report.md").find(words + "\n"), std::string::npos) << file("report.md");
  auto unlike = manifest();
  unlike["gpus"] = {{{"name", "one"}}, {{"name", "another"}}};
  environment(unlike);
  EXPECT_EQ(assay().code, 0);
  EXPECT_NE(file("report.md").find(words + " (the GPUs are of different kinds"), std::string::npos);
}

TEST_F(Report, TextOfRecordsStaysText) {
  add(record("b", "FAILED"));
  assay();
  const auto page = file("report.html");
  EXPECT_EQ(page.find("wrong </script>"), std::string::npos);  // it would end the data
  EXPECT_NE(page.find("wrong \\u003c/script>"), std::string::npos);
  EXPECT_EQ(page.find("http://") == std::string::npos,
            page.find("http://www.w3.org") == std::string::npos);  // a name, not an address
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_NE(file("junit.xml").find("3 of 4 &lt;elements&gt; &amp; &quot;more&quot; wrong"),
            std::string::npos);
}

TEST_F(Report, FiftyThousandChecks) {
  std::string text;
  for (int k = 0; k < 50000; ++k) text += record("x" + std::to_string(k), "PASSED").dump() + "\n";
  add(text);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(assay().code, 0);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 5);
}

TEST_F(Report, FilesThatCannotBeWritten) {
  add(record("a", "PASSED"));
  const auto output = assay("--html /no/such/folder/x.html");
  EXPECT_EQ(output.code, 2);
  EXPECT_NE(output.text.find("cannot write /no/such/folder/x.html"), std::string::npos);
}

}  // namespace
}  // namespace assay
