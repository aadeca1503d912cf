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

// Runs the subject again in every kind of repetition and says in `record` what came of it: fails it
// where equal bits were promised and others came. `first`: what the first call wrote. Enough runs
// that a call which differs in 1 of 50 (on a CPU 1 of 10, in a smoke test 1 of 5) is missed with a
// probability below 1e-3.
void judge(Record& record, const Subject& subject, const std::vector<at::Tensor>& first,
           bool smoke);

// The table over all records of a suite, as text: routine, algorithm, promised, seen. A line
// gathers the records of one operator with the same details.row.
void printTable(const std::vector<Record>& records);

}  // namespace assay::determinism
