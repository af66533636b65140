// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/run/batch/merge_microbatches.hpp"
#include "cleave/run/batch/split_batch.hpp"
#include "conformance_runner/outcome.hpp"
#include "support/row_major.hpp"

/// Compares microbatches with their recordings.
namespace cleave::conformance {

using namespace detail;
namespace {

/// A tensor whose elements stay as written, so that 1 and 1.0 differ.
struct json_tensor {
  std::vector<std::int64_t> shape;
  std::vector<json> data;

  bool operator==(json_tensor const&) const = default;
};
using leaf = std::variant<json, json_tensor>;
using rule = batch_rule<leaf>;
using access = testing::row_major_access<leaf, json_tensor>;

bool is_container(json const& j) {
  return j.is_object() && (j.contains("tuple") || j.contains("list") || j.contains("dict"));
}

/// Returns the structure of `j` with `read(j)` for each leaf. Recordings are not deep.
template <class To, class Read>
nested<To> read_nested(json const& j, Read const& read) {
  if (!is_container(j)) return nested<To>(read(j));
  auto const& what = j.begin().key();
  json const& elements = j.begin().value();
  if (what == "dict") {
    std::vector<std::pair<std::string, nested<To>>> pairs;
    for (json const& e : elements) pairs.emplace_back(e.at(0), read_nested<To>(e.at(1), read));
    return nested<To>::dict(std::move(pairs));
  }
  std::vector<nested<To>> list;
  for (json const& e : elements) list.push_back(read_nested<To>(e, read));
  return what == "tuple" ? nested<To>::tuple(std::move(list)) : nested<To>::list(std::move(list));
}

leaf read_leaf(json const& j) {
  if (!j.is_object() || !j.contains("tensor")) return j;
  return json_tensor{j["tensor"]["shape"], j["tensor"]["data"].get<std::vector<json>>()};
}
nested<leaf> read_values(json const& j) { return read_nested<leaf>(j, read_leaf); }

json write_leaf(leaf const& x) {
  if (auto const* j = std::get_if<json>(&x)) return *j;
  auto const& t = std::get<json_tensor>(x);
  return {{"tensor", {{"shape", t.shape}, {"data", t.data}}}};
}

json write(nested<leaf> const& x) {
  std::size_t entry = 0, next_leaf = 0;
  auto const one = [&](auto const& self) -> json {
    auto const& e = x.shape()[entry++];
    if (e.what == nesting::leaf) return write_leaf(x.leaves()[next_leaf++]);
    json elements = json::array();
    for (std::size_t i = 0; i < e.size; ++i) {
      auto const& key = x.shape()[entry].key;
      elements.push_back(e.what == nesting::dict ? json::array({key, self(self)}) : self(self));
    }
    static constexpr char const* names[] = {"", "list", "tuple", "dict"};
    return {{names[static_cast<std::size_t>(e.what)], elements}};
  };
  return one(one);
}

/// Applies `f` to two numbers, or elementwise to two tensors; integers stay integers.
template <class F>
leaf elementwise(leaf a, leaf const& b, F f) {
  auto const apply = [&](json const& x, json const& y) {
    return x.is_number_integer() && y.is_number_integer()
               ? json(f(x.get<std::int64_t>(), y.get<std::int64_t>()))
               : json(f(x.get<double>(), y.get<double>()));
  };
  if (auto* x = std::get_if<json>(&a)) return apply(*x, std::get<json>(b));
  auto& x = std::get<json_tensor>(a);
  for (std::size_t i = 0; i < x.data.size(); ++i)
    x.data[i] = apply(x.data[i], std::get<json_tensor>(b).data.at(i));
  return a;
}

leaf sum(leaf a, leaf const& b) {
  return elementwise(std::move(a), b, [](auto x, auto y) { return x + y; });
}
leaf subtract(leaf a, leaf const& b) {
  return elementwise(std::move(a), b, [](auto x, auto y) { return x - y; });
}
leaf largest(leaf a, leaf const& b) {
  return elementwise(std::move(a), b, [](auto x, auto y) { return std::max(x, y); });
}
leaf concatenate(leaf a, leaf const& b) {
  return json(std::get<json>(a).get<std::string>() + std::get<json>(b).get<std::string>());
}

/// A rule that the library lacks. It does not compile in C++, so the reader rejects it.
struct not_a_rule {
  json what;
};

rule read_rule(json const& j) {
  if (j.is_object() && j.contains("chunk")) return rule_along{j["chunk"].get<std::int64_t>()};
  if (j.is_object() && j.contains("replicate")) return rule_replicate{};
  if (j.is_object() && j.contains("reduce")) {
    static std::map<std::string, leaf (*)(leaf, leaf const&)> const known = {
        {"sum", sum}, {"subtract", subtract}, {"max", largest}, {"concatenate", concatenate}};
    auto const found = known.find(j["reduce"].get<std::string>());
    if (found == known.end()) throw unjudged_error("no reduction is known as " + j["reduce"].dump());
    return rule_reduce<leaf>{read_leaf(j.at("init")), found->second};
  }
  throw not_a_rule{j};
}
/// For merging, any other leaf means that the value is the same in all microbatches.
rule read_merge_rule(json const& j) {
  try {
    return read_rule(j);
  } catch (not_a_rule const&) {
    return rule_replicate{};
  }
}

template <class Read>
batch_rules<leaf>::tree read_rules(json const& input, char const* key, Read read) {
  // No specification, or null, is the default.
  if (!input.contains(key) || input[key].is_null()) return std::nullopt;
  return read_nested<rule>(input[key], read);
}

class comparison {
 public:
  explicit comparison(json const& body)
      : body_(body), input_(body["input"]), masked_(input_.value("masked", false)) {
    splits_ = input_.contains("args") || input_.contains("rows");
  }

