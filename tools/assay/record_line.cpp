#include "tools/assay/record_line.h"

#include <set>
#include <unordered_map>

#include "fixtures/core/text.h"

namespace assay {
namespace {

using nlohmann::json;

using TextField = std::string CheckRecord::*;
using NumberField = double CheckRecord::*;
using CountField = int64_t CheckRecord::*;

// Fills one CheckRecord while nlohmann's parser walks over a line. Returning false ends the walk.
class LineHandler {
 public:
  using number_integer_t = json::number_integer_t;
  using number_unsigned_t = json::number_unsigned_t;
  using number_float_t = json::number_float_t;
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  explicit LineHandler(CheckRecord& check) : check_(check) {}

  // The parser dictates these names.
  // NOLINTBEGIN(readability-identifier-naming)
  bool null() { return value(); }
  bool boolean(bool) { return isTyped() ? wrongType() : value(); }
  bool number_integer(number_integer_t number) { return integer(number); }
  bool number_unsigned(number_unsigned_t number) {
    if (number > static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max()))
      return number_float(static_cast<double>(number), "");
    return integer(static_cast<int64_t>(number));
  }
  bool number_float(number_float_t number, const string_t&) {
    if (isTyped() && !number_) return wrongType();
    if (depth_ == 1 && number_) check_.*number_ = number;
    return value();
  }
  bool string(string_t& text) {
    if (depth_ == 1) {
      if (text_) {
        take(text);
      } else if (isStatus_) {
        readStatus(text);
      } else if (number_) {
        if (text != "inf" && text != "-inf" && text != "nan") return wrongType();
        check_.*number_ = text == "inf"    ? std::numeric_limits<double>::infinity()
                          : text == "-inf" ? -std::numeric_limits<double>::infinity()
                                           : std::numeric_limits<double>::quiet_NaN();
      } else if (count_) {
        return wrongType();
      }
    }
    return value();
  }
  bool binary(binary_t&) { return value(); }
  bool start_object(size_t) { return isTyped() ? wrongType() : open(); }
  bool end_object() { return close(); }
  bool start_array(size_t) { return isTyped() ? wrongType() : open(); }
  bool end_array() { return close(); }
  bool key(string_t& name) {
    if (depth_ == 1) choose(name);
    return problem_.empty();
  }
  bool parse_error(size_t, const std::string&, const json::exception&) {
    problem_ = kNotJson;
    return false;
  }
  // NOLINTEND(readability-identifier-naming)

  // Why the line is no record; empty where it is one.
  [[nodiscard]] std::string problem() const {
    if (!problem_.empty()) return problem_;
    if (check_.test.empty()) return "has no \"test\"";
    if (!hasStatus_) return "has no \"status\"";
    if (check_.status == Status::kPassed && (check_.failing > 0 || check_.error > check_.bound))
      return "says PASSED beyond its bound";
    return "";
  }

 private:
  void choose(const std::string& name) {
    static const std::unordered_map<std::string_view, TextField> kTexts{
        {"test", &CheckRecord::test},
        {"suite", &CheckRecord::suite},
        {"device", &CheckRecord::device},
        {"operator", &CheckRecord::operatorName},
        {"overload", &CheckRecord::overload},
        {"case", &CheckRecord::caseName},
        {"variant_name", &CheckRecord::variantName},
        {"reason", &CheckRecord::reason},
        {"message", &CheckRecord::message},
        {"what", &CheckRecord::what},
        {"gauge", &CheckRecord::gauge},
        {"sha256", &CheckRecord::sha256},
        {"defect", &CheckRecord::defect}};
    static const std::unordered_map<std::string_view, NumberField> kNumbers{
        {"error", &CheckRecord::error},
        {"bound", &CheckRecord::bound},
        {"effective_bits", &CheckRecord::effectiveBits},
        {"seconds", &CheckRecord::seconds}};
    static const std::unordered_map<std::string_view, CountField> kCounts{
        {"failing", &CheckRecord::failing}, {"checked", &CheckRecord::checked}};
    forget();
    name_ = name;
    // Two parsers may take another one each of two.
    if (!seen_.insert(name).second) problem_ = "has two fields \"" + name + "\"";
    if (const auto text = kTexts.find(name); text != kTexts.end()) {
      text_ = text->second;
    } else if (const auto number = kNumbers.find(name); number != kNumbers.end()) {
      number_ = number->second;
    } else if (const auto count = kCounts.find(name); count != kCounts.end()) {
      count_ = count->second;
    }
    isStatus_ = name == "status";
  }

