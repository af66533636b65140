// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/core/random.hpp>
#include <cleave/graph/module_graph.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "support/toy_autograd.hpp"

namespace tool {

using shape = std::vector<std::size_t>;

/// Sizes of a small transformer that predicts the next character.
struct gpt_size {
  std::size_t vocabulary, width = 16, blocks = 4, context = 12, batch = 8;
};

/// The model as a program whose output is its loss. Embedding and last layer are one tensor with two names. A
/// skip connection adds the embedded input again before the last layer.
struct gpt {
  cleave::module_graph graph;
  cleave::testing::state_values state;
};

/// Builds a gpt node by node; used by `make_gpt`. Each node has its module, shape, bytes and work.
class gpt_writer {
 public:
  gpt_writer(gpt_size const& size, std::uint64_t seed) : size_(size), random_(seed) {}

  gpt write(bool marked) {
    auto const ids = input("ids", {size_.batch, size_.context});
    auto const targets = input("targets", {size_.batch, size_.context});
    auto const table = parameter("embedding.weight", {size_.vocabulary, size_.width}, "tied");
    auto x = call("embedding", "embedding", {ids, table}, {size_.batch, size_.context, size_.width});
    x = call("embedding", "add", {x, parameter("embedding.place", {size_.context, size_.width})}, shape_[x]);
    auto const embedded = x;
    for (std::size_t i = 0; i < size_.blocks; ++i) {
      if (marked && i % 2 == 1) call("", "pipe_split", {}, {});
      x = block("blocks." + std::to_string(i), x);
    }
    x = call("skip", "add", {x, embedded}, shape_[x]);
    x = normalised("head.norm", x);
    auto const head = parameter("head.weight", {size_.vocabulary, size_.width}, "tied");
    auto const logits = linear("head", x, {head}, size_.vocabulary);
    auto const loss = call("loss", "cross_entropy", {logits, targets}, {});
    add(cleave::node_kind::output, "output", "output", {cleave::node_argument(loss)}, {});
    return std::move(made_);
  }

 private:
  using position = cleave::module_graph::position;

  position block(std::string const& path, position x) {
    auto const h = normalised(path + ".norm1", x);
    auto const q = dense(path + ".attention.query", h, size_.width);
    auto const k = dense(path + ".attention.key", h, size_.width);
    auto const v = dense(path + ".attention.value", h, size_.width);
    auto const b = size_.batch, t = size_.context;
    auto const turned = call(path + ".attention", "transpose", {k}, {b, size_.width, t});
    auto const scores = call(path + ".attention", "matmul", {q, turned}, {b, t, t}, size_.width);
    auto const scaled = call_with(path + ".attention", "mul", {scores},
                                  1 / std::sqrt(static_cast<double>(size_.width)), {b, t, t});
    auto const shares = call(path + ".attention", "causal_softmax", {scaled}, {b, t, t});
    auto const mixed = call(path + ".attention", "matmul", {shares, v}, {b, t, size_.width}, t);
    x = call(path, "add", {x, dense(path + ".attention.out", mixed, size_.width)}, shape_[x]);
    auto const wide = dense(path + ".mlp.up", normalised(path + ".norm2", x), 4 * size_.width);
    auto const bent = call(path + ".mlp", "gelu", {wide}, shape_[wide]);
    return call(path, "add", {x, dense(path + ".mlp.down", bent, size_.width)}, shape_[x]);
  }

  position normalised(std::string const& path, position x) {
    auto const w = parameter(path + ".weight", {size_.width}, "", 1);
    auto const b = parameter(path + ".bias", {size_.width}, "", 0);
    return call(path, "layer_norm", {x, w, b}, shape_[x]);
  }
  position dense(std::string const& path, position x, std::size_t width) {
    auto const w = parameter(path + ".weight", {width, shape_[x].back()});
    return linear(path, x, {w, parameter(path + ".bias", {width}, "", 0)}, width);
  }
  position linear(std::string const& path, position x, std::vector<position> weights, std::size_t width) {
    auto to = shape_[x];
    auto const inner = to.back();
    to.back() = width;
    weights.insert(weights.begin(), x);
    return call(path, "linear", weights, to, inner);
  }

  position input(std::string const& name, shape of) {
    return add(cleave::node_kind::placeholder, name, name, {}, of);
  }

