// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::inline v0_2 {

/// Options of `grid_text`.
struct grid_options {
  std::vector<rank_id> ranks = {};           ///< the rank of each list; if missing, 0, 1, …
  std::optional<std::size_t> marked_step{};  ///< the line of this step ends with ` <-- ERROR HERE`
};

/// Returns the lists side by side as readable text: one line per step, one column per rank, one cell per
/// action, as PyTorch prints them. O(steps * ranks * widest cell).
inline std::string grid_text(std::span<std::vector<action> const> rows, grid_options const& options = {}) {
  std::vector<std::vector<std::string>> columns;
  std::size_t steps = 0;
  for (auto const& row : rows) {
    auto& cells = columns.emplace_back();
    each_cell(std::span(row),
              [&](action const& a, std::span<action const> parts) { cells.push_back(cell_text(a, parts)); });
    steps = (std::max)(steps, cells.size());
  }
  auto const step_digits = std::to_string(steps == 0 ? 0 : steps - 1).size();
  std::string const margin(step_digits + 6, ' ');  // "Step ", the number, ":"

  std::vector<std::size_t> widths;
  std::string text = margin;
  for (std::size_t r = 0; r < columns.size(); ++r) {
    auto const rank = r < options.ranks.size() ? index(options.ranks[r]) : r;
    auto const label = "Rank " + std::to_string(rank);
    auto& width = widths.emplace_back((std::max)(step_digits + 5, label.size()));
    for (auto const& cell : columns[r]) width = (std::max)(width, cell.size());
    text += ' ' + label + std::string(width - label.size(), ' ');
  }
  text += '\n';
  for (std::size_t step = 0; step < steps; ++step) {
    auto const number = std::to_string(step);
    text += "Step " + std::string(step_digits - number.size(), '0') + number + ':';
    for (std::size_t r = 0; r < columns.size(); ++r) {
      auto const cell = step < columns[r].size() ? columns[r][step] : std::string();
      text += ' ' + cell + std::string(widths[r] - cell.size(), ' ');
    }
    text += step == options.marked_step ? " <-- ERROR HERE\n" : "\n";
  }
  return text;
}

/// The kinds of layers in a transformer, in Megatron-LM's letters.
enum class layer_kind : char { embedding = 'E', decoder = 't', multi_token = 'm', loss = 'L' };

/// The layers of each stage, in the order of the model; a stage may be empty.
using layer_layout = std::vector<std::vector<layer_kind>>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A text that is not a layout, or a layout that is not a model.
struct layer_layout_fault {
  enum class kind : std::uint8_t {
    unknown_letter,  ///< not one of E t m L | ( ) * , and not a digit after *
    not_closed,      ///< an unmatched parenthesis, or one inside another
    count_missing,   ///< no number after *
    too_many,        ///< more layers and stages than `most_layers`
    uneven_stages,   ///< `got` stages are not a multiple of `needed` ranks
    embedding,       ///< `got` embeddings, not exactly one that comes first
    loss,            ///< `got` losses, not exactly one that comes last
    decoders,        ///< `got` decoder layers instead of `needed`
  };
  kind what;
  std::size_t position = 0;  ///< index in the text, from 0, if the fault has one
  std::uint64_t got = 0, needed = 0;

  bool operator==(layer_layout_fault const&) const = default;
};

inline constexpr std::size_t most_layers = std::size_t{1} << 20;

/// Returns a sentence that names the fault, its place and a remedy.
inline std::string describe(layer_layout_fault const& f) {
  using enum layer_layout_fault::kind;
  auto const at = "character #" + std::to_string(f.position), got = std::to_string(f.got);
  switch (f.what) {
    case unknown_letter:
      return at + " is unknown; write E, t, m or L for layers and | between stages";
    case not_closed:
      return at + " is a parenthesis without its other half, or inside another one";
    case count_missing:
      return at + " is a * without a number after it";
    case too_many:
      return at + " makes more than 1,048,576 layers and stages";
    case uneven_stages:
      return got + " stages are not a multiple of the number of ranks, " + std::to_string(f.needed);
    case embedding:
      return "there must be exactly one embedding E, as the first layer; found " + got;
    case loss:
      return "there must be exactly one loss L, as the last layer; found " + got;
    case decoders:
      return "there are " + got + " decoder layers t instead of " + std::to_string(f.needed);
  }
  return {};
}

