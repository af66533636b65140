// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstdint>
#include <span>
#include <utility>

#include "cleave/core/dataflow.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/edge_layout.hpp"
#include "cleave/run/model/ports.hpp"
#include "cleave/schedule/model/placement.hpp"

/// A chain of stages with given times, for any device that runs work immediately.
namespace bench {

using namespace cleave;

using namespace cleave::detail;

inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Computes for the given seconds.
inline void compute(double seconds) {
  auto const until = wall_seconds() + seconds;
  while (wall_seconds() < until) {
  }
}

/// Each pass takes the given CPU seconds and passes on one number.
template <class Device>
class busy_stages {
 public:
  explicit busy_stages(double forward, double backward) : forward_(forward), backward_(backward) {}

  void forward(typename Device::stream&, stage_pass const&, std::span<tensor_view const> in,
               std::span<tensor_view> out) {
    work(forward_);
    for (auto const& v : out) *static_cast<double*>(v.data) = *static_cast<double const*>(in[0].data) + 1;
  }
  void backward(typename Device::stream&, stage_pass const&, std::span<tensor_view const> gradients,
                std::span<tensor_view const> in) {
    work(backward_);
    for (auto const& v : in)
      if (v.data)
        *static_cast<double*>(v.data) =
            gradients[0].data ? *static_cast<double const*>(gradients[0].data) : 1;
  }
  void backward_input(typename Device::stream& s, stage_pass const& p, std::span<tensor_view const> gradients,
                      std::span<tensor_view const> in) {
    work(-backward_ / 2);
    backward(s, p, gradients, in);
  }
  void backward_weight(typename Device::stream&, stage_pass const&) { work(backward_ / 2); }

 private:
  void work(double seconds) {
    owed_ += seconds;
    if (owed_ <= 0) return;
    compute(std::exchange(owed_, 0));
  }

  double forward_, backward_, owed_ = 0;
};

inline dataflow chain_dataflow(stage_placement const& p) {
  dataflow t{.stages = p.stages(), .edges = {}};
  auto const last = stage_id{p.stages() - 1};
  t.edges.push_back({the_caller, 0, stage_id{0}, 0});
  for (auto const& e : p.edges) t.edges.push_back({e.from, 0, e.to, 0});
  t.edges.push_back({last, 0, the_caller, 0});
  return t;
}

inline run_layouts one_number(dataflow const& t) {
  run_layouts l;
  for (auto const& e : t.edges)
    l.edges.push_back(
        {.type = element_type::f64,
         .shape = {1},
         .gradient = e.from == the_caller || e.to == the_caller ? gradient_use::none : gradient_use::wanted});
  return l;
}

}  // namespace bench
