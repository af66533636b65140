// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/schedule/lower/issue_order.hpp"
#include "cleave/schedule/lower/message_graph.hpp"
#include "cleave/schedule/model/stage_map.hpp"
#include "conformance_runner/outcome.hpp"

/// Compares the issue order of messages, the communicators set up for edges, and the placement of stages.
namespace cleave::conformance {

using namespace detail;
namespace {

using named_end = message_end<std::string>;

/// Records the messages issued for a list of ends, and the ones that can be waited for.
class batch_run {
 public:
  explicit batch_run(json const& ops) : ops_(ops) {
    for (json const& op : ops)
      ends_.push_back({op["op"] == "send" ? message_side::send : message_side::receive,
                       rank_id{op["peer"].get<std::uint32_t>()}, op["group"].get<std::string>()});
  }

  json run(bool by_peer) const {
    json issued = json::array(), works = json::array();
    if (!by_peer) {
      add(issue_order(ends_), issued, works);
      return {{"issued", issued}, {"works", works}};
    }
    for (auto const& [peer, issues] : issue_order_by_peer(ends_)) {
      json of_peer = json::array();
      add(issues, issued, of_peer);
      works.push_back({index(peer), of_peer});
    }
    return {{"issued", issued}, {"works", works}};
  }

 private:
  void add(std::vector<issue_group> const& issues, json& issued, json& works) const {
    for (auto const& together : issues) {
      std::string text;
      for (auto const i : together) {
        auto const end = ops_[i]["op"].get<std::string>() + " " + ops_[i]["label"].get<std::string>() +
                         " peer " + std::to_string(index(ends_[i].peer));
        works.push_back(end);
        text += (text.empty() ? "" : "; ") + end;
      }
      issued.push_back(together.size() > 1 ? "batch[" + text + "]" : text);
    }
  }

  json const& ops_;
  std::vector<named_end> ends_;
};

json write_rounds(std::vector<edge_round> const& rounds) {
  json list = json::array();
  for (auto const& round : rounds) {
    json edges = json::array();
    for (auto const e : round) edges.push_back({index(e.from), index(e.to)});
    list.push_back(edges);
  }
  return list;
}

json run_edges(json const& stage_to_rank) {
  stage_placement p;
  for (json const& rank : stage_to_rank) {
    p.rank_of.push_back(rank_id{rank.get<std::uint32_t>()});
    p.ranks = std::max(p.ranks, index(p.rank_of.back()) + 1);
  }
  p.edges = chain_edges(p.stages());
  return {{"matchings", write_rounds(edge_matchings(p))}, {"split_rounds", write_rounds(directed_rounds(p))}};
}

json run_assignment(json const& input) {
  std::vector<stage_on_rank> map;
  for (json const& entry : input["map"]) map.push_back({entry[0], entry[1]});
  json ranks = json::array();
  for (auto const r : place_stages(map, input["ranks"]).rank_of) ranks.push_back(index(r));
  return ranks;
}

json run_p2p(json const& input) {
  if (input.contains("ops")) return batch_run(input["ops"]).run(input["sorted"]);
  if (input.contains("map")) return run_assignment(input);
  return run_edges(input["stage_to_rank"]);
}

}  // namespace

outcome run_schedules_p2p(test_case const& c, json const& body) {
  json const expected = body.contains("error") ? body["error"]["type"] : body["expect"];
  outcome result;
  try {
    compare(expected, run_p2p(c.input()), "p2p", result.differences);
  } catch (cleave::error const&) {
    compare(expected, "ValueError", "p2p", result.differences);
  }
  return result;
}

}  // namespace cleave::conformance
