// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/core/error.hpp>
#include <cleave/core/nearest_names.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/units.hpp>
#include <cleave/graph/snapshot_arrays.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tool {

/// A model as a chain: the modules before its layers, the layers, and the modules behind them. No module
/// reads a value of a later one.
struct layer_chain {
  std::string list;                     ///< path of the list of layers: `model.layers`
  std::vector<std::string> modules{};   ///< paths, in the order in which they run
  std::uint32_t first = 0, layers = 0;  ///< position of the first layer, and number of layers
  std::vector<std::uint32_t> of{};      ///< per node: position of its module
  std::vector<char>
      named{};  ///< per node: 1 if its path names the module; other nodes run as early as they can

  std::uint32_t behind() const { return first + layers; }  ///< position of the first module behind the layers
};

/// Returns the list of layers and the number among them for each step of a path that is a number:
/// `model.layers` and 3 for `model.layers.3.mlp`.
inline std::vector<std::pair<std::string_view, std::uint32_t>> numbered_steps(std::string_view path) {
  std::vector<std::pair<std::string_view, std::uint32_t>> found;
  for (std::size_t at = 0; at < path.size();) {
    auto const end = std::min(path.find('.', at), path.size());
    auto const step = path.substr(at, end - at);
    if (!step.empty() && step.size() <= 6 && step.find_first_not_of("0123456789") == step.npos) {
      std::uint32_t n = 0;
      for (char const c : step) n = n * 10 + static_cast<std::uint32_t>(c - '0');
      found.emplace_back(path.substr(0, at == 0 ? 0 : at - 1), n);
    }
    at = end + 1;
  }
  return found;
}

/// Returns the path of the module to which a path belongs, seen from the list of layers: a layer, or the
/// largest module that does not contain the list. Empty if it has no module of its own: `model` for the list
/// `model.layers`.
inline std::string_view module_in(std::string_view path, std::string_view list) {
  for (std::size_t at = 0, of_list = 0; at < path.size();) {
    auto const end = std::min(path.find('.', at), path.size());
    auto const list_end = std::min(list.find('.', of_list), list.size());
    if (of_list >= list.size() || path.substr(at, end - at) != list.substr(of_list, list_end - of_list))
      return path.substr(0, end);
    at = end + 1, of_list = list_end + 1;
  }
  return {};
}

/// Finds the chain of a model. Used by `layers_of`.
template <class Snapshot>
class layer_finder {
 public:
  /// `paths` are the modules of the nodes.
  layer_finder(Snapshot const& s, std::span<std::string const> paths, std::string const& asked)
      : s_(s), paths_(paths) {
    chain_.list = asked.empty() ? largest_list() : asked;
    number_layers();
    place_modules();
    place_nodes();
  }
  layer_chain take() { return std::move(chain_); }

 private:
  static constexpr std::int64_t before = -1;

  bool is_placed(std::size_t n) const { return s_.replicable[n] == 0; }

  /// Returns the list whose layers cost most; of two, the outer one. It must have a quarter of the cost of
  /// the model.
  std::string largest_list() const {
    struct candidate {
      double cost = 0;
      std::size_t nodes = 0;
      std::set<std::uint32_t> numbers{};
    };
    std::map<std::string, candidate> lists;
    double total = 0;
    for (std::size_t n = 0; n < s_.nodes(); ++n) {
      double const cost = is_placed(n) && n < s_.weight.size() ? s_.weight[n] : 0;
      total += cost;
      for (auto const& [list, number] : numbered_steps(is_placed(n) ? paths_[n] : std::string_view())) {
        auto& c = lists[std::string(list)];
        c.cost += cost;
        ++c.nodes;
        c.numbers.insert(number);
      }
    }
    std::erase_if(lists, [](auto const& entry) { return entry.second.numbers.size() < 2; });
    auto const rank = [](auto const& entry) { return std::pair(entry.second.cost, entry.second.nodes); };
    auto const largest = std::ranges::max_element(lists, {}, rank);
    if (largest == lists.end())
      throw cleave::error(
          "no layers found: no module path has numbers, as in 'model.layers.0'; export the model with the "
          "names of its modules, give the nodes of a graph in JSON a meta 'path', or write the layers and "
          "their times to a CSV file, one line 'layers.0,1.5ms' each");
    if (largest->second.cost < total / 4)
      throw cleave::error("no layers found: the list that costs most, " + cleave::quoted(largest->first) +
                          ", has " + cleave::percent_text(largest->second.cost / total) +
                          " of the cost of the model; name a list with --layers, or leave out --for to cut "
                          "between any nodes");
    return largest->first;
  }

