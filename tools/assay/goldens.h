// The goldens' index and JSON files, as far as a person asks about them: which operators and cases
// there are, how they are judged, and what a case's arguments are. Needs no LibTorch.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures/core/safetensors.h"
#include "tools/assay/problem.h"

namespace assay {

// One row of golden/index.json.
struct GoldenRow {
  std::string name;            // "conv2d"
  std::string family;          // "convolution"
  std::filesystem::path path;  // of the JSON file
  std::string sha256;          // of the JSON file
};

// Every operator of golden/index.json, in its order. Throws Problem where the index cannot be read
// or is not of format 1.
std::vector<GoldenRow> readIndex(const std::filesystem::path& goldens);

// The JSON of one operator (docs/golden-format.md). Throws Problem where it is missing or does not
// match its hash.
nlohmann::json readOperator(const GoldenRow& row);

// The tensors that an operator's cases lead to, by key. Throws Problem where the file is missing or
// broken.
std::map<std::string, TensorEntry> readTensors(const GoldenRow& row, const nlohmann::json& file);

// An operator's golden with all of its data, to compute with.
struct GoldenData {
  nlohmann::json file;
  std::string bytes;  // of the safetensors file
  std::map<std::string, TensorEntry> tensors;
};

// Throws Problem where a file is missing, broken or does not match its hash.
GoldenData readGoldenData(const GoldenRow& row);

// "aten::conv2d", or "aten::pow.Tensor_Scalar".
std::string schemaName(const nlohmann::json& file);

// "[4, 16]" of a tensor value: stored, drawn or filled. Empty where the file does not tell.
std::string shapeText(const nlohmann::json& value,
                      const std::map<std::string, TensorEntry>& tensors);

// An argument as a reader wants it: "[4, 16] stored", "[64, 3] drawn (normal)", "2.5", "none".
std::string argumentText(const nlohmann::json& value,
                         const std::map<std::string, TensorEntry>& tensors);

}  // namespace assay