using layer_layout_error = fault_error<layer_layout_fault>;

/// Expands the repetitions of a layout, for `read_layer_layout`.
class layout_expander {
 public:
  explicit layout_expander(std::string_view text) : text_(text) {}

  /// Returns the layout in letters and bars only.
  std::string take() {
    for (; at_ < text_.size(); ++at_) {
      char const c = text_[at_];
      if (c == ',') continue;  // commas are allowed for readability
      if (c == '(') {
        if (group_) fail(layer_layout_fault::kind::not_closed);
        group_ = out_.size();
        opened_ = at_;
        last_ = out_.npos;  // a group does not repeat what precedes it
      } else if (c == ')') {
        if (!group_) fail(layer_layout_fault::kind::not_closed);
        last_ = *group_;
        group_.reset();
      } else if (c == '*') {
        repeat();
      } else if (c == '|' || c == 'E' || c == 't' || c == 'm' || c == 'L') {
        last_ = out_.size();
        out_ += c;
      } else {
        fail(layer_layout_fault::kind::unknown_letter);
      }
    }
    at_ = opened_;
    if (group_) fail(layer_layout_fault::kind::not_closed);
    return out_;
  }

 private:
  [[noreturn]] void fail(layer_layout_fault::kind what) const {
    throw layer_layout_error("layout " + quoted(text_), {what, at_});
  }

  /// Repeats the text from `last_` on as often as the number after the star says.
  void repeat() {
    auto const star = at_;
    std::size_t count = 0;
    for (; at_ + 1 < text_.size() && text_[at_ + 1] >= '0' && text_[at_ + 1] <= '9'; ++at_)
      count = (std::min)(count * 10 + static_cast<std::size_t>(text_[at_ + 1] - '0'), most_layers + 1);
    auto const times = at_;
    at_ = star;
    if (times == star || last_ == out_.npos) fail(layer_layout_fault::kind::count_missing);
    auto const repeated = out_.substr(last_);
    if (repeated.size() * count > most_layers - last_) fail(layer_layout_fault::kind::too_many);
    out_.resize(last_);
    for (; count > 0; --count) out_ += repeated;
    at_ = times;
    last_ = out_.npos;
  }

  std::string_view text_;
  std::size_t at_ = 0, opened_ = 0;
  std::string out_;
  std::size_t last_ = std::string::npos;  // the start of the text that a * repeats
  std::optional<std::size_t> group_;      // the start of the open group
};
}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Reads Megatron-LM's `--pipeline-model-parallel-layout`, such as `Et*3|(tt|)*29,m|L`. Letters are layers,
/// and | ends a stage. `*n` repeats a letter or a group in parentheses. Commas are ignored.
/// O(size of the result).
/// \throws layer_layout_error
inline layer_layout read_layer_layout(std::string_view text) {
  layer_layout layout(1);
  for (char const c : detail::layout_expander(text).take())
    if (c == '|')
      layout.emplace_back();
    else
      layout.back().push_back(static_cast<layer_kind>(c));
  return layout;
}

/// Returns the layout in letters and bars, without repetitions.
inline std::string layer_layout_text(layer_layout const& layout) {
  std::string text;
  for (std::size_t s = 0; s < layout.size(); ++s) {
    if (s > 0) text += '|';
    for (auto const kind : layout[s]) text += static_cast<char>(kind);
  }
  return text;
}

/// Returns the layout with runs of equal layers written once, such as `Et*3|t*4|t*3L`.
inline std::string short_layer_layout_text(layer_layout const& layout) {
  std::string text;
  for (auto const& stage : layout) {
    if (&stage != layout.data()) text += '|';
    for (std::size_t i = 0, run = 1; i < stage.size(); i += run) {
      for (run = 1; i + run < stage.size() && stage[i + run] == stage[i];) ++run;
      text += static_cast<char>(stage[i]);
      if (run > 1) text += '*' + std::to_string(run);
    }
  }
  return text;
}

