// Bundles of evidence: what a genuine one proves, and each kind of tampering.
#include "tools/assay/bundle.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "fixtures/core/command.h"
#include "fixtures/core/files.h"
#include "fixtures/core/known_defects.h"
#include "fixtures/core/sha256.h"
#include "tools/assay/archive.h"
#include "tools/assay/goldens.h"
#include "tools/assay/profile.h"
#include "tools/assay/registered.h"
#include "tools/tests/run_folder.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A real run of a suite with operator goldens and of one without, made once; each test tampers with
// a copy.
class Bundle : public testing::Test {
 protected:
  static fs::path home() {
    return fs::path(testing::TempDir()) / ("assay_bundle_" + std::to_string(getpid()));
  }
  static void SetUpTestSuite() {
    fs::remove_all(home());
    fs::create_directories(home());
    for (const char* suite : {ASSAY_MATMUL_SUITE, ASSAY_API_SURFACE_SUITE}) {
      const auto output =
          runCommand("env -u ASSAY_RESULTS -u ASSAY_RUN_FILE " + std::string(suite) +
                     " --device cpu --store all --gtest_brief=1 --results " +
                     shellQuoted((home() / "genuine").string()) + " 2>&1");
      ASSERT_EQ(output.code, 0) << output.text;
    }
    // The sources under test may have uncommitted changes, which a verifier does not accept.
    edit(home() / "genuine/environment.json", [](json& one) { one["assay"] = "0.1.0+g0123456"; });
  }
  static void TearDownTestSuite() { fs::remove_all(home()); }

  void SetUp() override {
    fs::remove_all(run_);
    fs::copy(home() / "genuine", run_);
    fs::remove(bundle_);
  }

  static void edit(const fs::path& path, const std::function<void(json&)>& change) {
    json one = json::parse(readFile(path).value_or(""));
    change(one);
    std::ofstream(path) << one;
  }

  // The record file's lines through `change`, which may empty one to drop it; the plan follows.
  void forge(const std::function<void(json&)>& change, const std::string& only = "",
             const std::string& suite = "matmul") const {
    const auto file = run_ / (suite + ".cpu.jsonl");
    std::ifstream in(file);
    std::string text;
    bool done = false;
    for (std::string line; std::getline(in, line);) {
      if (only.empty() || (!done && line.find(only) != std::string::npos)) {
        json record = json::parse(line);
        change(record);
        done = true;
        line = record.is_null() ? "" : record.dump();
      }
      if (!line.empty()) text += line + "\n";
    }
    ASSERT_TRUE(done) << only;
    in.close();
    std::ofstream(file) << text;
    rewritePlans();
  }
  // The plans of the records as they are now, outputs kept as before.
  void rewritePlans() const {
    writePlans(run_);
    for (const auto& entry : fs::directory_iterator(run_)) {
      if (entry.path().string().ends_with(".plan.json"))
        edit(entry.path(), [](json& plan) { plan["store"] = "all"; });
    }
  }

  CommandOutput assay(const std::string& arguments) const {
    return runCommand("cd " + shellQuoted(home().string()) + " && " + shellQuoted(ASSAY_PROGRAM) +
                      " " + arguments + " 2>&1");
  }
  void pack(const std::string& arguments = "run") const {
    const auto output = assay("bundle " + arguments + " -o bundle");
    ASSERT_EQ(output.code, 0) << output.text;
  }
  void expect(int code, const std::string& words, const std::string& arguments = "") const {
    const auto output = assay("verify bundle --assay 0.1.0+g0123456 " + arguments);
    EXPECT_EQ(output.code, code) << output.text;
    EXPECT_NE(output.text.find(words), std::string::npos) << words << "\n" << output.text;
  }
  // Packed as it is now, it is refused for this.
  void expectForged(const std::string& words) const {
    pack();
    expect(1, words);
  }
  // The finished bundle's files through `change`.
  void alter(const std::function<void(ArchiveFiles&)>& change) const {
    auto files = unpackArchive(bundle_);
    change(files);
    packArchive(bundle_, files);
  }

  const fs::path run_ = home() / "run", bundle_ = home() / "bundle";
  const std::string mm_ = "/mm__m16_k16_n16__cpu_float32_forward\"";
};

