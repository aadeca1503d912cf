// Files that were altered, damaged or never meant for `assay`: one sentence and exit code 2, or a
// verdict that is no pass. No crash, no hang, no words of a library.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "fixtures/core/command.h"
#include "fixtures/core/files.h"
#include "tools/tests/run_folder.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json record(const std::string& name = "mm__k16__cpu_float32_forward") {
  auto one = passedFields();
  one.update(
      {{"test", "Matmul/OperatorTest.Conforms/" + name},
       {"suite", "matmul"},
       {"operator", "mm"},
       {"case", "k16"},
       {"variant_name", "cpu_float32_forward"},
       {"variant", {{"device", "cpu"}, {"dtype", "float32"}, {"lengths", false}, {"threads", 0}}},
       {"status", "PASSED"},
       {"worst", {{{"index", {0}}, {"got", 1.5}, {"want", "nan"}, {"error", "inf"}}}},
       {"stored", {{{"what", "output 0"}, {"dtype", "Float"}, {"offset", 0}, {"bytes", 4}}}},
       {"repro", "build/matmul_suite"},
       {"details",
        {{"determinism",
          {{"promise", "none"},
           {"verdict", "STABLE"},
           {"kinds", {{"again", {{"runs", 3}, {"differing", 0}, {"relative", 0.0}}}}}}},
         {"layers", {{{"layer", "fc1"}}}}}}});
  return one;
}

json manifest() {
  return {{"format", 1},
          {"time", "2026-12-01T10:00:00Z"},
          {"host", "a"},
          {"assay", "0.1.0"},
          {"goldens_sha256", "00"},
          {"fault", nullptr},
          {"libtorch", {{"compiled", "2.11.0"}, {"loaded", "2.11.0"}}},
          {"driver", "580"},
          {"gpus", {{{"device", "cuda:0"}, {"name", "H200"}, {"uuid", "u"}, {"sm_count", 132}}}},
          {"gpu_problem", nullptr},
          {"cpu", {{"model", "c"}, {"capability", "AVX2"}, {"threads", 2}}},
          {"flags", {{"deterministic_algorithms", false}}},
          {"variables", {{"OMP_WAIT_POLICY", "passive"}}},
          {"system", {{"name", "Linux"}}}};
}

class OddInput : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fresh();
  }
  void TearDown() override { fs::remove_all(folder_); }

  // The run as it should be. A suite of determinism has the details that the report looks at.
  void fresh() const {
    fs::remove_all(run_);
    fs::create_directories(run_);
    write("environment.json", manifest());
    std::ofstream(run_ / "matmul.cpu.jsonl") << record().dump() << "\n";
    json other = record("index_add__default__cpu_float32_forward");
    other["suite"] = "aten_contract";
    std::ofstream(run_ / "aten_contract.cpu.jsonl") << other.dump() << "\n";
    writePlans(run_);
  }
  void write(const std::string& name, const json& value) const {
    std::ofstream(run_ / name) << value;
  }
  json read(const std::string& name) const {
    return json::parse(readFile(run_ / name).value_or(""));
  }

  // In a folder of its own; a command that hangs is killed, with exit code 124.
  CommandOutput shell(const std::string& command) const {
    return runCommand("cd " + shellQuoted(folder_.string()) +
                      " && assay=" + shellQuoted(ASSAY_PROGRAM) + " && { " + command + "; } 2>&1");
  }
  void expect(const std::string& arguments, int code, const std::string& words) const {
    const auto output = shell("timeout 20 $assay " + arguments);
    EXPECT_EQ(output.code, code) << arguments << "\n" << output.text;
    EXPECT_NE(output.text.find(words), std::string::npos)
        << arguments << " lacks \"" << words << "\"\n"
        << output.text;
  }

  // Every command that reads a run must come to one of its own ends, in its own words.
  void survives(const std::string& what) const {
    const auto output = shell(
        "for command in 'summary run' 'report run --html h --junit j --markdown m' 'env run' "
        "'explain mm__k16 run' 'gate --baseline run --candidate good --json g.json'; do "
        "timeout 20 $assay $command >out; code=$?; "
        "if [ $code -gt 2 ]; then echo \"ENDED $code: $command\"; fi; cat out; done");
    for (const char* word : {"ENDED", "exception", "terminate", "type_error"})
      EXPECT_EQ(output.text.find(word), std::string::npos) << what << "\n" << output.text;
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / ("assay_odd_" + std::to_string(getpid()));
  const fs::path run_ = folder_ / "run";
};

