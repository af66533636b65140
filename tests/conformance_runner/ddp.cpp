// SPDX-License-Identifier: MIT
#include "conformance_runner/ddp_json.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/write_value.hpp"
#include "support/integer_interpretation.hpp"

/// Compares buckets and the compilation of pieces with the recordings of DDPOptimizer. The area's README.md
/// lists what is compared.
namespace cleave::conformance {

using namespace detail;

std::vector<difference> run_chain(json const& body);

namespace {

/// One case: the results, up to the error if there was one, and the differences.
class ddp_case {
 public:
  ddp_case(test_case const& c, json const& body)
      : body_(body), input_(body["input"]), g_(c.graph()), examples_(g_, input_["graph"]) {}

  std::vector<difference> run() {
    // If torch crashed, `better` is the result of its own rule; other defects are in the rule.
    bool const recorded = !body_.contains("defect") || body_.contains("error");
    carry_out(recorded);
    if (body_.contains("defect"))
      check_better();
    else if (body_.contains("error"))
      check_error();
    else if (!refusal_.empty())
      differ("result", "a result", "refused: " + message_);
    else
      compare_result(body_["expect"], "expect");
    return std::move(differences_);
  }

 private:
  void carry_out(bool recorded) {
    module_bucket_options o;
    o.caps.cap = input_["bucket_bytes_cap"];
    json const& first = input_["first_bucket_cap"];
    if (!first.is_null()) o.caps.first_cap = first.get<std::uint64_t>();
    if (recorded) {
      if (first.is_null()) o.caps.first_cap = 1_MiB;
      o.counting = input_["rule"] == "seed" ? parameter_counting::torch_2_3 : parameter_counting::torch_2_15;
    }
    if (first.is_null()) ours_["first_cap_used"] = first_bucket_cap(o.caps);
    try {
      auto const parameters = read_parameters(g_, input_["graph"]);
      split_ = split_at_buckets(g_, parameters, o, recorded ? order::upstream : order::program);
      o.caps = {.cap = 0, .first_cap = 0};
      each_alone_ = fill_buckets(g_, parameters, o);
      describe_split();
      split_.split ? compile_split() : compile_one();
    } catch (compile_error const& e) {
      refusal_ = "RuntimeError";
      message_ = e.what();
      try {
        std::rethrow_if_nested(e);
      } catch (std::exception const& inner) {
        thrown_ = inner.what();
      }
    } catch (higher_order_error const& e) {
      refusal_ = "NotImplementedError";
      message_ = e.what();
    } catch (error const& e) {
      refusal_ = "AssertionError";
      message_ = e.what();
    }
    ours_["compiles"] = compiles_;
  }

  void describe_split() {
    ours_["buckets"] = write_buckets(g_, input_["graph"], split_.buckets);
    ours_["report"] = write_report(report_of(split_.buckets));
    ours_["split"] = split_.split ? write_split(g_, *split_.split) : json();
  }

  /// The backend: records its arguments.
  backend_product compile(compile_request<json> const& r, bool fake) {
    json c{{"submod", r.path.empty() ? json() : json(r.path)},
           {"inputs", json(std::vector<json>(r.examples.begin(), r.examples.end()))}};
    if (!r.path.empty()) {
      c["fake"] = fake;
      c["results"] = r.results;
    }
    if (input_.contains("configs")) c["configs"] = input_["configs"];
    auto const call = compiles_.size();
    compiles_.push_back(std::move(c));
    if (input_.contains("backend_fails_on_call") && input_["backend_fails_on_call"] == call)
      throw std::runtime_error("backend failed on call " + std::to_string(call));
    return {results_of(r.path)};
  }

  json results_of(std::string_view path) const {
    json results = json::array();
    if (split_.split)
      for (auto const& piece : split_.split->pieces)
        if (piece.path == path)
          for (auto const v : piece.outputs) results.push_back(examples_.of(v));
    return results;
  }

  std::vector<json> inputs() const {
    std::vector<json> list;
    for (auto const n : g_.inputs()) list.push_back(examples_.of(n));
    return list;
  }

  void compile_one() {
    auto const backend = [&](compile_request<json> const& r) { return compile(r, false); };
    ours_["returned"] = compile_whole(g_, inputs(), backend).text;
  }

  void compile_split() {
    auto const& split = *split_.split;
    if (input_.value("lazy", false)) {
      auto all = compile_on_first_call<json>(
          split, [&](compile_request<json> const& r) { return compile(r, false); });
      ours_["compiled_at_build"] = compiles_.size();
      ours_["compiled_at_first_call"] = std::size_t{0};
      try {
        all(inputs(), examples_);
      } catch (...) {
        ours_["compiled_at_first_call"] = compiles_.size();
        throw;
      }
      ours_["compiled_at_first_call"] = compiles_.size();
      all(inputs(), examples_);
      ours_["compiled_at_second_call"] = compiles_.size();
      describe_compiled(all);
    } else {
      auto const shapes = [&](compile_request<json> const& r, backend_product&) {
        return results_of(r.path).get<std::vector<json>>();
      };
      auto const all = compile_pieces(
          split, inputs(), examples_, [&](compile_request<json> const& r) { return compile(r, true); },
          shapes);
      describe_compiled(all);
    }
    ours_["equals_unsplit"] = equals_unsplit();
  }

