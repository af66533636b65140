// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/graph/adapter_fault.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/detail/captures.hpp"
#include "cleave/graph/disjoint_sets.hpp"
#include "cleave/graph/label.hpp"
#include "cleave/graph/memory.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/order.hpp"
#include "cleave/graph/snapshot_arrays.hpp"

namespace cleave::inline v0_2::detail {

/// Reads a graph node by node into a `Snapshot`, for `snapshot_of`.
template <class Snapshot, class Graph>
class snapshot_reader {
 public:
  explicit snapshot_reader(Graph const& g) : g_(g), memory_(g) {}

  Snapshot read() {
    if constexpr (std::ranges::sized_range<decltype(g_.nodes())>) make_room(std::ranges::size(g_.nodes()));
    read_arguments();
    for (auto n : g_.nodes()) read_node(n);
    if constexpr (grouped_graph<Graph>) read_together();
    if constexpr (closed_graph<Graph>) refuse_unlisted();
    if constexpr (function_graph<Graph>) read_outputs();
    if constexpr (accompanied_graph<Graph>) read_companions();
    if constexpr (carrying_graph<Graph>) read_carried();
    s_.users = users_of(s_.operands, s_.values());
    if constexpr (!function_graph<Graph>) infer_arguments();
    resolve_replicable();
    read_costs();
    if constexpr (tied_graph<Graph>) read_storage();
    read_groups();
    return std::move(s_);
  }

 private:
  using Index = typename Snapshot::index_type;
  using value = value_t<Graph>;
  using enum adapter_violation;

  /// The record of a memory cell that the second pass over an aliasing graph keeps.
  struct cell_log {
    Index slot = none<Index>;    // of a versioned cell
    std::vector<Index> readers;  // since the last write
    std::vector<Index> touched;  // of a shared cell: all nodes that read or write it
  };
  struct no_memory {
    explicit no_memory(Graph const&) {}
  };

  [[noreturn]] void fault(adapter_violation what, std::size_t at, std::string const& place) {
    if (what == after_its_user || what == follows_a_later)
      topological_order(g_);  // throws cycle_error if there is no order
    raise(adapter_error({what, at}, place));
  }

  void make_room(std::size_t nodes) {
    s_.node.reserve(nodes);
    s_.handle.reserve(nodes);
    for (auto* table : {&s_.operands, &s_.results}) {
      table->first.reserve(nodes + 1);
      table->item.reserve(nodes);
    }
    for (auto* list : {&s_.slot_of_handle, &s_.latest, &s_.slot, &s_.producer}) list->reserve(nodes);
    s_.value.reserve(nodes);
    s_.from.reserve(nodes);
  }

  void read_arguments() {
    auto const claim = [&](value const& v, source from) {
      Index const k = slot(v);
      auto const at = s_.values();
      if (s_.latest[k] != none<Index>)
        fault(s_.from[s_.latest[k]] == from ? input_twice : input_and_state, at,
              "value #" + std::to_string(at) + " of inputs(), then state(), then constants(),");
      Index const made = make(v, k, none<Index>);
      s_.from[made] = from;
      return made;
    };
    if constexpr (function_graph<Graph>)
      for (auto v : g_.inputs()) s_.inputs.push_back(claim(v, source::input));
    if constexpr (stateful_graph<Graph>)
      for (auto v : g_.state()) s_.state.push_back(claim(v, source::state));
    if constexpr (closed_graph<Graph>)
      for (auto v : g_.constants()) claim(v, source::constant);
    listed_ = s_.values();
  }

  void read_together() {
    for (Index n = 0; n < s_.nodes(); ++n) {
      together_.add(n);
      for (auto m : g_.together(s_.node[n])) {
        Index const other = s_.node.find(m);
        if (other == none<Index>) fault(unknown_together_node, n, "node " + label(g_, s_.node[n], n));
        together_.add(other);
      }
      together_.close();
    }
  }

  /// Throws if a node reads a value that became a constant and is not listed.
  void refuse_unlisted() {
    for (Index n = 0; n < s_.nodes(); ++n)
      for (auto const v : s_.operands[n]) {
        if (v < listed_ || s_.producer[v] != none<Index>) continue;
        // A write of shared memory reads it through all its handles. The fault is of the one that a node
        // names.
        auto const all = find_unlisted_values(g_);
        auto const at = all.empty() ? n : narrow<Index>(all.front().node);
        auto const operand = all.empty() ? 0 : all.front().operand;
        raise(adapter_error({unlisted_operand, at, operand}, "operand #" + std::to_string(operand) +
                                                                 " of node " + label(g_, s_.node[at], at)));
      }
  }

