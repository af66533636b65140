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

namespace cleave::detail {

/// Whether the bytes of a value of this type are known; those of an empty tensor are, and are 0.
inline bool is_onnx_sized(::onnx::TypeProto const* type) {
  return onnx::elements(type).has_value() && onnx::element_size(type->tensor_type().elem_type()) > 0;
}

/// Of a value: whether a node of `g` reads it.
inline std::vector<char> values_read(onnx::graph const& g) {
  std::vector<char> is_read(g.values());
  for (auto const n : g.nodes())
    for (auto const v : g.reads(n)) is_read[v] = 1;
  return is_read;
}

}  // namespace cleave::detail

namespace cleave::onnx {

/// What has no price among the nodes of `g` and the values that go from node to node, where `types` and
/// `costs` are of its model. O(V + E).
inline unpriced find_unpriced(onnx::graph const& g, onnx::types const& types, onnx::costs const& costs) {
  unpriced u;
  auto const is_read = detail::values_read(g);
  for (auto const n : g.nodes()) {
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

}  // namespace cleave::onnx

namespace cleave::detail {

/// The dimensions of a tensor's type that has a rank; -1 is an open one.
inline std::vector<std::int64_t> onnx_known_dimensions(::onnx::TypeProto const& type) {
  std::vector<std::int64_t> dims;
  for (auto const& d : type.tensor_type().shape().dim())
    dims.push_back(d.has_dim_value() && d.dim_value() >= 0 ? d.dim_value() : -1);
  return dims;
}

}  // namespace cleave::detail

namespace cleave::onnx {

/// Something whose size the user can give, and what that would price.
struct open_size {
  enum class kind : std::uint8_t {
    dimension,  ///< a symbolic dimension: `onnx::type_options::dims`
    value,      ///< a value's shape: `onnx::type_options::shapes`
  };
  kind what = kind::dimension;
  std::string name;
  onnx::shape shape{};     ///< of a value, as far as it is known; -1: open
  bool ranked = true;      ///< of a value: `shape` has all its dimensions
  std::size_t nodes = 0;   ///< that would have a price
  std::size_t values = 0;  ///< that would have a size
  bool measured = true;    ///< false: at most so many, all that depend on it

  bool operator==(onnx::open_size const&) const = default;
};

/// What the user can give a size: the file's symbolic dimensions that nobody gave, by name, then the inputs
/// whose shape is open, in order.
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

namespace cleave::detail {

/// The numbers that stand for open sizes, one for all at a time; what prices most counts. Operators that
/// halve sizes or take heads of them find the first whole, small tables have room for the second, a file
/// exported for a batch of one agrees with the third alone, and square images with what is known of their
/// shape.
inline std::vector<std::int64_t> onnx_stand_ins(std::span<onnx::open_size const> sizes) {
  std::vector<std::int64_t> list{64, 8, 1};
  for (auto const& open : sizes)
    if (!open.shape.dims.empty() && (std::ranges::max)(open.shape.dims) > 0)
      list.push_back((std::ranges::max)(open.shape.dims));
  return list;
}

/// `given` and `size` for all that is open of each of `sizes`.
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

namespace cleave::onnx {

/// What has no price once all of `sizes` are given; `types` are of the model of `g`. Infers up to four times.
inline unpriced unpriced_with(onnx::graph const& g, onnx::types const& types, onnx::type_options const& given,
                              std::span<onnx::open_size const> sizes) {
  std::optional<unpriced> least;
  for (auto const size : detail::onnx_stand_ins(sizes)) try {
      auto const told = types.with(g.model(), detail::add_sizes(given, sizes, size));
      auto const left = find_unpriced(g, told, costs_of(told));
      if (!least || std::pair(left.nodes, left.values) < std::pair(least->nodes, least->values)) least = left;
      if (!least->any()) break;
    } catch (onnx::error const&) {
      continue;  // does not fit
    }
  return least ? *least : find_unpriced(g, types, costs_of(types));
}

}  // namespace cleave::onnx

namespace cleave::detail {

/// The value with which shapes are lost behind which most unpriced nodes lie: its own size is unknown, those
/// of all that its node reads are not. None where no shape is lost so. O(V + E) for each such value, of which
/// the first 64 are looked at.
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
      lost.values = is_read[v] != 0;
      lost.nodes = costs.of[n].unknown;
      for (auto const m : g.nodes()) {
        if (m == n || !std::ranges::any_of(g.reads(m), [&](auto r) { return depends[r] != 0; })) continue;
        lost.nodes += costs.of[m].unknown;
        for (auto const made : g.results(m)) {
          depends[made] = 1;
          lost.values += is_read[made] != 0 && !sized(made);
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

namespace cleave::onnx {

/// The one size that would price most: nodes first, then values; the first listed of equals. Each of the
/// first 8 of `onnx::list_open_sizes` is given in turn, and all shapes are inferred with it. Where none of
/// them prices anything, the value with which most shapes are lost. None where all has a price, or nothing
/// tells.
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
