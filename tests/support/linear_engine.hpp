// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/edge_layout.hpp"
#include "cleave/run/model/ports.hpp"
#include "cleave/run/program/step_values.hpp"
#include "cleave/schedule/model/placement.hpp"

namespace cleave::testing {

using namespace detail;

/// A stage of a linear model. With X the elementwise sum of (k + 1) times input k, result j is (j + 1)(w X +
/// b). Without inputs X is 1. All numbers are integers, so that sums are exact in any order.
struct linear_stage {
  double w = 1, b = 0;
};

/// The gradients of w and b. The loss is the sum of all results of the stages that no other stage reads.
struct linear_gradient {
  double w = 0, b = 0;

  bool operator==(linear_gradient const&) const = default;
};

/// Runs linear stages on views of doubles. Calls `prepare(stage, microbatch)` before each pass.
template <class Prepare>
class basic_linear_engine {
 public:
  /// Takes the stages of the whole model; a rank uses its own.
  basic_linear_engine(std::vector<linear_stage> stages, Prepare prepare)
      : stages_(std::move(stages)),
        gradients_(2 * stages_.size()),
        regions_(stages_.size()),
        prepare_(std::move(prepare)) {}

  template <class Stream>
  void forward(Stream&, stage_pass const& p, std::span<tensor_view const> in, std::span<tensor_view> out) {
    prepare_(p);
    auto& x = inputs_[{p.stage, p.microbatch}];
    x = weighted_sum(in, out.empty() ? 0 : out[0].elements().count);
    auto const& s = stages_[index(p.stage)];
    for (std::size_t j = 0; j < out.size(); ++j)
      for (std::size_t i = 0; i < out[j].elements().count; ++i)
        numbers(out[j])[i] = static_cast<double>(j + 1) * (s.w * x[i] + s.b);
  }

  template <class Stream>
  void backward(Stream& s, stage_pass const& p, std::span<tensor_view const> gradients,
                std::span<tensor_view const> in) {
    backward_input(s, p, gradients, in);
    add_weights(p);
  }
  template <class Stream>
  void backward_input(Stream&, stage_pass const& p, std::span<tensor_view const> gradients,
                      std::span<tensor_view const> in) {
    prepare_(p);
    auto& g = arrived_[{p.stage, p.microbatch}];
    g.assign(inputs_.at({p.stage, p.microbatch}).size(), 0);
    for (std::size_t j = 0; j < gradients.size(); ++j)
      for (std::size_t i = 0; i < g.size(); ++i) {
        if (p.from_loss) g[i] += static_cast<double>(j + 1) * p.weight;
        if (gradients[j].data) g[i] += static_cast<double>(j + 1) * numbers(gradients[j])[i];
      }
    for (std::size_t k = 0; k < in.size(); ++k)
      for (std::size_t i = 0; in[k].data && i < in[k].elements().count; ++i)
        numbers(in[k])[i] =
            static_cast<double>(k + 1) * stages_[index(p.stage)].w * (i < g.size() ? g[i] : 0);
  }
  template <class Stream>
  void backward_weight(Stream&, stage_pass const& p) {
    prepare_(p);
    add_weights(p);
  }
  template <class Stream>
  void recompute(Stream&, stage_pass const& p, std::span<tensor_view const> in) {
    auto& x = inputs_.at({p.stage, p.microbatch});
    x = weighted_sum(in, x.size());
  }
  template <class Stream>
  void offload(Stream&, stage_pass const& p) {
    away_[{p.stage, p.microbatch}] = std::exchange(inputs_.at({p.stage, p.microbatch}), {});
  }
  template <class Stream>
  void reload(Stream&, stage_pass const& p) {
    inputs_.at({p.stage, p.microbatch}) = std::exchange(away_.at({p.stage, p.microbatch}), {});
  }

