// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/schedule/families/named_schedule.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/simulate/spaced_listing.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "cleave/schedule/verify/verify.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/schedule_options.hpp"

/// Compares listings of schedules by name with the recorded ones.
namespace cleave::conformance {

using namespace detail;
namespace {

bool asks_for_spacing(json const& input) { return input.value("add_spacing", false); }

/// Returns the requested schedule, not spaced yet.
schedule read_visual(json const& input) {
  std::optional<std::uint32_t> stages;
  if (!input["stages_per_rank"].is_null()) stages = input["stages_per_rank"];
  auto const s =
      named_schedule(input["schedule"].get<std::string>(), input["ranks"], input["microbatches"], stages);
  if (!input.value("with_comms", false)) return s;
  auto options = read_lower_options(input);
  options.order = receive_order::as_needed;
  return lower(s, options);
}

/// Imitates PyTorch's listings. Schedules of one stage per rank have no idle steps, and each list ends with
/// its reductions. On the last rank of 1F1B, each forward pass is listed as that of the next microbatch,
/// which never runs.
void write_as_listed(schedule& s, schedule_family family) {
  for (std::uint32_t r = 0; r < s.ranks.size(); ++r) {
    auto& row = s.ranks[r];
    std::erase_if(row, [](action const& a) { return a.kind == action_kind::idle; });
    for (auto const kind : {action_kind::reduce_gradient, action_kind::wait_reduce_gradient})
      row.push_back({kind, 0, stage_id{r}, no_microbatch, no_stage});
    if (family == schedule_family::one_f_one_b && r + 1 == s.ranks.size())
      for (auto& a : row)
        if (a.kind == action_kind::forward) a.microbatch = microbatch_id{index(a.microbatch) + 1};
  }
}

/// Imitates PyTorch's spacing, which drops a rank once it has ended, so later ranks are listed one row
/// higher. If each cell takes one step, this follows from the correct listing.
void shift_as_listed(schedule& s) {
  auto const rows = s.ranks;
  auto const has_step = [&](std::size_t r, std::size_t from) {
    return std::ranges::any_of(rows[r].begin() + static_cast<std::ptrdiff_t>(std::min(from, rows[r].size())),
                               rows[r].end(), [](action const& a) { return a.kind != action_kind::idle; });
  };
  for (auto const& row : rows)
    for (action const& a : row)
      if (a.parts > 0 || a.kind == action_kind::backward) return;
  for (auto& row : s.ranks) std::ranges::fill(row, action{});
  for (std::size_t step = 0; step < rows[0].size(); ++step)
    for (std::size_t r = 0, to = 0; r < rows.size(); ++r)
      if (has_step(r, step)) s.ranks[to++][step] = rows[r][step];
}

json visual_rows(schedule const& s) {
  json rows = json::array();
  for (auto const& row : s.ranks) rows.push_back(row_text(row));
  return {{"rows", rows}};
}

/// Runs a schedule step by step. Each rank's next cell begins once its dependencies are done.
class step_run {
 public:
  explicit step_run(schedule const& s)
      : s_(s), at_(s.ranks.size()), free_(s.ranks.size()), rows_(at_.size()) {}

  /// Returns the lists with an idle step wherever a rank is free but blocked.
  std::vector<std::vector<action>> rows() {
    for (std::size_t now = 0; !all_begun(); ++now) {
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t r = 0; r < at_.size(); ++r)
          while (go_on(r, now)) moved = true;
      }
      for (std::size_t r = 0; r < at_.size(); ++r)
        if (free_[r] <= now) rows_[r].push_back({});
    }
    return rows_;
  }

 private:
  bool all_begun() const {
    for (std::size_t r = 0; r < at_.size(); ++r)
      if (at_[r] < s_.ranks[r].size()) return false;
    return true;
  }

