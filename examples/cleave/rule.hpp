// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cleave/core/bytes.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/partition/buckets/buckets.hpp>
#include <cleave/partition/groups/alternation.hpp>
#include <cleave/partition/named/assign.hpp>
#include <cleave/partition/units/part_cycles.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files.hpp"
#include "options.hpp"
#include "plans.hpp"

namespace tool {

/// The rule of `--by` that assigns nodes to stages.
struct cut_rule {
  enum class kind : std::uint8_t { balance, tags, buckets, modules, capability, file, plan };
  kind what = kind::balance;
  std::uint64_t cap = cleave::bucket_options{}.cap;
  std::vector<std::string> words;    ///< modules, capability: the list; file: its path; plan: its text
  framework from = framework::vllm;  ///< plan: whose it is; of onnxruntime-genai the text is a path
  cleave::cycle_policy cycles = cleave::cycle_policy::refuse;
};

inline std::vector<std::string> split_at_commas(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= text.size();) {
    auto const end = std::min(text.find(',', at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

/// Reads a rule and returns whether it is valid: `balance`, `tags`, `buckets=25MiB`, `modules=a.b,a.c`,
/// `capability=Conv,Relu`, `file=PATH`, or a plan of a framework, as in `vllm=8,9,9,6`.
inline bool read_rule(std::string_view text, cut_rule& to) {
  using enum cut_rule::kind;
  auto const equal = text.find('=');
  auto const name = text.substr(0, equal);
  auto const value = equal == text.npos ? std::string_view() : text.substr(equal + 1);
  bool const bare = equal == text.npos;
  to.words = split_at_commas(value);
  bool const listed = !value.empty() && std::ranges::none_of(to.words, &std::string::empty);
  if (name == "balance" && bare) return to.what = balance, true;
  if (name == "tags" && bare) return to.what = tags, true;
  if (name == "buckets" && bare) return to.what = buckets, true;
  if (name == "buckets") {
    auto const bytes = cleave::parse_bytes(value);
    return to.what = buckets, to.cap = bytes.value_or(0), bytes.has_value();
  }
  if (name == "modules") return to.what = modules, listed;
  if (name == "capability") return to.what = capability, listed;
  if (name == "file") return to.what = file, to.words = {std::string(value)}, !value.empty();
  if (auto const known = find_framework(name))
    return to.what = plan, to.from = *known, to.words = {std::string(value)}, !value.empty();
  return false;
}

inline void add_rule_options(command& c, cut_rule& to) {
  c.options.push_back(
      {"",
       "--by",
       "RULE",
       "balance, tags, buckets=SIZE (" + std::string(size_range) +
           "), modules=PATH,..., capability=OP,..., file=ASSIGNMENT or a plan as in vllm=8,9,9,6",
       "balance, tags, buckets=25MiB, modules=a.b,a.c, capability=Conv,Relu, file=PATH, or\n" +
           std::string(30, ' ') +
           "a plan: megatron='Et*3|t*4L', torchtitan=, deepspeed=, vllm=, llama.cpp=, "
           "ort-genai=FILE",
       [&to](auto text) { return read_rule(text, to); },
       {.what = file_use::kind::read, .prefixes = {"file=", "ort-genai="}},
       {"balance", "tags", "buckets", "modules", "capability", "file", "megatron", "torchtitan", "deepspeed",
        "vllm", "llama.cpp", "ort-genai"}});
  c.options.push_back(
      choice_option("--cycles", "POLICY", std::array<std::string_view, 4>{"refuse", "cut", "merge", "move"},
                    "treatment of stages that depend on each other (refuse)", [&to](std::size_t at) {
                      using enum cleave::cycle_policy;
                      to.cycles = std::array{refuse, cut, merge, move}[at];
                    }));
}

/// A list of nodes with their parts and their line numbers.
struct assignment {
  std::vector<cleave::named_part> entries;
  std::vector<std::size_t> lines;
};

/// Reads a text with one entry per line: a node, blanks, and its part, which is the last word. Empty lines
/// and lines that begin with `//` are skipped. \throws cleave::error with the line.
inline assignment read_assignment(std::filesystem::path const& path) {
  std::istringstream in(read_text(path));
  assignment read;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    constexpr char blanks[] = " \t\r";
    auto const begin = line.find_first_not_of(blanks);
    if (begin == line.npos || line.compare(begin, 2, "//") == 0) continue;
    line = line.substr(begin, line.find_last_not_of(blanks) - begin + 1);
    auto const gap = line.find_last_of(blanks);
    if (gap == line.npos)
      throw cleave::error(input_name(path) + ", line " + std::to_string(number) +
                          ": expected a node and its part, found the single word " + cleave::quoted(line));
    read.entries.push_back({line.substr(0, line.find_last_not_of(blanks, gap) + 1), line.substr(gap + 1)});
    read.lines.push_back(number);
  }
  return read;
}

/// Reads the parts from a file. \throws cleave::error with the file and, if known, the line.
template <class Graph>
cleave::partition parts_in_file(Graph const& g, std::filesystem::path const& path) {
  auto const read = read_assignment(path);
  try {
    return cleave::assign_by_name(g, read.entries);
  } catch (cleave::assignment_error const& e) {
    auto const line = e.witness < read.lines.size() ? ", line " + std::to_string(read.lines[e.witness]) : "";
    throw cleave::error(input_name(path) + line + ": " + e.what());
  }
}

/// The facts about a node that rules read.
struct node_facts {
  std::string_view operation;  ///< for the rule capability; text of the graph, like the next
  std::string_view tag;        ///< for tags
  std::string path;            ///< the enclosing modules, joined by dots; for modules
  std::string_view owner{};    ///< the module of the first weight that the node reads; for plans
};

/// Returns true if a rule or a plan reads these facts.
inline bool reads_facts(cut_rule const& rule, bool is_plan) {
  return is_plan || rule.what != cut_rule::kind::balance;
}

/// A graph with the module path of each node, as `assign_after_modules` needs it.
template <class Graph>
struct placed_graph {
  Graph const& g;
  std::vector<node_facts> const& facts;

  auto nodes() const { return std::views::iota(std::size_t{}, facts.size()); }
  std::vector<std::size_t> operands(std::size_t) const { return {}; }
  std::string_view path(std::size_t n) const { return facts[n].path; }
};

/// Returns `p` without the parts of replicable nodes, which are copied to their readers, and without parts of
/// such nodes only. The other parts keep their order.
template <class Snapshot>
cleave::partition without_copies(Snapshot const& s, cleave::partition p) {
  std::vector<char> used(p.parts);
  for (std::size_t n = 0; n < s.nodes(); ++n)
    if (s.replicable[n] == 0) used[index(p.of[n])] = 1;
  if (std::ranges::count(used, 1) == 0 && s.nodes() > 0) used.assign(1, 1);  // some part must hold the copies
  std::vector<std::uint32_t> number;
  std::uint32_t next = 0;
  for (char const u : used) number.push_back(u != 0 ? next++ : next);
  for (std::size_t n = 0; n < s.nodes(); ++n)
    p.of[n] = s.replicable[n] != 0 ? cleave::no_part : cleave::part_id{number[index(p.of[n])]};
  p.parts = next;
  return p;
}

/// Returns the parts of a rule other than balance, with cycles treated as `--cycles` says. `s` is the
/// snapshot of `g`.
/// \throws cleave::error with the node, module or line that breaks the rule.
template <class Graph, class Snapshot>
cleave::partition parts_by(cut_rule const& rule, Graph const& g, Snapshot const& s,
                           std::vector<node_facts> const& facts) {
  using enum cut_rule::kind;
  auto const parts = [&]() -> cleave::partition {
    switch (rule.what) {
      case tags:
        return cleave::assign(s, [&](std::size_t n) -> std::string_view {
          if (facts[n].tag.empty() && s.replicable[n] == 0)
            throw cleave::error(
                "--by tags: node " + s.label(n) +
                " has no tag; give each node one, in ONNX its doc_string, in JSON its meta 'tag'");
          return facts[n].tag;
        });
      case buckets:
        return cleave::fill_buckets(s, cleave::state_counts(s), {.cap = rule.cap});
      case modules:
        return cleave::assign_after_modules(placed_graph<Graph>{g, facts}, rule.words);
      case capability: {
        std::vector<char> supported;
        for (auto const& f : facts)
          supported.push_back(std::ranges::find(rule.words, f.operation) != rule.words.end());
        cleave::numbering<std::string, std::uint32_t> known;
        for (auto const& f : facts) known.insert(std::string(f.operation));
        auto const operations = known.handles();
        for (auto const& word : rule.words)
          if (known.find(word) == cleave::none<std::uint32_t>)
            throw cleave::error("--by capability: no node is a " + cleave::quoted(word) +
                                cleave::suggestion(cleave::near_names(word, operations)));
        return cleave::alternation(s, supported);
      }
      default:
        return parts_in_file(g, rule.words.front());
    }
  }();
  return cleave::acyclic_parts(s, without_copies(s, parts), rule.cycles).parts;
}

}  // namespace tool
