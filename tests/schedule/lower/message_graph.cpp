// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/message_graph.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// A graph whose queries search all edges.
struct plain_graph {
  std::vector<std::vector<std::size_t>> next;

  bool reaches(std::size_t from, std::size_t to) const {
    std::vector<char> seen(next.size());
    std::vector<std::size_t> todo{from};
    while (!todo.empty()) {
      auto const n = todo.back();
      todo.pop_back();
      if (n == to) return true;
      if (std::exchange(seen[n], true)) continue;
      todo.insert(todo.end(), next[n].begin(), next[n].end());
    }
    return false;
  }
};

}  // namespace

TEST_CASE("message_graph: matches a search through all edges while waits are added") {
  testing::rng rng(7);
  for (std::uint32_t round = 0; round < 12; ++round) {
    auto const family = rng.one_in(2) ? schedule_family::zbv : schedule_family::interleaved_1f1b;
    auto const s = send_in_rounds(make_schedule(family, {2 + round % 3, 2, 4 + round % 2 * 2}));
    message_graph graph(s);
    plain_graph twin;
    std::vector<std::pair<std::size_t, std::uint32_t>> sends;  // node and rank
    for (std::uint32_t r = 0; r < s.ranks.size(); ++r)
      for (std::size_t i = 0; i < s.ranks[r].size(); ++i) {
        std::size_t const n = graph.at(r, i);
        twin.next.resize(std::max(twin.next.size(), n + 1));
        if (i > 0) twin.next[n - 1].push_back(n);
        if (is_send(s.ranks[r][i].kind)) sends.push_back({n, r});
      }
    for (auto const& send : sends)
      twin.next[send.first].push_back(graph.receive_of(static_cast<message_graph::node>(send.first)));
    for (std::size_t i = 0; i < sends.size(); ++i) {
      auto const early = rng.below(sends.size()), late = rng.below(sends.size());
      auto const receive = graph.receive_of(static_cast<message_graph::node>(sends[early].first));
      auto const later = static_cast<message_graph::node>(sends[late].first);
      bool const cycle = twin.reaches(later, receive);
      CHECK(graph.may_follow(later, receive) == !cycle);
      CHECK(graph.comes_before(receive, later) == twin.reaches(receive, later));
      if (cycle || sends[early].second != sends[late].second || early >= late) continue;
      graph.let_follow(later, receive);
      twin.next[receive].push_back(later);
    }
  }
}

TEST_CASE("message_graph: a wait shares the node of the action that follows it") {
  schedule const s{loop_placement(2), 1, {read_row("0F0,0SEND_F0,0WAIT_SEND_F0,0B0"), read_row("1RECV_F0")}};
  message_graph const graph(s);
  CHECK(graph.at(0, 2) == graph.at(0, 3));
  CHECK(graph.receive_of(graph.at(0, 1)) == graph.at(1, 0));
}
