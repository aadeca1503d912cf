#include "suites/data_parallel/golden_net.h"

#include <ATen/ATen.h>

#include "fixtures/argument.h"
#include "fixtures/case.h"
#include "fixtures/draw.h"

namespace assay::data_parallel {
namespace {

using nlohmann::json;
using Data = std::shared_ptr<const SafeTensors>;

GoldenOutput outputOf(const json& entry, const Data& data, const std::string& where) {
  refuseUnknown(entry, {"tensor", "scale"}, where);
  GoldenOutput golden;
  golden.golden = data->tensor(entry.at("tensor"));
  golden.scale = data->tensor(entry.at("scale"));
  const auto scale = golden.scale.to(at::kDouble);
  if (scale.sizes() != golden.golden.sizes() || golden.golden.numel() == 0 ||
      !at::logical_and(scale.ge(0), scale.isfinite()).all().item<bool>() ||
      !golden.golden.isfinite().all().item<bool>())
    throw GoldenError(where + ": a golden or a bound that is not one finite number an element");
  return golden;
}

std::map<std::string, GoldenOutput> outputsOf(const json& entries, const Data& data,
                                              const std::string& where) {
  std::map<std::string, GoldenOutput> all;
  for (const auto& [name, entry] : entries.items())
    all.emplace(name, outputOf(entry, data, std::string(where).append("/").append(name)));
  return all;
}

std::map<std::string, at::Tensor> drawAll(const json& entries) {
  std::map<std::string, at::Tensor> all;
  for (const auto& [name, entry] : entries.items()) all.emplace(name, draw(entry.at("draw")));
  return all;
}

Layout layoutOf(const json& row, const Data& data, const std::string& model) {
  Layout layout;
  layout.batch = row.at("batch");
  layout.shards = row.at("shards").get<std::vector<int64_t>>();
  layout.counts = row.at("counts").get<std::set<int64_t>>();
  const std::string where = model + " of " + std::to_string(layout.batch) + " in " +
                            std::to_string(layout.shards.size()) + " shards";
  refuseUnknown(row, {"batch", "shards", "counts", "output", "loss", "gradients", "states"}, where);
  layout.output = outputOf(row.at("output"), data, where);
  layout.loss = outputOf(row.at("loss"), data, where);
  layout.gradients = outputsOf(row.at("gradients"), data, where);
  layout.states = outputsOf(row.at("states"), data, where);
  return layout;
}

// The model's row of the index, and its files, checked.
json fileOf(const std::filesystem::path& goldens, const std::string& name, Data& data) {
  const auto index = readGoldenJson(goldens / "index.json", "");
  for (const auto& row : index.value("models", json::array())) {
    if (row.at("model") != name) continue;
    const auto path = goldens / row.at("json").get<std::string>();
    auto file = readGoldenJson(path, row.at("sha256"));
    const auto tensors = path.parent_path() / file.at("data").get<std::string>();
    readChecked(tensors, file.at("sha256"));
    data = SafeTensors::open(tensors);
    return file;
  }
  throw GoldenError("no model " + name + " in " + (goldens / "index.json").string());
}

}  // namespace

const Layout& GoldenNet::layout(int64_t batch, int64_t count) const {
  for (const auto& one : layouts) {
    if (one.batch == batch && one.counts.contains(count)) return one;
  }
  throw GoldenError(name + " has no golden of " + std::to_string(batch) + " samples on " +
                    std::to_string(count) + " devices");
}

std::shared_ptr<Net> GoldenNet::make(const Net::Definition& definition, const std::string& dtype,
                                     const std::string& device) const {
  auto net = std::make_shared<Net>(definition);
  net->to(at::kDouble);
  const at::NoGradGuard guard;
  auto into = net->named_parameters();
  for (const auto& [parameter, value] : parameters) into[parameter].copy_(value);
  auto state = net->named_buffers();
  for (const auto& [buffer, value] : buffers) state[buffer].copy_(value);
  net->to(c10::Device(device), scalarType(dtype));
  return net;
}

std::shared_ptr<Net> GoldenNet::make(const std::string& dtype, const std::string& device) const {
  return make(definitionOf(name), dtype, device);
}

std::shared_ptr<const GoldenNet> loadGoldenNet(const std::filesystem::path& goldens,
                                               const std::string& name) {
  try {
    Data data;
    const auto file = fileOf(goldens, name, data);
    refuseUnknown(file,
                  {"format", "model", "source", "note", "parameters", "buffers", "input", "labels",
                   "layouts", "eval", "layers", "data", "sha256"},
                  name);
    GoldenNet net{.name = name,
                  .parameters = drawAll(file.at("parameters")),
                  .buffers = drawAll(file.at("buffers")),
                  .input = draw(file.at("input").at("draw")),
                  .labels = draw(file.at("labels").at("draw"))};
    for (const auto& row : file.at("layouts")) net.layouts.push_back(layoutOf(row, data, name));
    if (file.contains("eval")) net.eval = outputOf(file.at("eval"), data, name + " in eval mode");
    if (file.contains("layers")) {
      net.tracedBatch = file.at("layers").at("batch");
      for (const auto& [layer, key] : file.at("layers").at("outputs").items())
        net.layers.emplace(layer, data->tensor(key.get<std::string>()));
    }
    return std::make_shared<const GoldenNet>(std::move(net));
  } catch (const json::exception& error) {
    throw GoldenError("the golden of " + name +
                      " does not follow docs/data-parallel.md: " + error.what());
  }
}

GoldenOutput firstOf(const GoldenOutput& golden, int64_t batch) {
  GoldenOutput part = golden;
  part.golden = golden.golden.narrow(0, 0, batch);
  part.scale = golden.scale.narrow(0, 0, batch);
  return part;
}

}  // namespace assay::data_parallel
