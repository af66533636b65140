// SPDX-License-Identifier: MIT
// cleave schedule NAME -p 4 -v 2 -m 16: makes a pipeline schedule and draws or writes it.
#include <array>
#include <cleave/core/printable.hpp>
#include <cleave/schedule/families/generate.hpp>
#include <cleave/schedule/lower/lower.hpp>
#include <cleave/schedule/model/schedule_names.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "schedule_file.hpp"
#include "schedule_run.hpp"
#include "schedule_table.hpp"
#include "subcommands.hpp"
#include "terminal.hpp"

namespace tool {

namespace {

/// Other names of some families.
constexpr std::array<std::pair<std::string_view, cleave::schedule_family>, 4> other_names = {
    {{"ZBV", cleave::schedule_family::zbv},
     {"ZB1P", cleave::schedule_family::interleaved_zero_bubble},
     {"BFS", cleave::schedule_family::looped_bfs},
     {"VPP", cleave::schedule_family::megatron_interleaved}}};

/// Finds a family by name; also accepts `ZBH1` for `zb-h1` and PyTorch's `ScheduleGPipe`. \throws usage_error
/// with similar names
cleave::schedule_family family_called(std::string const& typed) {
  std::string name;
  for (char const c : typed)
    if (c != '-' && c != '_') name += c;
  for (auto const& known : cleave::pytorch_schedules)
    if (known.family && cleave::same_letters(known.class_name, name)) return *known.family;
  for (auto const& [known, family] : other_names)
    if (cleave::same_letters(known, name)) return family;
  try {
    return cleave::schedule_family_of(name);
  } catch (cleave::schedule_name_error const& e) {
    throw usage_error(std::string(e.what()) + "; cleave schedule --list shows all names");
  }
}

/// Checks the counts before allocating anything. \throws usage_error if the family does not take them
cleave::schedule schedule_of(cleave::schedule_family family, cleave::schedule_shape const& shape,
                             bool lowered) {
  try {
    cleave::require_counts(shape.ranks, shape.stages_per_rank, shape.microbatches);
    require_memory(std::uint64_t{lowered ? 8u : 3u} * shape.ranks * shape.stages_per_rank *
                   shape.microbatches);
    auto s = cleave::make_schedule(family, shape);
    return lowered ? cleave::lower(s) : s;
  } catch (cleave::shape_error const& e) {
    throw usage_error(e.what());
  } catch (cleave::schedule_count_error const& e) {
    throw usage_error(e.what());
  }
}

option count(std::string const& letter, std::string const& name, std::string const& help,
             std::optional<std::uint32_t>& to) {
  return number_option(letter, name, "N", help, to, 1, most_count);
}

}  // namespace

int schedule(std::span<std::string const> words) {
  std::optional<std::uint32_t> ranks, stages, microbatches;
  bool lowered = false, list = false, markdown = false;
  time_options timing;
  schedule_output output;
  command c{"schedule",
            "NAME | all",
            "Makes a pipeline schedule and simulates it. The result is text for the terminal, a picture, a "
            "page or\n"
            "data. For `all`, a table compares all families.",
            {},
            {}};
  c.options.push_back(count("-p", "--ranks", "number of ranks (4)", ranks));
  c.options.push_back(count("-v", "--stages", "stages per rank (as the schedule needs, or 2)", stages));
  c.options.push_back(
      count("-m", "--microbatches", "number of microbatches (twice the ranks)", microbatches));
  c.options.push_back(flag("--list", "list the schedules with their descriptions and valid counts", list));
  c.options.push_back(flag("--lower", "add the messages and all other actions that a run needs", lowered));
  add_time_options(c, timing);
  add_output_options(c, output);
  c.options.push_back(flag("--markdown", "for `all`: print Markdown with pictures", markdown));
  auto const operands = read_options(c, words).operands;
  bool const as_json = output.asked == schedule_output::form::json;
  if (list) return print(as_json ? schedule_names_json() : schedule_names_text()), 0;
  if (operands.empty())
    throw usage_error("the name of a schedule is missing; cleave schedule --list shows all names");
  if (operands.size() > 1)
    throw usage_error("one schedule at a time; found a second operand: '" + cleave::printable(operands[1]) +
                      "'");

  auto const p = ranks.value_or(4);
  auto const m = microbatches.value_or(2 * p);
  if (cleave::same_letters(operands[0], "all")) {
    if ((output.asked && !as_json) || !output.file.empty() || !timing.costs.empty() || lowered)
      throw usage_error(
          "`all` prints a table to stdout, with --markdown or --json in these forms; -o, --costs, --lower "
          "and "
          "other output forms need a single schedule");
    if (as_json && markdown) throw usage_error("--json and --markdown exclude each other; leave out one");
    cleave::require_counts(p, stages.value_or(2), m);
    require_memory(std::uint64_t{3} * p * stages.value_or(2) * m);
    table_counts const counts{p, stages, m};
    if (as_json) return print(schedule_table_json(counts)), 0;
    return print(markdown ? schedule_table_markdown(counts, "pictures") : schedule_table_text(counts)), 0;
  }
  auto const family = family_called(operands[0]);
  auto const v = stages.value_or(cleave::stages_per_rank_of(family).value_or(2));
  auto order = schedule_of(family, {p, v, m}, lowered);
  require_drawable(order, output);
  write_run(run_in_time(std::string(name_of(family)), std::move(order), timing), output);
  return 0;
}

}  // namespace tool