  std::span<region const> gradients(stage_id s) {
    auto* const g = &gradients_[2 * index(s)];
    regions_[index(s)] = {{g, 1, element_type::f64}, {g + 1, 1, element_type::f64}};
    return regions_[index(s)];
  }
  std::span<region const> parameters(stage_id s) {
    auto& own = stages_[index(s)];
    parameters_ = {{&own.w, 1, element_type::f64}, {&own.b, 1, element_type::f64}};
    return parameters_;
  }
  /// Takes one step of gradient descent at learning rate 1.
  template <class Stream>
  void update(Stream&, stage_id s, double factor) {
    auto const g = gradient(s);
    stages_[index(s)].w -= factor * g.w;
    stages_[index(s)].b -= factor * g.b;
    gradients_[2 * index(s)] = gradients_[2 * index(s) + 1] = 0;
  }
  /// Sets which of the gradients of w and b are reported as ready, and which is computed first.
  void report(bool w, bool b, bool b_first = false) {
    reports_ = {w, b};
    b_first_ = b_first;
  }
  linear_stage const& stage_of(stage_id s) const { return stages_[index(s)]; }
  linear_gradient gradient(stage_id s) const {
    return {gradients_[2 * index(s)], gradients_[2 * index(s) + 1]};
  }

 private:
  using key = std::pair<stage_id, microbatch_id>;

  static double* numbers(tensor_view const& v) { return static_cast<double*>(v.data); }
  static std::vector<double> weighted_sum(std::span<tensor_view const> in, std::size_t count) {
    if (!in.empty()) count = in[0].elements().count;
    std::vector<double> x(count, in.empty() ? 1 : 0);
    for (std::size_t k = 0; k < in.size(); ++k)
      for (std::size_t i = 0; i < count; ++i) x[i] += static_cast<double>(k + 1) * numbers(in[k])[i];
    return x;
  }
  void add_weights(stage_pass const& p) {
    auto const &x = inputs_.at({p.stage, p.microbatch}), &g = arrived_.at({p.stage, p.microbatch});
    for (auto const n : b_first_ ? std::array<std::uint32_t, 2>{1, 0} : std::array<std::uint32_t, 2>{0, 1}) {
      for (std::size_t i = 0; i < g.size(); ++i)
        gradients_[2 * index(p.stage) + n] += n == 0 ? g[i] * x[i] : g[i];
      if (reports_[n]) p.ready(n);
    }
  }

  std::vector<linear_stage> stages_;
  std::vector<double> gradients_;
  std::vector<std::vector<region>> regions_;
  std::vector<region> parameters_;
  std::map<key, std::vector<double>> inputs_, arrived_, away_;
  std::array<bool, 2> reports_ = {true, true};
  bool b_first_ = false;
  Prepare prepare_;
};

struct nothing_to_prepare {
  void operator()(stage_pass const&) const {}
};
using linear_engine = basic_linear_engine<nothing_to_prepare>;

/// Returns layouts in which every value of `t` has `rows[m]` doubles in microbatch m.
inline run_layouts linear_layouts(dataflow const& t, std::vector<std::int64_t> rows) {
  run_layouts l;
  std::int64_t most = 0;
  for (auto const n : rows) most = std::max(most, n);
  for (auto const& e : t.edges)
    l.edges.push_back(
        {.type = element_type::f64,
         .shape = {most},
         .batch_axis = 0,
         .gradient = e.from == the_caller || e.to == the_caller ? gradient_use::none : gradient_use::wanted});
  l.rows = std::move(rows);
  return l;
}

/// Places the stages of a dataflow on these ranks, connected by its edges.
inline stage_placement placement_of(dataflow const& t, std::uint32_t ranks, std::vector<rank_id> rank_of) {
  stage_placement p{ranks, std::move(rank_of), {}};
  for (auto const& e : t.edges)
    if (e.from != the_caller && e.to != the_caller) p.edges.push_back({e.from, e.to});
  std::ranges::sort(p.edges);
  p.edges.erase(std::ranges::unique(p.edges).begin(), p.edges.end());
  return p;
}

/// The reference for a step of a linear model: computed stage by stage and microbatch by microbatch.
class linear_twin {
 public:
  std::vector<std::map<std::uint32_t, std::vector<double>>> results;  ///< by microbatch, then result
  std::vector<linear_gradient> gradients;                             ///< by stage

