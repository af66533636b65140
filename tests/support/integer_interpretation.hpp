// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"

/// The integer interpretation of the conformance cases (split_module/README.md, section 5). Each call is a
/// hash of its target and its operands. The whole graph and the split graph therefore agree only if nothing
/// was lost, swapped or renamed.
namespace cleave::testing {

constexpr std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t fold(std::uint64_t h, std::uint64_t x) { return mix((h ^ x) + 0x9e3779b97f4a7c15u); }

constexpr std::uint64_t fnv(std::string_view s) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (char const c : s) {
    h ^= static_cast<unsigned char>(c);
    h *= 0x100000001b3u;
  }
  return h;
}

/// A value of the interpretation; equal digests stand for equal values.
struct integer_value {
  enum class kind : std::uint8_t { constant, computed, composite };

  kind what = kind::constant;
  std::uint64_t digest = fold(1, 0);
  std::uint64_t bits = 0;  ///< of a computed value or an integer constant
  token text{};            ///< of a constant
  container shape{};       ///< of a container
  std::shared_ptr<std::vector<integer_value> const>
      items{};  ///< elements of a container; keys and values alternate in a dict

  static integer_value computed(std::uint64_t h) { return {kind::computed, fold(3, h), h}; }
  bool operator==(integer_value const& other) const { return digest == other.digest; }
};

class integer_interpretation {
 public:
  using value = integer_value;

  value constant(token const& t) const {
    value v{value::kind::constant, fold(1, 0), 0, t};
    if (auto const* b = std::get_if<bool>(&t)) v.digest = fold(2, *b ? 1 : 0);
    if (auto const* i = std::get_if<std::int64_t>(&t)) {
      v.bits = static_cast<std::uint64_t>(*i);
      v.digest = fold(3, v.bits);
    }
    if (auto const* s = std::get_if<std::string>(&t)) v.digest = fold(4, fnv(*s));
    if (auto const* d = std::get_if<double>(&t)) v.digest = fold(9, fnv(std::to_string(*d)));  // no case
    if (auto const* o = std::get_if<opaque>(&t)) v.digest = fold(10, fnv(o->kind + ":" + o->text));
    return v;
  }

  value collect(container const& c, std::span<value const> elements) const {
    using enum container::kind;
    value v{value::kind::composite,
            0,
            0,
            {},
            c,
            std::make_shared<std::vector<value> const>(elements.begin(), elements.end())};
    std::uint64_t h = c.what == list    ? fold(5, c.size)
                      : c.what == tuple ? fold(6, c.size)
                      : c.what == slice ? fold(8, 3)
                                        : fold(7, c.size);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      bool const key = c.what == dict && i % 2 == 0;
      h = fold(h, key ? fnv(text(elements[i])) : elements[i].digest);
    }
    v.digest = h;
    return v;
  }

  value attribute(module_graph const& g, module_graph::position n) const {
    return value::computed(fnv("get_attr:" + original(g, g[n].target)));
  }

  value call(module_graph const& g, module_graph::position n, std::span<value const> args,
             std::span<value const> kwargs) const {
    module_node const& node = g[n];
    bool const function = node.kind == node_kind::call_function;
    if (function && node.target == "getitem" && args.size() == 2 && args[0].items &&
        args[1].bits < args[0].items->size())
      return (*args[0].items)[args[1].bits];

    bool const method = node.kind == node_kind::call_method;
    std::uint64_t h = fnv(function ? "call_function:" + node.target
                          : method ? "call_method:" + node.target
                                   : "call_module:" + original(g, node.target));
    h = fold(h, args.size());
    for (auto const& a : args) h = fold(h, a.digest);
    h = fold(h, kwargs.size());
    for (std::size_t i = 0; i < kwargs.size(); ++i)
      h = fold(fold(h, fnv(node.kwargs[i].key)), kwargs[i].digest);
    if (function && (node.target == "tup2" || node.target == "tup3")) {
      std::vector<value> elements;
      for (std::uint64_t i = 0; i < (node.target == "tup2" ? 2u : 3u); ++i)
        elements.push_back(value::computed(fold(h, i)));
      return collect({container::kind::tuple, static_cast<std::uint32_t>(elements.size())}, elements);
    }
    return value::computed(h);
  }

 private:
  static std::string text(value const& v) {
    auto const* s = std::get_if<std::string>(&v.text);
    return s ? *s : std::string();
  }
  static std::string original(module_graph const& g, std::string const& path) {
    auto const* a = g.find_attribute(path);
    return a && !a->original.empty() ? a->original : path;
  }
};

}  // namespace cleave::testing
