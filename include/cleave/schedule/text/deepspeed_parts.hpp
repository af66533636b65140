// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"

namespace cleave::detail {

/// Why a text is no list of parts, and where.
struct parts_fault {
  enum class kind : std::uint8_t {
    not_a_number,   ///< a bound that is none, or has no place in 32 bits
    not_from_zero,  ///< the first bound is not 0
    descending,     ///< a bound is below the one before
    too_short,      ///< fewer than two bounds
  };
  kind what;
  std::size_t bound = 0;  ///< which, from 0

  bool operator==(parts_fault const&) const = default;
};

/// What, where and how to mend it.
inline std::string describe(parts_fault const& f) {
  using enum parts_fault::kind;
  auto const at = "bound #" + std::to_string(f.bound);
  switch (f.what) {
    case not_a_number:
      return at + " is no number of a layer; write [0, 3, 7] for two stages of three and four layers";
    case not_from_zero:
      return at + " is not 0, where the first stage begins";
    case descending:
      return at + " is below the one before";
    case too_short:
      return "there are fewer than two bounds, so no stage";
  }
  return {};
}

class parts_error : public witness_error<parts_fault> {
 public:
  parts_error(std::string_view text, parts_fault f)
      : witness_error("parts " + quoted(text) + ": " + describe(f), f) {}
};
}  // namespace cleave::detail

namespace cleave {

/// Reads the `parts` of DeepSpeed's PipelineModule, `[0, 3, 7]`: stage s has the layers from bound s up to
/// bound s + 1. Brackets may be left out. A stage may be empty. O(size of the text). \throws parts_error
inline std::vector<std::uint32_t> read_deepspeed_parts(std::string_view text) {
  using enum detail::parts_fault::kind;
  auto const trimmed = [](std::string_view t, std::string_view off) {
    auto const first = t.find_first_not_of(off);
    return first == t.npos ? std::string_view() : t.substr(first, t.find_last_not_of(off) + 1 - first);
  };
  auto rest = trimmed(text, " \t\r\n");
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  std::vector<std::uint32_t> bounds;
  while (true) {
    auto const end = rest.find(',');
    auto const bound = trimmed(rest.substr(0, end), " \t\r\n");
    if (bound.empty() || bound.size() > 9 || bound.find_first_not_of("0123456789") != bound.npos)
      throw detail::parts_error(text, {not_a_number, bounds.size()});
    std::uint32_t n = 0;
    for (char const c : bound) n = n * 10 + static_cast<std::uint32_t>(c - '0');
    if (bounds.empty() && n != 0) throw detail::parts_error(text, {not_from_zero, 0});
    if (!bounds.empty() && n < bounds.back()) throw detail::parts_error(text, {descending, bounds.size()});
    bounds.push_back(n);
    if (end == rest.npos) break;
    rest.remove_prefix(end + 1);
  }
  if (bounds.size() < 2) throw detail::parts_error(text, {too_short, 0});
  return bounds;
}

/// `[0, 3, 7]`.
inline std::string deepspeed_parts_text(std::vector<std::uint32_t> const& bounds) {
  std::string text = "[";
  for (std::size_t i = 0; i < bounds.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(bounds[i]);
  return text + "]";
}

}  // namespace cleave