  linear_twin(dataflow const& t, std::vector<linear_stage> const& stages, step_values const& values,
              std::vector<std::int64_t> const& rows)
      : results(rows.size()), gradients(stages.size()), t_(t), stages_(stages), values_(values) {
    for (std::uint32_t m = 0; m < rows.size(); ++m) run(m, static_cast<std::size_t>(rows[m]));
  }

 private:
  using list = std::vector<double>;

  void run(std::uint32_t m, std::size_t rows) {
    std::vector<list> x(t_.stages), base(t_.stages);
    auto const order = stage_order();
    auto const value = [&](dataflow::edge const& e) {
      list v(rows);
      for (std::size_t i = 0; i < rows; ++i)
        v[i] = e.from == the_caller
                   ? static_cast<double const*>(values_.inputs[m * values_.inputs_of_each + e.output].data)[i]
                   : (e.output + 1) * base[index(e.from)][i];
      return v;
    };
    for (auto const s : order) {
      bool has_input = false;
      x[s].assign(rows, 0);
      for (auto const& e : t_.edges)
        if (index(e.to) == s) {
          has_input = true;
          auto const v = value(e);
          for (std::size_t i = 0; i < rows; ++i) x[s][i] += (e.input + 1) * v[i];
        }
      if (!has_input) x[s].assign(rows, 1);
      for (double const n : x[s]) base[s].push_back(stages_[s].w * n + stages_[s].b);
    }
    for (auto const& e : t_.edges)
      if (e.to == the_caller) results[m][e.input] = value(e);
    add_gradients(m, rows, order, x);
  }

  void add_gradients(std::uint32_t m, std::size_t rows, std::vector<std::uint32_t> const& order,
                     std::vector<list> const& x) {
    std::vector<list> g(t_.stages, list(rows, 0));
    for (std::size_t n = order.size(); n-- > 0;) {
      auto const s = order[n];
      bool read = false;
      std::uint32_t outputs = 0;
      for (auto const& e : t_.edges)
        if (index(e.from) == s) read |= e.to != the_caller, outputs = std::max(outputs, e.output + 1);
      double const weight = values_.weights.empty() ? 1 : values_.weights[m];
      for (std::uint32_t j = 0; j < outputs && !read; ++j)
        for (auto& v : g[s]) v += (j + 1) * weight;
      if (outputs == 0) continue;
      for (std::size_t i = 0; i < rows; ++i) {
        gradients[s].w += g[s][i] * x[s][i];
        gradients[s].b += g[s][i];
      }
      for (auto const& e : t_.edges)
        if (index(e.to) == s && e.from != the_caller)
          for (std::size_t i = 0; i < rows; ++i)
            g[index(e.from)][i] += (e.output + 1) * (e.input + 1) * stages_[s].w * g[s][i];
    }
  }

  /// Returns the stages in topological order.
  std::vector<std::uint32_t> stage_order() const {
    std::vector<std::uint32_t> order;
    std::vector<char> done(t_.stages);
    while (order.size() < t_.stages)
      for (std::uint32_t s = 0; s < t_.stages; ++s) {
        bool ready = !done[s];
        for (auto const& e : t_.edges)
          if (index(e.to) == s && e.from != the_caller && !done[index(e.from)]) ready = false;
        if (ready) order.push_back(s), done[s] = 1;
      }
    return order;
  }

  dataflow const& t_;
  std::vector<linear_stage> const& stages_;
  step_values const& values_;
};

}  // namespace cleave::testing
