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

namespace cleave::inline v0_2 {

/// A tensor of a model that may have a gradient.
struct model_parameter {
  std::size_t bytes = 0;          ///< bytes of the tensor itself; 0 if unknown
  std::size_t storage_bytes = 0;  ///< bytes of the whole storage that it is a view of; 0: the same as `bytes`
  std::string storage{};          ///< name of the storage, equal for tensors that share it; empty: its own
  bool trained = true;            ///< true if it gets a gradient
  bool ignored = false;  ///< true if its gradient is not to be reduced, as for parameters that DDP ignores
  bool plain = false;    ///< true for a tensor of the graph that is not a registered parameter of the model
};

/// The parameters behind a module_graph, and the modules, attributes and placeholders that refer to them.
/// References are indices into `list`.
struct model_parameters {
  struct held {               ///< a parameter that a module holds
    std::string name;         ///< name of the parameter inside the module
    std::uint32_t parameter;  ///< index into `list`
  };
  struct module {        ///< a submodule and the parameters that it holds directly
    std::string path;    ///< dotted path of the module
    std::string object;  ///< identity of the module object; equal for two paths of the same module
    std::vector<held> holds;
  };
  struct placed {             ///< a node of the graph that is a parameter
    std::string path;         ///< path of an attribute, or name of a placeholder
    std::uint32_t parameter;  ///< index into `list`
  };

  std::vector<model_parameter> list;
  std::vector<module> modules;
  std::vector<placed> attributes;
  std::vector<placed> placeholders;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the bytes of a tensor of this shape and element type, or nothing if the type is unknown, an extent
/// is negative or the product overflows. Types are PyTorch's names: `f16`, `float16`, `half` and so on.
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
    std::uint64_t bytes = e.bytes;
    bool overflow = false;
    for (auto const extent : shape) {
      if (extent < 0) return std::nullopt;
      if (extent == 0) return 0;
      overflow |= bytes > static_cast<std::size_t>(-1) / static_cast<std::uint64_t>(extent);
      bytes *= static_cast<std::uint64_t>(extent);
    }
    return overflow ? std::nullopt : std::optional(static_cast<std::size_t>(bytes));
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the parameter table of the attributes of `g`. Each attribute of kind parameter belongs to the
/// module with the longest path that is a prefix of its own. Its size is `bytes_of(attribute)`, in bytes.
/// Placeholders that are parameters must be added by the caller. Expected O(attributes and the total length
/// of their paths).
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

namespace cleave::inline v0_2::detail {

/// A fault in a table of parameters: the path concerned and a description.
struct parameter_fault {
  static constexpr char subject[] = "parameters: ";
  std::string path, what;

  bool operator==(parameter_fault const&) const = default;
};

inline std::string describe(parameter_fault const& f) { return quoted(f.path) + " " + f.what; }

using parameter_error = fault_error<parameter_fault>;

/// Returns the first path that is listed twice or refers to a parameter that is not listed, if any. Expected
/// O(size of the table).
inline std::optional<parameter_fault> find_parameter_fault(model_parameters const& p) {
  auto const unknown = [&](std::uint32_t i) {
    return "refers to parameter #" + std::to_string(i) + ", but the list has " +
           std::to_string(p.list.size()) + " entries";
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