  /// Returns true if the next cell of rank `r` begins now.
  bool go_on(std::size_t r, std::size_t now) {
    auto const& row = s_.ranks[r];
    if (at_[r] == row.size() || free_[r] > now) return false;
    auto const cell = std::span(row).subspan(at_[r], std::size_t{1} + row[at_[r]].parts);
    if (!std::ranges::all_of(cell, [&](action const& a) { return is_ready(a, now); })) return false;
    std::size_t width = 0;
    for (action const& a : cell) width += width_of(a);
    free_[r] = now + width;
    for (action const& a : cell) done_[{a.stage, a.microbatch, a.kind}] = free_[r];
    if (cell.front().kind != action_kind::idle) rows_[r].insert(rows_[r].end(), cell.begin(), cell.end());
    at_[r] += cell.size();
    return true;
  }

  static std::size_t width_of(action const& a) {
    if (!is_compute(a.kind)) return 0;
    return a.kind == action_kind::backward ? 2 : 1;
  }

  bool has(stage_id s, microbatch_id m, action_kind k, std::size_t now) const {
    auto const at = done_.find({s, m, k});
    return at != done_.end() && at->second <= now;
  }
  bool is_ready(action const& a, std::size_t now) const {
    using enum action_kind;
    auto const gradient = [&](stage_id s) {
      return has(s, a.microbatch, backward, now) || has(s, a.microbatch, input_gradient, now);
    };
    if (a.kind == wait_send_activation) return has(a.peer, a.microbatch, receive_activation, now);
    if (a.kind == wait_send_gradient) return has(a.peer, a.microbatch, receive_gradient, now);
    if (!is_compute(a.kind)) return true;
    if (a.kind == weight_gradient) return has(a.stage, a.microbatch, input_gradient, now);
    for (auto const& e : s_.place.edges) {
      if (a.kind == action_kind::forward && e.to == a.stage &&
          !has(e.from, a.microbatch, action_kind::forward, now))
        return false;
      if (a.kind != action_kind::forward && e.from == a.stage && !gradient(e.to)) return false;
    }
    return a.kind == action_kind::forward || has(a.stage, a.microbatch, action_kind::forward, now);
  }

  schedule const& s_;
  std::vector<std::size_t> at_, free_;
  std::vector<std::vector<action>> rows_;
  std::map<std::tuple<stage_id, microbatch_id, action_kind>, std::size_t> done_;
};

/// Checks results where the reference system fails: a valid schedule, spaced by its stepwise run, is correct.
void check_visual_rule(schedule const& got, json const& input, outcome& result) {
  if (auto const fault = find_schedule_fault(got))
    result.differences.push_back({"listing", "a sound schedule", describe(*fault)});
  if (!asks_for_spacing(input)) return;
  auto const plain = read_visual(input);
  auto expected = got;
  expected.ranks = step_run(plain).rows();
  compare(visual_rows(expected), visual_rows(got), "listing", result.differences);
}

/// Returns PyTorch's kind of error for a rejected shape.
std::string visual_error(shape_error const& e, json const& input) {
  bool const usual_count = e.witness.what == shape_fault::kind::stages_per_rank &&
                           (e.witness.needed == 1 || input["stages_per_rank"] == 1);
  return usual_count ? "AssertionError" : "ValueError";
}

}  // namespace

outcome run_schedules_visual(test_case const& c, json const& body) {
  json const& input = c.input();
  outcome result;
  json got;
  try {
    auto s = read_visual(input);
    if (asks_for_spacing(input)) s = spaced_listing(s);
    if (body.contains("defect")) {
      check_visual_rule(s, input, result);
      return result;
    }
    auto const family = schedule_family_of(input["schedule"].get<std::string>());
    if (usual_stages_per_rank(family) == 1) write_as_listed(s, family);
    if (asks_for_spacing(input)) shift_as_listed(s);
    got = visual_rows(s);
  } catch (shape_error const& e) {
    got = {{"type", visual_error(e, input)}};
  } catch (schedule_name_error const&) {
    got = {{"type", "ValueError"}};
  }
  compare(body.contains("error") ? json{{"type", body["error"]["type"]}} : body["expect"], got, "listing",
          result.differences);
  return result;
}

}  // namespace cleave::conformance
