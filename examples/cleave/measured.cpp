// SPDX-License-Identifier: MIT
// Assigns measured costs to the nodes of a graph, for `cleave split --costs`.
#include "measured.hpp"

#include <algorithm>
#include <cleave/core/error.hpp>
#include <cleave/core/ids.hpp>
#include <cleave/core/nearest_names.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/units.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "terminal.hpp"

namespace tool {

namespace {

using node = std::uint32_t;

/// Assigns the entries of a file to nodes, and shares the costs of fused nodes.
class cost_assignment {
 public:
  cost_assignment(cost_file const& file, cleave::snapshot_arrays const& s, cost_names const& names)
      : file_(file), s_(s), names_(names), measured_(s.nodes()), own_(s.nodes()), owner_(s.nodes(), nobody) {
    made_.path = file.path;
    made_.is_profile = file.is_profile;
    made_.runs = file.runs;
    made_.predicted = s.weight;
    made_.origin.assign(s.nodes(), cost_origin::scaled);
    made_.result_bytes.resize(s.nodes());
    for (node n = 0; n < s.nodes(); ++n) {
      add_name(names.nodes[n], n);
      if (names.nodes[n].empty() && n < names.runtime_names.size()) add_name(names.runtime_names[n], n);
      add_name("#" + std::to_string(n), n);
    }
  }

  measured_costs run() {
    for (auto const& entry : file_.entries) place(entry);
    for (auto const& [name, bytes] : file_.result_bytes)
      if (auto const n = find(name); n < several && bytes.size() == s_.results[n].size())
        made_.result_bytes[n] = bytes;
    require_match();
    if (file_.is_profile) {
      fold_constants();
      gather();
    }
    share();
    scale_rest();
    return std::move(made_);
  }

 private:
  static constexpr node nobody = cleave::none<node>, several = nobody - 1;

  void add_name(std::string const& name, node n) {
    if (name.empty()) return;
    auto const [at, is_new] = by_name_.emplace(name, n);
    if (!is_new && at->second != n) at->second = several;
  }
  node find(std::string const& name) const {
    auto const at = by_name_.find(name);
    return at == by_name_.end() ? nobody : at->second;
  }

  [[noreturn]] void refuse(cost_entry const& entry, std::string const& what) const {
    throw cleave::error(input_name(file_.path) +
                        (entry.line > 0 ? ", line " + std::to_string(entry.line) : "") + ": " + what);
  }

  void place(cost_entry const& entry) {
    made_.total += entry.seconds;
    auto const n = find(entry.name);
    if (n == several)
      refuse(entry, "several nodes are called " + cleave::quoted(entry.name) +
                        "; name them by # and their positions, as --map does");
    if (n != nobody) {
      if (!file_.is_profile) require_free(entry, n);
      own_[n] += entry.seconds;
      owner_[n] = n;
      made_.origin[n] = cost_origin::measured;
      measured_[n] = 1;
      take_bytes(entry, n);
    } else if (names_.others.contains(entry.name)) {
      made_.total -= entry.seconds;  // a constant, or it reaches no output
    } else if (file_.is_profile) {
      place_fused(entry);
    } else {
      place_joined(entry);
    }
  }

  /// Refuses an entry of CSV for a node that another line gives a time.
  void require_free(cost_entry const& entry, node n) const {
    if (owner_[n] == nobody) return;
    auto const name = names_.nodes[n].empty() ? "#" + std::to_string(n) : cleave::quoted(names_.nodes[n]);
    refuse(entry, "node " + name + " has a time on another line; keep one of them");
  }

  void take_bytes(cost_entry const& entry, node n) {
    auto const results = s_.results[n].size();
    if (entry.bytes && results != 1)
      refuse(entry, "node " + cleave::quoted(entry.name) + " has " + std::to_string(results) +
                        " results, whose sizes one number cannot give; leave out the bytes");
    if (entry.bytes) made_.result_bytes[n] = {*entry.bytes};
  }