TEST_F(Bundle, AGenuineOneIsAccepted) {
  pack();
  expect(0, "ACCEPT");
  expect(0, "outputs compared with them again", "--json verdict.json");
  EXPECT_EQ(json::parse(readFile(home() / "verdict.json").value_or(""))["verdict"], "ACCEPT");
  expect(0, "not signed");
}

TEST_F(Bundle, IsTheSameWhenMadeAgain) {
  pack();
  alter([](ArchiveFiles& files) {
    EXPECT_EQ(files.count("runs/1/matmul.cpu.outputs"), 1U);
    EXPECT_EQ(files.count("golden-index.json"), 1U);
  });
  expect(0, "ACCEPT");
}

TEST_F(Bundle, AlteredBytesAreSeen) {
  pack();
  alter([](ArchiveFiles& files) { files["runs/1/matmul.cpu.jsonl"][10] ^= 1; });
  expect(1, "matmul.cpu.jsonl was altered");
  pack();
  alter([](ArchiveFiles& files) { files.erase("runs/1/matmul.cpu.outputs"); });
  expect(1, "in the manifest and not in the bundle");
  pack();
  alter([](ArchiveFiles& files) { files["runs/1/more.cpu.jsonl"] = "{}\n"; });
  expect(1, "is not in the manifest");
}

TEST_F(Bundle, WhatIsNoBundle) {
  expect(2, "cannot read");
  std::ofstream(bundle_) << "no archive";
  expect(2, "cannot read bundle: Unrecognized archive format");
  pack();
  const auto whole = readFile(bundle_).value_or("");
  std::ofstream(bundle_, std::ios::binary) << whole.substr(0, whole.size() / 2);
  expect(2, "damaged");
  packArchive(bundle_, {{"a", "b"}});
  expect(2, "no manifest");
  for (const char* name : {"../a", "/a", "a/../../b"}) {
    packArchive(bundle_, {{name, "b"}});
    expect(2, "the entry");
  }
  const auto tar = [&](const std::string& commands) {
    const auto output = runCommand("cd " + shellQuoted(home().string()) +
                                   " && echo x >twice && ln -sf twice link && rm -f bundle && " +
                                   commands + " 2>&1");
    ASSERT_EQ(output.code, 0) << output.text;
  };
  tar("tar cf bundle twice && tar rf bundle twice");
  expect(2, "occurs twice");
  tar("tar cf bundle link");
  expect(2, "is no plain file");
}

TEST_F(Bundle, ARunThatIsNotWholeIsNoEvidence) {
  edit(run_ / "matmul.cpu.plan.json", [](json& plan) { plan["ended"] = nullptr; });
  const auto output = assay("bundle run -o bundle");
  EXPECT_EQ(output.code, 2);
  EXPECT_NE(output.text.find("did not end"), std::string::npos) << output.text;
  fs::remove(run_ / "environment.json");
  EXPECT_EQ(assay("bundle run -o bundle").code, 2);
  EXPECT_EQ(assay("bundle nothing -o bundle").code, 2);
  EXPECT_EQ(assay("bundle genuine -o no/such/folder/bundle").code, 2);
}

TEST_F(Bundle, AnEditedFigureIsSeen) {
  forge([](json& one) { one["error"] = one["error"].get<double>() / 2; }, mm_);
  expectForged("the recorded error is");
}

TEST_F(Bundle, ARaisedBoundIsSeen) {
  forge([](json& one) { one["bound"] = 40000; }, mm_);
  expectForged("the golden's is");
}

// The output itself exchanged, with its digest: the error is the golden's to tell.
TEST_F(Bundle, AWrongOutputThatSaysPassedIsSeen) {
  auto outputs = readFile(run_ / "matmul.cpu.outputs").value_or("");
  forge(
      [&](json& one) {
        const auto& stored = one["stored"][0];
        const auto offset = stored["offset"].get<size_t>(), size = stored["bytes"].get<size_t>();
        outputs[offset + 2] = static_cast<char>(outputs[offset + 2] ^ 0x40);
        one["sha256"] = sha256Hex(outputs.substr(offset, size));
      },
      mm_);
  std::ofstream(run_ / "matmul.cpu.outputs", std::ios::binary) << outputs;
  expectForged("says PASSED, and output 0 has an error of");
}

