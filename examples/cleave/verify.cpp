// SPDX-License-Identifier: MIT
// cleave verify FILE.csv: lists every fault that keeps a schedule from running.
//
// --json writes one object:
//   file, ranks, stages, microbatches, actions, transport
//   faults       [{code, rank, line, cell, action, message, fix}]; line and cell from 1, or null
//   transports   {name: "finishes" or the place of the deadlock}; only without faults
//   notes        oddities that are not faults
#include <array>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/json/json_writer.hpp>
#include <cleave/formats/stage_map_json.hpp>
#include <cleave/formats/units.hpp>
#include <cleave/schedule/lower/lower.hpp>
#include <cleave/schedule/verify/deadlock.hpp>
#include <cleave/schedule/verify/fix_deadlock.hpp>
#include <cleave/schedule/verify/verify.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "own_files.hpp"
#include "schedule_file.hpp"
#include "schedule_fixes.hpp"
#include "subcommands.hpp"
#include "terminal.hpp"

namespace tool {

namespace {

using cleave::delivery;
constexpr std::array<std::pair<std::string_view, delivery>, 6> transports = {
    {{"buffered", delivery::buffered},
     {"rendezvous", delivery::rendezvous},
     {"async", delivery::async},
     {"pair-stream", delivery::pair_stream},
     {"one-queue", delivery::one_queue},
     {"two-queues", delivery::two_queues}}};

bool read_transport(std::string_view text, cleave::verify_options& to) {
  to.buffers = cleave::any_number;
  for (auto const& [name, kind] : transports)
    if (text == name) return to.delivery = kind, true;
  to.delivery = delivery::buffered;
  return text.starts_with("buffers=") && read_number(text.substr(8), to.buffers, 0u, cleave::any_number);
}

std::vector<std::string> names_of_transports() {
  std::vector<std::string> names{"buffers"};
  for (auto const& [name, kind] : transports) names.emplace_back(name);
  return names;
}

/// The findings in a file.
struct verdict {
  std::vector<cleave::schedule_fault> faults;
  std::vector<std::pair<std::string, std::string>> transports;  ///< only without faults
  std::vector<std::string> notes;
};

/// Returns a note for each range of ranks without actions.
std::vector<std::string> notes_on_idle_ranks(schedule_file const& file) {
  std::vector<std::string> notes;
  auto const& ranks = file.order.ranks;
  auto const text = [](std::size_t n) { return std::to_string(n); };
  for (std::size_t r = 0, end = 0; r < ranks.size(); r = end + 1) {
    for (end = r; end < ranks.size() && ranks[end].empty();) ++end;
    if (end == r) continue;
    bool const is_one = end == r + 1;
    auto const which =
        is_one ? "rank " + text(r) + " does" : "ranks " + text(r) + " to " + text(end - 1) + " do";
    auto const lines =
        is_one ? ": line " + text(r + 1) + " is" : ": lines " + text(r + 1) + " to " + text(end) + " are";
    notes.push_back(which + " nothing" + (file.is_csv ? lines + " empty" : ""));
  }
  return notes;
}

verdict verdict_on(schedule_file const& file, cleave::verify_options const& options) {
  verdict v;
  v.faults = schedule_faults(file.order, options);
  auto const& ranks = file.order.ranks;
  v.notes = notes_on_idle_ranks(file);
  cleave::action const* largest = nullptr;
  for (auto const& row : ranks)
    each_action(row, [&](cleave::action const& a) {
      if (a.microbatch != cleave::no_microbatch &&
          (!largest || index(largest->microbatch) < index(a.microbatch)))
        largest = &a;
    });
  for (auto const& f : v.faults)
    if (f.what == cleave::schedule_fault::kind::too_few_actions && largest)
      v.notes.push_back("the largest microbatch is that of '" + action_text(*largest) + "'");
  if (v.faults.empty())
    for (auto const& [name, kind] : transports)
      v.transports.emplace_back(name, deadlock_verdict(file.order, kind));
  return v;
}

std::string json_of(schedule_file const& file, verdict const& v, std::string const& transport) {
  cleave::json::writer json(cleave::json::writer::layout::indented);
  json.open_object().member("file", given_name(file.path)).member("ranks", file.order.place.ranks);
  json.member("stages", file.order.place.stages()).member("microbatches", file.order.microbatches);
  json.member("actions", count_actions(file.order)).member("transport", transport).key("faults").open_array();
  auto const number = [&](char const* key, std::size_t n) {
    json.key(key);
    n == 0 ? json.null() : json.value(n);
  };
  for (auto const& f : v.faults) {
    auto const at = place_of(file.order, f);
    json.open_object().member("code", code_of(f.what)).member("rank", index(f.rank));
    number("line", at.line);
    number("cell", at.cell);
    json.member("action", action_text(f.at)).member("message", sentence_of(f));
    json.member("fix", fix_of(code_of(f.what))).close_object();
  }
  json.close_array().key("transports").open_object();
  for (auto const& [name, said] : v.transports) json.member(name, said);
  json.close_object().key("notes").open_array();
  for (auto const& note : v.notes) json.value(note);
  return json.close_array().close_object().text() + "\n";
}

std::string text_of(schedule_file const& file, verdict const& v) {
  auto const& s = file.order;
  std::string text;
  for (auto const& f : v.faults) {
    text += bold(place_text(file, place_of(s, f))) + ": " + std::string(code_of(f.what)) + ": " +
            sentence_of(f) + "\n";
    if (auto const fix = fix_of(code_of(f.what)); !fix.empty()) text += "    " + std::string(fix) + "\n";
  }
  text += input_name(file.path) + ": " + plural(s.place.ranks, "rank") + ", " +
          plural(s.place.stages(), "stage") + ", " + plural(s.microbatches, "microbatch") + ", " +
          plural(count_actions(s), "action") + ": " +
          (v.faults.empty() ? std::string("no fault") : plural(v.faults.size(), "fault")) + "\n";
  for (auto const& [name, said] : v.transports)
    text.append("  ").append(name).append(13 - name.size(), ' ').append(said).append("\n");
  for (auto const& note : v.notes) text += "  note: " + note + "\n";
  return text;
}

/// Reorders a schedule that deadlocks so that it finishes, and describes the moves. \throws
/// cleave::infeasible_error if no order finishes, or if there are other faults
std::string repair(schedule_file const& file, verdict const& v, cleave::verify_options const& options,
                   output_file const& to, bool as_json) {
  for (auto const& f : v.faults)
    if (f.what != cleave::schedule_fault::kind::deadlock &&
        f.what != cleave::schedule_fault::kind::channel_order)
      throw cleave::infeasible_error(place_text(file, place_of(file.order, f)) + ": " +
                                     std::string(code_of(f.what)) + ": " + sentence_of(f) +
                                     "; --repair only reorders messages, so fix this fault first");
  auto const repaired = find_deadlock_fix(file.order, {options.delivery, options.buffers, options.groups});
  if (!repaired) throw cleave::infeasible_error("no order of these actions finishes");
  write_schedule_file(to, repaired->order);
  std::string text;
  cleave::json::writer json(cleave::json::writer::layout::indented);
  json.open_object().member("file", given_name(file.path)).key("moved").open_array();
  for (auto const& moved : repaired->moved) {
    text += "  moved: " + describe(moved) + "\n";
    json.value(describe(moved));
  }
  json.close_array().member("written", to.path).close_object();
  return as_json ? json.text() + "\n" : text + written_line(to);
}

/// \throws cleave::error if a file is not a stage map, cleave::infeasible_error if it places stages on other
/// ranks
void require_same_places(fs::path const& map_file, schedule_file const& file) {
  auto const name = input_name(map_file);
  cleave::stage_map map;
  try {
    map = cleave::read_stage_map_json(read_text(map_file));
  } catch (cleave::json::error const& e) {
    throw cleave::error(name + ": " + e.what());
  } catch (cleave::stage_map_error const& e) {
    throw cleave::error(name + ": " + e.what());
  }
  if (auto const other = find_other_placement(map, file.order.place))
    throw cleave::infeasible_error(name + " and " + input_name(file.path) + ": " + *other);
}

}  // namespace

int verify(std::span<std::string const> words) {
  cleave::row_counts counts;
  cleave::verify_options options;
  std::string transport = "buffered", map;
  output_file repaired;
  bool as_json = false;
  command c{"verify",
            "FILE.csv | FILE.json",
            "Lists every fault of a schedule with its code, its place and a remedy. FILE is PyTorch's CSV, "
            "compute only\n"
            "or with communication, or the output of cleave schedule --json. FILE - is standard input.",
            {}};
  c.options.push_back(
      {"",
       "--transport",
       "HOW",
       "buffered, buffers=K (K from 0 to 4294967295), rendezvous, async, pair-stream, one-queue or "
       "two-queues",
       "message transport: buffered, buffers=2, rendezvous, async, pair-stream, one-queue, two-queues",
       [&](auto text) {
         transport = text;
         return read_transport(text, options);
       },
       {},
       names_of_transports()});
  c.options.push_back(choice_option("--match", "HOW", std::array<std::string_view, 2>{"in-order", "by-name"},
                                    "matching of sends and receives (in-order)", [&](std::size_t at) {
                                      using enum cleave::message_matching;
                                      options.matching = std::array{in_order, by_name}[at];
                                    }));
  c.options.push_back(number_option("", "--most-kept", "N",
                                    "limit on the forward passes that a rank keeps at once (none)",
                                    options.most_kept, 1, ~std::uint64_t{0}));
  add_count_options(c, counts);
  c.options.push_back(file_to_read(
      "--map", "FILE", "check that this stage map, from cleave split, has the same stages on the same ranks",
      map));
  c.options.push_back(file_to_write(
      "", "--repair", "if the schedule deadlocks, write a reordered one that finishes to this file", repaired,
      nullptr, schedule_form));
  c.options.push_back(json_flag(as_json));
  auto const file = read_schedule(only_schedule(read_options(c, words).operands), counts);

  if (!map.empty()) require_same_places(map, file);
  options.passes = cleave::passes_of(file.order);
  auto const v = verdict_on(file, options);
  if (!repaired.empty()) return print(repair(file, v, options, repaired, as_json)), 0;
  print(as_json ? json_of(file, v, transport) : text_of(file, v));
  return v.faults.empty() ? 0 : 1;
}

}  // namespace tool
