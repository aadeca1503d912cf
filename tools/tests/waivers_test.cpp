// Waivers: what they cover, what they never cover, and when they are errors themselves.
#include "tools/assay/waivers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

namespace assay {
namespace {

using nlohmann::json;
using OneRun = Run;  // inside a TEST, Run is GoogleTest's

json waiver() {
  return {{"id", "w"},
          {"test", "mm__*"},
          {"reason", "until the new driver"},
          {"owner", "a team"},
          {"expires", "2027-01-31"}};
}

std::vector<Waiver> read(const json& file) {
  const auto path = std::filesystem::path(testing::TempDir()) /
                    ("assay_waivers_" + std::to_string(getpid()) + ".json");
  std::ofstream(path) << file;
  auto waivers = readWaivers(path);
  std::filesystem::remove(path);
  return waivers;
}

std::vector<Waiver> one(const json& edit = json::object()) {
  json value = waiver();
  value.update(edit);
  return read({{"format", 1}, {"waivers", {value}}});
}

OneRun run(Status status, double error = 100) {
  OneRun result;
  CheckRecord check;
  check.test = "Matmul/T.C/mm__k16__cuda0_float32_forward";
  check.status = status;
  check.error = error;
  check.message = "wrong";
  result.checks = {check};
  result.environment = {{"driver", "580.1"}};
  return result;
}

TEST(Waivers, CoverAFailure) {
  auto failed = run(Status::kFailed);
  EXPECT_TRUE(applyWaivers(failed, one(), "2027-01-31").empty());
  EXPECT_EQ(failed.checks[0].status, Status::kKnown);
  EXPECT_EQ(failed.checks[0].defect, "waiver w");
  EXPECT_NE(failed.checks[0].message.find("until the new driver (a team, until 2027-01-31): wrong"),
            std::string::npos);
}

TEST(Waivers, NeverCoverACrash) {
  auto crashed = run(Status::kCrashed);
  applyWaivers(crashed, one(), "2026-12-01");
  EXPECT_EQ(crashed.checks[0].status, Status::kCrashed);
}

TEST(Waivers, TheLargestError) {
  for (const auto& [error, status] : {std::pair{100.0, Status::kKnown},
                                      {101.0, Status::kFailed},
                                      {INFINITY, Status::kFailed},
                                      {NAN, Status::kFailed}}) {
    auto failed = run(Status::kFailed, error);
    applyWaivers(failed, one({{"max_error", 100}}), "2026-12-01");
    EXPECT_EQ(failed.checks[0].status, status) << error;
  }
}

TEST(Waivers, AreErrorsThemselves) {
  const auto problem = [](Status status, const json& edit, const std::string& today,
                          const std::string& words) {
    auto subject = run(status);
    const auto problems = applyWaivers(subject, one(edit), today);
    ASSERT_EQ(problems.size(), 1U) << words;
    EXPECT_NE(problems[0].find(words), std::string::npos) << problems[0];
    EXPECT_EQ(subject.checks[0].status, status);
  };
  problem(Status::kFailed, json::object(), "2027-02-01", "expired on 2027-01-31");
  problem(Status::kFailed, {{"test", "bmm__*"}}, "2026-12-01", "matches no check");
  problem(Status::kPassed, json::object(), "2026-12-01", "which passes");
}

TEST(Waivers, HoldInTheirEnvironmentAlone) {
  auto failed = run(Status::kFailed);
  EXPECT_TRUE(
      applyWaivers(failed, one({{"environment", {{"driver", "570.*"}}}}), "2030-01-01").empty());
  EXPECT_EQ(failed.checks[0].status, Status::kFailed);
  applyWaivers(failed, one({{"environment", {{"driver", "580.*"}}}}), "2026-12-01");
  EXPECT_EQ(failed.checks[0].status, Status::kKnown);
}

TEST(Waivers, FilesThatAreRefused) {
  const auto refused = [](const json& file, const std::string& words) {
    try {
      read(file);
      ADD_FAILURE() << "not refused: " << words;
    } catch (const Problem& problem) {
      EXPECT_NE(std::string(problem.what()).find(words), std::string::npos) << problem.what();
    }
  };
  const auto with = [](const json& edit) {
    json value = waiver();
    value.update(edit);
    return json{{"format", 1}, {"waivers", {value}}};
  };
  refused({{"format", 2}, {"waivers", json::array()}}, "is not {\"format\": 1");
  refused(json::array(), "is not {\"format\": 1");
  refused(with({{"expiry", "2027-01-31"}}), "unknown field \"expiry\"");
  refused(with({{"owner", ""}}), "needs a text as \"owner\"");
  refused(with({{"reason", nullptr}}), "needs a text as \"reason\"");
  refused(with({{"test", json::array()}}), "needs a glob");
  refused(with({{"max_error", "large"}}), "needs a number");
  for (const char* date : {"31.01.2027", "2027-02-30", "2027-1-31", "2027-01-31 "})
    refused(with({{"expires", date}}), "needs a date");
  refused({{"format", 1}, {"waivers", {waiver(), waiver()}}}, "has the id of another one");
  EXPECT_THROW(readWaivers("/no/such/file"), Problem);
}

TEST(Waivers, TodayIsADate) { EXPECT_EQ(today().size(), 10U); }

}  // namespace
}  // namespace assay