TEST_F(Bundle, OutputsThatAreNotTheOnesOfTheDigest) {
  forge([](json& one) { one["sha256"] = std::string(64, '0'); }, mm_);
  expectForged("not the ones of its digest");
  SetUp();
  fs::resize_file(run_ / "matmul.cpu.outputs", 100);
  expectForged("are cut off");
  SetUp();
  forge([](json& one) { one["stored"] = nullptr; });
  expectForged("were to be kept");
  edit(run_ / "matmul.cpu.plan.json", [](json& plan) { plan["store"] = "none"; });
  expectForged("kept no output");
}

TEST_F(Bundle, ADroppedCheckIsSeenThoughThePlanWasRewritten) {
  forge([](json& one) { one = nullptr; }, mm_);
  expectForged("a check that its golden asks for has no record");
  SetUp();
  forge([](json& one) { one = nullptr; }, "/mm__m16_k16_n16__cpu_float64_backward_transposed\"");
  expectForged("a check that its golden asks for has no record");
}

// A suite without operator goldens is held against suites/checks.json.
TEST_F(Bundle, ACheckThatASuiteRegistersMustBeThere) {
  const auto drop = [](json& one) { one = nullptr; };
  forge(drop, "/add__at__cpu_float32_forward\"", "api_surface");
  expectForged("api_surface on cpu: 1 of 2 checks of add are recorded");
  SetUp();
  forge([](json& one) { one = one["operator"] == "add" ? json() : one; }, "", "api_surface");
  expectForged("0 of 2 checks of add are recorded");
  SetUp();
  forge(
      [](json& one) {
        auto test = one["test"].get<std::string>();
        one["test"] = test.replace(test.find("add__at"), 7, "add__it");
        one["case"] = "it";
      },
      "/add__at__cpu_float32_forward\"", "api_surface");
  expectForged("the checks of add are other ones than the suite registers");
  SetUp();
  forge(
      [](json& one) {
        auto test = one["test"].get<std::string>();
        one["test"] = test.replace(test.find("add__at"), 3, "odd");
        one["operator"] = "odd";
      },
      "/add__at__cpu_float32_forward\"", "api_surface");
  expectForged("the suite registers no check of odd");
  SetUp();
  forge([](json& one) { one["suite"] = "invented"; }, "", "api_surface");
  for (const char* ending : {".cpu.jsonl", ".cpu.plan.json"})
    fs::rename(run_ / ("api_surface" + std::string(ending)),
               run_ / ("invented" + std::string(ending)));
  rewritePlans();
  expectForged("invented: this Assay has no such suite");
}

TEST_F(Bundle, TheListOfChecksIsTheVerifiers) {
  pack();
  expect(2, "name the list of checks with --checks", "--checks nowhere.json");
  std::ofstream(home() / "checks.json") << R"({"format": 1, "suites": []})";
  expect(2, "no list of checks of format 1", "--checks checks.json");
  std::ofstream(home() / "checks.json")
      << R"({"format": 1, "suites": {"api_surface": {"cpu": 5}}})";
  expect(2, "\"suites/api_surface/cpu\" must be an object, and is 5", "--checks checks.json");
  std::ofstream(home() / "checks.json") << R"({"format": 1, "suites": {}})";
  expect(1, "api_surface: this Assay has no such suite", "--checks checks.json");
}

