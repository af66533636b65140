// SPDX-License-Identifier: MIT
#pragma once
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/printable.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"

namespace cleave::inline v0_2::detail {

/// Returns true if `text` can be the name of a variable.
inline bool is_identifier(std::string_view text) {
  auto const letter = [](char c) { return (c | 32) >= 'a' && (c | 32) <= 'z' ? true : c == '_'; };
  auto const digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.empty() || digit(text.front())) return false;
  for (char const c : text)
    if (!letter(c) && !digit(c)) return false;
  return true;
}

/// Returns a real number as a literal.
inline std::string real_literal(double x) {
  char digits[32];
  std::string const text(digits, std::to_chars(digits, digits + sizeof digits, x).ptr);
  return text.find_first_not_of("-0123456789") == text.npos ? text + ".0" : text;
}

/// Returns a text as a literal, in single quotes.
inline std::string text_literal(std::string_view text) {
  std::string escaped;
  for (char const c : text) {
    if (c == '\'' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return "'" + printable(escaped, 1000) + "'";
}

/// Writes the nodes of one graph as code.
class code_writer {
 public:
  explicit code_writer(module_graph const& g) : g_(g) {}

  std::string text(std::string_view name) {
    std::string parameters = "self", body;
    for (module_graph::position at = 0; at < g_.list().size(); ++at) {
      auto const& n = g_[at];
      if (n.kind == node_kind::placeholder) {
        parameters += ", " + typed_name(at);
        if (n.default_value) parameters += " = " + value(*n.default_value);
      } else if (n.kind == node_kind::output) {
        body += "    return " + (n.args.empty() ? "None" : value(n.args.front())) + "\n";
      } else {
        body += "    " + typed_name(at) + " = " + made(n) + after(n) + "\n";
      }
    }
    return "def " + printable(name) + "(" + parameters + "):\n" + (body.empty() ? "    pass\n" : body);
  }

 private:
  std::string name(module_graph::position at) const {
    auto const& given = g_[at].name;
    return given.empty() ? "_" + std::to_string(at) : printable(given);
  }

  /// Returns the name of a node with its element type and shape, if these are known: `x: float32[2, 3]`.
  std::string typed_name(module_graph::position at) const {
    auto const& n = g_[at];
    std::string type;
    for (auto const& [key, value] : n.metadata)
      if (key == "dtype" && value.size() == 1) {
        if (auto const* text = std::get_if<std::string>(&value.front())) type = printable(*text);
        if (auto const* constant = std::get_if<opaque>(&value.front())) type = printable(constant->text);
      }
    if (n.shape) {
      type += "[";
      for (std::size_t i = 0; i < n.shape->size(); ++i) {
        auto const& extent = (*n.shape)[i];
        auto const* const number = std::get_if<std::int64_t>(&extent);
        type += (i == 0 ? "" : ", ") +
                (number ? std::to_string(*number) : printable(std::get<std::string>(extent)));
      }
      type += "]";
    }
    return name(at) + (type.empty() ? "" : ": " + type);
  }

  /// Returns the expression that makes a node's value.
  std::string made(module_node const& n) const {
    switch (n.kind) {
      case node_kind::get_attr:
        return member(n.target);
      case node_kind::call_module:
        return member(n.target) + call(n, 0);
      case node_kind::call_method:
        if (n.args.empty()) break;
        return value(n.args.front()) + "." + printable(n.target) + call(n, 1);
      default:
        break;
    }
    if (n.target.ends_with("getitem") && n.args.size() == 2 && n.kwargs.empty())
      return value(n.args[0]) + "[" + value(n.args[1]) + "]";
    return printable(n.target) + call(n, 0);
  }

  /// Returns a path of the module as code; `layers.0.weight` is `self.layers[0].weight`.
  static std::string member(std::string_view path) {
    std::string text = "self";
    for (std::size_t at = 0; at <= path.size();) {
      auto const end = (std::min)(path.find('.', at), path.size());
      auto const part = path.substr(at, end - at);
      bool const number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
      text += is_identifier(part) ? "." + std::string(part)
              : number            ? "[" + std::string(part) + "]"
                                  : "[" + text_literal(part) + "]";
      at = end + 1;
    }
    return text;
  }

  std::string call(module_node const& n, std::size_t first) const {
    std::string list;
    for (auto i = first; i < n.args.size(); ++i) list += (list.empty() ? "" : ", ") + value(n.args[i]);
    for (auto const& k : n.kwargs)
      list += (list.empty() ? "" : ", ") + printable(k.key) + "=" + value(k.value);
    return "(" + list + ")";
  }

  /// Returns a remark about calls that a node must follow and does not read.
  std::string after(module_node const& n) const {
    std::string text;
    for (auto const m : n.after) {
      bool read = false;
      each_operand(n, [&](module_graph::position operand) { read |= operand == m; });
      if (!read) text += (text.empty() ? "  # after " : ", ") + name(m);
    }
    return text;
  }

  /// Returns an argument as code. Containers are closed by a stack, not by recursion.
  std::string value(module_argument const& a) const {
    struct frame {
      container what;
      std::size_t done;  // elements that are written, or keys and values
    };
    std::string text;
    std::vector<frame> open;
    auto const close_full = [&] {
      while (!open.empty() && open.back().done == elements_of(open.back().what)) {
        auto const& c = open.back().what;
        text += c.what == container::kind::list                   ? "]"
                : c.what == container::kind::dict                 ? "}"
                : c.what == container::kind::tuple && c.size == 1 ? ",)"
                                                                  : ")";
        open.pop_back();
      }
    };
    for (auto const& t : a) {
      if (!open.empty()) {
        auto& f = open.back();
        bool const is_value = f.what.what == container::kind::dict && f.done % 2 == 1;
        if (f.done > 0) text += is_value ? ": " : ", ";
        ++f.done;
      }
      if (auto const* c = std::get_if<container>(&t)) {
        text += c->what == container::kind::list    ? "["
                : c->what == container::kind::dict  ? "{"
                : c->what == container::kind::slice ? "slice("
                                                    : "(";
        open.push_back({*c, 0});
      } else {
        text += leaf(t);
      }
      close_full();
    }
    return text;
  }

  std::string leaf(token const& t) const {
    if (auto const* ref = std::get_if<node_ref>(&t)) return name(ref->node);
    if (auto const* flag = std::get_if<bool>(&t)) return *flag ? "True" : "False";
    if (auto const* whole = std::get_if<std::int64_t>(&t)) return std::to_string(*whole);
    if (auto const* real = std::get_if<double>(&t)) return real_literal(*real);
    if (auto const* string = std::get_if<std::string>(&t)) return text_literal(*string);
    if (auto const* constant = std::get_if<opaque>(&t)) return printable(constant->text);
    return "None";
  }

  module_graph const& g_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a graph and the modules in it as code for people, in the syntax of Python: first the graph under
/// the given name, then each module whose inside is known, under its path. Element types, which are `dtype`
/// in the metadata, and shapes follow the names that have them. It is what `print_readable` shows in
/// torch.fx. O(size of the text), without recursion.
inline std::string write_module_code(module_graph const& g, std::string_view name = "forward") {
  std::string text;
  std::vector<std::pair<std::string, module_graph const*>> rest{{std::string(name), &g}};
  while (!rest.empty()) {
    auto const [path, now] = std::move(rest.back());
    rest.pop_back();
    text += (text.empty() ? "" : "\n") + detail::code_writer(*now).text(path);
    auto const attributes = now->attributes();
    for (auto i = attributes.size(); i-- > 0;) {
      auto const& a = attributes[i];
      if (!a.body.empty()) rest.emplace_back(now == &g ? a.path : path + "." + a.path, &a.body.front());
    }
  }
  return text;
}

}  // namespace cleave