  // What a person reads may hold anything, made harmless for a terminal; a name may not.
  void take(const std::string& text) {
    const bool prose = text_ == &CheckRecord::message || text_ == &CheckRecord::reason ||
                       text_ == &CheckRecord::what;
    const auto shown = printable(text);
    if (!prose && (shown != text || text.find('\n') != std::string::npos))
      problem_ = "has control characters in \"" + name_ + "\"";
    check_.*text_ = shown;
  }

  void readStatus(const std::string& text) {
    try {
      check_.status = statusFromName(text);
      hasStatus_ = true;
    } catch (const std::invalid_argument&) {
      problem_ = "has the unknown status \"" + text + "\" (a newer Assay's?)";
    }
  }

  bool integer(int64_t number) {
    if (depth_ == 1) {
      if (text_ || isStatus_ || (count_ && number < 0)) return wrongType();
      if (count_) check_.*count_ = number;
      if (number_) check_.*number_ = static_cast<double>(number);
    }
    return value();
  }

  void forget() {
    text_ = nullptr, number_ = nullptr, count_ = nullptr;
    isStatus_ = false;
  }

  bool value() {
    if (depth_ == 0) problem_ = "is no object";
    return problem_.empty();
  }
  bool open() {
    if (depth_ > 0) forget();
    if (++depth_ > kDeepestJson) problem_ = "is nested too deeply";
    return problem_.empty();
  }
  // Is a field being read whose type matters?
  [[nodiscard]] bool isTyped() const {
    return depth_ == 1 && (text_ || number_ || count_ || isStatus_);
  }
  bool wrongType() {
    problem_ = "has a \"" + name_ + "\" of the wrong type: it must be " +
               (number_  ? "a number"
                : count_ ? "a whole number from 0 on"
                         : "a text");
    return false;
  }
  bool close() {
    --depth_;
    return true;
  }

  CheckRecord& check_;
  int depth_ = 0;
  TextField text_ = nullptr;
  NumberField number_ = nullptr;
  CountField count_ = nullptr;
  bool isStatus_ = false;
  bool hasStatus_ = false;
  std::string name_;
  std::set<std::string> seen_;
  std::string problem_;
};

}  // namespace

const json& recordShape() {
  static const json kShape = json::parse(R"({
      "test": "text", "suite": "text", "operator": "text", "overload": "text", "case": "text", "variant_name": "text",
      "device": "text", "status": "text", "reason": "text", "message": "text", "what": "text", "gauge": "text",
      "error": "number", "bound": "number", "why": "text", "effective_bits": "number", "failing": "count",
      "checked": "count", "sha256": "text", "seconds": "number", "defect": "text", "repro": "text",
      "variant": {"device": "text", "dtype": "text", "direction": "text", "layout": "text", "form": "text",
                  "lengths": "flag", "math": "text", "cudnn": "flag", "benchmark": "flag", "deterministic": "flag",
                  "threads": "count"},
      "worst": [{"index": "any", "got": "number", "want": "number", "error": "number"}],
      "stored": [{"what": "text", "dtype": "text", "shape": ["count"], "offset": "count", "bytes": "count"}],
      "details": {"determinism": {"promise": "text", "verdict": "text",
                                  "kinds": {"*": {"runs": "count", "differing": "count", "relative": "number"}}},
                  "layers": [{}]}})");
  return kShape;
}

std::string parseLine(std::string_view line, CheckRecord& check) {
  LineHandler handler(check);
  json::sax_parse(line.begin(), line.end(), &handler);
  return handler.problem();
}

}  // namespace assay