// Each field in turn, and what is in it, as every kind of value.
void eachField(const json& value, const std::function<void(const json&, const std::string&)>& use) {
  static const std::vector<json> kKinds{nullptr,
                                        true,
                                        -1,
                                        1e300,
                                        18446744073709551615U,
                                        "x",
                                        json::array(),
                                        json::object(),
                                        {5},
                                        {{"a", {{"b", nullptr}}}}};
  const auto flat = value.flatten();
  std::set<std::string> paths;
  for (const auto& [leaf, unused] : flat.items()) {
    for (auto path = json::json_pointer(leaf); !path.empty(); path = path.parent_pointer())
      paths.insert(path.to_string());
  }
  for (const auto& path : paths) {
    for (const auto& kind : kKinds) {
      json changed = value;
      changed[json::json_pointer(path)] = kind;
      use(changed, path + " = " + kind.dump());
    }
  }
}

TEST_F(OddInput, EveryFieldOfAnyType) {
  fs::copy(run_, folder_ / "good");
  eachField(manifest(), [&](const json& changed, const std::string& what) {
    write("environment.json", changed);
    survives("environment.json: " + what);
  });
  fresh();
  eachField(read("matmul.cpu.plan.json"), [&](const json& changed, const std::string& what) {
    write("matmul.cpu.plan.json", changed);
    survives("plan: " + what);
  });
  fresh();
  json plain = record();
  plain.erase("details");
  eachField(plain, [&](const json& changed, const std::string& what) {
    write("matmul.cpu.jsonl", changed);
    survives("record: " + what);
  });
  fresh();
  json whole = read("aten_contract.cpu.jsonl");
  eachField(json(whole["details"]), [&](const json& changed, const std::string& what) {
    whole["details"] = changed;
    write("aten_contract.cpu.jsonl", whole);
    survives("details: " + what);
  });
}

TEST_F(OddInput, AWrongTypeIsNamedByFileFieldAndType) {
  const auto manifestWith = [&](const char* path, const json& value) {
    json one = manifest();
    one[json::json_pointer(path)] = value;
    write("environment.json", one);
  };
  for (const char* command : {"summary run", "env run", "report run", "explain mm run",
                              "gate --baseline run --candidate run", "bundle run -o b"}) {
    manifestWith("/gpus/0/sm_count", "many");
    expect(
        command, 2,
        R"(run/environment.json: "gpus/0/sm_count" must be a whole number from 0 on, and is a text)");
    manifestWith("/fault", true);
    expect(command, 2, R"("fault" must be a text, and is true or false)");
  }
  fresh();
  json plan = read("matmul.cpu.plan.json");
  plan["checks"] = "one";
  write("matmul.cpu.plan.json", plan);
  expect(
      "summary run", 1,
      R"(matmul.cpu.plan.json is no plan: "checks" must be a whole number from 0 on, and is a text)");
  plan.erase("checks");
  write("matmul.cpu.plan.json", plan);
  expect("summary run", 1, R"(matmul.cpu.plan.json lacks "checks")");
  fresh();
  for (const auto& [field, type] :
       {std::pair{"message", "a text"}, {"bound", "a number"}, {"checked", "a whole number"}}) {
    json one = record();
    one[field] = json::array();
    write("matmul.cpu.jsonl", one);
    expect("summary run", 2,
           std::string("matmul.cpu.jsonl, line 1, has a \"") + field +
               "\" of the wrong type: it must be " + type);
  }
  json one = record();
  one["worst"] = {{{"got", true}}};
  one["status"] = "FAILED";
  write("matmul.cpu.jsonl", one);
  writePlans(run_);
  expect("explain mm__k16 run", 2,
         R"(matmul.cpu.jsonl, line 1: "worst/0/got" must be a number, and is true or false)");
  expect("report run", 2, R"("worst/0/got" must be a number)");
}

// An exit code that wraps round to 0 in 32 bits is none.
TEST_F(OddInput, AnExitCodeBeyondAnInt) {
  json plan = read("matmul.cpu.plan.json");
  plan["exit_code"] = 4294967296U;
  write("matmul.cpu.plan.json", plan);
  expect("summary run", 1, "which no suite has");
}

