// A promise against what was seen: STABLE, VARIES, BROKEN PROMISE or STABLE, not promised. Each is
// one record; together they are the table that cuDNN's list of routines stands for.
#pragma once

#include <string>
#include <vector>

#include "fixtures/record.h"
#include "suites/determinism/repetition.h"

namespace assay::determinism {

// A call whose repetition is measured.
struct Subject {
  std::string promise;  // "equal bits", "may vary", "none"
  std::string source;   // who says so: the library's answer, or a page of its documentation
  Call call;
};

// One kind of repetition ("again", "aligned") and what came of it. `more`: what is reported beside
// it and promised by nobody, or null.
struct Repeated {
  std::string kind;
  Spread spread;
  nlohmann::json more;
};

// The share of differing runs that must not be missed (1 of 50; on a CPU 1 of 10, in a smoke test
// 1 of 5), and the probability with which it may be.
double rateOf(bool gpu, bool smoke);
inline constexpr double kMiss = 1e-3;

// The call again in every kind of repetition that needs nothing but the call; "again" so often that
// rateOf is met.
std::vector<Repeated> repeatAll(const Call& call, const std::vector<at::Tensor>& first, bool smoke);

// Says in `record` what came of the repetitions: fails it where equal bits were promised and others
// came. `first`: what the first call wrote; its digest is recorded where equal bits are promised,
// so that `assay gate` compares processes. `rate`: what the first kind was repeated for.
void conclude(Record& record, const Subject& subject, const std::vector<at::Tensor>& first,
              const std::vector<Repeated>& seen, double rate);

// repeatAll and conclude.
void judge(Record& record, const Subject& subject, const std::vector<at::Tensor>& first,
           bool smoke);

// The table over all records of a suite, as text: routine, algorithm, promised, seen. A line
// gathers the records of one operator with the same details.row.
void printTable(const std::vector<Record>& records);

}  // namespace assay::determinism
