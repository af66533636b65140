// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/read_real.hpp"

/// The texts in which frameworks take the layers of each stage: vLLM, llama.cpp and torchtitan. Those of
/// Megatron-LM and DeepSpeed are in `layer_layout.hpp`.
namespace cleave::inline v0_2::detail {

/// A text that is not a plan of layers.
struct layer_plan_fault {
  enum class kind : std::uint8_t {
    not_a_count,  ///< item `at` is not a number of layers, or has more than six digits
    not_a_share,  ///< item `at` is not a share: a finite number from 0
    all_zero,     ///< no share is above 0
    not_a_list,   ///< at character `at` a list of stages begins or goes on, in brackets
    not_a_name,   ///< at character `at` there is no name of a module in quotes
    not_closed,   ///< the quote or the bracket at character `at` has no other half
    not_ended,    ///< character `at` follows the end of the list
    repeated,     ///< the name at character `at` is in the plan twice
  };
  kind what;
  std::size_t at = 0;  ///< index from 0: of an item between commas, or of a character

  bool operator==(layer_plan_fault const&) const = default;
};

/// Returns a sentence that names the fault, its place and a remedy.
inline std::string describe(layer_plan_fault const& f) {
  using enum layer_plan_fault::kind;
  auto const at = std::to_string(f.at);
  switch (f.what) {
    case not_a_count:
      return "item #" + at +
             " is not a number of layers from 0 to 999999; write the layers of each stage, as in 8,9,9,6";
    case not_a_share:
      return "item #" + at + " is not a share of a device; write a number from 0 for each device, as in 3,1";
    case all_zero:
      return "no share is above 0, which leaves the split to the memory of the devices; write one for each";
    case not_a_list:
      return "expected a list in brackets at character #" + at +
             R"(; write a list for each stage, as in [["embed", "layers.0"], ["layers.1", "head"]])";
    case not_a_name:
      return "expected the name of a module in quotes at character #" + at + R"(, as in "layers.0")";
    case not_closed:
      return "character #" + at + " opens a quote or a bracket that nothing closes";
    case not_ended:
      return "unexpected text from character #" + at + " on, after the end of the list";
    case repeated:
      return "the module at character #" + at + " is in the plan twice; each module is in one stage";
  }
  return {};
}

using layer_plan_error = fault_error<layer_plan_fault>;

/// Splits a text at each of the characters `at`. Blanks around an item are left out. O(size).
inline std::vector<std::string_view> items_between(std::string_view text, std::string_view at) {
  constexpr std::string_view blanks = " \t\r\n";
  std::vector<std::string_view> items;
  while (true) {
    auto const end = text.find_first_of(at);
    auto item = text.substr(0, end);
    auto const first = (std::min)(item.find_first_not_of(blanks), item.size());
    item.remove_prefix(first);
    items.push_back(item.substr(0, item.find_last_not_of(blanks) + 1));
    if (end == text.npos) return items;
    text.remove_prefix(end + 1);
  }
}

/// Reads a list of lists of names, for `read_module_lists`.
class module_list_reader {
 public:
  explicit module_list_reader(std::string_view text) : text_(text) {}

  std::vector<std::vector<std::string>> read() {
    std::vector<std::vector<std::string>> lists;
    auto const outer = open();
    while (!closes(outer)) {
      auto& names = lists.emplace_back();
      auto const inner = open();
      while (!closes(inner)) {
        names.push_back(name());
        separate();
      }
      separate();
    }
    blanks();
    if (at_ < text_.size()) fail(layer_plan_fault::kind::not_ended, at_);
    if (lists.empty()) fail(layer_plan_fault::kind::not_a_list, outer + 1);
    return lists;
  }

