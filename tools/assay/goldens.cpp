#include "tools/assay/goldens.h"

#include "fixtures/core/files.h"
#include "fixtures/core/sha256.h"
#include "fixtures/core/shape.h"
#include "fixtures/core/text.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json parseFormat1(const std::string& text, const fs::path& path) {
  json value = json::parse(text, nullptr, false);
  if (!value.is_object() || value.value("format", json()) != 1)
    throw Problem("golden " + path.string() + " is not of format 1: check it out again");
  return value;
}

std::string need(const fs::path& path) {
  auto text = readFile(path);
  if (!text) {
    throw Problem(
        "golden " + path.string() +
        " cannot be read: check it out again, or name the goldens (--goldens, ASSAY_GOLDENS)");
  }
  return std::move(*text);
}

}  // namespace

std::vector<GoldenRow> readIndex(const fs::path& goldens) {
  const fs::path path = goldens / "index.json";
  const json index = parseFormat1(need(path), path);
  static const json kRow =
      json::parse(R"({"operator": "text", "family": "text", "json": "text", "sha256": "text"})");
  const auto demand = [&](const std::string& wrong) {
    if (!wrong.empty())
      throw Problem("golden " + path.string() + " does not follow docs/golden-format.md: " + wrong);
  };
  demand(misshaped(index, {{"operators", json::array({kRow})}}));
  if (!index.contains("operators")) demand("it lacks \"operators\"");
  std::vector<GoldenRow> rows;
  for (const auto& row : index["operators"]) {
    for (const auto& [field, unused] : kRow.items()) {
      if (textOf(row, field.c_str()).empty())
        demand("operator " + std::to_string(rows.size()) + " lacks \"" + field + "\"");
    }
    rows.push_back({.name = textOf(row, "operator"),
                    .family = textOf(row, "family"),
                    .path = goldens / textOf(row, "json"),
                    .sha256 = textOf(row, "sha256")});
  }
  return rows;
}

json readOperator(const GoldenRow& row) {
  const std::string text = need(row.path);
  if (sha256Hex(text) != row.sha256) {
    throw Problem("golden " + row.path.string() +
                  " does not match its hash: it was altered or truncated; check it out again");
  }
  return parseFormat1(text, row.path);
}

std::map<std::string, TensorEntry> readTensors(const GoldenRow& row, const json& file) {
  const fs::path path = row.path.parent_path() / file.at("data").get<std::string>();
  try {
    return readSafeTensorsHeader(need(path), "golden " + path.string());
  } catch (const SafeTensorsError& error) {
    throw Problem(error.what());
  }
}

GoldenData readGoldenData(const GoldenRow& row) {
  GoldenData data;
  data.file = readOperator(row);
  const fs::path path = row.path.parent_path() / data.file.at("data").get<std::string>();
  data.bytes = need(path);
  if (sha256Hex(data.bytes) != textOf(data.file, "sha256"))
    throw Problem("golden " + path.string() +
                  " does not match its hash: it was altered or truncated; check it out again");
  try {
    data.tensors = readSafeTensorsHeader(data.bytes, "golden " + path.string());
  } catch (const SafeTensorsError& error) {
    throw Problem(error.what());
  }
  return data;
}

std::string schemaName(const json& file) {
  const std::string overload = textOf(file, "overload");
  return textOf(file, "schema") + (overload.empty() ? "" : "." + overload);
}

std::string shapeText(const json& value, const std::map<std::string, TensorEntry>& tensors) {
  json shape;
  if (value.contains("strided")) {
    shape = value["strided"].value("size", json());
  } else if (const auto found = tensors.find(textOf(value, "tensor")); found != tensors.end()) {
    auto extents = found->second.shape;
    if (value.value("complex", false) && !extents.empty()) extents.pop_back();  // (real, imaginary)
    shape = extents;
  } else if (value.contains("draw")) {
    shape = value["draw"].value("shape", json());
  } else {
    shape = value.value("shape", json());
  }
  if (!shape.is_array()) return "";
  std::string text;
  for (const auto& extent : shape) text += (text.empty() ? "" : ", ") + extent.dump();
  return "[" + text + "]";
}

std::string argumentText(const json& value, const std::map<std::string, TensorEntry>& tensors) {
  if (value.is_null()) return "none";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::string text;
    for (const auto& item : value) text += (text.empty() ? "" : ", ") + argumentText(item, tensors);
    return "(" + text + ")";
  }
  if (!value.is_object()) return value.dump();
  std::string text = shapeText(value, tensors);
  if (value.contains("draw")) text += " drawn (" + textOf(value["draw"], "kind") + ")";
  if (value.contains("fill")) text += " filled with " + argumentText(value["fill"], tensors);
  if (const auto found = tensors.find(textOf(value, "tensor")); found != tensors.end()) {
    const std::string& dtype = found->second.dtype;
    text += dtype == "I64" ? " int64" : dtype == "I32" ? " int32" : dtype == "BOOL" ? " bool" : "";
  }
  if (value.value("complex", false)) text += " complex";
  if (value.contains("dtype")) text += " " + textOf(value, "dtype");
  if (value.contains("strided")) {
    text += " a view with strides " + value["strided"].value("stride", json()).dump() +
            " at offset " + value["strided"].value("offset", json(0)).dump();
  }
  return text;
}

}  // namespace assay