  void read_outputs() {
    for (auto v : g_.outputs()) {
      if (s_.latest[slot(v)] == none<Index>) {
        auto const at = s_.outputs.size();
        fault(unmade_output, at, "output #" + std::to_string(at));
      }
      s_.outputs.push_back(use(v));
    }
  }

  void read_node(node_t<Graph> n) {
    Index const at = narrow<Index>(s_.nodes());
    auto const broken = [&](adapter_violation what) { fault(what, at, "node " + label(g_, n, at)); };
    if (s_.node.insert(n) != at) broken(node_twice);

    for (auto v : g_.operands(n)) read(v, at);
    if constexpr (nested_graph<Graph>)
      for (auto v : captures(g_, n)) read(v, at);
    std::vector<Index> written;             // the slots that `n` writes …
    std::vector<value> overwritten;         // … and their handles
    if constexpr (aliasing_graph<Graph>) {  // all reads first, so that the results are numbered consecutively
      for (auto v : g_.overwrites(n)) overwritten.push_back(v);
      for (auto const& v : overwritten) read_overwritten(v, at);
      for (auto const& v : overwritten) overwrite(v, at, written);
    }
    for (auto v : results_of(g_, n)) {
      Index const k = slot(v);
      if (std::find(written.begin(), written.end(), k) !=
          written.end()) {  // the new version, under its new handle
        s_.value[s_.latest[k]] = v;
        continue;
      }
      if (std::find(overwritten.begin(), overwritten.end(), v) != overwritten.end())
        continue;  // viewed, under its old handle
      if (s_.latest[k] != none<Index>) broken(clash(k));
      s_.results.add(make(v, k, at));
      if constexpr (aliasing_graph<Graph>)
        if (auto const c = memory_.number(v); memory_.cell(c).shared()) log(c).touched.push_back(at);
    }
    if constexpr (effectful_graph<Graph>)
      for (auto m : g_.after(n)) {
        Index const before = s_.node.find(m);
        if (before == none<Index> || before == at) broken(follows_a_later);
        s_.after.add(before);
      }
    if constexpr (named_graph<Graph>) {
      auto const& text = g_.name(n);  // may be a string by value
      std::string_view const name = text;
      s_.name.item.insert(s_.name.item.end(), name.begin(), name.end());
      s_.name.close();
    }
    s_.operands.close();
    s_.results.close();
    if constexpr (effectful_graph<Graph> || aliasing_graph<Graph>) s_.after.close();
  }

  /// Returns the reason why no node can make the value that `slot` names. It follows from the origin of the
  /// slot's first value.
  adapter_violation clash(Index slot) const {
    auto const first =
        static_cast<std::size_t>(std::find(s_.slot.begin(), s_.slot.end(), slot) - s_.slot.begin());
    return s_.producer[first] != none<Index> ? two_producers
           : first < listed_                 ? makes_argument
                                             : after_its_user;
  }

  void read(value const& v, Index at) {
    s_.operands.add(use(v));
    if constexpr (aliasing_graph<Graph>) {
      auto const c = memory_.number(v);
      if (!memory_.cell(c).written) return;
      auto& list = memory_.cell(c).viewed ? log(c).touched : log(c).readers;
      if (list.empty() || list.back() != at) list.push_back(at);
    }
  }

  /// Reads the old contents of written memory, because a partial write keeps the rest. Viewed memory has
  /// contents under other handles too.
  void read_overwritten(value const& v, Index at) {
    read(v, at);
    if (auto const& cell = memory_.cell(memory_.number(v)); cell.shared())
      for (auto const& h : cell.outside)
        if (!(h == v)) read(h, at);
  }

  /// Records that node `at` writes the memory of `v`. This makes a new version of its slot; for viewed
  /// memory, of the slot of each outside handle.
  void overwrite(value const& v, Index at, std::vector<Index>& written) {
    auto const number = memory_.number(v);
    auto const& cell = memory_.cell(number);
    if (cell.shared()) {
      for (auto const& h : cell.outside)
        if (Index const k = slot(h); s_.producer[s_.latest[k]] != at) s_.results.add(make(h, k, at));
    } else if (Index const k = slot(v); std::find(written.begin(), written.end(), k) == written.end()) {
      for (Index const r : log(number).readers)  // a write follows the reads of the old contents
        if (r != at) s_.after.add(r);
      log(number).readers.clear();
      written.push_back(k);
      s_.results.add(make(v, k, at));
    }
  }

