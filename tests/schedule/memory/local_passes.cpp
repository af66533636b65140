// SPDX-License-Identifier: MIT
#include "cleave/schedule/memory/send_into_slots.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/some_schedule.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// Two ranks; the first has stages 0 and 1, the second stage 2.
struct fixture {
  schedule s{{2, {rank_id{0}, rank_id{0}, rank_id{1}}, chain_edges(3)}, 2, {{}, {}}};
  edge_numbers edges{s.place};
  receive_uses uses{s, edges, input_use::until_gradient};
  local_passes passes{s, edges, uses};
  std::vector<double> arrivals = std::vector<double>(uses.numbers().messages(), -1);
  double begin = 1;

  std::size_t ready(std::string const& row) {
    begin = 1;
    return passes.count_ready(read_row(row), [&](std::size_t m) { return arrivals[m]; }, begin);
  }
};

}  // namespace

TEST_CASE("local_passes: a pass needs its earlier passes, and count_ready marks none as done") {
  fixture f;
  CHECK(f.ready("0F0") == 1);
  CHECK(f.ready("1F0") == 0);
  CHECK(f.ready("0F0,1F0,1F1") == 2);
  CHECK(f.ready("1F0") == 0);
  f.passes.mark(read_cell("0F0")[0]);
  CHECK(f.ready("1F0") == 1);
  CHECK(f.ready("0W0") == 0);
  CHECK(f.ready("0UNSHARD,0W0") == 1);
}

TEST_CASE("local_passes: a message from another rank must have arrived, and it delays the begin") {
  fixture f;
  CHECK(f.ready("2F0") == 0);
  f.arrivals[f.uses.numbers().message(1, edge_flow::activations, microbatch_id{0})] = 2.5;
  CHECK(f.ready("2F0,2B0") == 2);
  CHECK(f.begin == 2.5);
  CHECK(f.ready("0F0,1F0,1I0") == 2);
  f.arrivals[f.uses.numbers().message(1, edge_flow::gradients, microbatch_id{0})] = 0.5;
  CHECK(f.ready("0F0,1F0,1I0,1W0,0B0,0W0") == 5);
  CHECK(f.begin == 1);
}