  template <class Compiled>
  void describe_compiled(Compiled const& all) {
    auto const& split = *split_.split;
    for (std::size_t i = 0; i < all.asked().size(); ++i)
      compiles_[i]["unwrap"] = gives_bare_value(
          split.graph(split.pieces[all.asked()[i]])[*split.graph(split.pieces[all.asked()[i]]).output()]);
    json final{{"children", json::array()}, {"calls", json::array()}};
    json metadata{{"partition_names", json::array()},
                  {"shares_graph_meta", json::array()},
                  {"input_has_source", json::object()}};
    auto const& outer = all.outer();
    for (auto const& a : outer.attributes()) {
      if (a.what != module_attribute::kind::module) continue;
      final["children"].push_back(a.path);
      auto const piece = std::ranges::find(split.pieces, a.original, &module_piece::path);
      bool const compiled = piece != split.pieces.end();
      auto const i = static_cast<std::uint32_t>(piece - split.pieces.begin());
      metadata["shares_graph_meta"].push_back({a.path, compiled && all.graph(i).metadata == g_.metadata});
      if (!compiled) continue;
      json& sources = metadata["input_has_source"][a.path] = json::array();
      for (auto const n : all.graph(i).inputs())
        sources.push_back({all.graph(i)[n].name, g_[all.graph(i)[n].from].kind == node_kind::placeholder});
    }
    for (auto const& n : outer.list())
      if (n.kind == node_kind::call_module) final["calls"].push_back(n.target);
    for (auto const& piece : split.pieces) metadata["partition_names"].push_back(piece.path);
    ours_["final"] = std::move(final);
    ours_["metadata"] = std::move(metadata);
  }

  /// Returns true if the whole and the compiled graph give the same integer.
  bool equals_unsplit() const {
    testing::integer_interpretation meaning;
    auto const backend = [&](compile_request<integer_value> const& r) {
      return [&meaning, g = r.graph](std::span<integer_value const> args) {
        auto const tuple = evaluate(g, std::vector<integer_value>(args.begin(), args.end()), meaning);
        return *tuple.items;
      };
    };
    auto all = compile_on_first_call<integer_value>(*split_.split, backend);
    return all(own_inputs(g_), meaning) == evaluate(g_, own_inputs(g_), meaning);
  }

  void differ(std::string what, std::string expected, std::string got) {
    differences_.push_back({std::move(what), std::move(expected), std::move(got)});
  }

  /// Compares everything in the recording. Results of ours that it lacks were not recorded.
  void compare_result(json expect, std::string const& what) {
    if (expect.contains("split")) expect["split"] = normal_split(expect["split"]);
    if (expect.contains("report")) expect["report"] = normal_report(expect["report"]);
    json ours = ours_;
    if (expect.contains("compiles"))
      for (auto& c : expect["compiles"]) c.erase("reason");  // torch's wording
    if (ours.contains("report") && expect.contains("report") && !expect["report"].contains("log"))
      ours["report"].erase("log");
    if (ours.contains("metadata") && expect.contains("metadata"))
      for (auto const* key : {"input_has_source", "partition_names", "shares_graph_meta"})
        if (!expect["metadata"].contains(key)) ours["metadata"].erase(key);
    json shown = json::object();
    for (auto const& [key, value] : ours.items())
      if (expect.contains(key)) shown[key] = value;
    compare(expect, shown, what, differences_);
  }

  void check_error() {
    auto const type = body_["error"]["type"].get<std::string>();
    auto const said = body_["error"]["message"].get<std::string>();
    if (refusal_ != type) differ("error", type + ": " + said, refusal_.empty() ? "a result" : message_);
    if (!thrown_.empty() && thrown_ != said) differ("error nested", said, thrown_);
    if (!thrown_.empty() &&
        message_.find(compiles_.back()["submod"].is_null()
                          ? "the whole graph"
                          : compiles_.back()["submod"].get<std::string>()) == message_.npos)
      differ("error", "the name of the piece", message_);
    if (body_.contains("before_error")) compare_result(body_["before_error"], "before_error");
  }

  void check_better() {
    if (!refusal_.empty()) {
      differ("result", "a result", "refused: " + message_);
      return;
    }
    json const better = body_.value("better", json::object());
    for (auto const& [key, value] : better.items()) check_rule(key, value);
    if (split_.split) check_program_order();
    if (ours_.contains("equals_unsplit") && ours_["equals_unsplit"] != true)
      differ("equals_unsplit", "true", "false");
  }

