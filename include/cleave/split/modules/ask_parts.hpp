// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_scopes.hpp"
#include "cleave/graph/scopes.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/named/assign.hpp"
#include "cleave/split/modules/module_split_errors.hpp"

namespace cleave {

/// Which attributes belong to a part: none, they are passed to the pieces that read them; or those for which
/// the callback, which is then asked for them too, has an answer: they are read inside their part like calls.
enum class attribute_rule : std::uint8_t { passed, assignable };

/// How often the callback is asked: once for each call, in graph order; or, in a graph with scopes, as often
/// as torch.fx asks: again for each mark, once for each scope that is open, and once at the end. Then an
/// answer that changes is an error.
enum class asking : std::uint8_t { once, repeated };

/// Which answers there may be: any; or, in a graph with scopes, as torch.fx has it, numbers from -1 on that
/// do not decrease along the graph.
enum class part_numbers : std::uint8_t { any, ascending };

}  // namespace cleave

namespace cleave::detail {

/// What a callback said about a module_graph.
struct module_parts {
  std::vector<part_id> of_node;    ///< of a node in list()
  partition p;                     ///< the same for those that have a part, in order
  std::vector<std::string> label;  ///< of a part; parts are numbered by first appearance
};

/// How an answer is kept: text by value, so that no label dangles.
template <class Answer>
struct kept_answer {
  using type = label_t<Answer>;
};
template <std::convertible_to<std::string_view> Text>
struct kept_answer<std::optional<Text>> {
  using type = std::optional<std::string>;
};

/// Asks a callback for the part of each call; `split_module` is its one use.
template <class F>
class part_asker {
 public:
  using position = module_graph::position;
  using answer =
      typename kept_answer<std::remove_cvref_t<std::invoke_result_t<F&, module_node const&>>>::type;

  part_asker(module_graph const& g, F& part_of, std::vector<module_mark> const& marks)
      : g_(g), part_of_(part_of), marks_(marks) {}

  module_parts ask(attribute_rule attributes, asking how) {
    bool const repeated = how == asking::repeated && !marks_.empty();
    auto const times = repeated ? times_asked() : std::vector<std::uint32_t>();
    module_parts parts{std::vector<part_id>(g_.list().size(), no_part), {}, {}};
    parts.p.of.reserve(g_.nodes().size());
    label_numbering<std::string> labels;
    std::optional<answer> last;  // neighbours often share a part
    for (position n = 0; n < g_.list().size(); ++n) {
      bool const attribute = attributes == attribute_rule::assignable && g_[n].kind == node_kind::get_attr;
      if (!attribute && !module_graph::is_call(g_[n])) continue;
      answer now(part_of_(g_[n]));
      if (!last || !(now == *last)) {
        auto label = text_of(now);
        if (!label && attribute) continue;
        if (!label) throw unassigned_node_error(g_, n);
        parts.of_node[n] = part_id{labels.insert(*std::move(label))};
        last = std::move(now);
      } else {
        parts.of_node[n] = parts.p.of.back();
      }
      parts.p.of.push_back(parts.of_node[n]);
      for (std::uint32_t i = 1; repeated && i < times[n]; ++i) demand_same(n, *last);
    }
    parts.label = std::move(labels).labels();
    parts.p.parts = static_cast<std::uint32_t>(parts.label.size());
    if (repeated)
      for (auto const n : g_.nodes())
        if (text_of(part_of_(g_[n])) != parts.label[index(parts.of_node[n])])
          throw unstable_answer_error(g_, n);
    return parts;
  }

  /// \throws part_number_error
  void demand_ascending(module_parts const& parts) const {
    if (marks_.empty()) return;
    std::int64_t highest = -1;
    for (auto const n : g_.nodes()) {
      auto const& label = parts.label[index(parts.of_node[n])];
      if (!numbers || std::stoll(label) < highest)
        throw part_number_error(g_, n, label, std::to_string(highest));
      highest = std::stoll(label);
    }
  }

 private:
  template <class T>
  static constexpr bool is_number() {
    if constexpr (requires(T t) { t.has_value(); })
      return std::integral<typename T::value_type>;
    else
      return std::integral<T>;
  }
  static constexpr bool numbers = is_number<answer>();

  template <class T>
  static std::optional<std::string> text_of(T&& a) {
    if constexpr (std::integral<std::remove_cvref_t<T>>)
      return std::to_string(a);
    else if constexpr (requires { a.has_value(); })
      return a ? text_of(*std::forward<T>(a)) : std::nullopt;
    else
      return std::string(std::forward<T>(a));
  }

  void demand_same(position n, answer const& given) {
    if (!(answer(part_of_(g_[n])) == given)) throw unstable_answer_error(g_, n);
  }

  /// How often each node is asked for in the first round.
  std::vector<std::uint32_t> times_asked() const {
    std::vector<std::uint32_t> times(g_.list().size(), 1);
    std::uint32_t entered = 0;
    bool set = false;
    auto mark = marks_.begin();
    for (auto const n : g_.nodes()) {
      if (mark != marks_.end() && mark->node == n) {
        ++times[n];
        set |= mark->mark.what == scope_action::set;
        if (mark->mark.what == scope_action::enter) ++entered;
        if (mark->mark.what == scope_action::leave && entered > 0) --entered;
        ++mark;
      }
      times[n] += entered + (set ? 1 : 0);
    }
    return times;
  }

  module_graph const& g_;
  F& part_of_;
  std::vector<module_mark> const& marks_;
};

}  // namespace cleave::detail