  outcome run() {
    if (input_.contains("rows"))
      ours_ = sizes();
    else
      carry_out();
    if (body_.contains("defect"))
      check_better();
    else if (body_.contains("error"))
      check_error();
    else if (!refusal_.empty())
      differ("result", "a result", "refused: " + refusal_);
    else
      compare(body_["expect"], ours_, "expect", to_);
    return {std::move(to_), ""};
  }

 private:
  void differ(std::string what, std::string expected, std::string got) {
    to_.push_back({std::move(what), std::move(expected), std::move(got)});
  }

  json sizes() const {
    json all = json::array();
    for (json const& row : input_["rows"]) all.push_back(microbatch_sizes(row.at(0), row.at(1)));
    return {{"sizes", all}};
  }

  void carry_out() {
    try {
      splits_ ? split() : merge();
    } catch (microbatch_error const& e) {
      fault_ = e.witness;
      refusal_ = e.what();
    } catch (not_a_rule const& e) {
      refusal_ = "no rule: " + e.what.dump();
    }
  }

  void split() {
    batch_values<leaf> values{.arguments = read_values(input_["args"])};
    if (!input_["kwargs"].is_null()) values.keywords = read_values(input_["kwargs"]);
    batch_rules<leaf> const rules{read_rules(input_, "args_spec", read_rule),
                                  read_rules(input_, "kwargs_spec", read_rule)};
    split_batch_options const options{.microbatches = input_["chunks"].get<std::int64_t>()};
    auto const made = masked_ ? mask_batch(access(), values, rules, options)
                              : split_batch(access(), values, rules, options);
    json args = json::array(), kwargs = json::array();
    for (auto const& m : made.values) {
      args.push_back(write(m.arguments));
      kwargs.push_back(write(m.keywords));
    }
    ours_ = {{"chunks", made.values.size()}, {"args", args}, {"kwargs", kwargs}};
    check_way_back(values, made);
    if (static_cast<std::int64_t>(made.values.size()) < options.microbatches && !made.limit)
      differ("limit", "why there are fewer microbatches", "nothing");
  }

