// SPDX-License-Identifier: MIT
// Fuzzes text typed by a user, which is read or rejected, and names in foreign files, which are made
// printable.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cleave/adapt/onnx/shape.hpp"
#include "cleave/core/bytes.hpp"
#include "cleave/core/escape.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/printable.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// Returns the number of characters of `text`, all of which must be printable.
std::size_t shown_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size(); ++width) {
    auto const c = utf8_at(text, at);
    expects(is_printable_character(c.code), "characters that show");
    at += c.bytes;
  }
  return width;
}

void check_size(std::string_view text) {
  auto const size = parse_bytes(text);
  if (!size) return;
  auto const again = parse_bytes(format_bytes(*size));
  expects(again.has_value() || *size > ~std::uint64_t{0} / 64 * 63, "a size that is read back");
}

void check_shape(std::string_view text) {
  try {
    for (auto const d : cleave::onnx::parse_shape(text).dims) expects(d >= -1, "a dimension or ?");
  } catch (cleave::onnx::error const& e) {
    shown_width(e.what());
  }
  try {
    auto const [name, value] = cleave::onnx::parse_assignment(text);
    expects(!name.empty() && name + "=" + std::string(value) == text, "both sides of the text");
    expects(cleave::onnx::parse_dimension(value) >= 0, "a number from 0");
  } catch (cleave::onnx::error const& e) {
    shown_width(e.what());
  }
}

void check_name(std::string_view text) {
  for (std::size_t const limit : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{80}})
    expects(shown_width(printable(text, limit)) <= std::max(limit, std::size_t{1}),
            "a name within its limit");
  expects(escape_markup(text).find_first_of("<>\"'") == std::string::npos, "no markup in a name");
  shown_width(escape_markup(text));
  shown_width(escape_dot(text));
  auto const json = nlohmann::json::parse('"' + escape_json(text) + '"').get<std::string>();
  bool well_formed = true;
  for (std::size_t at = 0; at < text.size(); at += utf8_at(text, at).bytes)
    well_formed &= utf8_at(text, at).code != malformed_utf8;
  expects(!well_formed || json == text, "a text that comes back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size > 200) return -1;  // longer ones are slow and test nothing new
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  check_size(text);
  check_shape(text);
  check_name(text);
  return 0;
}