  /// Numbers the layers, and finds the last layer on which each node depends.
  void number_layers() {
    std::map<std::uint32_t, std::int64_t> number;
    std::vector<std::string> others;
    std::vector<std::int64_t> given(s_.nodes(), before);
    for (std::size_t n = 0; n < s_.nodes(); ++n)
      for (auto const& [list, i] : numbered_steps(is_placed(n) ? paths_[n] : std::string_view()))
        if (list == chain_.list)
          number[i] = 0, given[n] = i;
        else if (std::ranges::find(others, list) == others.end() && others.size() < 1000)
          others.emplace_back(list);
    if (number.empty())
      throw cleave::error("--layers: no module is called " + cleave::quoted(chain_.list + ".0") +
                          (others.empty() ? "; no path of this model has numbers"
                                          : cleave::suggestion(cleave::near_names(chain_.list, others))));
    for (auto& [i, position] : number) position = chain_.layers++;
    layer_.assign(s_.nodes(), before);
    reach_.assign(s_.nodes(), before);
    for (std::size_t n = 0; n < s_.nodes(); ++n) {
      if (!is_placed(n)) continue;
      if (given[n] != before) layer_[n] = number[static_cast<std::uint32_t>(given[n])];
      each_producer(n, [&](std::size_t from) {
        if (layer_[n] != before && reach_[from] > layer_[n])
          throw cleave::error(
              "node " + s_.label(n) + " of layer " + std::to_string(layer_[n]) + " of " +
              cleave::quoted(chain_.list) + " reads a result of layer " + std::to_string(reach_[from]) +
              ", " + s_.label(from) +
              "; the layers of a plan run one after the other: name another list with --layers");
        reach_[n] = std::max(reach_[n], reach_[from]);
      });
      reach_[n] = std::max(reach_[n], layer_[n]);
    }
  }

  /// Lists the modules. One that also runs behind the layers, as a shared embedding may, counts as before
  /// them.
  void place_modules() {
    std::vector<std::string> behind;
    std::set<std::string_view> known, known_behind;
    auto const add = [](auto& to, auto& seen, std::string_view name) {
      if (!name.empty() && seen.insert(name).second) to.emplace_back(name);
    };
    std::vector<std::string> names(chain_.layers);
    auto& modules = chain_.modules;
    for (std::size_t n = 0; n < s_.nodes(); ++n) {
      if (!is_placed(n)) continue;
      auto const name = module_in(paths_[n], chain_.list);
      if (layer_[n] != before)
        names[static_cast<std::size_t>(layer_[n])] = name;
      else if (reach_[n] == before)
        add(modules, known, name);
      else if (reach_[n] + 1 == chain_.layers)
        add(behind, known_behind, name);
    }
    chain_.first = static_cast<std::uint32_t>(modules.size());
    std::erase_if(behind, [&](auto const& b) { return known.contains(b); });
    modules.insert(modules.end(), names.begin(), names.end());
    modules.insert(modules.end(), behind.begin(), behind.end());
  }

  void place_nodes() {
    std::map<std::string_view, std::uint32_t> place;
    for (std::uint32_t i = 0; i < chain_.modules.size(); ++i) place.emplace(chain_.modules[i], i);
    auto& of = chain_.of;
    of.assign(s_.nodes(), 0);
    chain_.named.assign(s_.nodes(), 0);
    for (std::size_t n = 0; n < s_.nodes(); ++n) {
      if (!is_placed(n)) continue;
      if (reach_[n] != before) of[n] = chain_.first + static_cast<std::uint32_t>(reach_[n]);
      each_producer(n, [&](std::size_t from) { of[n] = std::max(of[n], of[from]); });
      auto const known = place.find(module_in(paths_[n], chain_.list));
      if (known == place.end()) continue;
      chain_.named[n] = known->second >= of[n];
      of[n] = std::max(of[n], known->second);
    }
  }

  template <class Do>
  void each_producer(std::size_t n, Do f) const {
    for (auto const v : s_.operands[n])
      if (auto const from = s_.producer[v]; from < s_.nodes() && is_placed(from)) f(from);
    if (n < s_.after.rows())
      for (auto const from : s_.after[n])
        if (is_placed(from)) f(from);
  }

  Snapshot const& s_;
  std::span<std::string const> paths_;
  layer_chain chain_;
  std::vector<std::int64_t> layer_, reach_;  // per node: its layer, and the last layer on which it depends
};

/// Returns the layers of a model whose nodes belong to the modules `paths`, and the modules around them. The
/// list of layers is `asked`, or else the one that costs most. A node without a module of its own runs with
/// the last module that it reads from.
/// \throws cleave::error if there is no list of layers, or if a layer reads from a later one
template <class Snapshot>
layer_chain layers_of(Snapshot const& s, std::span<std::string const> paths, std::string const& asked) {
  return layer_finder<Snapshot>(s, paths, asked).take();
}

}  // namespace tool