// Each GPU of the manifest, all of them together, and what a library tells itself.
TEST(Registered, ChecksOfGpus) {
  const auto path = fs::path(testing::TempDir()) / ("registered_" + std::to_string(getpid()));
  const auto hash = [](std::vector<std::string> names) { return hashOfTests(std::move(names)); };
  const json group{1, hash({"S.T/op__c__cuda0_float32_forward"})};
  const json pair{1, hash({"S.T/copy__cuda0_to_cuda1__cuda0_float32_forward"})};
  std::ofstream(path) << json{
      {"format", 1},
      {"suites",
       {{"each", {{"cuda", {{"op", group}}}}},
        {"open", {{"open", true}, {"cuda", {{"op", {"S.T/op__c__cuda0_float32_forward"}}}}}},
        {"all", {{"gpus", {{"2", {{"copy", pair}}}}}}}}}};
  const RegisteredChecks checks(path);
  fs::remove(path);
  const std::vector<std::string> gpus{"cuda0", "cuda1"};
  EXPECT_EQ(checks.devices("each", "cuda", gpus), gpus);
  EXPECT_EQ(checks.devices("all", "cuda", gpus), std::vector<std::string>{"cuda0"});
  EXPECT_TRUE(checks.devices("each", "cuda", {}).empty());  // no GPU: all is skipped
  EXPECT_TRUE(checks.devices("each", "cpu", gpus).empty());
  EXPECT_FALSE(checks.knows("other"));
  using Tests = std::map<std::string, std::vector<std::string>>;
  const auto op = [](const std::string& device) {
    return Tests{{"op", {"S.T/op__c__" + device + "_float32_forward"}}};
  };
  for (const char* device : {"cuda0", "cuda1", "cuda10"})
    EXPECT_TRUE(checks.differences("each", device, 2, op(device)).empty()) << device;
  EXPECT_EQ(checks.differences("each", "cuda1", 2, op("cuda10")).size(), 1U);
  EXPECT_EQ(checks.differences("each", "cuda1", 2, {}),
            std::vector<std::string>{"0 of 1 checks of op are recorded"});
  Tests more = op("cuda0");
  more["algorithm"] = {"S.T/algorithm__c__cuda0_float32_forward"};
  EXPECT_EQ(checks.differences("each", "cuda0", 2, more).size(), 1U);
  EXPECT_TRUE(checks.differences("open", "cuda0", 2, more).empty());
  more["op"].push_back("S.T/op__engine7__cuda0_float32_forward");
  EXPECT_TRUE(checks.differences("open", "cuda0", 2, more).empty());
  EXPECT_EQ(checks.differences("open", "cuda0", 2, {}),
            std::vector<std::string>{"1 of 1 checks of op are not recorded"});
  const Tests copies{{"copy", {"S.T/copy__cuda0_to_cuda1__cuda0_float32_forward"}}};
  EXPECT_TRUE(checks.differences("all", "cuda0", 1, copies).empty());  // skipped, under two's names
  EXPECT_TRUE(checks.differences("all", "cuda0", 2, copies).empty());
  EXPECT_THROW((void)checks.differences("all", "cuda0", 3, copies), Problem);
}

TEST_F(Bundle, AFailureIsNoAcceptance) {
  forge([](json& one) { one["status"] = "FAILED"; }, mm_);
  expectForged("1 check failed: Matmul/OperatorTest.Conforms/mm__");
}

TEST_F(Bundle, AnInventedKnownDefectIsSeen) {
  forge([](json& one) { one["status"] = "KNOWN", one["defect"] = "mm-is-wrong"; }, mm_);
  expectForged("no known defect mm-is-wrong covers it here");
}

TEST_F(Bundle, AnInventedSkipIsSeen) {
  forge([](json& one) { one["status"] = "SKIPPED", one["reason"] = "NO_TIME"; }, mm_);
  expectForged("skipped for \"NO_TIME\"");
}

// Run on the CPU, claimed for a GPU.
TEST_F(Bundle, AnotherDeviceThanClaimedIsSeen) {
  forge([](json& one) { one["device"] = "cuda0"; }, mm_);
  expectForged("in the file of another device");
  SetUp();
  forge([](json& one) {
    for (const char* field : {"test", "variant_name", "device"}) {
      auto text = one[field].get<std::string>();
      text.replace(text.rfind("cpu"), 3, "cuda0");
      one[field] = text;
    }
    one["variant"]["device"] = "cuda0";
  });
  fs::rename(run_ / "matmul.cpu.jsonl", run_ / "matmul.cuda0.jsonl");
  fs::rename(run_ / "matmul.cpu.outputs", run_ / "matmul.cuda0.outputs");
  rewritePlans();
  expectForged("its GPU is not among those of environment.json");
}