  void check_way_back(batch_values<leaf> const& values, microbatch_list<leaf> const& made) {
    std::vector<nested<leaf>> args, kwargs;
    for (auto const& m : made.values) args.push_back(m.arguments), kwargs.push_back(m.keywords);
    auto const back = [&](auto const& parts, auto const& rules) {
      return masked_ ? merge_masked(access(), parts, rules) : merge_microbatches(access(), parts, rules);
    };
    compare(write(values.arguments), write(back(args, made.rules.arguments)), "merged again, args", to_);
    compare(write(values.keywords), write(back(kwargs, made.rules.keywords)), "merged again, kwargs", to_);
  }

  void merge() {
    std::vector<nested<leaf>> parts;
    for (json const& j : input_["chunks"]) parts.push_back(read_values(j));
    auto const rules = read_rules(input_, "spec", read_merge_rule);
    ours_ =
        write(masked_ ? merge_masked(access(), parts, rules) : merge_microbatches(access(), parts, rules));
  }

  /// Compares the kind of error and the names in the recorded message.
  void check_error() {
    using enum microbatch_fault::kind;
    auto const type = body_["error"]["type"].get<std::string>();
    auto const said = body_["error"]["message"].get<std::string>();
    auto const one_of = [&](auto... kinds) { return fault_ && ((fault_->what == kinds) || ...); };
    bool const unreadable = !fault_ && !refusal_.empty();
    bool fits = false;
    if (type == "IndexError")
      fits = one_of(no_such_axis, nothing_to_merge);
    else if (type == "RuntimeError")
      fits = one_of(bad_count, extents_differ, axes_differ);
    else if (type == "AssertionError")
      fits = one_of(rules_differ, values_differ, extents_differ) || unreadable;
    else if (type == "ValueError")
      fits = one_of(rules_differ, not_a_tensor, no_way_to_divide, nothing_to_merge, microbatches_differ) ||
             unreadable;
    else if (type == "TypeError")
      fits = one_of(not_a_tensor);
    if (!fits) differ("error", type + ": " + said, refusal_.empty() ? "a result" : refusal_);

    static std::regex const got("(?:but got|, got|Expected size|but got size|for tensor number) (-?\\d+)");
    bool const by_value = one_of(values_differ);  // the recorded number is the difference, not the position
    for (std::sregex_iterator at(said.begin(), said.end(), got), end; at != end && !by_value; ++at)
      check_named(std::regex("(^|[^0-9-])" + (*at)[1].str() + "([^0-9]|$)"), said);
    static std::regex const spec("TensorChunkSpec\\((-?\\d+)\\) and value");
    std::smatch m;
    if (std::regex_search(said, m, spec)) check_named(std::regex("axis " + m[1].str()), said);
    // The key that only one of the two lists has.
    static std::regex const keys("keys\\(\\) = \\[(.*)\\] .*keys\\(\\) = \\[(.*)\\]");
    if (std::regex_search(said, m, keys) && m[1].str().find('\'') != std::string::npos)
      check_named(std::regex(lone_key(m[1], m[2])), said);
  }

  static std::string lone_key(std::string const& a, std::string const& b) {
    static std::regex const name("'[^']*'");
    for (auto const& [from, other] : {std::pair(&b, &a), std::pair(&a, &b)})
      for (std::sregex_iterator at(from->begin(), from->end(), name), end; at != end; ++at)
        if (other->find(at->str()) == std::string::npos) return at->str();
    return "";
  }

  void check_named(std::regex const& name, std::string const& said) {
    if (!std::regex_search(refusal_, name)) differ("what the error names", said, refusal_);
  }

  void check_better() {
    auto const better = body_.value("better", json::object());
    if (better.contains("error"))
      check_better_error(better["error"]);
    else if (better.contains("rule"))
      check_rule(better["rule"]);
    else  // the text says that something is not compared
      check_structure_fault();
  }

