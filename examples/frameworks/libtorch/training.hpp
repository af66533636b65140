// SPDX-License-Identifier: MIT
#pragma once
#include <torch/torch.h>

#include <algorithm>
#include <cleave/core/ids.hpp>
#include <cleave/core/random.hpp>
#include <cleave/run/gradients/tied_gradients.hpp>
#include <cleave/run/model/dataflow_layouts.hpp>
#include <cleave/run/model/tensor_view.hpp>
#include <cleave/run/program/make_rank_program.hpp>
#include <cleave/run/program/step_plan.hpp>
#include <cleave/run/program/step_values.hpp>
#include <cleave/schedule/families/interleaved_1f1b.hpp>
#include <cleave/schedule/families/one_f_one_b.hpp>
#include <cleave/schedule/families/zbv.hpp>
#include <cleave/schedule/lower/connect_stages.hpp>
#include <cleave/schedule/model/action.hpp>
#include <cleave/schedule/model/schedule.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine.hpp"
#include "gpt.hpp"

namespace example {

inline constexpr std::uint32_t ranks = 4, microbatches = 8, steps = 50;
inline constexpr double learning_rate = 3e-3, most_difference = 1e-6;

/// The schedules that are compared with training of the whole model.
inline std::vector<std::pair<std::string, cleave::schedule>> schedules() {
  return {{"1F1B", cleave::one_f_one_b(ranks, microbatches)},
          {"Interleaved1F1B", cleave::interleaved_1f1b(ranks, 2, microbatches)},
          {"ZBV", cleave::zbv(ranks, microbatches)}};
}

/// The microbatches of a step: rows that count up by one, two or three, their positions, and the rows shifted
/// by one.
class lesson {
 public:
  lesson(gpt_size const& size, std::uint32_t step) {
    cleave::splitmix random(step);
    for (std::uint32_t m = 0; m < microbatches; ++m) {
      auto rows = torch::empty({size.rows, size.context + 1}, torch::kInt64);
      for (std::int64_t r = 0; r < size.rows; ++r) {
        auto const begin = static_cast<std::int64_t>(random.below(100));
        auto const by = 1 + static_cast<std::int64_t>(random.below(3));
        rows[r] = torch::arange(begin, begin + by * rows.size(1), by, torch::kInt64) % size.vocabulary;
      }
      characters_.push_back(rows.narrow(1, 0, size.context).contiguous());
      next_.push_back(rows.narrow(1, 1, size.context).contiguous());
    }
    positions_ = torch::arange(size.context, torch::kInt64);
    for (std::uint32_t m = 0; m < microbatches; ++m)
      for (auto const& t : {characters_[m], positions_, next_[m]}) views_.push_back(view_of(t));
  }

  /// The losses of all microbatches have equal weights.
  cleave::step_values values() const { return {views_, 3, weights_}; }
  tensors all() const { return {torch::cat(characters_), positions_, torch::cat(next_)}; }

 private:
  tensors characters_, next_;
  torch::Tensor positions_;
  std::vector<cleave::tensor_view> views_;
  std::vector<double> weights_ = std::vector<double>(microbatches, 1.0 / microbatches);
};

inline std::unique_ptr<torch::optim::Adam> optimiser_of(tensors const& parameters) {
  return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(learning_rate));
}

/// A model trained as a whole by libtorch alone, with its losses: of each step, and after training.
struct whole_training {
  std::shared_ptr<gpt_stage> model;
  std::vector<double> losses = {};
};

inline std::shared_ptr<gpt_stage> untrained(gpt_size const& size) {
  torch::manual_seed(1);
  return std::make_shared<gpt_stage>(size, 0, 1);
}

inline whole_training train_whole(gpt_size const& size) {
  whole_training t{untrained(size)};
  auto const optimiser = optimiser_of(t.model->parameters());
  for (std::uint32_t step = 0; step <= steps; ++step) {
    optimiser->zero_grad();
    auto const loss = t.model->forward(lesson(size, step).all()).at(0);
    t.losses.push_back(loss.item<double>());
    if (step == steps) break;
    loss.backward();
    optimiser->step();
  }
  return t;
}