// Whatever is renamed, cut out or given another type to keep the arithmetic from being done.
TEST_F(Bundle, ADodgeIsSeen) {
  const std::vector<std::pair<std::function<void(json&)>, std::string>> dodges{
      {[](json& one) { one["variant"] = nullptr; }, "missing or of the wrong type"},
      {[](json& one) { one["variant"]["lengths"] = "no"; },
       "\"variant/lengths\" must be true or false"},
      {[](json& one) { one["variant_name"] = ""; }, "names no variant or device"},
      {[](json& one) { one["device"] = "cuda"; }, "names no device"},
      {[](json& one) { one["bound"] = "inf"; }, "beyond its bound"},
      {[](json& one) { one["error"] = -1; }, "beyond its bound"},
      {[](json& one) { one["what"] = "output 99", one["bound"] = 1e9; }, "the golden knows no"},
      {[](json& one) { one["gauge"] = "statistical", one["bound"] = 1e9; }, "the golden's is"},
      {[](json& one) { one["gauge"] = nullptr, one["bound"] = nullptr; }, "nothing was compared"},
      {[](json& one) { one["stored"][0]["what"] = "output 7"; }, "the golden knows no"},
      {[](json& one) { one["stored"][0]["dtype"] = "Half"; }, "it must be Float"},
      {[](json& one) { one["stored"] = json::array(); }, "of the wrong type"},
      {[](json& one) { one["stored"] = {5}; }, "\"stored/0\" must be an object, and is 5"},
      {[](json& one) { one["stored"] = nullptr; }, "were to be kept"},
      {[](json& one) { one["status"] = "SKIPPED", one["reason"] = "NO_DETERMINISTIC_KERNEL"; },
       "no reason here"},
      {[](json& one) { one["status"] = "SKIPPED", one["reason"] = "TOO_FEW_GPUS"; },
       "no reason here"}};
  for (const auto& [dodge, words] : dodges) {
    SetUp();
    forge(dodge, mm_);
    expectForged(words);
  }
}

// A result full of infinities, with its digest.
TEST_F(Bundle, AnInfiniteOutputIsCompared) {
  auto outputs = readFile(run_ / "matmul.cpu.outputs").value_or("");
  forge(
      [&](json& one) {
        const auto offset = one["stored"][0]["offset"].get<size_t>();
        const auto size = one["stored"][0]["bytes"].get<size_t>();
        for (size_t i = 0; i < size; i += 4) outputs.replace(offset + i, 4, "\0\0\x80\x7f", 4);
        one["sha256"] = sha256Hex(outputs.substr(offset, size));
      },
      mm_);
  std::ofstream(run_ / "matmul.cpu.outputs", std::ios::binary) << outputs;
  expectForged("says PASSED, and output 0 has an error of inf");
}

// What the reader itself refuses.
TEST_F(Bundle, ARecordMustBeOneThing) {
  const auto with = [&](const std::string& field, const std::string& other) {
    SetUp();
    auto text = readFile(run_ / "matmul.cpu.jsonl").value_or("");
    const auto at = text.find("\"" + field + "\"");
    ASSERT_NE(at, std::string::npos);
    text.insert(at, other + ",");
    std::ofstream(run_ / "matmul.cpu.jsonl") << text;
    const auto output = assay("bundle run -o bundle");
    EXPECT_EQ(output.code, 2) << other << output.text;
    EXPECT_NE(output.text.find("matmul.cpu.jsonl, line 1"), std::string::npos) << output.text;
  };
  with("status", R"("status":"FAILED")");
  with("details", R"("more":)" + std::string(300, '[') + std::string(300, ']'));
  with("details", R"("more":)" + std::string(300000, '[') + std::string(300000, ']'));
  forge([](json& one) { one["failing"] = -3; }, mm_);
  EXPECT_EQ(assay("bundle run -o bundle").code, 2);
}

TEST_F(Bundle, AnExitCodeThatNoSuiteHas) {
  edit(run_ / "matmul.cpu.plan.json", [](json& plan) { plan["exit_code"] = 139; });
  const auto output = assay("bundle run -o bundle");
  EXPECT_EQ(output.code, 2);
  EXPECT_NE(output.text.find("which no suite has"), std::string::npos) << output.text;
}

TEST_F(Bundle, TextOfABundleDoesNotMoveTheCursor) {
  edit(run_ / "environment.json", [](json& one) { one["host"] = "\x1b[2JACCEPT"; });
  pack();
  auto output = assay("verify bundle --assay 0.1.0+g0123456");
  EXPECT_EQ(output.text.find('\x1b'), std::string::npos);
  EXPECT_NE(output.text.find("\\x1b[2J"), std::string::npos) << output.text;
  forge([](json& one) { one["test"] = one["test"].get<std::string>() + "\x1b[2JACCEPT"; }, mm_);
  output = assay("bundle run -o bundle");
  EXPECT_EQ(output.code, 2);
  EXPECT_EQ(output.text.find('\x1b'), std::string::npos);
  EXPECT_NE(output.text.find("control characters in \"test\""), std::string::npos) << output.text;
}

