// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/tie.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/split/plan.hpp"
#include "cleave/split/state/state_assignment.hpp"
#include "cleave/split/state/tensor_classes.hpp"

namespace cleave::inline v0_2::detail {

/// The modules of the model that a stage has: the root, the modules around its nodes, the owners of the names
/// that it reads, and all modules around these. Stages are entered one after another.
template <std::unsigned_integral Index>
class stage_modules {
 public:
  explicit stage_modules(basic_model_state<Index> const& m) : m_(m) {
    number("");
    for (auto const& path : m.modules) module_.push_back(number(path));
    for (auto const& t : m.tensors) owner_.push_back(number(owner_of(t.name)));
    stage_.assign(paths_.size(), the_caller);
  }

  /// Starts stage i. O(modules around `nodes` + size of `held`).
  void enter(stage_id i, std::vector<Index> const& nodes, std::vector<held_state> const& held) {
    here_ = i;
    mark(0);
    for (Index const n : nodes)
      for (Index const path : m_.inside[n]) mark(module_[path]);
    for (auto const& h : held) mark(owner_[h.tensor]);
  }

  /// True if the current stage has the module that owns this name of a tensor. O(1).
  bool owner_is_here(std::uint32_t tensor) const { return stage_[owner_[tensor]] == here_; }

 private:
  /// Returns the number of `path`. Paths around it are numbered too.
  std::uint32_t number(std::string_view path) {
    auto const first = paths_.find(path);
    if (first != none<std::uint32_t>) return first;
    auto const at = paths_.insert(path);
    outer_.push_back(0);
    for (auto inner = at; !path.empty();) {
      path = owner_of(path);
      auto const known = paths_.size();
      auto const outer = outer_[inner] = paths_.insert(path);
      if (outer < known) break;
      outer_.push_back(0);
      inner = outer;
    }
    return at;
  }

  void mark(std::uint32_t path) {
    while (std::exchange(stage_[path], here_) != here_) path = outer_[path];
  }

  basic_model_state<Index> const& m_;
  numbering<std::string_view, std::uint32_t> paths_;
  std::vector<std::uint32_t> outer_;   // by path: the path around it; the root's is the root
  std::vector<std::uint32_t> module_;  // by module: its path
  std::vector<std::uint32_t> owner_;   // by tensor: the path of its owner
  std::vector<stage_id> stage_;        // by path: the last stage that has it
  stage_id here_ = the_caller;
};

/// Finds the stages that read and write each tensor, and assigns the tensors to stages. Tensors that share
/// memory form one *class*, numbered by the first registration of its names.
template <std::unsigned_integral Index>
class state_assigner {
 public:
  state_assigner(basic_snapshot_arrays<Index> const& s, basic_plan<Index> const& p,
                 basic_model_state<Index> const& m, state_options const& options)
      : s_(s), p_(p), m_(m), options_(options), class_(m.tensors) {
    expects(m.tensor.size() == s.values(), "an entry of m.tensor for each value of the snapshot");
    if (auto f = class_.find_option_fault(m.tensors, options)) {
      faults_.push_back(*std::move(f));
      return;
    }
    choice_ = class_.choices(m.tensors, options);
    inside_.resize(class_.size());
    list_reads();
    list_writes();
    for (std::size_t c = 0; c < class_.size(); ++c)
      if (auto f = find_fault(c)) faults_.push_back(*std::move(f));
  }

  /// Returns the first fault of each class, in the order of registration. A fault in the options is returned
  /// alone.
  std::vector<state_fault> const& faults() const { return faults_; }

  state_assignment place() {
    placed_.stages.resize(p_.stages.size());
    for (std::uint32_t c = 0; c < class_.size(); ++c) place_class(c);
    hold_reads();
    add_aliases();
    return std::move(placed_);
  }

 private:
  /// A stage, or the caller, that reads or writes a class, with the first name by which it does.
  struct use {
    std::uint32_t of;
    stage_id stage;
    std::uint32_t tensor;
  };
  using uses = std::span<use const>;

  /// Lists the reads by class, and within a class by stage in the plan's order.
  void list_reads() {
    std::vector<stage_id> seen(class_.size(), no_stage);
    auto const read = [&](Index t, stage_id i) {
      if (t != none<Index> && std::exchange(seen[class_[t]], i) != i)
        reads_.push_back({class_[t], i, static_cast<std::uint32_t>(t)});
    };
    auto const returned = returned_only();
    for (stage_id const i : p_.order) {
      for (Index const v : p_.stages[index(i)].state)
        if (i != giver() || !returned[v]) read(m_.tensor[v], i);
      for (Index const n : p_.stages[index(i)].nodes)
        for (Index const t : m_.reads[n]) read(t, i), inside_[class_[t]] = 1;
    }
    for (Index const v : s_.outputs)
      if (s_.producer[v] == none<Index>) read(m_.tensor[v], the_caller);
    first_read_ = group(reads_);
  }