/// A schedule for the stages of a GPT, and the data that its ranks share.
inline cleave::step_plan plan_for(gpt_size const& size, cleave::schedule const& s) {
  auto const t = gpt_dataflow(size, s.place.stages());
  auto const no_symbols = [](std::string const&) { return std::optional<std::int64_t>(); };
  return {connect_stages(s, t), t, layouts_of(t, no_symbols), {}};
}

/// The same without backward passes, for evaluation.
inline cleave::schedule evaluation(cleave::schedule s) {
  for (auto& row : s.ranks)
    std::erase_if(row, [](cleave::action const& a) { return a.kind != cleave::action_kind::forward; });
  return s;
}

/// The tie of the embedding table, which is the first parameter of the first and of the last stage.
inline std::vector<cleave::tied_gradients> ties_of(cleave::schedule const& s) {
  return {{{cleave::stage_id{0}, 0}, {cleave::stage_id{s.place.stages() - 1}, 0}}};
}

/// Returns the larger one; infinite if `x` is NaN.
inline double worse(double most, double x) { return std::isnan(x) ? HUGE_VAL : std::max(most, x); }

/// The stages of some ranks as modules, cut from the untrained model. The first stage has the values of the
/// table; the last one receives them.
class gpt_pieces {
 public:
  gpt_pieces(gpt_size const& size, cleave::schedule const& s) : size_(size), schedule_(s) {}

  /// Adds the stages of one rank, and returns the engine that runs them.
  torch_engine engine_of(cleave::rank_id rank) {
    torch::NoGradGuard const no_graph;
    auto const whole = untrained(size_)->named_parameters();
    torch_engine engine;
    auto const stages = schedule_.place.stages();
    for (std::uint32_t i = 0; i < stages; ++i) {
      if (schedule_.place.rank_of[i] != rank) continue;
      auto const& piece = all_.emplace_back(std::make_shared<gpt_stage>(size_, i, stages));
      for (auto& p : piece->named_parameters())
        if (p.key() == "table" && i > 0)
          p.value().zero_();
        else
          p.value().copy_(whole[p.key()]);
      engine.add(cleave::stage_id{i}, piece, optimiser_of(piece->parameters()));
    }
    return engine;
  }

  /// Returns the largest difference of a parameter from that of the whole model.
  double difference(gpt_stage const& from) const {
    double most = 0;
    auto const whole = from.named_parameters();
    for (auto const& piece : all_)
      for (auto const& p : piece->named_parameters())
        most = worse(most, (p.value() - whole[p.key()]).abs().max().item<double>());
    return most;
  }

 private:
  gpt_size size_;
  cleave::schedule schedule_;
  std::vector<std::shared_ptr<gpt_stage>> all_;
};

/// The largest differences between training in stages and training of the whole model.
struct difference {
  double losses = 0, parameters = 0;
  bool is_small() const { return losses <= most_difference && parameters <= most_difference; }
};

inline void print_row(std::string const& name, cleave::schedule const& s, difference const& d) {
  std::printf("%-16s %2u stages on %u ranks   losses off by %.1e, parameters by %.1e\n", name.c_str(),
              s.place.stages(), s.place.ranks, d.losses, d.parameters);
}

// [train]
/// Trains by plan 0 of a pipeline and then evaluates by plan 1. `result(m, plan)` is the loss of microbatch m
/// where this process makes it. Returns how far losses were at most from those of the whole.
template <class Pipeline, class Result>
double train(Pipeline& pipeline, gpt_size const& size, whole_training const& whole, Result result) {
  double off = 0;
  pipeline.share_ties();
  for (std::uint32_t step = 0; step <= steps; ++step) {
    lesson const given(size, step);
    std::size_t const plan = step < steps ? 0 : 1;
    pipeline.run_step(given.values(), plan);
    if (step < steps) pipeline.update();

    double loss = -whole.losses[step];
    std::uint32_t made = 0;
    for (std::uint32_t m = 0; m < microbatches; ++m)
      if (auto const part = result(cleave::microbatch_id{m}, plan))
        loss += *static_cast<double const*>(part->data) / microbatches, ++made;
    if (made == microbatches) off = worse(off, std::abs(loss));
  }
  return off;
}
// [train]

}  // namespace example