  void check_rule(std::string const& key, json const& value) {
    auto const& buckets = split_.buckets;
    std::vector<counted_parameter> counted;
    json sizes = json::array(), names = json::array();
    for (auto const& b : buckets) {
      sizes.push_back(b.bytes);
      names.push_back(json::array());
      for (auto const& c : b.counted) {
        names.back().push_back(c.name);
        counted.push_back(c);
      }
    }
    auto const has = [&](std::string const& name) {
      return std::ranges::count(counted, name, &counted_parameter::name);
    };
    if (key == "buckets") {
      json ours = json::array();
      for (std::size_t i = 0; i < buckets.size() && i < value.size(); ++i) {
        ours.push_back(json::object());
        for (auto const& [field, x] : value[i].items()) ours.back()[field] = ours_["buckets"][i][field];
      }
      compare(value, ours, "better.buckets", differences_);
      if (buckets.size() != value.size()) differ("better.buckets", value.dump(), ours_["buckets"].dump());
    } else if (key == "params") {
      compare(value, names, "better.params", differences_);
    } else if (key == "sizes_by_own_bytes") {
      compare(value, sizes, "better.sizes_by_own_bytes", differences_);
    } else if (key == "counted") {
      for (auto const& entry : value) check_counted(entry.get<std::string>(), counted);
    } else if (key == "counted_per_layer") {
      std::size_t layers = 0;
      for (auto const& b : each_alone_)
        if (std::ranges::any_of(b.nodes, [&](position n) { return reads_parameter(n); })) {
          ++layers;
          if (json(b.bytes) != value) differ("better." + key, value.dump(), std::to_string(b.bytes));
        }
      if (layers == 0) differ("better." + key, value.dump(), "no layer");
    } else if (key == "distinct_params") {
      for (auto const& [tied, times] : value.items()) {
        std::ptrdiff_t found = 0;
        for (auto const& name : split_names(tied)) found += has(name);
        if (times != found) differ("better." + key + "." + tied, times.dump(), std::to_string(found));
      }
    } else if (key == "bucket_of_lin_params") {
      check_home(value.get<std::string>());
    } else if (key == "run_order") {
      json order = json::array();
      for (auto const i : split_.split ? split_.split->order : std::vector<std::uint32_t>())
        order.push_back(split_.split->pieces[i].path);
      compare(value, order, "better.run_order", differences_);
    } else {
      throw unjudged_error("no comparison for better." + key);
    }
  }

  bool reads_parameter(position n) const {
    return std::ranges::any_of(g_.operands(n), [&](position v) {
      return std::ranges::find(g_[v].metadata, "param", &keyword_argument::key) != g_[v].metadata.end();
    });
  }

  /// Accepts `w`, `last_p0`, or `body_0 w: 100` with the module and the bytes.
  void check_counted(std::string entry, std::vector<counted_parameter> const& counted) {
    auto const all = entry;
    std::optional<std::string> bytes;
    if (auto const colon = entry.find(": "); colon != entry.npos) {
      bytes = entry.substr(colon + 2);
      entry.resize(colon);
    }
    std::ranges::replace(entry, ' ', '_');
    for (auto const& c : counted)
      if (c.name == entry && (!bytes || *bytes == std::to_string(c.bytes))) return;
    differ("better.counted", all, "nothing of that name and size");
  }

  /// Splits tied names as buckets have them in `emb.weight = head.weight`.
  static std::vector<std::string> split_names(std::string const& tied) {
    std::vector<std::string> names;
    for (std::size_t at = 0; at < tied.size();) {
      auto const end = std::min(tied.find(" = ", at), tied.size());
      auto name = tied.substr(at, end - at);
      if (auto const dot = name.rfind('.'); dot != name.npos) name[dot] = '_';
      names.push_back(std::move(name));
      at = end + 3;
    }
    return names;
  }

  /// Checks "the bucket that holds the call of X": the parameters of X count only there.
  void check_home(std::string const& said) {
    std::string const start = "the bucket that holds the call of ";
    auto const name = said.substr(0, start.size()) == start ? said.substr(start.size()) : "";
    bool found = false;
    for (auto const& b : split_.buckets) {
      bool const home = std::ranges::any_of(b.nodes, [&](position n) { return g_[n].target == name; });
      for (auto const& c : b.counted)
        if (c.name.starts_with(name + "_")) {
          found = true;
          if (!home) differ("better.bucket_of_lin_params", said, "another bucket counts " + c.name);
        }
    }
    if (!found || name.empty()) differ("better.bucket_of_lin_params", said, "no bucket counts it");
  }

  /// Checks that nodes keep the order of the whole graph, the one order that is valid for all in-place
  /// writes.
  void check_program_order() {
    std::vector<position> ran;
    for (auto const i : split_.split->order)
      ran.insert(ran.end(), split_.split->pieces[i].nodes.begin(), split_.split->pieces[i].nodes.end());
    if (!std::ranges::is_sorted(ran)) differ("order", "program order", names_of(g_, ran).dump());
  }

  json const& body_;
  json const& input_;
  module_graph const& g_;
  example_interpretation examples_;
  bucket_split split_;
  std::vector<module_bucket> each_alone_;  // the same with size limits of 0
  json ours_ = json::object();
  json compiles_ = json::array();
  std::string refusal_, message_, thrown_;
  std::vector<difference> differences_;
};

}  // namespace

outcome run_ddp(test_case const& c, json const& body) {
  if (body["input"].contains("model")) return {run_chain(body), ""};
  return {ddp_case(c, body).run(), ""};
}

}  // namespace cleave::conformance