  cell_log& log(std::size_t cell) {
    if (cell >= logs_.size()) logs_.resize(memory_.cells());
    return logs_[cell];
  }

  Index slot(value const& v) {
    Index const h = s_.handle.insert(v);
    if (h < s_.slot_of_handle.size()) return s_.slot_of_handle[h];
    Index k = narrow<Index>(s_.latest.size());
    if constexpr (aliasing_graph<Graph>)
      if (auto const c = memory_.number(v); memory_.cell(c).versioned()) {
        if (log(c).slot == none<Index>) log(c).slot = k;
        k = log(c).slot;
      }
    if (k == s_.latest.size()) s_.latest.push_back(none<Index>);
    return s_.slot_of_handle.emplace_back(k);
  }

  Index make(value const& v, Index slot, Index producer) {
    Index const made = narrow<Index>(s_.values());
    s_.latest[slot] = made;
    s_.value.push_back(v);
    s_.slot.push_back(slot);
    s_.producer.push_back(producer);
    s_.from.push_back(producer == none<Index> ? source::constant : source::node);
    return made;
  }

  /// Returns the value that `v` names at this point.
  Index use(value const& v) {
    Index const k = slot(v);
    return s_.latest[k] == none<Index> ? make(v, k, none<Index>) : s_.latest[k];
  }

  void read_companions() {
    for (Index v = 0; v < s_.values(); ++v) {  // grows when a companion is first seen
      for (auto c : g_.companions(s_.value[v])) s_.companions.add(use(c));
      s_.companions.close();
    }
  }

  void infer_arguments() {
    for (std::size_t v = 0; v < s_.values(); ++v) {
      if (s_.producer[v] == none<Index>) {
        s_.from[v] = source::input;
        s_.inputs.push_back(static_cast<Index>(v));
      } else if (s_.users[v].empty() && s_.latest[s_.slot[v]] == v) {
        s_.outputs.push_back(static_cast<Index>(v));
      }
    }
  }

  void resolve_replicable() {
    s_.replicable.assign(s_.nodes(), 0);
    if constexpr (replicating_graph<Graph>) {
      auto const everywhere = [&](Index v) {
        Index const p = s_.producer[v];
        if (s_.latest[s_.slot[v]] != v) return false;  // overwritten later
        return p == none<Index> ? s_.from[v] != source::input : s_.replicable[p] != 0;
      };
      std::vector<char> shares(s_.nodes());  // written and viewed memory: a copy would miss the writes
      for (auto const& cell : logs_)
        for (Index const n : cell.touched) shares[n] = 1;
      for (Index n = 0; n < s_.nodes(); ++n) {
        auto const read = s_.operands[n];
        s_.replicable[n] = g_.replicable(s_.node[n]) && !shares[n] && s_.after[n].empty() &&
                           std::all_of(read.begin(), read.end(), everywhere);
      }
    }
  }

  void read_costs() {
    if constexpr (weighted_graph<Graph>)
      for (Index n = 0; n < s_.nodes(); ++n)
        s_.weight.push_back(s_.replicable[n] ? 0.0 : static_cast<double>(g_.weight(s_.node[n])));
    if constexpr (sized_graph<Graph>)
      for (auto const& v : s_.value) {
        auto const size = g_.bytes(v);
        if (!is_size(size)) refuse_size();
        s_.bytes.push_back(is_size(size) ? static_cast<std::size_t>(size) : 0);
      }
    if constexpr (bounded_graph<Graph>)
      for (auto const& v : s_.value) s_.portable.push_back(static_cast<bool>(g_.portable(v)));
  }

  /// Throws if a node reads or makes the value without a valid size.
  void refuse_size() {
    if constexpr (sized_graph<Graph>)
      if (auto const n = find_node_without_size(g_))
        fault(not_a_size, *n, "node " + label(g_, s_.node[static_cast<Index>(*n)], *n));
  }

  void read_storage() {
    numbering<std::remove_cvref_t<decltype(g_.storage(s_.value[0]))>, Index> storages;
    for (auto const& v : s_.value) s_.storage.push_back(storages.insert(g_.storage(v)));
  }

