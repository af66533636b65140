// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/formats/json/json_writer.hpp"
#include "cleave/run/forward/forward.hpp"

namespace cleave::inline v0_2 {

/// Returns a measured run in the trace format of Chrome and Perfetto, with one track per stage and times in
/// microseconds. O(n log n) for n bars.
inline std::string write_trace(std::span<interval const> timeline) {
  json::writer to;
  to.open_object().member("displayTimeUnit", "ms").key("traceEvents").open_array();
  std::vector<stage_id> stages;
  for (auto const& bar : timeline) stages.push_back(bar.stage);
  std::ranges::sort(stages);
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  for (auto const s : stages) {
    to.open_object().member("ph", "M").member("name", "thread_name").member("pid", 0).member("tid", index(s));
    to.key("args").open_object().member("name", "stage " + std::to_string(index(s)));
    to.close_object().close_object();
  }
  for (auto const& bar : timeline) {
    auto const microbatch = index(bar.microbatch);
    char const* const what = bar.what == activity::receive   ? "receive"
                             : bar.what == activity::forward ? "forward"
                                                             : "send";
    to.open_object().member("ph", "X").member("pid", 0).member("tid", index(bar.stage));
    to.member("name", std::string(what) + ' ' + std::to_string(microbatch)).member("cat", what);
    to.member("ts", static_cast<double>(bar.begin) / 1000);
    to.member("dur", static_cast<double>(bar.end - bar.begin) / 1000);
    to.key("args").open_object().member("microbatch", microbatch).close_object().close_object();
  }
  return to.close_array().close_object().text();
}

}  // namespace cleave
