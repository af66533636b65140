// SPDX-License-Identifier: MIT
#pragma once
#include <torch/torch.h>

#include <cleave/core/dataflow.hpp>
#include <cleave/core/ids.hpp>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine.hpp"

namespace example {

/// Sizes of a transformer that predicts the next character, and the rows of a microbatch.
struct gpt_size {
  std::int64_t vocabulary = 32, width = 32, heads = 4, blocks = 8, context = 16;
  std::int64_t rows = 2;  ///< of a microbatch
};

/// Rotary position embedding: each pair of numbers is rotated by an angle that grows with the position (Su et
/// al. 2021, "RoFormer").
struct rotation {
  torch::Tensor cos, sin;  ///< {context, half the width of a head}
  torch::Tensor later;     ///< {context, context}: true if the second position is after the first

  rotation(torch::Tensor const& positions, std::int64_t width) {
    auto const speeds = torch::pow(1e4, torch::arange(0, width, 2, torch::kFloat64) / -width);
    auto const angles = torch::outer(positions.to(torch::kFloat64), speeds);
    cos = angles.cos(), sin = angles.sin();
    later = positions.unsqueeze(1) < positions.unsqueeze(0);
  }

  torch::Tensor operator()(torch::Tensor const& x) const {
    auto const halves = x.chunk(2, 3);
    return torch::cat({halves[0] * cos - halves[1] * sin, halves[0] * sin + halves[1] * cos}, 3);
  }
};

/// A transformer block: `x + attention(norm(x))`, then `x + mlp(norm(x))`.
class gpt_block : public torch::nn::Module {
 public:
  explicit gpt_block(gpt_size const& size)
      : heads_(size.heads),
        norm1_(register_module("norm1", norm_of(size))),
        norm2_(register_module("norm2", norm_of(size))),
        query_(register_module("query", torch::nn::Linear(size.width, size.width))),
        key_(register_module("key", torch::nn::Linear(size.width, size.width))),
        value_(register_module("value", torch::nn::Linear(size.width, size.width))),
        out_(register_module("out", torch::nn::Linear(size.width, size.width))),
        up_(register_module("up", torch::nn::Linear(size.width, 4 * size.width))),
        down_(register_module("down", torch::nn::Linear(4 * size.width, size.width))) {}

  static torch::nn::LayerNorm norm_of(gpt_size const& size) {
    return torch::nn::LayerNorm(torch::nn::LayerNormOptions({size.width}));
  }

  torch::Tensor forward(torch::Tensor x, rotation const& by) {
    x = x + attention(norm1_->forward(x), by);
    return x + down_->forward(torch::gelu(up_->forward(norm2_->forward(x))));
  }

 private:
  torch::Tensor attention(torch::Tensor const& x, rotation const& by) {
    auto const q = by(in_heads(query_->forward(x))), k = by(in_heads(key_->forward(x)));
    auto const scores = q.matmul(k.transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(3)));
    auto const shares = torch::softmax(scores.masked_fill(by.later, -1e30), 3);
    auto const mixed = shares.matmul(in_heads(value_->forward(x)));
    return out_->forward(mixed.transpose(1, 2).reshape(x.sizes()));
  }

  /// {rows, heads, context, width of a head}.
  torch::Tensor in_heads(torch::Tensor const& x) const {
    return x.view({x.size(0), x.size(1), heads_, x.size(2) / heads_}).transpose(1, 2);
  }

  std::int64_t heads_;
  torch::nn::LayerNorm norm1_, norm2_;
  torch::nn::Linear query_, key_, value_, out_, up_, down_;
};

/// One of `stages` equal pieces of a GPT, or the whole GPT if `stages` is 1. First and last layer share one
/// tensor, and a skip connection adds the embedded input before the last layer.
class gpt_stage : public pipe_module {
 public:
  gpt_stage(gpt_size const& size, std::uint32_t stage, std::uint32_t stages)
      : first_(stage == 0), last_(stage + 1 == stages), head_width_(size.width / size.heads) {
    if (first_ || last_)
      table_ = register_parameter("table", 0.1 * torch::randn({size.vocabulary, size.width}));
    for (auto i = size.blocks * stage / stages; i < size.blocks * (stage + 1) / stages; ++i)
      blocks_.push_back(register_module("block" + std::to_string(i), std::make_shared<gpt_block>(size)));
    if (last_) norm_ = register_module("norm", gpt_block::norm_of(size));
    to(torch::kFloat64);
  }

  /// In the order of `gpt_dataflow`.
  tensors forward(tensors const& in) override {
    rotation const by(in[1], head_width_);
    auto x = first_ ? torch::embedding(table_, in[0]) : in[0];
    auto const embedded = first_ ? x : last_ ? in[3] : torch::Tensor();
    for (auto const& b : blocks_) x = b->forward(x, by);
    if (!last_) return first_ ? tensors{x, embedded} : tensors{x};
    auto const logits = norm_->forward(x + embedded).matmul(table_.t());
    return {torch::nn::functional::cross_entropy(logits.flatten(0, 1), in[2].flatten())};
  }

 private:
  bool first_, last_;
  std::int64_t head_width_;
  torch::Tensor table_;
  std::vector<std::shared_ptr<gpt_block>> blocks_;
  torch::nn::LayerNorm norm_{nullptr};
};

/// The transfers of each microbatch. The caller passes characters, positions and next characters. All stages
/// read the positions; the last also reads the embedding from the first, and returns the loss.
inline cleave::dataflow gpt_dataflow(gpt_size const& size, std::uint32_t stages) {
  using cleave::stage_id, cleave::the_caller;
  enum layout : std::uint32_t { characters, positions, hidden, loss };
  auto const elements = static_cast<std::uint64_t>(size.rows * size.context);
  cleave::dataflow t{stages,
                     {},
                     {{"i64", {size.rows, size.context}},
                      {"i64", {size.context}},
                      {"f64", {size.rows, size.context, size.width}},
                      {"f64", {}}}};
  stage_id const last{stages - 1};
  std::uint64_t const bytes = 8 * elements * static_cast<std::uint64_t>(size.width);
  t.edges.push_back({the_caller, 0, stage_id{0}, 0, 0, 8 * elements, characters});
  for (std::uint32_t s = 0; s < stages; ++s) {
    t.edges.push_back(
        {the_caller, 1, stage_id{s}, 1, 1, 8 * static_cast<std::uint64_t>(size.context), positions});
    if (s > 0) t.edges.push_back({stage_id{s - 1}, 0, stage_id{s}, 0, 3 + std::uint64_t{s}, bytes, hidden});
  }
  t.edges.push_back({the_caller, 2, last, 2, 2, 8 * elements, characters});
  if (stages > 1) t.edges.push_back({stage_id{0}, 1, last, 3, 3, bytes, hidden});
  t.edges.push_back({last, 0, the_caller, 0, 4 + std::uint64_t{stages}, 8, loss});
  return t;
}

}  // namespace example
