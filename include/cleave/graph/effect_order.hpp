// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/numbering.hpp"

namespace cleave::inline v0_2 {

/// For each node, the nodes that it must follow because both access the same memory, file or random state. An
/// adapter keeps one and returns its entries from `after(n)`.
template <handle Node>
class effect_order {
 public:
  effect_order() = default;
  effect_order(numbering<Node, std::size_t> nodes, detail::csr<std::size_t, Node> earlier)
      : nodes_(std::move(nodes)), earlier_(std::move(earlier)) {}

  /// Returns the nodes that `n` must follow directly, each once. A node that was not listed follows none.
  std::span<Node const> operator[](Node const& n) const {
    auto const at = nodes_.find(n);
    return at == none<std::size_t> ? std::span<Node const>() : earlier_[at];
  }

 private:
  numbering<Node, std::size_t> nodes_;
  detail::csr<std::size_t, Node> earlier_;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Records which nodes access which resources, node after node. Nodes and resources are numbers.
class access_log {
 public:
  /// Begins the next node.
  void begin() { ++node_; }

  /// Records a read. Calls `follow(m)` if the node must follow node m and has not been told so.
  template <class F>
  void read(std::size_t resource, F follow) {
    auto& r = at(resource);
    follow_writer(r, follow);
    if (r.readers.empty() || r.readers.back() != node_) r.readers.push_back(node_);
  }

  /// Records a write. The readers since the last write follow that write already.
  template <class F>
  void write(std::size_t resource, F follow) {
    auto& r = at(resource);
    bool read_by_others = false;
    for (auto const reader : r.readers) {
      if (reader == node_) continue;
      read_by_others = true;
      once(reader, follow);
    }
    if (!read_by_others) follow_writer(r, follow);
    r.writer = node_;
    r.readers.clear();
  }

 private:
  struct accesses {
    std::size_t writer = none<std::size_t>;
    std::vector<std::size_t> readers;  // since the last write
  };

  accesses& at(std::size_t resource) {
    if (resource >= last_.size()) last_.resize(resource + 1);
    return last_[resource];
  }

  template <class F>
  void follow_writer(accesses const& r, F& follow) {
    if (r.writer != none<std::size_t> && r.writer != node_) once(r.writer, follow);
  }
  template <class F>
  void once(std::size_t earlier, F& follow) {
    if (told_.size() <= earlier) told_.resize(node_ + 1, none<std::size_t>);
    if (std::exchange(told_[earlier], node_) != node_) follow(earlier);
  }

  std::size_t node_ = none<std::size_t>;  // the first `begin` makes it 0
  std::vector<accesses> last_;            // by resource
  std::vector<std::size_t> told_;         // by node: the last node that was told to follow it
};

/// Numbers the resources that `reads(n)` and `writes(n)` return. A truth value stands for the one resource of
/// all nodes.
template <class List>
class resource_numbers {
  static constexpr bool is_flag = std::same_as<List, bool>;

 public:
  template <class L, class F>
  void each(L&& list, F f) {
    if constexpr (is_flag) {
      if (list) f(std::size_t{});
    } else {
      for (auto const& one : list) f(numbers_.insert(one));
    }
  }

 private:
  template <class L>
  struct resource_of {
    using type = std::ranges::range_value_t<L>;
  };
  using resource = typename std::conditional_t<is_flag, std::type_identity<int>, resource_of<List>>::type;
  numbering<resource, std::size_t> numbers_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the order of nodes that access the same resources, such as buffers, files or random state. Of two
/// nodes that access a resource, the later one must follow the earlier one if either writes it.
///
/// `nodes` are in program order. `reads(n)` and `writes(n)` return ranges of the resources that `n` reads and
/// writes; a resource is any handle. If all that is known is that a node accesses memory, they return `bool`.
///
/// The result lists direct predecessors only. A read follows the last write of the resource. A write follows
/// the reads since the last write, or that write if there are none. All other orders follow from these.
/// Expected O(nodes + accesses).
template <std::ranges::input_range Nodes, class Reads, class Writes>
auto order_effects(Nodes&& nodes, Reads reads, Writes writes) {
  using node = std::ranges::range_value_t<Nodes>;
  using list = std::remove_cvref_t<decltype(reads(std::declval<node const&>()))>;
  static_assert(std::same_as<list, std::remove_cvref_t<decltype(writes(std::declval<node const&>()))>>,
                "order_effects: reads(n) and writes(n) must return the same type");
  detail::resource_numbers<list> resources;
  numbering<node, std::size_t> seen;
  detail::csr<std::size_t, node> earlier;
  detail::access_log log;
  for (auto const& n : nodes) {
    if (auto const before = seen.size(); seen.insert(n) != before) continue;  // find_adapter_fault names it
    log.begin();
    auto const follow = [&](std::size_t m) { earlier.add(node(seen[m])); };
    resources.each(reads(n), [&](std::size_t r) { log.read(r, follow); });
    resources.each(writes(n), [&](std::size_t r) { log.write(r, follow); });
    earlier.close();
  }
  return effect_order<node>(std::move(seen), std::move(earlier));
}

}  // namespace cleave