  void read_carried() {
    s_.carried.assign(s_.values(), none<Index>);
    for (std::size_t i = 0; i < s_.inputs.size(); ++i)
      for (auto v : g_.carried(s_.value[s_.inputs[i]])) {
        auto const k = s_.find_slot(v);
        if (k == none<Index> || s_.latest[k] == none<Index>)
          fault(unknown_carried_value, i, "input #" + std::to_string(i));
        s_.carried[s_.inputs[i]] = s_.latest[k];
      }
  }

  void read_groups() {
    disjoint_sets<Index> sets(s_.nodes());
    for (auto const& cell : logs_)
      for (Index const n : cell.touched) sets.join(n, cell.touched.front());
    for (std::size_t v = 0; v < s_.portable.size(); ++v)
      if (Index const p = s_.producer[v]; p != none<Index> && !s_.replicable[p] && !s_.portable[v])
        for (Index const user : s_.users[v]) sets.join(user, p);
    auto const counts = [&](Index m) { return s_.replicable[m] == 0; };
    for (std::size_t v = 0; v < s_.carried.size(); ++v) {
      if (s_.carried[v] == none<Index>) continue;
      Index first = s_.producer[s_.carried[v]];
      if (first != none<Index> && !counts(first)) first = none<Index>;
      for (Index const user : s_.users[v]) {
        if (!counts(user)) continue;
        if (first == none<Index>) first = user;
        sets.join(user, first);
      }
    }
    for (std::size_t n = 0; n < together_.rows(); ++n) {
      Index first = none<Index>;
      for (Index const m : together_[n]) {
        if (!counts(m)) continue;
        if (first == none<Index>) first = m;
        sets.join(m, first);
      }
    }
    for (Index n = 0; n < s_.nodes(); ++n) s_.group.push_back(sets[n]);
  }

  Graph const& g_;
  Snapshot s_;
  typename std::conditional_t<aliasing_graph<Graph>, std::type_identity<memory<Graph>>,
                              std::type_identity<no_memory>>::type memory_;
  std::size_t listed_ = 0;      // number of listed arguments and constants, which are the first values
  csr<Index> together_;         // of a node: itself, and the nodes that must share its part
  std::vector<cell_log> logs_;  // by memory cell
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A graph as flat arrays, and the mapping back to the user's handles. The template is not constrained, so
/// that clang names the missing member of a graph rather than this class.
template <class Graph, std::unsigned_integral Index = std::uint32_t>
struct snapshot : basic_snapshot_arrays<Index> {
  numbering<node_t<Graph>, Index> node;     ///< maps positions to handles and back
  std::vector<value_t<Graph>> value;        ///< of a value: the handle under which it was last made
  numbering<value_t<Graph>, Index> handle;  ///< all value handles that the graph mentions …
  std::vector<Index> slot_of_handle;        ///< … and the slots that they name

  /// Returns the slot that `v` names, or none.
  Index find_slot(value_t<Graph> const& v) const {
    Index const h = handle.find(v);
    return h == none<Index> ? h : slot_of_handle[h];
  }
};

/// Reads `g` once into flat arrays. Expected O(V + E); all hashing of handles is done here.
///
/// - Bodies: the values that bodies capture are added to the operands of the node that holds them.
/// - Origins: a value that no node makes is an input if `inputs()` lists it, state if `state()` does, and
///   otherwise a constant. Without `inputs()` and `outputs()`, values that no node makes are inputs, and
///   values that no node reads are outputs.
/// - Writes: memory that is written in place through one handle at a time gets a new value with each write.
///   The write follows the reads of the old value.
/// - Groups: the nodes that read or write memory that is both written and viewed form a group. So do the
///   producer and the users of a value that is not portable, and the nodes of `together(n)`, and the readers
///   of an input `v` and the node that makes `carried(v)`.
/// - Replicable nodes: a node stays replicable only if it has to follow no other node and touches no memory
///   that is both written and viewed. Its operands must be constants, state that is not written, or results
///   of replicable nodes. Its weight is 0.
///
/// \throws adapter_error if the adapter breaks a promise that no concept can express
/// \throws cycle_error if nodes are listed out of order because the graph has a cycle
/// \throws index_overflow if `Index` is too narrow
template <std::unsigned_integral Index = std::uint32_t, dataflow_graph Graph>
snapshot<Graph, Index> snapshot_of(Graph const& g) {
  check_graph_concepts<Graph>();
  return detail::snapshot_reader<snapshot<Graph, Index>, Graph>(g).read();
}

template <std::unsigned_integral Index = std::uint32_t, detail::unfinished_graph Graph>
detail::refused snapshot_of(Graph const&) {
  detail::refuse_graph<Graph>();
}

}  // namespace cleave