  /// Marks the values that the graph returns and no node of the last stage reads. In some plans they are
  /// nevertheless among the state of the last stage.
  std::vector<char> returned_only() const {
    std::vector<char> returned(s_.values());
    for (Index const v : s_.outputs) returned[v] = 1;
    if (!p_.order.empty() && !s_.outputs.empty())
      for (Index const n : p_.stages[index(giver())].nodes)
        for (Index const v : s_.operands[n]) returned[v] = 0;
    return returned;
  }

  void list_writes() {
    std::vector<Index> tensor_of_slot(s_.latest.size(), none<Index>);
    for (std::size_t v = 0; v < s_.values(); ++v)
      if (s_.producer[v] == none<Index>) tensor_of_slot[s_.slot[v]] = m_.tensor[v];
    for (stage_id const i : p_.order)
      for (Index const n : p_.stages[index(i)].nodes) {
        for (Index const v : s_.results[n])
          if (Index const t = tensor_of_slot[s_.slot[v]]; t != none<Index>) write(t, i);
        for (Index const t : m_.writes[n]) write(t, i);
      }
    first_write_ = group(writes_);
  }

  void write(Index t, stage_id i) { writes_.push_back({class_[t], i, static_cast<std::uint32_t>(t)}); }

  /// Sorts the uses by class and keeps their order otherwise. Returns the offset of each class, and one entry
  /// more.
  std::vector<std::size_t> group(std::vector<use>& list) const {
    std::vector<std::size_t> first(class_.size() + 1);
    for (auto const& u : list) ++first[u.of + std::size_t{1}];
    for (std::size_t c = 0; c < class_.size(); ++c) first[c + 1] += first[c];
    auto next = first;
    std::vector<use> grouped(list.size());
    for (auto const& u : list) grouped[next[u.of]++] = u;
    list = std::move(grouped);
    return first;
  }
  uses reads(std::size_t c) const {
    return uses(reads_).subspan(first_read_[c], first_read_[c + 1] - first_read_[c]);
  }
  uses writes(std::size_t c) const {
    return uses(writes_).subspan(first_write_[c], first_write_[c + 1] - first_write_[c]);
  }

  std::optional<state_fault> find_fault(std::size_t c) const {
    using enum state_fault::kind;
    auto const between = [&](state_fault::kind what, use const& a, use const& b) {
      return state_fault{what, m_.tensors[a.tensor].name, m_.tensors[b.tensor].name, a.stage, b.stage};
    };
    for (auto const& w : writes(c))
      if (w.stage != writes(c).front().stage) return between(written_twice, writes(c).front(), w);
    for (auto const& r : reads(c))
      if (!writes(c).empty() && r.stage != the_caller && r.stage != writes(c).front().stage)
        return between(written_elsewhere, writes(c).front(), r);
    auto const readers = reads(c);
    if (choice_[c] == shared_state::refuse && !class_.is_constant(c) && readers.size() > 1 &&
        readers[1].stage != the_caller)
      return between(shared, readers[0], readers[1]);
    if (choice_[c] == shared_state::transmit && !class_.is_constant(c) && readers.size() > 1 && inside_[c])
      return between(unsendable, readers[0], readers[1]);
    return std::nullopt;
  }

  /// Returns the last stage. It gives the caller the state that the graph returns and no stage sends.
  stage_id giver() const { return p_.order.back(); }

  void place_class(std::uint32_t c) {
    auto const readers = reads(c);
    if (readers.empty()) {
      if (!class_.is_constant(c))
        placed_.unused.insert(placed_.unused.end(), class_.names(c).begin(), class_.names(c).end());
      return;
    }
    auto const& first = readers.front();
    if (readers.size() < 2 || class_.is_constant(c)) return;
    if (choice_[c] == shared_state::transmit) {
      sent_state sent{first.tensor, first.stage, {}};
      for (auto const& r : readers.subspan(1)) sent.to.push_back(r.stage);
      placed_.sent.push_back(std::move(sent));
      return;
    }
    tie copies{name_of_storage(first.tensor), {}};
    for (auto const& r : readers) {
      auto const stage = r.stage == the_caller ? giver() : r.stage;
      if (copies.members.empty() || copies.members.back().stage != stage)
        copies.members.push_back({m_.tensors[r.tensor].name, copies.storage, stage});
    }
    if (copies.members.size() > 1) placed_.replicas.push_back(std::move(copies));
  }

  std::string name_of_storage(std::uint32_t t) const {
    return m_.tensors[t].storage.empty() ? m_.tensors[t].name : m_.tensors[t].storage;
  }

  /// True if `i` holds the class itself.
  bool holds(std::uint32_t c, stage_id i) const {
    auto const readers = reads(c);
    return readers.size() < 2 || class_.is_constant(c) || choice_[c] != shared_state::transmit ||
           readers.front().stage == i;
  }

