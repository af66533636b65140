// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"

namespace cleave {

/// A tensor of a model that may have a gradient.
struct model_parameter {
  std::size_t bytes = 0;          ///< its own; 0 where nobody knows
  std::size_t storage_bytes = 0;  ///< of all the memory that it is a view of; 0: its own
  std::string storage{};          ///< equal where memory is shared; empty: of its own
  bool trained = true;            ///< it gets a gradient
  bool ignored = false;           ///< … which nobody is to send
  bool plain = false;             ///< a tensor of the graph, no parameter of the model
};

/// What is known of the parameters behind a module_graph. A parameter is named by its place in `list`.
struct model_parameters {
  struct held {
    std::string name;  ///< inside the module
    std::uint32_t parameter;
  };
  struct module {
    std::string path;
    std::string object;  ///< equal for two paths of one module
    std::vector<held> holds;
  };
  struct placed {
    std::string path;  ///< of an attribute; the name of a placeholder
    std::uint32_t parameter;
  };

  std::vector<model_parameter> list;
  std::vector<module> modules;
  std::vector<placed> attributes;
  std::vector<placed> placeholders;
};

}  // namespace cleave

namespace cleave::detail {

/// The bytes of a tensor of that shape, of the element type that torch calls `f16`, `float16` or `half`, and
/// so on. Nothing where the type is not known, an extent is negative or the product does not fit.
inline std::optional<std::size_t> tensor_bytes(std::vector<std::int64_t> const& shape,
                                               std::string_view type) {
  struct entry {
    std::string_view name;
    std::size_t bytes;
  };
  static constexpr entry known[] = {
      {"f64", 8},   {"float64", 8},       {"double", 8},     {"i64", 8},     {"int64", 8},
      {"long", 8},  {"u64", 8},           {"uint64", 8},     {"c64", 8},     {"complex64", 8},
      {"c128", 16}, {"complex128", 16},   {"f32", 4},        {"float32", 4}, {"float", 4},
      {"i32", 4},   {"int32", 4},         {"int", 4},        {"u32", 4},     {"uint32", 4},
      {"f16", 2},   {"float16", 2},       {"half", 2},       {"bf16", 2},    {"bfloat16", 2},
      {"i16", 2},   {"int16", 2},         {"short", 2},      {"u16", 2},     {"uint16", 2},
      {"i8", 1},    {"int8", 1},          {"u8", 1},         {"uint8", 1},   {"bool", 1},
      {"f8", 1},    {"float8_e4m3fn", 1}, {"float8_e5m2", 1}};
  for (auto const& e : known) {
    if (e.name != type) continue;
    std::size_t bytes = e.bytes;
    bool overflow = false;
    for (auto const extent : shape) {
      if (extent < 0) return std::nullopt;
      if (extent == 0) return 0;
      overflow |= bytes > static_cast<std::size_t>(-1) / static_cast<std::size_t>(extent);
      bytes *= static_cast<std::size_t>(extent);
    }
    return overflow ? std::nullopt : std::optional(bytes);
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave {

/// What the attributes of `g` say: each of kind parameter belongs to the module with the longest path above
/// its own; its size is `bytes_of(attribute)`. Placeholders that are parameters are the caller's to add.
/// Expected O(attributes and the lengths of their paths).
template <class F>
model_parameters parameters_of(module_graph const& g, F bytes_of) {
  model_parameters p;
  numbering<std::string, std::uint32_t> modules;
  for (auto const& a : g.attributes())
    if (a.what == module_attribute::kind::module && modules.insert(a.path) == p.modules.size())
      p.modules.push_back({a.path, a.path, {}});
  for (auto const& a : g.attributes()) {
    if (a.what != module_attribute::kind::parameter) continue;
    auto const number = static_cast<std::uint32_t>(p.list.size());
    p.list.push_back({.bytes = bytes_of(a), .storage = a.storage});
    p.attributes.push_back({a.path, number});
    for (auto dot = a.path.rfind('.'); dot != a.path.npos && dot > 0; dot = a.path.rfind('.', dot - 1))
      if (auto const m = modules.find(a.path.substr(0, dot)); m != none<std::uint32_t>) {
        p.modules[m].holds.push_back({a.path.substr(dot + 1), number});
        break;
      }
  }
  return p;
}

}  // namespace cleave

namespace cleave::detail {

/// What is wrong with a table of parameters: where, and what.
struct parameter_fault {
  static constexpr char subject[] = "parameters: ";
  std::string path, what;

  bool operator==(parameter_fault const&) const = default;
};

inline std::string describe(parameter_fault const& f) { return quoted(f.path) + " " + f.what; }

using parameter_error = fault_error<parameter_fault>;

/// The first place that is listed twice or names a parameter which is not listed, or nothing. Expected O(size
/// of the table).
inline std::optional<parameter_fault> find_parameter_fault(model_parameters const& p) {
  auto const unknown = [&](std::uint32_t i) {
    return "is said to be parameter " + std::to_string(i) + ", and " + std::to_string(p.list.size()) +
           " are listed";
  };
  numbering<std::string_view, std::uint32_t> modules;
  for (auto const& m : p.modules) {
    auto const before = modules.size();
    if (modules.insert(m.path) < before) return parameter_fault{m.path, "is listed twice as a module"};
    for (auto const& h : m.holds)
      if (h.parameter >= p.list.size()) return parameter_fault{m.path + "." + h.name, unknown(h.parameter)};
  }
  for (auto const* places : {&p.attributes, &p.placeholders}) {
    numbering<std::string_view, std::uint32_t> met;
    for (auto const& at : *places) {
      auto const before = met.size();
      if (met.insert(at.path) < before) return parameter_fault{at.path, "is listed twice"};
      if (at.parameter >= p.list.size()) return parameter_fault{at.path, unknown(at.parameter)};
    }
  }
  return std::nullopt;
}

}  // namespace cleave::detail
