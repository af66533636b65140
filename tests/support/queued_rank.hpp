// SPDX-License-Identifier: MIT
#pragma once
#include "cleave/core/ids.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "support/queued/queued_device.hpp"

namespace cleave::testing {

using namespace detail;

/// The only rank of a run; its streams are threads.
struct queued_rank {
  host_ranks ranks{1};
  queued_device d;
  explicit queued_rank(queued_options const& o = {}) : d(ranks, rank_id{0}, o) {}
};

}  // namespace cleave::testing