TEST_F(OddInput, WaiversProfilesAndLists) {
  const auto waiver = [&](const json& change) {
    json one{{"id", "w"},
             {"test", "*"},
             {"reason", "r"},
             {"owner", "o"},
             {"expires", "2099-01-31"},
             {"environment", json::object()}};
    one.update(change);
    std::ofstream(folder_ / "w.json") << json{{"format", 1}, {"waivers", {one}}};
  };
  waiver({{"reason", 5}});
  expect("report run --waivers w.json", 2, R"(waiver 1 (w) needs a text as "reason")");
  // Paths that JSON pointers would choke on lead nowhere.
  for (const char* path : {"a~b", "gpus/x", "gpus/99999999999999999999", "host/deeper", "//", ""}) {
    waiver({{"environment", {{path, "H*"}}}});
    expect("report run --waivers w.json", 0, "PASSED");
  }
  waiver({{"environment", {{"gpus/0/name", "H*"}}}});
  expect("report run --waivers w.json", 1, "which passes");
  std::ofstream(folder_ / "d.json") << "{\"format\": 1,\n\"defects\": [}";
  json known = record();
  known["status"] = "KNOWN", known["defect"] = "d";
  write("matmul.cpu.jsonl", known);
  expect("explain mm__k16 run --known-defects d.json", 2, "d.json: not JSON, from line 2 on");
  fs::create_directories(folder_ / "golden");
  for (const auto& [index, words] : std::vector<std::pair<json, std::string>>{
           {{{"format", 1}}, R"(lacks "operators")"},
           {{{"format", 1}, {"operators", 5}}, R"("operators" must be a list, and is 5)"},
           {{{"format", 1}, {"operators", {{{"operator", 5}}}}},
            R"("operators/0/operator" must be a text, and is 5)"},
           {{{"format", 1}, {"operators", {{{"operator", "mm"}}}}},
            R"(operator 0 lacks "family")"}}) {
    std::ofstream(folder_ / "golden/index.json") << index;
    expect("list --goldens golden", 2, words);
  }
}

// ---- where to write, and what to read

TEST_F(OddInput, APipeOrADeviceIsNoOutput) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  fs::create_directories(folder_ / "folder");
  for (const char* command : {"report run --html ", "report run --junit ", "report run --markdown ",
                              "gate --baseline run --candidate copy --json ", "bundle run -o "}) {
    fs::remove_all(folder_ / "copy");
    fs::copy(run_, folder_ / "copy");
    for (const char* output : {"pipe", "/dev/zero", "/dev/full", "folder"})
      expect(command + std::string(output), 2, std::string("cannot write ") + output);
  }
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));
  expect("bundle run -o /dev/null", 2, "a bundle is a plain file");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  expect("report run --html /dev/null --junit /dev/stdout --markdown /dev/stderr", 0, "<testsuite");
  const auto piped =
      shell("timeout 20 $assay report run --html /dev/null --junit /dev/stdout | cat");
  EXPECT_NE(piped.text.find("<testsuite"), std::string::npos) << piped.text;
}

TEST_F(OddInput, APipeInTheRunIsNotWaitedFor) {
  for (const char* name :
       {"environment.json", "other.cpu.jsonl", "other.cpu.plan.json", "matmul.cpu.outputs"}) {
    fresh();
    fs::remove(run_ / name);
    ASSERT_EQ(mkfifo((run_ / name).c_str(), 0600), 0);
    expect("summary run", 2, std::string(name) + " is no plain file");
  }
}

TEST_F(OddInput, AFullDisk) {
  for (const char* command :
       {"report run", "bundle run -o b", "gate --baseline run --candidate copy --html g"}) {
    fs::remove_all(folder_ / "copy");
    fs::copy(run_, folder_ / "copy");
    const auto output =
        shell("trap '' XFSZ; ulimit -f 1; timeout 20 $assay " + std::string(command));
    EXPECT_EQ(output.code, 2) << output.text;
    EXPECT_NE(output.text.find("cannot write"), std::string::npos) << output.text;
  }
  for (const auto& entry : fs::directory_iterator(folder_))
    EXPECT_EQ(entry.path().string().find(".partial"), std::string::npos) << entry.path();
  EXPECT_FALSE(fs::exists(run_ / "report.html")) << "half a page is none";
}

// ---- records

TEST_F(OddInput, ARecordCutOffAnywhere) {
  fs::copy(run_, folder_ / "good");
  const auto whole = record().dump() + "\n";
  for (size_t size = 0; size < whole.size(); size += 23) {
    std::ofstream(run_ / "matmul.cpu.jsonl") << whole.substr(0, size);
    survives("cut off at " + std::to_string(size));
    EXPECT_EQ(shell("$assay report run").code, 1) << size;
  }
}