/// Returns the number of layers of one kind in each stage.
inline std::vector<std::uint32_t> layers_of_stages(layer_layout const& layout,
                                                   layer_kind kind = layer_kind::decoder) {
  std::vector<std::uint32_t> layers;
  for (auto const& stage : layout)
    layers.push_back(static_cast<std::uint32_t>(std::ranges::count(stage, kind)));
  return layers;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the reason why a layout is not a model with `layers` decoder layers on `ranks` ranks, placed
/// round-robin, or nothing. O(layers). Precondition: `ranks` is not 0.
inline std::optional<layer_layout_fault> find_layer_layout_fault(layer_layout const& layout,
                                                                 std::uint32_t ranks, std::uint32_t layers) {
  using enum layer_layout_fault::kind;
  if (layout.size() % ranks != 0) return layer_layout_fault{uneven_stages, 0, layout.size(), ranks};
  std::string letters = layer_layout_text(layout);
  std::erase(letters, '|');
  auto const count = [&](layer_kind kind) {
    return static_cast<std::uint64_t>(std::ranges::count(letters, static_cast<char>(kind)));
  };
  auto const embeddings = count(layer_kind::embedding), losses = count(layer_kind::loss);
  if (embeddings != 1 || letters.front() != 'E') return layer_layout_fault{embedding, 0, embeddings, 1};
  if (losses != 1 || letters.back() != 'L') return layer_layout_fault{loss, 0, losses, 1};
  if (count(layer_kind::decoder) != layers)
    return layer_layout_fault{layer_layout_fault::kind::decoders, 0, count(layer_kind::decoder), layers};
  return std::nullopt;
}
/// A text that is not a list of part bounds, and the index of the bound at fault.
struct parts_fault {
  enum class kind : std::uint8_t {
    not_a_number,   ///< a bound is not a number, or has more than nine digits
    not_from_zero,  ///< the first bound is not 0
    descending,     ///< a bound is below its predecessor
    too_short,      ///< there are fewer than two bounds
  };
  kind what;
  std::size_t bound = 0;  ///< index of the bound, from 0

  bool operator==(parts_fault const&) const = default;
};

/// Returns a sentence that names the fault, its place and a remedy.
inline std::string describe(parts_fault const& f) {
  using enum parts_fault::kind;
  auto const at = "bound #" + std::to_string(f.bound);
  switch (f.what) {
    case not_a_number:
      return at + " is not the number of a layer; write [0, 3, 7] for two stages of three and four layers";
    case not_from_zero:
      return at + " is not 0, where the first stage begins";
    case descending:
      return at + " is below the one before";
    case too_short:
      return "fewer than two bounds make no stage; write [0, 7] for one stage of seven layers";
  }
  return {};
}

using parts_error = fault_error<parts_fault>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Reads the `parts` of DeepSpeed's PipelineModule, such as `[0, 3, 7]`. Stage s has the layers from bound s
/// up to, but not including, bound s + 1. Brackets may be omitted. A stage may be empty. O(size of the text).
/// \throws parts_error
inline std::vector<std::uint32_t> read_deepspeed_parts(std::string_view text) {
  using enum detail::parts_fault::kind;
  auto const trimmed = [](std::string_view t, std::string_view off) {
    auto const first = t.find_first_not_of(off);
    return first == t.npos ? std::string_view() : t.substr(first, t.find_last_not_of(off) + 1 - first);
  };
  auto const refuse = [&](detail::parts_fault const& f) {
    throw detail::parts_error("parts " + quoted(text), f);
  };
  auto rest = trimmed(text, " \t\r\n");
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  std::vector<std::uint32_t> bounds;
  while (true) {
    auto const end = rest.find(',');
    auto const bound = trimmed(rest.substr(0, end), " \t\r\n");
    if (bound.empty() || bound.size() > 9 || bound.find_first_not_of("0123456789") != bound.npos)
      refuse({not_a_number, bounds.size()});
    std::uint32_t n = 0;
    for (char const c : bound) n = n * 10 + static_cast<std::uint32_t>(c - '0');
    if (bounds.empty() && n != 0) refuse({not_from_zero, 0});
    if (!bounds.empty() && n < bounds.back()) refuse({descending, bounds.size()});
    bounds.push_back(n);
    if (end == rest.npos) break;
    rest.remove_prefix(end + 1);
  }
  if (bounds.size() < 2) refuse({too_short, 0});
  return bounds;
}

/// Returns the bounds as text, such as `[0, 3, 7]`.
inline std::string deepspeed_parts_text(std::vector<std::uint32_t> const& bounds) {
  std::string text = "[";
  for (std::size_t i = 0; i < bounds.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(bounds[i]);
  return text + "]";
}

}  // namespace cleave
