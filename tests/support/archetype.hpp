// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/graph/snapshot_arrays.hpp"

/// Types that model each concept with the least possible interface. Code that compiles with them requires no
/// more than its concept says. They exist to be instantiated; a small instance also runs.
namespace archetype {

/// A type that is regular and hashable, but neither ordered nor a number.
template <class Tag>
class name {
 public:
  name() = default;
  explicit name(int i) : i_(i) {}
  bool operator==(name const&) const = default;
  std::size_t hash() const { return static_cast<std::size_t>(i_); }
  int number() const { return i_; }

 private:
  int i_ = 0;
};
using node = name<struct node_tag>;
using value = name<struct value_tag>;
using place = name<struct place_tag>;
using body = name<struct body_tag>;

/// A single-pass, move-only range. Its sentinel has another type than its iterator, and it yields by value.
template <class T>
class once {
 public:
  struct end_mark {};
  class iterator {
   public:
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;
    iterator() = default;
    explicit iterator(T const* at, T const* end) : at_(at), end_(end) {}
    iterator(iterator&&) = default;
    iterator& operator=(iterator&&) = default;
    T operator*() const { return *at_; }
    iterator& operator++() { return ++at_, *this; }
    void operator++(int) { ++at_; }
    friend bool operator==(iterator const& i, end_mark) { return i.at_ == i.end_; }

   private:
    T const* at_ = nullptr;
    T const* end_ = nullptr;
  };
  explicit once(std::vector<T> items) : items_(std::move(items)) {}
  once(once&&) = default;
  once& operator=(once&&) = default;
  iterator begin() { return iterator(items_.data(), items_.data() + items_.size()); }
  end_mark end() { return {}; }

 private:
  std::vector<T> items_;
};

}  // namespace archetype

template <class Tag>
struct std::hash<archetype::name<Tag>> {
  std::size_t operator()(archetype::name<Tag> const& n) const { return n.hash(); }
};

namespace archetype {

/// A graph of two nodes; the second reads the first. It has only `nodes()` and `operands(n)`, and cannot be
/// copied or moved.
class graph {
 public:
  graph() = default;
  graph(graph const&) = delete;
  graph& operator=(graph const&) = delete;
  std::vector<node> const& nodes() const { return nodes_; }
  once<node> operands(node n) const {
    return once<node>(n == nodes_[1] ? std::vector{nodes_[0]} : std::vector<node>());
  }

 private:
  std::vector<node> nodes_{node(1), node(2)};
};

/// A graph whose nodes and values are of different types.
class results_graph {
 public:
  results_graph() = default;
  results_graph(results_graph const&) = delete;
  std::vector<node> const& nodes() const { return nodes_; }
  once<value> operands(node n) const { return once<value>({value(n == nodes_[1] ? 10 : 9)}); }
  once<value> results(node n) const { return once<value>({value(n == nodes_[1] ? 11 : 10)}); }

 private:
  std::vector<node> nodes_{node(1), node(2)};
};

struct number {
  operator double() const { return 1; }  // NOLINT: convertible is all that is asked
};
struct count {
  operator std::size_t() const { return 8; }  // NOLINT
};
struct truth {
  operator bool() const { return true; }  // NOLINT
};
struct text {
  operator std::string_view() const { return "n"; }  // NOLINT
};

struct weighted : results_graph {
  number weight(node) const { return {}; }
};
struct sized : results_graph {
  count bytes(value) const { return {}; }
};
struct costed : results_graph {
  number weight(node) const { return {}; }
  count bytes(value) const { return {}; }
};
struct function : results_graph {
  once<value> inputs() const { return once<value>({value(9)}); }
  once<value> outputs() const { return once<value>({value(11)}); }
};
struct stateful : results_graph {
  once<value> inputs() const { return once<value>({}); }
  once<value> outputs() const { return once<value>({value(11)}); }
  once<value> state() const { return once<value>({value(9)}); }
};
struct closed : function {
  once<value> constants() const { return once<value>({}); }
};
struct tied : results_graph {
  place storage(value v) const { return place(v.number()); }
};
struct aliasing : tied {
  once<value> overwrites(node) const { return once<value>({value(9)}); }
};
struct replicating : results_graph {
  truth replicable(node) const { return {}; }
};
struct bounded : results_graph {
  truth portable(value) const { return {}; }
};
struct nested : results_graph {
  using results_graph::nodes;
  once<body> regions(node n) const {
    return once<body>(n == node(2) ? std::vector{body(1)} : std::vector<body>());
  }
  once<node> nodes(body) const { return once<node>({node(3)}); }
  once<value> arguments(body) const { return once<value>({value(9)}); }
  once<value> yields(body) const { return once<value>({value(10)}); }
};
struct effectful : results_graph {
  once<node> after(node n) const {
    return once<node>(n == node(2) ? std::vector{node(1)} : std::vector<node>());
  }
};
struct grouped : results_graph {
  once<node> together(node) const { return once<node>({node(1)}); }
};
struct carrying : function {
  once<value> carried(value) const { return once<value>({value(10)}); }
};
struct accompanied : results_graph {
  once<value> companions(value v) const {
    return once<value>(v == value(10) ? std::vector{value(9)} : std::vector<value>());
  }
};
struct named : results_graph {
  text name(node) const { return {}; }
};
struct hierarchical : results_graph {
  text path(node) const { return {}; }
};

/// A builder whose names can only be copied.
template <class Node, class Value>
class builder {
 public:
  class made {
   public:
    explicit made(int) {}
  };
  made argument(Value, cleave::source) { return made(0); }
  template <class Lookup>
  once<made> clone(Node, Lookup) {
    return once<made>({made(1)});
  }
  void result(Value, made) { ++results; }
  int results = 0;
};

}  // namespace archetype
