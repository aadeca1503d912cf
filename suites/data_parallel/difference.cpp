#include <ATen/ATen.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "suites/data_parallel/parts.h"

namespace assay::data_parallel {
namespace {

// A result of sharded training: how far it is from the golden of the whole batch, and from its own.
struct Row {
  std::string what;
  double fromWhole = 0;
  double fromOwn = std::numeric_limits<double>::quiet_NaN();  // no golden of this layout is kept
};

double distance(const at::Tensor& result, const at::Tensor& golden) {
  return (result.detach().cpu().to(at::kDouble) - golden).abs().max().item<double>();
}

void addRow(nlohmann::json& rows, const Row& row) {
  rows.push_back({{"what", row.what}, {"from_unsharded", row.fromWhole}});
  if (!std::isnan(row.fromOwn)) rows.back()["from_own_golden"] = row.fromOwn;
}

// The layers of all replicas, one behind the other.
void layerRows(nlohmann::json& rows, const GoldenNet& cnn, const Nets& replicas) {
  for (const char* layer : {"conv", "bn", "relu", "pool"}) {
    Tensors values;
    for (const auto& replica : replicas) values.push_back(replica->kept.at(layer).cpu());
    addRow(rows, {layer, distance(at::cat(values), cnn.layers.at(layer))});
  }
}

void stepRows(nlohmann::json& rows, const Step& step, const Layout& own, const Layout& whole) {
  addRow(rows, {"output", distance(step.output, whole.output.golden),
                distance(step.output, own.output.golden)});
  addRow(rows,
         {"loss", distance(step.loss, whole.loss.golden), distance(step.loss, own.loss.golden)});
  auto parameters = step.net->named_parameters();
  for (const auto& [name, gradient] : own.gradients) {
    const auto result = parameters[name].grad();
    addRow(rows, {"gradient of " + name, distance(result, whole.gradients.at(name).golden),
                  distance(result, gradient.golden)});
  }
}

void evalRow(nlohmann::json& rows, const GoldenNet& cnn, const Setup& setup,
             const Variant& variant) {
  const at::NoGradGuard guard;
  const auto net = cnn.make(variant.dtype, setup.home().str());
  net->eval();
  const auto result = forward(net, inputOf(cnn, cnn.tracedBatch, setup, variant), setup).output;
  const double far = distance(result, firstOf(cnn.eval, cnn.tracedBatch).golden);
  addRow(rows, {"output in eval mode", far, far});
}

}  // namespace

Record difference(const GoldenNet& cnn, const Setup& setup, const Variant& variant) {
  Record record;
  Tally tally(record, variant.dtype);
  const int64_t batch = cnn.tracedBatch;
  const auto net = netFor(cnn, setup, variant);
  net->tracing = true;
  const auto step = trainingStep(cnn, net, batch, setup, variant);
  const auto& own = cnn.layout(batch, static_cast<int64_t>(setup.count()));
  const auto& whole = cnn.layout(batch, 1);
  judgeStep(tally, step, own, setup, cnn);
  auto rows = nlohmann::json::array();
  if (!setup.whole) layerRows(rows, cnn, step.pieces.replicas);
  stepRows(rows, step, own, whole);
  evalRow(rows, cnn, setup, variant);
  record.details["differences"] = rows;
  record.details["shards"] = setup.count();
  record.details["path"] = setup.whole ? "whole" : "pieces";
  record.details["cause"] =
      "each shard is normalized with its own statistics: not rounding, not a defect";
  return record;
}

std::vector<Part> differenceParts(const Goldens& goldens, const Setup& setup) {
  const auto cnn = goldens.cnn;
  return {{.model = cnn->name,
           .name = "sharded_statistics_b64_" + setup.name(),
           .backward = true,
           .smoke = setup.count() == 2,
           .run = [=](const Variant& variant) { return difference(*cnn, setup, variant); }}};
}

namespace {

// A table's records by number of shards: one path on one device in one dtype.
using Columns = std::map<size_t, const Record*>;

// "data_parallel_cnn, whole on cuda0_float32_backward"
std::string titleOf(const Record& record) {
  return record.operatorName + ", " + record.details.at("path").get<std::string>() + " on " +
         record.variantName;
}

double figureOf(const Record& record, const std::string& what, const char* field) {
  for (const auto& row : record.details.at("differences")) {
    if (row.at("what") == what && row.contains(field) && row.at(field).is_number())
      return row.at(field).get<double>();
  }
  return std::numeric_limits<double>::quiet_NaN();
}

void printTable(const std::string& title, const Columns& columns) {
  std::printf("\nLargest difference from the golden of one shard, %s\n\n| | ", title.c_str());
  for (const auto& [count, record] : columns)
    std::printf("%zu shard%s | ", count, count == 1 ? "" : "s");
  std::printf("from the golden of the same shards |\n|---|");
  for (size_t k = 0; k <= columns.size(); ++k) std::printf("---|");
  for (const auto& row : columns.begin()->second->details.at("differences")) {
    const auto what = row.at("what").get<std::string>();
    std::printf("\n| %s | ", what.c_str());
    double own = std::numeric_limits<double>::quiet_NaN();
    for (const auto& [count, record] : columns) {
      std::printf("%.2g | ", figureOf(*record, what, "from_unsharded"));
      own = std::fmax(own, figureOf(*record, what, "from_own_golden"));
    }
    if (std::isnan(own))
      std::printf("|");
    else
      std::printf("%.2g |", own);
  }
  std::printf("\n");
}

}  // namespace

void printDifferences(const std::vector<Record>& records) {
  std::map<std::string, Columns> tables;
  for (const auto& record : records) {
    if (!record.details.is_object() || !record.details.contains("differences")) continue;
    tables[titleOf(record)][record.details.at("shards").get<size_t>()] = &record;
  }
  for (const auto& [title, columns] : tables) printTable(title, columns);
}

}  // namespace assay::data_parallel