 private:
  [[noreturn]] void fail(layer_plan_fault::kind what, std::size_t at) const {
    throw layer_plan_error("lists of modules " + quoted(text_), {what, at});
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void blanks() { at_ = (std::min)(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
  std::size_t open() {
    blanks();
    if (peek() != '[') fail(layer_plan_fault::kind::not_a_list, at_);
    return at_++;
  }
  bool closes(std::size_t opened) {
    blanks();
    if (at_ == text_.size()) fail(layer_plan_fault::kind::not_closed, opened);
    if (peek() != ']') return false;
    ++at_;
    return true;
  }
  /// Passes a comma. A comma may precede a closing bracket, as in Python and TOML.
  void separate() {
    blanks();
    if (peek() == ',')
      ++at_;
    else if (at_ < text_.size() && peek() != ']')
      fail(layer_plan_fault::kind::not_a_name, at_);
  }
  std::string name() {
    char const quote = peek();
    if (quote != '"' && quote != '\'') fail(layer_plan_fault::kind::not_a_name, at_);
    auto const end = text_.find(quote, at_ + 1);
    if (end == text_.npos) fail(layer_plan_fault::kind::not_closed, at_);
    std::string found(text_.substr(at_ + 1, end - at_ - 1));
    bool const plain = std::ranges::all_of(
        found, [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != '\\' && c != '"'; });
    if (found.empty() || !plain) fail(layer_plan_fault::kind::not_a_name, at_);
    auto const known = std::ranges::lower_bound(seen_, found);
    if (known != seen_.end() && *known == found) fail(layer_plan_fault::kind::repeated, at_);
    seen_.insert(known, found);
    at_ = end + 1;
    return found;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> seen_;  // sorted
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Reads vLLM's `VLLM_PP_LAYER_PARTITION`, such as `8,9,9,6`: the number of layers of each stage. A stage may
/// have none. O(size of the text).
/// \throws layer_plan_error
inline std::vector<std::uint32_t> read_layer_counts(std::string_view text) {
  std::vector<std::uint32_t> counts;
  for (auto const item : detail::items_between(text, ",")) {
    std::uint32_t n = 0;
    bool const digits = item.find_first_not_of("0123456789") == item.npos;
    if (item.empty() || item.size() > 6 || !digits)
      throw detail::layer_plan_error("layers " + quoted(text),
                                     {detail::layer_plan_fault::kind::not_a_count, counts.size()});
    for (char const c : item) n = n * 10 + static_cast<std::uint32_t>(c - '0');
    counts.push_back(n);
  }
  return counts;
}

/// Returns the numbers of layers as text, such as `8,9,9,6`. llama.cpp's `--tensor-split` takes it too.
inline std::string layer_counts_text(std::span<std::uint32_t const> counts) {
  std::string text;
  for (auto const n : counts) text += (text.empty() ? "" : ",") + std::to_string(n);
  return text;
}

/// Reads llama.cpp's `--tensor-split`, such as `3,1` or `0.7/0.3`: the share of each device. O(size of the
/// text).
/// \throws layer_plan_error
inline std::vector<float> read_tensor_split(std::string_view text) {
  using enum detail::layer_plan_fault::kind;
  auto const refuse = [&](detail::layer_plan_fault const& f) {
    throw detail::layer_plan_error("shares " + quoted(text), f);
  };
  std::vector<float> shares;
  for (auto const item : detail::items_between(text, ",/")) {
    float x = 0;
    auto const [end, fault] = detail::read_real(item.data(), item.data() + item.size(), x);
    if (fault != std::errc() || end != item.data() + item.size() || !(x >= 0 && x <= 1e9F))
      refuse({not_a_share, shares.size()});
    shares.push_back(x);
  }
  if (std::ranges::all_of(shares, [](float x) { return x == 0; })) refuse({all_zero, 0});
  return shares;
}

/// Returns the number of layers that llama.cpp puts on each device for these shares if all `layers` are on
/// devices. The output layer counts as one more, the last: `layers` of a model with 32 blocks is 33. Layer i
/// goes to the first device whose sum of shares up to it, divided by the sum of all, is above i / layers, in
/// single precision. O(layers log devices). Precondition: some share is above 0.
inline std::vector<std::uint32_t> layers_by_tensor_split(std::span<float const> shares,
                                                         std::uint32_t layers) {
  std::vector<float> ends;
  float sum = 0;
  for (float const x : shares) ends.push_back(sum += x);
  for (float& end : ends) end /= sum;
  std::vector<std::uint32_t> counts(shares.size());
  for (std::uint32_t i = 0; i < layers; ++i) {
    float const place = static_cast<float>(i) / static_cast<float>(layers);
    ++counts[static_cast<std::size_t>(std::ranges::upper_bound(ends, place) - ends.begin())];
  }
  return counts;
}

/// Reads torchtitan's `module_fqns_per_model_part`: a list of module names for each stage, in the syntax that
/// Python, TOML and JSON share, such as `[["embed", "layers.0"], ["layers.1", "head"]]`. Names may be in
/// single quotes. O(n log n) comparisons for n names.
/// \throws layer_plan_error
inline std::vector<std::vector<std::string>> read_module_lists(std::string_view text) {
  return detail::module_list_reader(text).read();
}

/// Returns lists of module names as text. Precondition: no name has a quote, a backslash or a control
/// character.
inline std::string module_lists_text(std::span<std::vector<std::string> const> lists) {
  std::string text = "[";
  for (auto const& names : lists) {
    text += text.size() > 1 ? ", [" : "[";
    for (std::size_t i = 0; i < names.size(); ++i) text += (i > 0 ? ", \"" : "\"") + names[i] + "\"";
    text += "]";
  }
  return text + "]";
}

}  // namespace cleave