  /// Adds a parameter of small random numbers, or filled with `with`.
  position parameter(std::string const& path, shape of, std::string const& storage = "", double with = -1) {
    auto value = cleave::testing::tensor::filled(of, with);
    if (with < 0)
      for (double& x : value.data) x = 0.4 * (static_cast<double>(random_.next() >> 11) * 0x1p-53 - 0.5);
    made_.graph.add_attribute({path, cleave::module_attribute::kind::parameter, storage, {}, {}, {}});
    made_.state = cleave::testing::with_ties(made_.graph, std::move(made_.state));
    made_.state.try_emplace(path, std::move(value));  // a tied tensor exists already
    return add(cleave::node_kind::get_attr, named(path), path, {}, of);
  }

  /// `inner` is the number of products summed in each element of the result. Shapes are passed by value,
  /// since `shape_` may reallocate while the operands are added.
  position call(std::string const& path, std::string const& target, std::vector<position> const& operands,
                shape of, std::size_t inner = 1) {
    std::vector<cleave::module_argument> args;
    for (auto const v : operands) args.push_back(cleave::node_argument(v));
    return add(cleave::node_kind::call_function, named((path.empty() ? "" : path + ".") + target), target,
               std::move(args), of, path, inner);
  }
  position call_with(std::string const& path, std::string const& target,
                     std::vector<position> const& operands, double factor, shape of) {
    std::vector<cleave::module_argument> args;
    for (auto const v : operands) args.push_back(cleave::node_argument(v));
    args.push_back({factor});
    return add(cleave::node_kind::call_function, named(path + "." + target), target, std::move(args), of,
               path);
  }

  position add(cleave::node_kind kind, std::string const& name, std::string const& target,
               std::vector<cleave::module_argument> args, shape of, std::string const& path = {},
               std::size_t inner = 1) {
    cleave::module_node n;
    n.kind = kind;
    n.name = name;
    n.target = target;
    n.args = std::move(args);
    n.shape.emplace();
    for (auto const d : of) n.shape->emplace_back(static_cast<std::int64_t>(d));
    auto const elements = static_cast<std::int64_t>(cleave::testing::elements_of(of));
    if (!path.empty()) n.metadata.push_back({"scope", modules_around(path)});
    n.metadata.push_back({"bytes", {elements * std::int64_t{sizeof(double)}}});
    if (!path.empty()) n.metadata.push_back({"cost", {elements * static_cast<std::int64_t>(inner)}});
    auto const at = made_.graph.add(std::move(n));
    shape_.push_back(of);
    return at;
  }

  /// Returns the modules around a path: `a`, `a.b` and `a.b.c` for `a.b.c`.
  static cleave::module_argument modules_around(std::string const& path) {
    cleave::module_argument list{cleave::container{cleave::container::kind::list, 0}};
    for (std::size_t end = 0; end != path.npos;) {
      end = path.find('.', end + 1);
      list.push_back(path.substr(0, end));
    }
    std::get<cleave::container>(list.front()).size = static_cast<std::uint32_t>(list.size() - 1);
    return list;
  }

  /// Returns a unique name: `_` for each dot, and a number if the name is taken.
  std::string named(std::string name) {
    for (char& c : name)
      if (c == '.') c = '_';
    auto const times = taken_[name]++;
    return times == 0 ? name : name + "_" + std::to_string(times);
  }

  gpt_size size_;
  cleave::splitmix random_;
  gpt made_;
  std::vector<shape> shape_;  // by node
  std::map<std::string, std::size_t> taken_;
};

/// Makes a model with random weights from a seed. If `marked`, a marker stands before every other block,
/// starting with the second.
inline gpt make_gpt(gpt_size const& size, bool marked, std::uint64_t seed = 1) {
  return gpt_writer(size, seed).write(marked);
}

/// A text as batches for the model: pieces of the text, and the same pieces shifted by one character.
class lesson {
 public:
  explicit lesson(std::string_view text) : text_(text) {
    for (char const c : text) number_.try_emplace(c, 0);
    std::size_t next = 0;
    for (auto& [c, n] : number_) n = next++;
  }

  std::size_t vocabulary() const { return number_.size(); }

  /// The whole text: row r has the characters from r·context on, and its targets the characters that follow
  /// each.
  std::vector<cleave::testing::tensor> batch(gpt_size const& size) const {
    auto ids = cleave::testing::tensor::filled({size.batch, size.context}, 0);
    auto targets = ids;
    for (std::size_t i = 0; i < ids.data.size(); ++i) {
      ids.data[i] = number_of(i);
      targets.data[i] = number_of(i + 1);
    }
    return {ids, targets};
  }

 private:
  double number_of(std::size_t i) const { return static_cast<double>(number_.at(text_[i % text_.size()])); }

  std::string_view text_;
  std::map<char, std::size_t> number_;
};

}  // namespace tool