TEST_F(Bundle, IsNeverWrittenIntoTheRun) {
  const auto output = assay("bundle run -o run/environment.json");
  EXPECT_EQ(output.code, 2);
  EXPECT_NE(output.text.find("outside of the run's folder"), std::string::npos) << output.text;
  EXPECT_TRUE(json::accept(readFile(run_ / "environment.json").value_or("")));
}

// TF32's bound is two thousand times wider.
TEST_F(Bundle, AnotherVariantThanItsNameIsSeen) {
  forge([](json& one) { one["variant"]["math"] = "tf32"; }, mm_);
  expectForged("its variant is another than its name says");
}

TEST_F(Bundle, TheEnvironmentDecidesWhetherItCounts) {
  const auto environment = [&](const std::string& field, const json& value) {
    SetUp();
    edit(run_ / "environment.json", [&](json& one) { one[field] = value; });
    pack();
  };
  environment("fault", "ignore-ieee");
  expect(1, "planted fault");
  environment("assay", "9.9.9+gffffff");
  expect(2, "this is 0.1.0+g0123456");
  environment("assay", "0.1.0+g0123456-dirty");
  expect(1, "uncommitted changes");
  environment("host", nullptr);
  expect(1, "lacks host");
  environment("goldens_sha256", std::string(64, '0'));
  expect(2, "CANNOT JUDGE");
}

TEST_F(Bundle, ACopyIsNoSecondRun) {
  fs::remove_all(home() / "copy");
  fs::copy(run_, home() / "copy");
  pack("run copy");
  expect(1, "started in the same second as an earlier run");
  for (const char* plan : {"copy/matmul.cpu.plan.json", "copy/api_surface.cpu.plan.json"})
    edit(home() / plan, [](json& p) { p["started"] = "2026-12-03T10:00:00Z"; });
  pack("run copy");
  expect(0, "ACCEPT");
  forge([](json& one) { one["error"] = 0.5 * one["error"].get<double>(); }, "/mm__m16_k16_n16__");
  pack("run copy");
  expect(1, "1 check has the same outputs in two runs and another error");
  edit(home() / "copy/environment.json", [](json& one) { one["driver"] = "1.2.3"; });
  pack("run copy");
  expect(1, "of another environment than the first (driver");
}

TEST_F(Bundle, TheChallengeIsTheBuyers) {
  edit(run_ / "matmul.cpu.plan.json", [](json& plan) { plan["store"] = "8:heron"; });
  pack();
  expect(0, "ACCEPT", "--challenge heron");
  expect(1, "not kept by the challenge \"ibis\"", "--challenge ibis");
  for (const char* store : {"8:rigged:heron", "none", "99999:heron", "8"}) {
    edit(run_ / "matmul.cpu.plan.json", [&](json& plan) { plan["store"] = store; });
    pack();
    expect(1, "matmul on cpu", "--challenge heron");
  }
}

TEST_F(Bundle, ASignatureTellsWhoseItIs) {
  const auto key = [&](const std::string& name) {
    const auto output =
        runCommand("cd " + shellQuoted(home().string()) + " && rm -f " + name + " " + name +
                   ".pub && ssh-keygen -q -t ed25519 -N '' -C " + name + " -f " + name + " 2>&1");
    ASSERT_EQ(output.code, 0) << output.text;
    std::ofstream(home() / (name + ".signers"))
        << name << "@example.com " << readFile(home() / (name + ".pub")).value_or("");
  };
  key("vendor");
  key("other");
  pack("run --sign vendor");
  expect(0, "signed by vendor@example.com", "--signers vendor.signers");
  expect(1, "of none of the allowed signers", "--signers other.signers");
  expect(0, "was not checked");
  expect(2, "no file of allowed signers", "--signers nobody");
  alter([](ArchiveFiles& files) { files[kManifest] += " "; });
  expect(1, "of none of the allowed signers", "--signers vendor.signers");
  pack();
  expect(1, "the bundle is not signed", "--signers vendor.signers");
  EXPECT_EQ(assay("bundle run -o bundle --sign no_such_key").code, 2);
}

