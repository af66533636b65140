// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/cost.hpp"
#include "cleave/adapt/onnx/graph.hpp"
#include "cleave/adapt/onnx/shape.hpp"
#include "cleave/adapt/onnx/types.hpp"
#include "cleave/partition/slices/balance.hpp"

namespace cleave::inline v0_2::detail {

/// Returns true if the bytes of a value of this type, or their upper bound, are known; an empty tensor has 0
/// bytes.
inline bool is_onnx_sized(::onnx::TypeProto const* type) {
  return onnx::most_elements(type).has_value() && onnx::element_size(type->tensor_type().elem_type()) > 0;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2::onnx {

/// Counts the nodes of `g` without a cost, and the values between nodes without a size. Replicable nodes and
/// their results cost nothing and are not counted. `types` and `costs` must belong to the same model. O(V +
/// E).
inline unpriced find_unpriced(onnx::graph const& g, onnx::types const& types, onnx::costs const& costs) {
  unpriced u;
  auto const is_read = detail::values_read(g);
  for (auto const n : g.nodes()) {
    if (g.replicable(n)) continue;
    ++u.of_nodes;
    u.nodes += costs.of[n].unknown;
    for (auto const v : g.results(n)) {
      if (is_read[v] == 0) continue;
      ++u.of_values;
      u.values += !detail::is_onnx_sized(types.priced(g.name_of(v)));
    }
  }
  return u;
}

/// Returns the first value of unknown shape, where inference stopped first: an input, or else the first
/// result in the order of the nodes whose operands all have known shapes. Nothing if all shapes or their
/// upper bounds are known. O(V + E).
inline std::optional<onnx::graph::value> first_unknown_shape(onnx::graph const& g, onnx::types const& types) {
  auto const is_known = [&](auto v) {
    return g.is_state(v) || onnx::most_elements(types.priced(g.name_of(v))).has_value();
  };
  for (auto const v : g.inputs())
    if (!is_known(v)) return v;
  for (auto const n : g.nodes())
    for (auto const v : g.results(n))
      if (!g.name_of(v).empty() && !is_known(v)) return v;
  return std::nullopt;
}

}  // namespace cleave::onnx

namespace cleave::inline v0_2::detail {

/// Returns the dimensions of a tensor type that has a rank; -1 for an open dimension.
inline std::vector<std::int64_t> onnx_known_dimensions(::onnx::TypeProto const& type) {
  std::vector<std::int64_t> dims;
  for (auto const& d : type.tensor_type().shape().dim())
    dims.push_back(d.has_dim_value() && d.dim_value() >= 0 ? d.dim_value() : -1);
  return dims;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2::onnx {

/// A size that the user can give, and what it would price.
struct open_size {
  enum class kind : std::uint8_t {
    dimension,  ///< a symbolic dimension: `onnx::type_options::dims`
    value,      ///< a value's shape: `onnx::type_options::shapes`
  };
  kind what = kind::dimension;
  std::string name;
  onnx::shape shape{};     ///< for a value: the known dimensions; -1 if open
  bool ranked = true;      ///< for a value: true if `shape` has all its dimensions
  std::size_t nodes = 0;   ///< number of nodes that would get a price
  std::size_t values = 0;  ///< number of values that would get a size
  bool measured = true;    ///< false: upper bounds, which count all that depends on it

  bool operator==(onnx::open_size const&) const = default;
};

/// Returns the sizes that the user can give: the symbolic dimensions not in `given`, by name, then the inputs
/// with an open shape, in order.
inline std::vector<onnx::open_size> list_open_sizes(onnx::graph const& g, onnx::types const& types,
                                                    onnx::type_options const& given) {
  std::map<std::string, onnx::open_size> dimensions;
  auto const see = [&](auto v) {
    auto const* type = types.declaration(g.name_of(v));
    if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape()) return;
    for (auto const& d : type->tensor_type().shape().dim())
      if (!d.has_dim_value() && !d.dim_param().empty() && !given.dims.contains(d.dim_param()))
        dimensions[d.dim_param()].name = d.dim_param();
  };
  std::vector<onnx::open_size> all;
  for (auto const v : g.inputs()) {
    see(v);
    auto const* type = types.priced(g.name_of(v));
    if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape()) continue;
    auto const dims = detail::onnx_known_dimensions(*type);
    if (std::ranges::count(dims, -1) > 0)
      all.push_back({onnx::open_size::kind::value, std::string(g.name_of(v)), {0, dims}});
  }
  for (auto const n : g.nodes())
    for (auto const v : g.results(n)) see(v);
  std::vector<onnx::open_size> first;
  for (auto& [name, d] : dimensions) first.push_back(std::move(d));
  all.insert(all.begin(), first.begin(), first.end());
  return all;
}

}  // namespace cleave::onnx

namespace cleave::inline v0_2::detail {

/// Returns the numbers to try for open sizes. Each number replaces all open sizes at once; the number that
/// prices the most operators is used. 64 passes operators that halve sizes or divide them into heads. 8 fits
/// into small tables. 1 fits files exported for a batch of one. The largest known dimension fits square
/// images.
inline std::vector<std::int64_t> onnx_stand_ins(std::span<onnx::open_size const> sizes) {
  std::vector<std::int64_t> list{64, 8, 1};
  for (auto const& open : sizes)
    if (!open.shape.dims.empty() && (std::ranges::max)(open.shape.dims) > 0)
      list.push_back((std::ranges::max)(open.shape.dims));
  return list;
}

/// Returns `given` with `size` for every open dimension of `sizes`.
inline onnx::type_options add_sizes(onnx::type_options given, std::span<onnx::open_size const> sizes,
                                    std::int64_t size) {
  for (auto const& open : sizes)
    if (open.what == onnx::open_size::kind::dimension) {
      given.dims[open.name] = size;
    } else {
      auto shape = open.shape;
      std::ranges::replace(shape.dims, std::int64_t{-1}, size);
      given.shapes[open.name] = std::move(shape);
    }
  return given;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2::onnx {

/// Returns what has no price once all of `sizes` are given. `types` must belong to the model of `g`. Infers
/// up to four times.
inline unpriced unpriced_with(onnx::graph const& g, onnx::types const& types, onnx::type_options const& given,
                              std::span<onnx::open_size const> sizes) {
  std::optional<unpriced> least;
  for (auto const size : detail::onnx_stand_ins(sizes)) try {
      auto const with_sizes = types.with(g.model(), detail::add_sizes(given, sizes, size));
      auto const left = find_unpriced(g, with_sizes, costs_of(with_sizes));
      if (!least || std::pair(left.nodes, left.values) < std::pair(least->nodes, least->values)) least = left;
      if (!least->any()) break;
    } catch (onnx::error const&) {
      continue;  // contradicts the model
    }
  return least ? *least : find_unpriced(g, types, costs_of(types));
}

}  // namespace cleave::onnx

namespace cleave::inline v0_2::detail {

/// Returns the value at which shape inference stops and that affects most unpriced nodes. Its own size is
/// unknown, but those of all operands of its node are known. Returns nothing if there is no such value. O(V +
/// E) for each such value; at most 64 are examined.
inline std::optional<onnx::open_size> find_lost_shape(onnx::graph const& g, onnx::types const& types,
                                                      onnx::costs const& costs) {
  auto const sized = [&](auto v) { return g.is_state(v) || is_onnx_sized(types.priced(g.name_of(v))); };
  auto const is_read = values_read(g);
  std::optional<onnx::open_size> best;
  std::size_t looked_at = 0;
  for (auto const n : g.nodes())
    for (auto const v : g.results(n)) {
      if (sized(v) || !std::ranges::all_of(g.reads(n), sized) || ++looked_at > 64) continue;
      onnx::open_size lost{.what = onnx::open_size::kind::value, .name = std::string(g.name_of(v))};
      lost.measured = false;
      std::vector<char> depends(g.values());
      depends[v] = 1;
      lost.values = is_read[v] != 0 && !g.replicable(n);
      lost.nodes = costs.of[n].unknown && !g.replicable(n);
      for (auto const m : g.nodes()) {
        if (m == n || !std::ranges::any_of(g.reads(m), [&](auto r) { return depends[r] != 0; })) continue;
        lost.nodes += costs.of[m].unknown && !g.replicable(m);
        for (auto const made : g.results(m)) {
          depends[made] = 1;
          lost.values += is_read[made] != 0 && !sized(made) && !g.replicable(m);
        }
      }
      if (best && std::pair(best->nodes, best->values) >= std::pair(lost.nodes, lost.values)) continue;
      auto const* type = types.priced(lost.name);
      lost.ranked = type != nullptr && type->has_tensor_type() && type->tensor_type().has_shape();
      if (lost.ranked) lost.shape.dims = onnx_known_dimensions(*type);
      best = std::move(lost);
    }
  return best;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2::onnx {

/// Returns the one size that would price most: nodes first, then values; the first listed among equals.
///
/// Each of the first 8 sizes of `onnx::list_open_sizes` is given in turn, and all shapes are inferred with
/// it. If none of them prices anything, the result is the value at which most shapes are lost. Returns
/// nothing if everything has a price, or no such value is found.
inline std::optional<onnx::open_size> find_most_open_size(onnx::graph const& g, onnx::types const& types,
                                                          onnx::costs const& costs,
                                                          onnx::type_options const& given) {
  auto const now = find_unpriced(g, types, costs);
  if (!now.any()) return std::nullopt;
  std::optional<onnx::open_size> best;
  auto sizes = list_open_sizes(g, types, given);
  if (sizes.size() > 8) sizes.resize(8);
  for (auto& open : sizes) {
    auto const then = unpriced_with(g, types, given, {&open, 1});
    open.nodes = now.nodes - (std::min)(now.nodes, then.nodes);
    open.values = now.values - (std::min)(now.values, then.values);
    if (open.nodes + open.values == 0) continue;
    if (!best || std::pair(best->nodes, best->values) < std::pair(open.nodes, open.values)) best = open;
  }
  return best ? best : detail::find_lost_shape(g, types, costs);
}

}  // namespace cleave::onnx