  /// An entry of CSV for several nodes: `a+b`.
  void place_joined(cost_entry const& entry) {
    std::vector<node> members;
    for (std::size_t at = 0; at <= entry.name.size();) {
      auto const end = std::min(entry.name.find('+', at), entry.name.size());
      auto const n = find(entry.name.substr(at, end - at));
      if (n >= several || (at == 0 && end == entry.name.size())) {
        auto const nearest = cleave::near_names(entry.name, known_names());
        refuse(entry, "no node is called " + cleave::quoted(entry.name) + cleave::suggestion(nearest));
      }
      require_free(entry, n);
      members.push_back(n);
      at = end + 1;
    }
    if (entry.bytes)
      refuse(entry, cleave::quoted(entry.name) +
                        " are several nodes, whose sizes one number cannot give; "
                        "leave out the bytes");
    own_[members.front()] += entry.seconds;
    for (auto const n : members) owner_[n] = members.front(), made_.origin[n] = cost_origin::shared;
  }

  std::vector<std::string> known_names() const {
    std::vector<std::string> known;
    for (auto const& name : names_.nodes)
      if (!name.empty()) known.push_back(name);
    return known;
  }

  /// A node that the runtime made. Its name begins with that of a node or value of the model, as in
  /// `/h/MatMul/MatMulScaleFusion/` and `/conv1/Relu_output_0_nchwc`, or belongs to no node.
  void place_fused(cost_entry const& entry) {
    std::string_view name = entry.name;
    if (name.starts_with("fused ")) name.remove_prefix(6);
    for (auto size = name.size(); size > 0; --size) {
      bool const ends = size == name.size() || std::string_view("/_ +,:(").find(name[size]) != name.npos;
      if (!ends) continue;
      std::string const text(name.substr(0, size));
      auto const maker = names_.makers.find(text);
      bool const is_value = maker != names_.makers.end();
      auto const n = is_value ? maker->second : find(text);
      if (n >= several) continue;
      own_[n] += entry.seconds;
      if (owner_[n] == nobody) {
        owner_[n] = n;
        made_.origin[n] = cost_origin::shared;
        (is_value ? of_values_ : of_nodes_).push_back(n);
      }
      return;
    }
    made_.elsewhere += entry.seconds;
    made_.elsewhere_names.push_back(entry.name);
  }

  void require_match() const {
    if (!file_.is_profile || 2 * made_.elsewhere <= made_.total) return;
    throw cleave::error(
        input_name(file_.path) + ": " + cleave::percent_text(made_.elsewhere / made_.total) +
        " of the time is in nodes that the model does not have: " +
        first_of(made_.elsewhere_names, 4, [](auto const& s) { return cleave::quoted(s); }) +
        "; profile this model (./dev profile-onnx), with less optimization if these are fused");
  }

  /// Marks the missing nodes that depend on no input of the graph. Nodes are in topological order.
  void fold_constants() {
    std::vector<char> constant(s_.nodes());
    for (node n = 0; n < s_.nodes(); ++n) {
      constant[n] = !s_.operands[n].empty() && std::ranges::all_of(s_.operands[n], [&](std::uint32_t v) {
        auto const p = s_.producer[v];
        return p == cleave::none<std::uint32_t> ? cleave::is_held(s_.from[v]) : constant[p] != 0;
      });
      if (constant[n] != 0 && owner_[n] == nobody) made_.origin[n] = cost_origin::folded, owner_[n] = n;
    }
  }

  enum class way : std::uint8_t { up, down, both };
  struct step {
    node at;
    way where;
  };

  /// Lets the owners in `reached` take in the missing nodes next to them, and those next to these: the
  /// nearest owner takes a node, the first among equals.
  void spread(std::vector<step> reached) {
    for (std::size_t i = 0; i < reached.size(); ++i) {
      auto const [from, where] = reached[i];
      auto const take = [&](node n) {
        if (owner_[n] != nobody) return;
        owner_[n] = owner_[from];
        made_.origin[n] = cost_origin::shared;
        reached.push_back({n, where});
      };
      if (where != way::down)
        for (auto const v : s_.operands[from])
          if (auto const p = s_.producer[v]; p != nobody) take(p);
      if (where != way::up)
        for (auto const v : s_.results[from])
          for (auto const user : s_.users[v]) take(user);
    }
  }