  void check_structure_fault() {
    using enum microbatch_fault::kind;
    if (!fault_ || (fault_->what != rules_differ && fault_->what != microbatches_differ) ||
        fault_->mismatch->what != nested_mismatch::kind::other_nesting)
      differ("error", body_["defect"], refusal_.empty() ? "a result" : refusal_);
  }

  void check_better_error(std::string const& said) {
    using enum microbatch_fault::kind;
    std::smatch m;
    static std::regex const rows("argument (\\d+) has no rows along dimension (-?\\d+)"),
        key("unknown key (\\w+)");
    if (said == "structure mismatch") return check_structure_fault();
    bool fits = false;
    if (std::regex_match(said, m, rows))
      fits = fault_ && fault_->what == no_rows && fault_->where == "arguments[" + m[1].str() + "]" &&
             fault_->axis == std::stoll(m[2]);
    else if (std::regex_match(said, m, key))
      fits = fault_ && fault_->what == rules_differ &&
             fault_->mismatch->what == nested_mismatch::kind::missing_here &&
             fault_->where.ends_with("['" + m[1].str() + "']");
    if (!fits) differ("better.error", said, refusal_.empty() ? "a result" : refusal_);
  }

  /// Checks the result against the rule, computed from the input alone.
  void check_rule(std::string const& said) {
    if (!refusal_.empty()) return differ("result", "a result", "refused: " + refusal_);
    if (splits_ && (said == "replicate it" || said == "match by key"))
      compare(plain_split(), ours_, "better.rule", to_);
    else if (!splits_ &&
             (said == "null in every chunk stays null" || said == "equal in every chunk: that value" ||
              said == "stack them" || said == "that tensor"))
      compare(plain_merge(), ours_, "better.rule", to_);
    else
      throw unjudged_error("no comparison for the rule '" + said + "'");
  }

  /// Computes the split without the library: each chunk of each tensor, with specifications looked up by key.
  json plain_split() const {
    json const kwargs = input_["kwargs"].is_null() ? json{{"dict", json::array()}} : input_["kwargs"];
    auto const spec = [&](char const* key) { return input_.value(key, json()); };
    std::int64_t k = input_["chunks"];
    auto const extents = [&](json const& t, std::int64_t dim) {
      k = std::min(k, t["shape"].at(static_cast<std::size_t>(dim)).get<std::int64_t>());
      return json();
    };
    plain_map(input_["args"], spec("args_spec"), extents);
    plain_map(kwargs, spec("kwargs_spec"), extents);
    json all{{"chunks", k}, {"args", json::array()}, {"kwargs", json::array()}};
    for (std::int64_t i = 0; i < k; ++i) {
      auto const chunk = [&](json const& t, std::int64_t dim) {
        leaf const x = read_leaf({{"tensor", t}});
        auto const rows = t["shape"].at(static_cast<std::size_t>(dim)).get<std::int64_t>();
        auto const axis = static_cast<std::size_t>(dim);
        std::int64_t first = 0;
        for (std::int64_t j = 0; j < i; ++j) first += rows / k + (j < rows % k ? 1 : 0);
        return write_leaf(access().slice(x, axis, first, first + rows / k + (i < rows % k ? 1 : 0)));
      };
      all["args"].push_back(plain_map(input_["args"], spec("args_spec"), chunk));
      all["kwargs"].push_back(plain_map(kwargs, spec("kwargs_spec"), chunk));
    }
    return all;
  }

