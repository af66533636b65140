// SPDX-License-Identifier: MIT
// Binds the pipeline schedules: generators, text, verifier, simulator, pictures and search.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cleave/core/error.hpp>
#include <cleave/draw/schedule_chart.hpp>
#include <cleave/draw/schedule_page.hpp>
#include <cleave/draw/schedule_svg.hpp>
#include <cleave/formats/cost_table.hpp>
#include <cleave/formats/timed_schedule.hpp>
#include <cleave/schedule/families/generate.hpp>
#include <cleave/schedule/families/named_schedule.hpp>
#include <cleave/schedule/lower/lower.hpp>
#include <cleave/schedule/model/schedule.hpp>
#include <cleave/schedule/model/unit_row.hpp>
#include <cleave/schedule/search/cut_for_schedule.hpp>
#include <cleave/schedule/search/search_schedule.hpp>
#include <cleave/schedule/simulate/critical_path.hpp>
#include <cleave/schedule/simulate/memory_over_time.hpp>
#include <cleave/schedule/simulate/simulate.hpp>
#include <cleave/schedule/text/schedule_csv.hpp>
#include <cleave/schedule/verify/verify.hpp>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind.hpp"
#include "errors.hpp"
#include "options.hpp"

namespace nb = nanobind;

namespace {

using namespace cleave;

/// A schedule, or one that was found for given costs, with a name for pictures.
struct named_order {
  std::string name;
  schedule order;
};

/// Turns the errors that name a place in a schedule into `ScheduleError`. Others go to the next translator.
void translate(std::exception_ptr const& thrown, void*) {
  nb::dict witness;
  try {
    std::rethrow_exception(thrown);
  } catch (schedule_name_error const& e) {
    witness["nearest"] = e.witness;
    binding::set_error("ScheduleError", e.what(), witness);
  } catch (shape_error const& e) {
    witness["got"] = e.witness.got;
    witness["needed"] = e.witness.needed;
    binding::set_error("ScheduleError", e.what(), witness);
  } catch (schedule_count_error const& e) {
    witness["got"] = e.witness;
    binding::set_error("ScheduleError", e.what(), witness);
  } catch (cell_error const& e) {
    witness["rank"] = e.witness.row;
    witness["position"] = e.witness.column;
    binding::set_error("ScheduleError", e.what(), witness);
  } catch (detail::row_error const& e) {
    witness["rank"] = e.witness.row;
    witness["position"] = e.witness.column;
    binding::set_error("ScheduleError", e.what(), witness);
  } catch (deadlock_error const& e) {
    nb::list ranks;
    for (auto const& w : e.witness.cycle.empty() ? e.witness.waiting : e.witness.cycle)
      ranks.append(index(w.rank));
    witness["ranks"] = ranks;
    binding::set_error("ScheduleError", e.what(), witness);
  } catch (byte_cap_error const& e) {
    witness["rank"] = index(e.witness.rank);
    witness["needed"] = e.witness.needed;
    witness["limit"] = e.witness.memory_limit;
    binding::set_error("InfeasibleError", e.what(), witness);
  }
}

/// Reads costs in the format of `read_costs`; empty text is the unit of the families: F of all stages of a
/// rank takes 1, I and W as long, and B twice that.
cost_table costs_of(std::string const& text, stage_placement const& place) {
  if (!text.empty()) return read_costs(text);
  cost_table table;
  auto const copies = place.stages() - place.edges.size();  // each copy of the model is a chain
  auto const share = static_cast<double>(place.ranks * copies) / (std::max)(1u, place.stages());
  table.stages = {{share, 2 * share, share, share, share}};
  table.unit = "F";
  return table;
}

/// A simulated run of a schedule: its costs, when each action runs, and the memory of each rank over time.
struct timed_run {
  cost_table costs;
  schedule_times times;
  std::vector<std::vector<memory_step>> memory;
};

timed_run run_of(schedule const& s, std::string const& costs, double hop, double noise, std::uint64_t seed) {
  timed_run run{costs_of(costs, s.place), {}, {}};
  auto options = simulate_options_of(run.costs, s.place);
  if (hop >= 0) options.base_latency = hop;
  options.noise = noise;
  options.seed = seed;
  run.times = simulate(s, options);
  if (passes_of(s) == expected_passes::forward_and_backward)
    run.memory =
        memory_over_time(s, run.times, run.costs.bytes.stages.empty() ? schedule_bytes{} : run.costs.bytes);
  return run;
}

timed_schedule timed(named_order const& s, timed_run const& run) {
  using enum timed_schedule::unit;
  timed_schedule t{s.name,         s.order,    run.times,
                   run.costs.unit, run.memory, run.costs.bytes.stages.empty() ? passes : bytes};
  for (auto const& step : critical_path(s.order, run.times))
    t.critical.push_back({step.rank, static_cast<std::uint32_t>(step.position)});
  return t;
}

named_order make(std::string const& name, std::uint32_t ranks, std::uint32_t microbatches,
                 std::optional<std::uint32_t> stages_per_rank) {
  nb::gil_scoped_release const unlocked;
  auto called = name;  // PyTorch's names of classes are names too
  for (auto const& known : pytorch_schedules)
    if (known.family && same_letters(known.class_name, name)) called = known.name;
  if (same_letters(name, "ZBV")) called = name_of(schedule_family::zbv);
  auto const family = schedule_family_of(called);
  return {std::string(name_of(family)), named_schedule(called, ranks, microbatches, stages_per_rank)};
}

named_order from_csv(std::string const& text, bool with_communication, std::uint32_t ranks) {
  nb::gil_scoped_release const unlocked;
  auto const contents = with_communication ? row_contents::with_communication : row_contents::compute_only;
  return {"schedule", read_schedule_csv(text, contents, {.ranks = ranks})};
}

nb::list rows_of(named_order const& s) {
  nb::list rows;
  for (auto const& row : s.order.ranks) {
    nb::list cells;
    each_cell(row, [&](action const& head, auto parts) { cells.append(cell_text(head, parts)); });
    rows.append(cells);
  }
  return rows;
}

nb::dict shape_of(named_order const& s) {
  nb::dict shape;
  shape["ranks"] = s.order.place.ranks;
  shape["stages"] = s.order.place.stages();
  shape["microbatches"] = s.order.microbatches;
  nb::list rank_of, edges;
  for (auto const r : s.order.place.rank_of) rank_of.append(index(r));
  for (auto const& e : s.order.place.edges) edges.append(nb::make_tuple(index(e.from), index(e.to)));
  shape["rank_of"] = rank_of;
  shape["edges"] = edges;
  bool lowered = false, chain = true;
  for (auto const& row : s.order.ranks)
    for (auto const& a : row) lowered |= detail::is_message(a.kind) || a.kind > action_kind::overlap;
  for (std::uint32_t i = 0; i < s.order.place.edges.size(); ++i)
    chain &= index(s.order.place.edges[i].from) == i && index(s.order.place.edges[i].to) == i + 1;
  shape["has_messages"] = lowered;
  shape["is_chain"] = chain && s.order.place.edges.size() + 1 == s.order.place.stages();
  return shape;
}

nb::list verify(named_order const& s, std::uint64_t most_kept) {
  auto const faults = [&] {
    nb::gil_scoped_release const unlocked;
    return schedule_faults(s.order, {.passes = passes_of(s.order), .most_kept = most_kept});
  }();
  nb::list list;
  for (auto const& f : faults)
    list.append(nb::make_tuple(std::string(code_of(f.what)), index(f.rank), f.position, describe(f)));
  return list;
}

nb::dict simulate_order(named_order const& s, std::string const& costs, double hop, double noise,
                        std::uint64_t seed) {
  auto const run = [&] {
    nb::gil_scoped_release const unlocked;
    return run_of(s.order, costs, hop, noise, seed);
  }();
  nb::dict result;
  result["unit"] = run.costs.unit;
  result["makespan"] = run.times.makespan;
  result["bubble"] = bubble_rate(run.times);
  result["busy"] = binding::list_of(run.times.busy);
  result["first"] = binding::list_of(run.times.first);
  result["last"] = binding::list_of(run.times.last);
  nb::list kept, peak, spans;
  for (auto const& k : run.times.most_kept) kept.append(k.passes);
  for (auto const& steps : run.memory) peak.append(most_memory(steps));
  for (std::size_t r = 0; r < run.times.spans.size(); ++r) {
    nb::list row;
    auto const& actions = s.order.ranks[r];
    for (std::size_t i = 0; i < actions.size(); i += std::size_t{1} + actions[i].parts)
      row.append(nb::make_tuple(run.times.spans[r][i].begin, run.times.spans[r][i].end));
    spans.append(row);
  }
  result["kept"] = kept;
  result["peak_bytes"] = run.costs.bytes.stages.empty() ? nb::list() : peak;
  result["spans"] = spans;
  return result;
}

std::string drawn(named_order const& s, std::string const& costs, double hop, std::string const& form) {
  nb::gil_scoped_release const unlocked;
  auto const run = run_of(s.order, costs, hop, 0, 0);
  auto const t = timed(s, run);
  if (form == "text") return schedule_chart(t);
  if (form == "html") return schedule_page(t);
  std::size_t actions = 0;
  for (auto const& row : s.order.ranks) actions += row.size();
  using enum schedule_svg_options::detail;
  return schedule_svg(t, {.bars = actions > 5'000 ? plain : hover});
}

backward_choice choice_of(std::string const& backward) {
  return backward == "whole"   ? backward_choice::whole
         : backward == "split" ? backward_choice::split
                               : backward_choice::either;
}

/// Returns the links of a cost table, for ranks whose stages may be anywhere.
std::vector<rank_link> links_of(cost_table const& table, std::uint32_t ranks) {
  return simulate_options_of(table, stage_placement{ranks, {}, {}}).links;
}

nb::tuple found_tuple(found_schedule&& found) {
  auto const& c = found.certificate;
  nb::dict proof;
  proof["makespan"] = c.makespan;
  proof["bound"] = c.bound;
  proof["gap"] = c.gap();
  proof["reason"] = c.reason;
  proof["peak_bytes"] = binding::list_of(c.peak_bytes);
  proof["began_with"] = c.began_with;
  proof["began_at"] = c.began_at;
  proof["best_family"] = c.best_family;
  proof["best_family_makespan"] = c.best_family_makespan;
  return nb::make_tuple(named_order{"found schedule", std::move(found.order)}, proof);
}

nb::tuple search(std::uint32_t ranks, std::uint32_t microbatches, std::string const& costs,
                 std::vector<std::uint64_t> memory, std::vector<std::uint64_t> resident,
                 std::vector<std::uint32_t> const& rank_of, std::uint32_t stages, std::string const& backward,
                 std::uint64_t effort, std::uint64_t seed, bool two_copies) {
  auto table = read_costs(costs);
  if (table.stages.size() == 1 && stages > 1) table.stages.assign(stages, table.stages.front());
  search_problem problem{.ranks = ranks, .microbatches = microbatches, .costs = table.stages};
  problem.bytes = table.bytes;
  problem.resident = std::move(resident);
  problem.memory_limit = std::move(memory);
  problem.base_latency = table.base_latency;
  problem.copies = two_copies ? model_copies::two : model_copies::one;
  if (!rank_of.empty()) {
    problem.place = stage_placement{ranks, {}, chain_edges(static_cast<std::uint32_t>(rank_of.size()))};
    for (auto const r : rank_of) problem.place->rank_of.push_back(rank_id{r});
  }
  problem.links = links_of(table, ranks);
  search_options options{.seed = seed, .effort = effort};
  options.form = choice_of(backward);
  auto found = [&] {
    nb::gil_scoped_release const unlocked;
    return search_schedule(problem, options);
  }();
  return found_tuple(std::move(found));
}

/// Returns the sums of the costs, bytes and resident bytes before each place of a row with these units.
unit_row row_of(cost_table const& table, std::vector<std::uint64_t> const& resident) {
  unit_row row;
  auto const units = table.stages.size(), places = units + 1;
  row.cost.assign(places, {0, 0, 0, 0});
  for (std::size_t i = 0; i < units; ++i) {
    auto const &before = row.cost[i], &c = table.stages[i];
    row.cost[i + 1] = {before.forward + c.forward, before.backward + c.backward,
                       before.input_gradient + c.input_gradient, before.weight_gradient + c.weight_gradient};
  }
  auto const& bytes = table.bytes.stages;
  if (!bytes.empty()) row.bytes.assign(places, {0, 0, 0});
  for (std::size_t i = 0; i < units && !bytes.empty(); ++i) {
    auto const &before = row.bytes[i], &b = bytes[bytes.size() == 1 ? 0 : i];
    row.bytes[i + 1] = {before.saved + b.saved, before.saved_for_weights + b.saved_for_weights,
                        before.input + b.input};
  }
  if (!resident.empty() && resident.size() != units)
    throw error("resident: " + std::to_string(resident.size()) + " entries for " + std::to_string(units) +
                " units; give one for each");
  if (!resident.empty()) row.resident.push_back(0);
  for (auto const b : resident) row.resident.push_back(row.resident.back() + b);
  auto const& edges = table.bytes.edges;
  if (edges.empty()) return row;
  if (edges.size() != 1 && edges.size() + 1 != units)
    throw error("costs: " + std::to_string(edges.size()) + " edges for " + std::to_string(units) +
                " units; give one for all, or one for each pair of neighbours");
  row.crossing.resize(places);
  for (std::size_t i = 1; i < units; ++i) row.crossing[i] = edges[edges.size() == 1 ? 0 : i - 1];
  return row;
}

nb::tuple cut(std::uint32_t ranks, std::uint32_t microbatches, std::string const& costs,
              std::vector<std::uint32_t> stages_per_rank, std::vector<std::uint64_t> memory,
              std::vector<std::uint64_t> const& resident, std::string const& backward, std::uint64_t effort,
              std::uint64_t seed) {
  auto const table = read_costs(costs);
  auto const row = row_of(table, resident);
  cut_step const step{.ranks = ranks,
                      .microbatches = microbatches,
                      .stages_per_rank = std::move(stages_per_rank),
                      .memory_limit = std::move(memory),
                      .base_latency = table.base_latency,
                      .links = links_of(table, ranks)};
  cut_options const options{.search = {.form = choice_of(backward), .seed = seed, .effort = effort},
                            .seed = seed,
                            .effort = effort};
  auto found = [&] {
    nb::gil_scoped_release const unlocked;
    return cut_for_schedule(row, step, options);
  }();
  nb::object bottleneck = nb::none();
  if (found.bottleneck)
    bottleneck = nb::make_tuple(binding::list_of(found.bottleneck->cut),
                                found_tuple(std::move(found.bottleneck->found)));
  return nb::make_tuple(binding::list_of(found.best.cut), found_tuple(std::move(found.best.found)),
                        bottleneck, found.cuts);
}

}  // namespace

void bind_schedule(nb::module_& m) {
  using namespace nb::literals;
  nb::register_exception_translator(translate);
  nb::class_<named_order>(m, "Order", "The actions of each rank in one step.")
      .def_ro("name", &named_order::name)
      .def("__eq__", [](named_order const& a, named_order const& b) { return a.order == b.order; });
  m.def("schedule_names", [] {
    nb::list names;
    for (auto const name : schedule_names) names.append(std::string(name));
    return names;
  });
  m.def("make_schedule", &make, "name"_a, "ranks"_a, "microbatches"_a, "stages_per_rank"_a.none(),
        "Makes the schedule of a family.");
  m.def("schedule_from_csv", &from_csv, "text"_a, "with_communication"_a, "ranks"_a, "Reads PyTorch's CSV.");
  m.def("schedule_csv", [](named_order const& s) { return schedule_csv(s.order); }, "order"_a);
  m.def(
      "lower_schedule", [](named_order const& s) { return named_order{s.name, lower(s.order)}; }, "order"_a,
      "Adds messages and all else that a run needs.");
  m.def("schedule_rows", &rows_of, "order"_a);
  m.def("schedule_shape", &shape_of, "order"_a);
  m.def("verify_schedule", &verify, "order"_a, "most_kept"_a, "Lists the faults of a schedule.");
  m.def("simulate_schedule", &simulate_order, "order"_a, "costs"_a, "hop"_a, "noise"_a, "seed"_a,
        "Times the actions of a schedule.");
  m.def("draw_schedule", &drawn, "order"_a, "costs"_a, "hop"_a, "form"_a, "Draws a schedule.");
  m.def("search_schedule", &search, "ranks"_a, "microbatches"_a, "costs"_a, "memory"_a, "resident"_a,
        "rank_of"_a, "stages"_a, "backward"_a, "effort"_a, "seed"_a, "two_copies"_a,
        "Searches for a short schedule within memory limits.");
  m.def("cut_for_schedule", &cut, "ranks"_a, "microbatches"_a, "costs"_a, "stages_per_rank"_a, "memory"_a,
        "resident"_a, "backward"_a, "effort"_a, "seed"_a,
        "Cuts a row of units, and finds a schedule for it.");
}