json profile() {
  return {{"format", 1},     {"name", "test"},        {"why", "a test"},
          {"device", "cpu"}, {"suites", {"matmul"}},  {"operators", {"mm", "bmm"}},
          {"runs", 1},       {"skips", json::array()}};
}

TEST_F(Bundle, AProfileSaysWhatMustBeThere) {
  const auto with = [&](const json& change) {
    json one = profile();
    one.update(change);
    std::ofstream(home() / "profile.json") << one;
    return "--profile profile.json";
  };
  pack();
  expect(0, "ACCEPT", with(json::object()));
  expect(1, "the suite softmax was not run whole on cpu", with({{"suites", {"softmax"}}}));
  expect(1, "no check of the operator max_pool3d against a golden passed",
         with({{"operators", {"max_pool3d"}}}));
  expect(1, "2 runs are wanted", with({{"runs", 2}}));
  expect(1, "was not run whole on cuda", with({{"device", "cuda"}}));
  expect(2, "unknown field", with({{"optional", true}}));
  expect(2, "positive number", with({{"runs", 0}}));
  expect(2, "list of texts", with({{"suites", json::array()}}));
  expect(2, "no reason of Assay's", with({{"skips", {"NO_CUDNNN"}}}));
  expect(2, "its device is cpu", with({{"gpu", "NVIDIA*"}}));
  expect(2, "no profile", "--profile no_such");
  expect(1, "profile datacenter: 3 runs are wanted", "--profile datacenter");
  forge([](json& one) { one["status"] = "SKIPPED", one["reason"] = "NO_DETERMINISTIC_KERNEL"; },
        "/mm__m16_k16_n16__cpu_float32_forward_deterministic\"");
  pack();
  const json kernel{{"skips", {"NO_DETERMINISTIC_KERNEL"}}};
  expect(0, "1 check skipped for NO_DETERMINISTIC_KERNEL", with(kernel));
  expect(1, "which the profile does not allow", with(json::object()));
  forge([](json& one) { one["status"] = "UNAVAILABLE"; }, "/bmm__b3");
  pack();
  expect(1, "an operator is unavailable: bmm", with(kernel));
  expect(1, "says UNAVAILABLE of one case",
         with({{"skips", {"NO_DETERMINISTIC_KERNEL"}}, {"unavailable", true}}));
  edit(run_ / "matmul.cpu.plan.json", [](json& plan) { plan["filter"] = "*mm*"; });
  pack();
  expect(1, "the suite matmul was not run whole", with(json::object()));
}

// Suites without goldens use operators' names too: they don't speak for the operator.
TEST(Profiles, AnOperatorCountsWhereItMetItsGolden) {
  Profile profile;
  profile.deviceKind = "cpu", profile.operators = {"mm"};
  CheckRecord check;
  check.device = "cpu", check.operatorName = "mm", check.status = Status::kPassed;
  const auto lacks = [&](const std::string& suite) {
    check.suite = suite;
    assay::Run run;
    run.checks = {check}, run.environment = json::object();
    const auto golden = [](const CheckRecord& one) { return one.suite == "matmul"; };
    return lacking(profile, {run}, golden);
  };
  EXPECT_TRUE(lacks("matmul").empty());
  EXPECT_EQ(lacks("aten_contract").size(), 1U);
}

// A profile that asks for what no golden has could never be met; one that asks for nothing never
// fails.
TEST(Profiles, TheShippedOnesNameWhatThereIs) {
  const auto rows = readIndex(fs::path(ASSAY_SOURCE_DIR) / "golden");
  for (const char* name : {"datacenter", "training", "inference"}) {
    const auto profile = readProfile(name);
    EXPECT_EQ(profile.name, name);
    EXPECT_GE(profile.suites.size(), 10U);
    for (const auto& pattern : profile.operators) {
      EXPECT_TRUE(std::any_of(rows.begin(), rows.end(),
                              [&](const GoldenRow& row) {
                                return globMatches(pattern, row.name) &&
                                       std::find(profile.suites.begin(), profile.suites.end(),
                                                 row.family) != profile.suites.end();
                              }))
          << name << ": " << pattern;
    }
  }
}

}  // namespace
}  // namespace assay
