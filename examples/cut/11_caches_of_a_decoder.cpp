// SPDX-License-Identifier: MIT
// Cuts a decoder whose layers read what they have seen of earlier tokens. Each stage keeps the caches of its
// layers from one run to the next, so that only the token's own values go from stage to stage.
#include <cleave/cut.hpp>
#include <cleave/split.hpp>
#include <cstddef>
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <vector>

using floats = std::vector<double>;

struct op {
  std::string name;
  std::vector<std::string> reads;
  std::string makes;
};

/// Adds what is new to the cache, or computes with all of it.
floats compute(op const& o, std::vector<floats> in) {
  if (o.name.starts_with("join")) in[0].push_back(in[1][0]);
  if (!o.name.starts_with("attend")) return in[0];
  double sum = in[0][0];
  for (std::size_t i = 0; i < in[1].size(); ++i) sum += in[1][i] / static_cast<double>(i + 2);
  return {sum};
}

// [carried]
struct decoder {
  std::vector<op> ops;
  std::vector<op const*> list;
  std::vector<std::string> in{"token"}, out;

  explicit decoder(std::size_t layers) {
    std::string x = "token";
    for (std::size_t i = 0; i < layers; ++i) {
      auto const n = std::to_string(i);
      ops.push_back({"join" + n, {"past" + n, x}, "present" + n});
      ops.push_back({"attend" + n, {x, "present" + n}, "x" + n});
      in.push_back("past" + n), out.push_back("present" + n);
      x = "x" + n;
    }
    out.push_back(x);
    for (auto const& o : ops) list.push_back(&o);
  }
  auto const& nodes() const { return list; }
  static std::vector<std::string> const& operands(op const* o) { return o->reads; }
  static std::vector<std::string> results(op const* o) { return {o->makes}; }
  std::vector<std::string> const& inputs() const { return in; }
  std::vector<std::string> const& outputs() const { return out; }
  static double weight(op const*) { return 1; }
  static std::size_t bytes(std::string const&) { return sizeof(double); }
  static std::string const& name(op const* o) { return o->name; }

  /// Returns the value that becomes the input `v` in the next run: `present0` becomes `past0`.
  static std::vector<std::string> carried(std::string const& v) {
    if (!v.starts_with("past")) return {};
    return {"present" + v.substr(4)};
  }
};
static_assert(cleave::carrying_graph<decoder>);
// [carried]

int main() {
  decoder const g(6);
  auto const stages = cleave::split(g, cleave::balance(g, 3, {.cost_per_byte = 0.01}));

  // [keep]
  // The caches of each stage, and for each of its outputs that it keeps, the input that this becomes.
  std::vector<std::map<std::string, floats>> caches(stages.size());
  std::vector<std::map<std::string, std::string>> next(stages.size());
  for (auto const& v : cleave::carried_values(stages.snapshot(), stages.plan())) {
    auto const& names = stages.snapshot().value;
    next[cleave::index(v.stage)][names[v.present]] = names[v.past];
    caches[cleave::index(v.stage)][names[v.past]] = {};
  }
  // [keep]

  floats token{1}, whole_token{1};
  std::map<std::string, floats> whole_caches;
  for (int step = 0; step < 4; ++step) {
    std::map<std::string, floats> sent{{"token", token}};  // by the caller and between stages
    std::size_t numbers = 0;
    for (auto const id : stages.plan().order) {
      auto const i = cleave::index(id);
      auto values = caches[i];
      for (auto const& v : stages[id].inputs)
        if (!values.contains(v)) values[v] = sent.at(v);
      for (op const* o : stages[id].nodes)
        values[o->makes] = compute(*o, {values.at(o->reads[0]), values.at(o->reads[1])});
      for (auto const& v : stages[id].outputs)
        if (auto const at = next[i].find(v); at != next[i].end())
          caches[i][at->second] = values.at(v);
        else
          sent[v] = values.at(v), numbers += values.at(v).size();
    }
    token = sent.at(g.out.back());

    auto values = whole_caches;
    values["token"] = whole_token;
    for (auto const& o : g.ops) values[o.makes] = compute(o, {values[o.reads[0]], values[o.reads[1]]});
    for (auto const& v : g.in)
      if (v != "token") whole_caches[v] = values.at(decoder::carried(v).front());
    whole_token = values.at(g.out.back());
    std::cout << "step " << step << ": the stages make " << token[0] << ", the whole " << whole_token[0]
              << "; stages send " << numbers << " numbers and keep";
    for (auto const& c : caches) {
      std::size_t kept = 0;
      for (auto const& [name, cache] : c) kept += cache.size();
      std::cout << ' ' << kept;
    }
    std::cout << '\n';
  }
}

// It prints:
//
//   step 0: the stages make 11.3906, the whole 11.3906; stages send 3 numbers and keep 2 2 2
//   step 1: the stages make 81.3159, the whole 81.3159; stages send 3 numbers and keep 4 4 4
//   step 2: the stages make 416.196, the whole 416.196; stages send 3 numbers and keep 6 6 6
//   step 3: the stages make 1720.71, the whole 1720.71; stages send 3 numbers and keep 8 8 8