  /// Returns `x` with `f(tensor, dimension)` for each tensor that is split.
  template <class F>
  json plain_map(json const& x, json const& spec, F const& f) const {
    if (is_container(x)) {
      json made = x;
      auto const& what = x.begin().key();
      json const& elements = x.begin().value();
      for (std::size_t i = 0; i < elements.size(); ++i) {
        if (what != "dict") {
          made[what][i] = plain_map(elements[i], spec.is_null() ? spec : spec[what].at(i), f);
          continue;
        }
        json of_key;
        if (!spec.is_null())
          for (json const& e : spec["dict"])
            if (e[0] == elements[i][0]) of_key = e[1];
        made[what][i][1] = plain_map(elements[i][1], of_key, f);
      }
      return made;
    }
    bool const tensor = x.is_object() && x.contains("tensor");
    if (!tensor || x["tensor"]["shape"].empty() || (!spec.is_null() && !spec.contains("chunk"))) return x;
    auto dim = spec.is_null() ? std::int64_t{0} : spec["chunk"].get<std::int64_t>();
    if (dim < 0) dim += static_cast<std::int64_t>(x["tensor"]["shape"].size());
    return f(x["tensor"], dim);
  }

  /// Computes the merge without the library. Concatenates tensors along the dimension of their rule, by
  /// default the first. Stacks tensors without dimensions, folds values with a reducer, and keeps equal ones.
  json plain_merge() const {
    auto const one = [&](auto const& self, std::vector<json> const& parts, json const& spec) -> json {
      if (is_container(parts[0])) {
        json made = parts[0];
        auto const& what = parts[0].begin().key();
        for (std::size_t i = 0; i < made[what].size(); ++i) {
          std::vector<json> inner;
          for (json const& p : parts) inner.push_back(what == "dict" ? p[what][i][1] : p[what][i]);
          json const below = spec.is_null() ? json() : what == "dict" ? spec[what][i][1] : spec[what][i];
          (what == "dict" ? made[what][i][1] : made[what][i]) = self(self, inner, below);
        }
        return made;
      }
      if (spec.is_object() && spec.contains("reduce")) return plain_fold(parts, spec);
      bool const tensor = parts[0].is_object() && parts[0].contains("tensor");
      if (!tensor || !(spec.is_null() || spec.contains("chunk"))) return parts[0];
      return plain_concatenation(parts, spec.is_null() ? 0 : spec["chunk"].get<std::int64_t>());
    };
    std::vector<json> const parts = input_["chunks"];
    return one(one, parts, input_.value("spec", json()));
  }

  static json plain_fold(std::vector<json> const& parts, json const& spec) {
    auto const r = std::get<rule_reduce<leaf>>(read_rule(spec));
    leaf made = r.init;
    for (json const& p : parts) made = r.combine(std::move(made), read_leaf(p));
    return write_leaf(made);
  }

  /// Concatenates: for each index of the outer dimensions, the inner elements of each part.
  static json plain_concatenation(std::vector<json> const& parts, std::int64_t dim) {
    json shape = parts[0]["tensor"]["shape"], data = json::array();
    if (shape.empty()) {
      for (json const& p : parts) data.push_back(p["tensor"]["data"][0]);
      return {{"tensor", {{"shape", {parts.size()}}, {"data", data}}}};
    }
    auto const axis = static_cast<std::size_t>(dim < 0 ? dim + static_cast<std::int64_t>(shape.size()) : dim);
    std::size_t outer = 1;
    for (std::size_t i = 0; i < axis; ++i) outer *= shape[i].get<std::size_t>();
    for (std::size_t o = 0; o < outer; ++o)
      for (json const& p : parts) {
        json const& all = p["tensor"]["data"];
        auto const inside = all.size() / outer;
        for (std::size_t i = 0; i < inside; ++i) data.push_back(all[o * inside + i]);
      }
    std::size_t rows = 0;
    for (json const& p : parts) rows += p["tensor"]["shape"][axis].get<std::size_t>();
    shape[axis] = rows;
    return {{"tensor", {{"shape", shape}, {"data", data}}}};
  }

  json const &body_, &input_;
  bool masked_, splits_;
  json ours_;
  std::string refusal_;
  std::optional<microbatch_fault> fault_;
  std::vector<difference> to_;
};

}  // namespace

outcome run_pipe_microbatch(test_case const&, json const& body) { return comparison(body).run(); }

}  // namespace cleave::conformance
