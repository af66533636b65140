// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/inference/inference_stages.hpp"
#include "cleave/run/executor/pipeline_options.hpp"
#include "cleave/run/host/host_device.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/named_tensor.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/program/step_plan.hpp"
#include "cleave/run/program/step_values.hpp"
#include "cleave/run/threads/on_threads.hpp"
#include "cleave/schedule/families/forward_only.hpp"
#include "cleave/schedule/lower/connect_stages.hpp"

namespace cleave::inline v0_2::detail {

/// Stands for a pipeline that is refused.
struct no_inference {};

/// Refuses to compile what is no inference engine, or a place that does not compute on the host, and says
/// what is missing.
template <class Network, class Device, class... Options>
constexpr void require_network() {
  constexpr bool made = std::constructible_from<Network, cleave::onnx_stage const&, Options const&...>;
  constexpr bool infers =
      requires(Network& n, std::span<tensor_view const> in, std::span<tensor_view> out) { n.infer(in, out); };
  static_assert(std::movable<Network>, "network: it must be movable");
  static_assert(made, "network: a constructor is needed that takes an onnx_stage, and the options if given");
  static_assert(infers, "network: infer(span<tensor_view const>, span<tensor_view>) is needed");
  static_assert(std::derived_from<Device, host_memory>, "network: stages compute on the host");
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The stages of one rank: a `stage` for any executor that computes on the host.
template <inference_network Network>
class network_stages {
 public:
  /// `stages` must outlive it.
  explicit network_stages(inference_stages const& stages) : stages_(&stages) {}

  void add(stage_id s, Network n) { networks_.emplace(s, std::move(n)); }

  template <class Stream>
  void forward(Stream&, stage_pass const& p, std::span<tensor_view const> in, std::span<tensor_view> out) {
    wanted_.assign(out.begin(), out.end());
    networks_.at(p.stage).infer(in, out);
    for (std::size_t i = 0; i < out.size(); ++i) {
      auto const &made = out[i], &wanted = wanted_[i];
      bool const varies = stages_->extents() == shape_kind::dynamic;
      bool const fits = varies ? made.shape.count() <= wanted.shape.count() : made.shape == wanted.shape;
      if (made.type == wanted.type && made.data == wanted.data && fits) continue;
      throw inference_error({.what = inference_fault::kind::layout,
                             .name = stages_->stage(p.stage).outputs[i],
                             .made = layout_text(made.type, made.shape),
                             .wanted = layout_text(wanted.type, wanted.shape)});
    }
  }
  Network& network(stage_id s) { return networks_.at(s); }

 private:
  inference_stages const* stages_;
  std::map<stage_id, Network> networks_;
  std::vector<tensor_view> wanted_;
};

/// Streams microbatches through the stages of a model. Made by `make_inference`.
template <inference_network Network, pipeline_place Place>
  requires std::derived_from<typename Place::device, host_memory>
class inference_pipeline {
 public:
  using stages_type = network_stages<Network>;

  /// Use `make_inference`.
  template <class... Options>
  inference_pipeline(inference_stages const& stages, std::uint32_t microbatches, Place const& place,
                     Options const&... options)
      : stages_(stages),
        microbatches_(microbatches),
        plan_(connect_stages(forward_only(stages.count(), 1, microbatches), stages.edges()), stages.edges(),
              stages.layouts(), place.rules(program_options())),
        run_(place.template make<stages_type>(
            plan_, [](pipeline_options&) {},
            [&](rank_id r, auto&) {
              stages_type made(stages);
              stage_id const s{index(r)};
              made.add(s, load(stages, s, options...));
              return made;
            })) {}
  inference_pipeline(inference_pipeline&&) = delete;

  /// Runs all microbatches. `inputs` are those of the model, in order, for each microbatch in turn.
  /// \throws inference_error, and the errors of the pipeline's `run_step`
  void infer(std::span<tensor_view const> inputs) {
    auto const each = stages_.inputs().size(), needed = each * microbatches_;
    if (inputs.size() != needed)
      throw inference_error({.what = inference_fault::kind::inputs, .got = inputs.size(), .allowed = needed});
    run_.run_step(step_values{.inputs = inputs, .inputs_of_each = each});
  }

  /// Returns a result of the model, or nothing if another process makes it. Valid until the next call of
  /// `infer`.
  /// \throws inference_error if the model has no such result
  std::optional<tensor_view> result(microbatch_id m, std::string const& name) const {
    auto const& names = stages_.outputs();
    auto const at = std::ranges::find(names, name);
    if (at == names.end())
      throw inference_error({.what = inference_fault::kind::no_result,
                             .name = name,
                             .wanted = suggestion(nearest_names(name, names))});
    return run_.result(m, static_cast<std::uint32_t>(at - names.begin()));
  }

  step_plan const& plan() const { return plan_; }
  auto& pipeline() { return run_; }

 private:
  template <class... Options>
  static Network load(inference_stages const& stages, stage_id s, Options const&... options) {
    try {
      return Network(stages.stage(s), options...);
    } catch (std::exception const& e) {
      throw inference_error({.what = inference_fault::kind::load, .got = index(s), .made = e.what()});
    }
  }

  inference_stages const& stages_;
  std::uint32_t microbatches_;
  step_plan plan_;
  decltype(std::declval<Place const&>().template make<stages_type>(
      std::declval<step_plan const&>(), std::declval<void (*)(pipeline_options&)>(),
      std::declval<stages_type (*)(rank_id, typename Place::device&)>())) run_;
};

/// Makes a pipeline of inference for `microbatches` microbatches at a time: on threads, or on MPI processes
/// (`mpi::on_processes`), with one rank for each stage. `Network` loads and computes the stages;
/// `options` are for its constructor. `stages` must outlive the pipeline.
/// \throws inference_error if the engine does not load a stage, and the errors of `step_plan` and of the
///   pipeline
template <class Network, pipeline_place Place = on_threads, class... Options>
auto make_inference(inference_stages const& stages, std::uint32_t microbatches, Place const& place = {},
                    Options const&... options) {
  detail::require_network<Network, typename Place::device, Options...>();
  if constexpr (inference_network<Network> && std::derived_from<typename Place::device, host_memory>)
    return inference_pipeline<Network, Place>(stages, microbatches, place, options...);
  else
    return detail::no_inference();
}

}  // namespace cleave
