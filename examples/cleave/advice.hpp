// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/adapt/onnx/unpriced.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/units.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model.hpp"

namespace tool {

/// The option that would determine most unknown costs, and the options for all symbolic dimensions together.
struct pricing_advice {
  cleave::unpriced lacking;  ///< costs unknown now
  cleave::onnx::open_size most;
  std::string option;                 ///< `--dim batch=N`
  std::string together;               ///< `--dim batch=N --dim sequence=N` if that determines more, or empty
  std::size_t nodes = 0, values = 0;  ///< of unknown cost that `together` determines
};

/// Returns the option for an open size: `--dim batch=N`, `--shape image=Nx3xNxN`.
inline std::string option_for(cleave::onnx::open_size const& o) {
  auto const name = cleave::printable(o.name, 200);
  if (o.what == cleave::onnx::open_size::kind::dimension) return "--dim " + name + "=N";
  if (!o.ranked) return "--shape " + name + "=SHAPE";
  std::string shape;
  for (auto const d : o.shape.dims) shape += (shape.empty() ? "" : "x") + (d < 0 ? "N" : std::to_string(d));
  return "--shape " + name + "=" + shape;
}

/// Returns advice, or nothing if all costs are known or no option helps.
inline std::optional<pricing_advice> find_advice(model const& m, cleave::unpriced const& lacking) {
  auto most = cleave::onnx::find_most_open_size(m.graph, m.types, m.costs, m.given);
  if (!most) return std::nullopt;
  pricing_advice advice{lacking, std::move(*most), {}, {}};
  advice.option = option_for(advice.most);
  std::vector<cleave::onnx::open_size> dimensions;
  std::string options;
  for (auto& open : cleave::onnx::list_open_sizes(m.graph, m.types, m.given))
    if (open.what == cleave::onnx::open_size::kind::dimension) {
      options += (options.empty() ? "" : " ") + option_for(open);
      dimensions.push_back(std::move(open));
    }
  if (dimensions.size() < 2 || dimensions.size() > 8) return advice;
  auto const then = cleave::onnx::unpriced_with(m.graph, m.types, m.given, dimensions);
  advice.nodes = lacking.nodes - std::min(lacking.nodes, then.nodes);
  advice.values = lacking.values - std::min(lacking.values, then.values);
  if (advice.nodes > advice.most.nodes || advice.values > advice.most.values) advice.together = options;
  return advice;
}

/// Returns advice as text: `--dim batch=N would price most: 12 of 170 nodes …`
inline std::string advice_text(pricing_advice const& a) {
  auto const of = [&](std::size_t nodes, std::size_t values) {
    return cleave::count_text(nodes) + " of " + plural(a.lacking.nodes, "node") + " and " +
           cleave::count_text(values) + " of " + plural(a.lacking.values, "value") + " without a price";
  };
  if (!a.most.measured)
    return a.option + " would help most: " + of(a.most.nodes, a.most.values) + " follow from it";
  auto text = a.option + " would price most: " + of(a.most.nodes, a.most.values);
  if (!a.together.empty())
    text += "; " + a.together + " together " + cleave::count_text(a.nodes) + " and " +
            cleave::count_text(a.values);
  return text;
}

}  // namespace tool