  /// Finds for each missing node the measured or fused node that took it in. A fused node with the name of a
  /// value made that value; any other kept the name of the first node that it took in.
  void gather() {
    std::vector<step> owners;
    for (auto const n : of_values_) owners.push_back({n, way::up});
    for (auto const n : of_nodes_) owners.push_back({n, way::down});
    for (node n = 0; n < s_.nodes(); ++n)
      if (measured_[n]) owners.push_back({n, way::down});
    spread(std::move(owners));
    std::vector<step> all;
    for (node n = 0; n < s_.nodes(); ++n)
      if (owner_[n] != nobody && made_.origin[n] != cost_origin::folded) all.push_back({n, way::both});
    spread(std::move(all));
  }

  /// Divides each measured time among the nodes that it is for, in proportion to their estimates.
  void share() {
    std::vector<double> estimate(s_.nodes());
    std::vector<std::size_t> members(s_.nodes());
    for (node n = 0; n < s_.nodes(); ++n)
      if (owner_[n] != nobody) estimate[owner_[n]] += s_.weight[n], ++members[owner_[n]];
    made_.cost.assign(s_.nodes(), 0);
    for (node n = 0; n < s_.nodes(); ++n) {
      auto const o = owner_[n];
      if (o == nobody || made_.origin[n] == cost_origin::folded) continue;
      made_.cost[n] =
          own_[o] * (estimate[o] > 0 ? s_.weight[n] / estimate[o] : 1 / static_cast<double>(members[o]));
    }
  }

  void scale_rest() {
    double measured = 0, estimated = 0;
    for (node n = 0; n < s_.nodes(); ++n)
      if (owner_[n] != nobody && made_.origin[n] != cost_origin::folded)
        measured += made_.cost[n], estimated += s_.weight[n];
    if (estimated > 0) made_.scale = measured / estimated;
    for (node n = 0; n < s_.nodes(); ++n)
      if (owner_[n] == nobody) made_.cost[n] = made_.scale * s_.weight[n];
  }

  cost_file const& file_;
  cleave::snapshot_arrays const& s_;
  cost_names const& names_;
  std::map<std::string, node> by_name_;
  std::vector<char> measured_;
  std::vector<double> own_;                 // per owner: the time of its group
  std::vector<node> owner_;                 // per node: the node whose time it shares
  std::vector<node> of_values_, of_nodes_;  // owners that a fused node of the profile names
  measured_costs made_;
};

}  // namespace

std::size_t measured_costs::count(cost_origin o) const {
  return static_cast<std::size_t>(std::ranges::count(origin, o));
}

measured_costs assign_costs(cost_file const& file, cleave::snapshot_arrays const& s,
                            cost_names const& names) {
  return cost_assignment(file, s, names).run();
}

std::vector<std::string> remarks_on(measured_costs const& m, std::vector<std::string> const& names) {
  auto const nodes_of = [&](cost_origin o) { return plural(m.count(o), "node"); };
  auto text = "costs from " + shown(m.path) + ", " +
              (m.runs > 1 ? "the median of " + plural(m.runs, "run") : "1 run") + ": " +
              cleave::count_text(m.count(cost_origin::measured)) + " of " + plural(m.cost.size(), "node") +
              " measured";
  if (m.count(cost_origin::shared) > 0)
    text += ", " + cleave::count_text(m.count(cost_origin::shared)) + " share the time of a fused node";
  if (m.count(cost_origin::folded) > 0)
    text +=
        ", " + cleave::count_text(m.count(cost_origin::folded)) + " computed once, before all runs, and free";
  std::vector<std::string> lines{text};
  if (m.count(cost_origin::scaled) > 0) {
    std::vector<std::string> missing;
    for (std::size_t n = 0; n < m.origin.size(); ++n)
      if (m.origin[n] == cost_origin::scaled)
        missing.push_back(names[n].empty() ? "#" + std::to_string(n) : names[n]);
    lines.push_back(nodes_of(cost_origin::scaled) +
                    " without a measured cost, priced by the static model times " +
                    cleave::short_text(m.scale) + ": " +
                    first_of(missing, 4, [](auto const& s) { return cleave::quoted(s); }));
  }
  if (m.elsewhere > 0.001 * m.total)
    lines.push_back(cleave::percent_text(m.elsewhere / m.total) +
                    " of the measured time is in nodes that the runtime added, and is counted nowhere: " +
                    first_of(m.elsewhere_names, 4, [](auto const& s) { return cleave::quoted(s); }));
  return lines;
}

}  // namespace tool