TEST_F(OddInput, NumbersOfAnySize) {
  for (const char* field : {"error", "bound", "effective_bits", "seconds"}) {
    for (const json& value : std::vector<json>{1e308, -1e308, 5e-324, -1, "nan", "inf", "-inf"}) {
      json one = record();
      one[field] = value;
      one["status"] = "KNOWN";
      write("matmul.cpu.jsonl", one);
      const auto output = shell("timeout 20 $assay report run; cat run/junit.xml");
      EXPECT_LT(output.code, 2) << output.text;
      EXPECT_EQ(output.text.find("time=\"n"), std::string::npos) << output.text;
      EXPECT_NE(output.text.find("</testsuites>"), std::string::npos) << output.text;
      EXPECT_EQ(output.text.find("exception"), std::string::npos) << output.text;
    }
  }
  for (const char* text : {"1e999", "NaN", "-Infinity", "0x10", "01"}) {
    auto line = record().dump();
    line.replace(line.find("\"checked\":40"), 12, std::string("\"checked\":") + text);
    std::ofstream(run_ / "matmul.cpu.jsonl") << line << "\n";
    expect("summary run", 2, "matmul.cpu.jsonl, line 1");
  }
}

TEST_F(OddInput, NothingMovesTheCursor) {
  fs::copy(run_, folder_ / "good");
  for (const char* field : {"message", "reason", "what", "why", "repro"}) {
    json one = record();
    one["status"] = "FAILED";
    one[field] = "\x1b[2J\u009b";
    write("matmul.cpu.jsonl", one);
    writePlans(run_);
    const auto output = shell(
        "$assay summary run; $assay explain mm__k16 run; $assay report run; "
        "$assay gate --baseline good --candidate run; cat run/report.md");
    EXPECT_EQ(output.text.find('\x1b'), std::string::npos) << field << output.text;
  }
  fresh();
  for (const char* field :
       {"test", "suite", "device", "operator", "case", "variant_name", "defect"}) {
    json one = record();
    one[field] = "\x1b[2J";
    write("matmul.cpu.jsonl", one);
    expect("summary run", 2, std::string("has control characters in \"") + field + "\"");
  }
  fresh();
  json one = manifest();
  one["host"] = "\x1b[2J", one["variables"] = {{"\x1b[3J", "\x1b[4J"}},
  one["gpus"][0]["name"] = "\x1b[5J";
  write("environment.json", one);
  const auto output = shell(
      "$assay summary run; $assay env run; $assay report run; cat run/report.md; "
      "$assay gate --baseline good --candidate run");
  EXPECT_EQ(output.text.find('\x1b'), std::string::npos) << output.text;
}

// "<!--<script>" hides the end of the script that the data stands in; U+FFFF is no XML.
TEST_F(OddInput, TextForPagesStaysText) {
  json one = record();
  one["status"] = "FAILED";
  one["message"] = "<!--<script>\xEF\xBF\xBF</script>";
  write("matmul.cpu.jsonl", one);
  writePlans(run_);
  expect("report run", 1, "FAILED");
  const auto page = readFile(run_ / "report.html").value_or("");
  EXPECT_EQ(page.find("<!--<script"), std::string::npos);
  EXPECT_NE(page.find("\\u003c!--\\u003cscript>"), std::string::npos);
  const auto junit = readFile(run_ / "junit.xml").value_or("");
  EXPECT_EQ(junit.find("\xEF\xBF\xBF"), std::string::npos);
  EXPECT_NE(junit.find("&lt;!--&lt;script&gt;"), std::string::npos) << junit;
}

TEST_F(OddInput, FoldersOfAnyName) {
  for (const std::string name : {"Übung 日本", "a'b \"c\" $HOME", "-run", "\xff\xfe"}) {
    fs::copy(run_, folder_ / name);
    const auto quoted = shellQuoted("./" + name);
    const auto output = shell("timeout 20 $assay summary " + quoted + " && $assay report " +
                              quoted + " && $assay gate --baseline run --candidate " + quoted +
                              " --json g.json --html g.html --markdown g.md");
    EXPECT_EQ(output.code, 0) << output.text;
    EXPECT_EQ(output.text.find("exception"), std::string::npos) << output.text;
    EXPECT_TRUE(json::accept(readFile(folder_ / "g.json").value_or(""))) << name;
    fs::remove_all(folder_ / name);
  }
}

TEST_F(OddInput, FoldersThatAreNoRun) {
  fs::create_directories(folder_ / "empty");
  for (const char* command :
       {"summary", "report", "explain x", "bundle -o b", "gate --candidate run --baseline"}) {
    expect(command + std::string(" empty"), 2, "there are no records in empty");
    expect(command + std::string(" /dev/null"), 2, "there is no run \"/dev/null\"");
  }
  expect("env empty", 2, "there is no environment.json");
}

}  // namespace
}  // namespace assay