  void hold_reads() {
    std::vector<stage_id> seen(m_.tensors.size(), no_stage);
    auto const hold = [&](Index t, stage_id i) {
      if (t == none<Index> || !holds(class_[t], i) || std::exchange(seen[t], i) == i) return;
      placed_.stages[index(i)].push_back({static_cast<std::uint32_t>(t), true});
    };
    for (stage_id const i : p_.order) {
      for (Index const v : p_.stages[index(i)].state) hold(m_.tensor[v], i);
      for (Index const n : p_.stages[index(i)].nodes)
        for (Index const t : m_.reads[n]) hold(t, i);
      if (i == giver())
        for (Index const v : s_.outputs)
          if (s_.producer[v] == none<Index>) hold_returned(v, hold);
    }
  }

  /// Lets the last stage hold a value that the graph returns, unless its owner sends it to the caller.
  template <class Hold>
  void hold_returned(Index v, Hold const& hold) {
    Index const t = m_.tensor[v];
    if (t == none<Index>) return;
    auto const first = reads(class_[t]).front().stage;
    if (first == the_caller || holds(class_[t], the_caller)) hold(t, giver());
  }

  void add_aliases() {
    stage_modules<Index> modules(m_);
    std::vector<char> named(m_.tensors.size());
    std::vector<stage_id> first(class_.size(), no_stage), seen(m_.tensors.size(), no_stage),
        done(class_.size(), no_stage);
    for (stage_id const i : p_.order) {
      auto& held = placed_.stages[index(i)];
      modules.enter(i, p_.stages[index(i)].nodes, held);
      for (auto const& h : held) seen[h.tensor] = i, named[h.tensor] = 1;
      for (std::size_t k = 0, reads = held.size(); k < reads; ++k) {
        auto const c = class_[held[k].tensor];
        if (std::exchange(done[c], i) == i) continue;
        if (first[c] == no_stage) first[c] = i;
        for (std::uint32_t const t : class_.names(c))
          if (modules.owner_is_here(t) && std::exchange(seen[t], i) != i)
            held.push_back({t, false}), named[t] = 1;
      }
    }
    if (options_.names == alias_policy::beside_modules) return;
    for (std::uint32_t t = 0; t < m_.tensors.size(); ++t)
      if (!named[t] && first[class_[t]] != no_stage)
        placed_.stages[index(first[class_[t]])].push_back({t, false});
  }

  static constexpr stage_id no_stage{0xfffffffe};  // differs from `the_caller`

  basic_snapshot_arrays<Index> const& s_;
  basic_plan<Index> const& p_;
  basic_model_state<Index> const& m_;
  state_options const& options_;
  tensor_classes class_;
  std::vector<char> inside_;                           // by class: a called module reads it inside
  std::vector<shared_state> choice_;                   // by class
  std::vector<use> reads_, writes_;                    // sorted by class …
  std::vector<std::size_t> first_read_, first_write_;  // … with the offset of each class
  std::vector<state_fault> faults_;
  state_assignment placed_;
};

/// Returns the first fault that keeps the state of a cut from being assigned, or nothing. The faults are:
/// - an option for a tensor that the model lacks, or two options that contradict each other
/// - a tensor that two stages write
/// - a tensor that one stage writes and another reads from its own copy
/// - a tensor that several stages read although `options` refuse it
/// - a tensor that is to be sent although a called module reads it inside
///
/// Expected O(V + size of the plan + names).
template <std::unsigned_integral Index>
std::optional<state_fault> find_state_fault(basic_snapshot_arrays<Index> const& s, basic_plan<Index> const& p,
                                            basic_model_state<Index> const& m,
                                            state_options const& options = {}) {
  auto const faults = state_assigner<Index>(s, p, m, options).faults();
  return faults.empty() ? std::nullopt : std::optional(faults.front());
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Assigns each tensor of a model to the stages of `p`, a plan of `s`, that read it. A stage holds a tensor
/// once, under the names that the stage uses. The first stage that reads a sent tensor owns it. The last
/// stage holds and outputs state that the graph returns unchanged. Expected O(V + size of the plan + names),
/// plus, for each tensor, its names times the stages that have it.
///
/// \param m the tensors and modules of the model; `m.tensor` has one entry for each value of `s`
/// \throws state_error as `find_state_fault` says
template <std::unsigned_integral Index>
state_assignment assign_state(basic_snapshot_arrays<Index> const& s, basic_plan<Index> const& p,
                              basic_model_state<Index> const& m, state_options const& options = {}) {
  detail::state_assigner<Index> placer(s, p, m, options);
  if (!placer.faults().empty()) throw state_error(placer.faults().front());
  return placer.place();
}

}  // namespace cleave
