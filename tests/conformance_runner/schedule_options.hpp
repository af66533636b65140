// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>

#include "cleave/core/error.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "conformance_runner/json.hpp"

namespace cleave::conformance {

/// Reads a numeric option. Rejects other types, as the type of the option does.
inline std::int64_t read_count(json const& value) {
  if (!value.is_number_integer()) throw cleave::error("no count: " + value.dump());
  return value.get<std::int64_t>();
}

/// The meaning of an array in a recording: a Python list, or a tuple (otherwise written as an object).
enum class array_meaning : std::uint8_t { tuple, list };

/// Reads the recorded options. \throws cleave::error if no option of the library corresponds
inline lower_options read_lower_options(json const& recorded, array_meaning arrays = array_meaning::tuple) {
  lower_options options{.messages = message_order::rounds};
  if (recorded.value("defer_pp_recv", false)) options.receives = receive_time::deferred;
  if (recorded.value("defer_reduce_grad_wait", false)) options.reductions = reduction_wait::deferred;
  if (recorded.contains("max_active_stages"))
    options.max_active_stages = read_count(recorded["max_active_stages"]);
  if (recorded.contains("max_outstanding_sends") && !recorded["max_outstanding_sends"].is_null())
    options.max_outstanding_sends = read_count(recorded["max_outstanding_sends"]);
  if (recorded.contains("unshard_lookahead")) {
    json const& ahead = recorded["unshard_lookahead"];
    json const by_rank = ahead.is_object()                ? ahead.at("tuple")
                         : arrays == array_meaning::tuple ? ahead
                                                          : json();
    if (ahead == "auto") {
      options.lookahead.how = unshard_ahead::policy::automatic;
    } else if (by_rank.is_array()) {
      options.lookahead.how = unshard_ahead::policy::by_rank;
      for (json const& stages : by_rank) options.lookahead.stages.push_back(read_count(stages));
    } else if (ahead != "full") {
      throw cleave::error("no look-ahead: " + ahead.dump());
    }
  }
  return options;
}

}  // namespace cleave::conformance
