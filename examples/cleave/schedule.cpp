// SPDX-License-Identifier: MIT
// cleave schedule NAME -p 4 -v 2 -m 16: the order in which ranks run stages, drawn or written.
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

#include "schedule_run.hpp"
#include "schedule_table.hpp"
#include "subcommands.hpp"
#include "terminal.hpp"

namespace tool {

namespace {

/// What else some are called.
constexpr std::array<std::pair<std::string_view, cleave::schedule_family>, 4> other_names = {
    {{"ZBV", cleave::schedule_family::zbv},
     {"ZB1P", cleave::schedule_family::interleaved_zero_bubble},
     {"BFS", cleave::schedule_family::looped_bfs},
     {"VPP", cleave::schedule_family::megatron_interleaved}}};

/// `ZBH1` for `zb-h1`, `GPipe` for PyTorch's `ScheduleGPipe`. \throws usage_error with the nearest names
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
    throw usage_error(std::string(e.what()) + "; all of them: cleave schedule --list");
  }
}

/// \throws usage_error where the counts are refused, before anything is made for them
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
  return {letter, name, "N", "a whole number from 1 to 1048576", help, [&to](std::string_view text) {
            return read_number(text, to.emplace(), std::uint32_t{1}, std::uint32_t{1} << 20);
          }};
}

}  // namespace

int schedule(std::span<std::string const> words) {
  std::optional<std::uint32_t> ranks, stages, microbatches;
  bool lowered = false, list = false, markdown = false;
  time_options timing;
  schedule_output output;
  command c{
      "schedule",
      "NAME | all",
      "Draws the order in which ranks run stages, for the terminal or as a page, or writes it; of all of\n"
      "them a table.",
      {},
      {}};
  c.options.push_back(count("-p", "--ranks", "ranks (4)", ranks));
  c.options.push_back(count("-v", "--stages", "stages a rank (as the schedule needs, or 2)", stages));
  c.options.push_back(count("-m", "--microbatches", "microbatches (twice the ranks)", microbatches));
  c.options.push_back(flag("--list", "the names, with what they are and which counts they take", list));
  c.options.push_back(flag("--lower", "with the messages and all else that a run needs", lowered));
  add_time_options(c, timing);
  add_output_options(c, output);
  c.options.push_back(flag("--markdown", "with all: in Markdown, with pictures", markdown));
  auto const operands = read_options(c, words).operands;
  if (list) return print(schedule_names_text()), 0;
  if (operands.empty())
    throw usage_error("the name of a schedule is missing; cleave schedule --list has them");
  if (operands.size() > 1)
    throw usage_error("one schedule at a time; what is '" + cleave::printable(operands[1]) + "'");

  auto const p = ranks.value_or(4);
  auto const m = microbatches.value_or(2 * p);
  if (operands[0] == "all") {
    if (output.asked || !output.file.empty() || !timing.costs.empty() || lowered)
      throw usage_error(
          "all schedules are a table on stdout; -o, forms, costs and --lower are for one of them");
    cleave::require_counts(p, stages.value_or(2), m);
    require_memory(std::uint64_t{3} * p * stages.value_or(2) * m);
    table_counts const counts{p, stages, m};
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
