// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/snapshot_arrays.hpp"

/// A small IR such as a user might have. Operations are identified by address and values by name. It has
/// several results, constants and state.
namespace toy {

struct op {
  std::string name;
  std::vector<std::string> in, out;
  double cost = 1;
  bool cheap = false;  // may be recomputed in several stages
  std::vector<op const*> follows{};
};

struct program {
  std::vector<std::string> inputs, weights, outputs;
  std::vector<std::unique_ptr<op>> ops{};

  op const* add(op o) { return ops.emplace_back(std::make_unique<op>(std::move(o))).get(); }
};

/// Adapter of the program for cleave.
class graph {
 public:
  explicit graph(program const& p) : p_(&p) {
    for (auto const& o : p.ops) ops_.push_back(o.get());
  }
  std::span<op const* const> nodes() const { return ops_; }
  static std::vector<std::string> const& operands(op const* o) { return o->in; }
  static std::vector<std::string> const& results(op const* o) { return o->out; }
  std::vector<std::string> const& inputs() const { return p_->inputs; }
  std::vector<std::string> const& outputs() const { return p_->outputs; }
  std::vector<std::string> const& state() const { return p_->weights; }
  static double weight(op const* o) { return o->cost; }
  static std::size_t bytes(std::string const& v) { return v.size(); }
  static bool replicable(op const* o) { return o->cheap; }
  static std::vector<op const*> const& after(op const* o) { return o->follows; }
  static std::string_view name(op const* o) { return o->name; }

 private:
  program const* p_;
  std::vector<op const*> ops_;
};

/// Writes a stage as a program.
class builder {
 public:
  program made{};

  std::string argument(std::string const& v, cleave::source from) {
    (is_held(from) ? made.weights : made.inputs).push_back(v);
    return v;
  }
  std::vector<std::string> clone(op const* o, auto lookup) {
    op copy{o->name, {}, o->out, o->cost, o->cheap};
    for (auto const& v : o->in) copy.in.push_back(lookup(v));
    made.add(std::move(copy));
    return o->out;
  }
  void result(std::string const&, std::string const& name) { made.outputs.push_back(name); }
};

/// Runs a program symbolically: each result is a term that contains all its inputs.
inline std::map<std::string, std::string> run(program const& p, std::map<std::string, std::string> values) {
  for (auto const& w : p.weights) values.try_emplace(w, w);
  for (auto const& o : p.ops) {
    std::string term = o->name + "(";
    for (auto const& v : o->in) {
      auto const known = values.find(v);
      term += (known == values.end() ? v : known->second) + ",";
    }
    for (std::size_t i = 0; i < o->out.size(); ++i) values[o->out[i]] = term + ")" + std::to_string(i);
  }
  return values;
}

}  // namespace toy
