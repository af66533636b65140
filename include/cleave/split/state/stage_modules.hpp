// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/tie.hpp"
#include "cleave/core/transport.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/split/state/state_placement.hpp"

namespace cleave::detail {

/// Which modules of the model a stage has: the root, those that its nodes are inside, the owners of the names
/// that it reads, and what these are inside. Stages are entered one after another.
template <std::unsigned_integral Index>
class stage_modules {
 public:
  explicit stage_modules(basic_model_state<Index> const& m) : m_(m) {
    number("");
    for (auto const& path : m.modules) module_.push_back(number(path));
    for (auto const& t : m.tensors) owner_.push_back(number(owner_of(t.name)));
    stage_.assign(paths_.size(), the_caller);
  }

  /// O(modules around `nodes` + what is held).
  void enter(stage_id i, std::vector<Index> const& nodes, std::vector<held_state> const& held) {
    here_ = i;
    mark(0);
    for (Index const n : nodes)
      for (Index const path : m_.inside[n]) mark(module_[path]);
    for (auto const& h : held) mark(owner_[h.tensor]);
  }

  /// Whether the stage has the module that owns this name of a tensor. O(1).
  bool owner_is_here(std::uint32_t tensor) const { return stage_[owner_[tensor]] == here_; }

 private:
  /// The number of `path`; what it is inside is numbered too.
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
  std::vector<std::uint32_t> outer_;   // of a path: the one that it is in; the root's is itself
  std::vector<std::uint32_t> module_;  // of a module: its path
  std::vector<std::uint32_t> owner_;   // of a tensor: the path of its owner
  std::vector<stage_id> stage_;        // of a path: the last stage that has it
  stage_id here_ = the_caller;
};

}  // namespace cleave::detail
