// SPDX-License-Identifier: MIT
// Measured costs of nodes in files, for `cleave split --costs`.
#include "cost_file.hpp"

#include <algorithm>
#include <charconv>
#include <cleave/core/bytes.hpp>
#include <cleave/core/real.hpp>
#include <cleave/formats/json/json_reader.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tool {

namespace {

/// Returns the middle one of the times, or the mean of the two in the middle.
double median(std::vector<double> times) {
  auto const middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  auto const upper = *middle;
  return times.size() % 2 == 1 ? upper : *std::max_element(times.begin(), middle) / 2 + upper / 2;
}

/// Collects the runs of each node, in the order in which the nodes first appear.
class run_collector {
 public:
  cost_entry& add(std::string const& name, double seconds) {
    auto const [at, is_new] = number_.emplace(name, entries_.size());
    if (is_new) {
      entries_.push_back({name});
      times_.emplace_back();
    }
    times_[at->second].push_back(seconds);
    return entries_[at->second];
  }
  bool empty() const { return entries_.empty(); }

  void give_to(cost_file& file) {
    file.runs = 0;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      file.runs = std::max(file.runs, times_[i].size());
      entries_[i].seconds = median(std::move(times_[i]));
    }
    file.entries = std::move(entries_);
  }

 private:
  std::map<std::string, std::size_t> number_;
  std::vector<cost_entry> entries_;
  std::vector<std::vector<double>> times_;
};

/// Returns the bytes of an element of a type as a profile names it, or 0.
std::size_t element_bytes(std::string_view type) {
  for (auto const& [name, bytes] : {std::pair("float", 4),
                                    {"double", 8},
                                    {"float16", 2},
                                    {"bfloat16", 2},
                                    {"int64", 8},
                                    {"uint64", 8},
                                    {"int32", 4},
                                    {"uint32", 4},
                                    {"int16", 2},
                                    {"uint16", 2},
                                    {"int8", 1},
                                    {"uint8", 1},
                                    {"bool", 1}})
    if (type == name) return static_cast<std::size_t>(bytes);
  return 0;
}

/// Returns the bytes of each result of an event: `[{"float": [1, 64]}]`; 0 if unknown.
std::vector<std::size_t> result_bytes_of(cleave::detail::json_value const& shapes) {
  std::vector<std::size_t> all;
  shapes.each_element([&](auto const& shape) {
    shape.each_member([&](std::string const& type, auto const& dims) {
      double bytes = static_cast<double>(element_bytes(type));
      dims.each_element([&](auto const& d) { bytes *= std::max(0.0, d.real()); });
      all.push_back(bytes < 0x1p60 ? static_cast<std::size_t>(bytes) : 0);
    });
  });
  return all;
}

/// An execution of a node.
struct kernel_event {
  std::string name;
  double begin = 0, duration = 0;  // microseconds
  std::string thread;
  std::vector<std::size_t> result_bytes;
  bool has_time = true;
};

constexpr std::string_view kernel_ending = "_kernel_time";
constexpr char profile_hint[] =
    "expected a profile of onnxruntime, which ./dev profile-onnx or SessionOptions.enable_profiling writes";

/// Returns the event if it is the execution of a node.
std::optional<kernel_event> read_event(cleave::detail::json_value const& e) {
  if (e.what() != cleave::detail::json_kind::object) e.fail("is not an event; " + std::string(profile_hint));
  auto const category = e.find("cat");
  if (!category || (category->text() != "Node" && category->text() != "Shape")) return std::nullopt;
  auto name = e["name"].text();
  if (!name.ends_with(kernel_ending)) return std::nullopt;
  name.resize(name.size() - kernel_ending.size());
  kernel_event event{std::move(name), 0, 0, "", {}, category->text() == "Node"};
  if (event.has_time) {
    auto const time = e["dur"];
    event.duration = time.real();
    if (event.duration < 0)
      time.fail("the time of " + cleave::quoted(event.name) + " is negative; profile again");
  }
  if (auto const begin = e.find("ts")) event.begin = begin->real();
  if (auto const thread = e.find("tid"); thread && thread->is_integer())
    event.thread = std::to_string(thread->integer());
  if (auto const args = e.find("args"))
    if (auto const shapes = args->find("output_type_shape"))
      if (shapes->what() == cleave::detail::json_kind::array) event.result_bytes = result_bytes_of(*shapes);
  return event;
}

/// Removes the events that lie within the time of another one on the same thread.
void remove_inner(std::vector<kernel_event>& events) {
  std::ranges::sort(events, [](auto const& a, auto const& b) {
    if (a.thread != b.thread) return a.thread < b.thread;
    if (a.begin != b.begin) return a.begin < b.begin;
    return a.duration != b.duration ? a.duration > b.duration : a.name < b.name;
  });
  std::string thread;
  double outer_begin = 0, outer_end = -1;
  std::erase_if(events, [&](auto const& e) {
    bool const inside = e.thread == thread && e.begin > outer_begin && e.begin + e.duration < outer_end;
    if (inside) return true;
    thread = e.thread, outer_begin = e.begin, outer_end = e.begin + e.duration;
    return false;
  });
}

void read_profile(std::string text, cost_file& file) {
  cleave::detail::json_document const document(std::move(text));
  cleave::detail::json_value const root(document);
  bool const wrapped = root.what() == cleave::detail::json_kind::object;
  auto const list = wrapped ? root.find("traceEvents") : std::optional(root);
  if (!list || list->what() != cleave::detail::json_kind::array)
    root.fail("is not a list of events; " + std::string(profile_hint));
  std::vector<kernel_event> events;
  list->each_element([&](auto const& e) {
    auto event = read_event(e);
    if (!event) return;
    if (!event->result_bytes.empty()) file.result_bytes.emplace(event->name, std::move(event->result_bytes));
    if (event->has_time) events.push_back(std::move(*event));
  });
  remove_inner(events);
  run_collector runs;
  for (auto const& e : events) runs.add(e.name, e.duration / 1e6);
  if (runs.empty()) root.fail("has no event of a node that ran; " + std::string(profile_hint));
  runs.give_to(file);
}

/// Splits a line of CSV; a field in quotes may have commas, and `""` for a quote.
std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields{""};
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    char const c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      fields.back() += line[++i];
    else if (c == '"' && (quoted || fields.back().empty()))
      quoted = !quoted;
    else if (c == ',' && !quoted)
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

std::string_view trimmed(std::string_view text) {
  auto const from = text.find_first_not_of(" \t\r");
  return from == text.npos ? std::string_view()
                           : text.substr(from, text.find_last_not_of(" \t\r") - from + 1);
}

/// Reads `12.5`, in seconds, or `12.5ms`; returns nothing if this is no time.
std::optional<double> parse_seconds(std::string_view text) {
  double x = 0;
  auto const [end, fault] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (fault != std::errc()) return std::nullopt;
  auto const suffix = trimmed(text.substr(static_cast<std::size_t>(end - text.data())));
  for (auto const& [name, scale] : {std::pair<std::string_view, double>("", 1),
                                    {"s", 1},
                                    {"ms", 1e-3},
                                    {"us", 1e-6},
                                    {"µs", 1e-6},
                                    {"ns", 1e-9}})
    if (suffix == name) return x * scale;
  return std::nullopt;
}

void read_csv(std::string const& text, cost_file& file) {
  run_collector runs;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    auto const end = std::min(text.find('\n', at), text.size());
    auto const line = trimmed(std::string_view(text).substr(at, end - at));
    at = end + 1;
    ++number;
    auto const refuse = [&](std::string const& what) {
      throw cleave::error("line " + std::to_string(number) + ": " + what);
    };
    if (line.empty()) continue;
    auto const fields = fields_of(line);
    if (runs.empty() && trimmed(fields[0]) == "name") continue;
    if (fields.size() == 1)
      refuse("expected name,time or name,time,bytes, found " + cleave::quoted(line) + " without a comma");
    if (fields.size() > 3)
      refuse("expected name,time or name,time,bytes, found " + std::to_string(fields.size()) +
             " fields; put a name with commas in quotes");
    auto const name = std::string(trimmed(fields[0]));
    if (name.empty()) refuse("the name is empty; name the node, or write # and its position");
    auto const time = trimmed(fields[1]);
    auto const seconds = parse_seconds(time);
    if (!seconds || !cleave::is_finite(*seconds))
      refuse(cleave::quoted(time) + " is not a time; write seconds, or a unit as in 1.5ms (s, ms, us, ns)" +
             (runs.empty() ? "; a header begins with name," : ""));
    if (*seconds < 0)
      refuse("the time of " + cleave::quoted(name) + " is negative: " + cleave::printable(time));
    auto& entry = runs.add(name, *seconds);
    if (entry.line == 0) entry.line = number;
    if (fields.size() < 3 || trimmed(fields[2]).empty()) continue;
    auto const bytes = cleave::parse_bytes(trimmed(fields[2]));
    if (!bytes)
      refuse(cleave::quoted(trimmed(fields[2])) + " is not a size; write bytes, or a unit as in 2MiB");
    entry.bytes = static_cast<std::size_t>(*bytes);
  }
  if (runs.empty())
    throw cleave::error(
        "has no costs; expected lines of name,time or name,time,bytes, or a profile of onnxruntime");
  runs.give_to(file);
}

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";  // spreadsheets put it before CSV

}  // namespace

cost_file read_cost_file(fs::path const& path) { return read_cost_text(read_text(path), path); }

cost_file read_cost_text(std::string text, fs::path const& path) {
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  auto const first = text.find_first_not_of(" \t\r\n");
  cost_file file{path, first != text.npos && (text[first] == '[' || text[first] == '{'), 1, {}};
  try {
    file.is_profile ? read_profile(std::move(text), file) : read_csv(text, file);
  } catch (cleave::error const& e) {
    throw cleave::error(input_name(path) + ": " + e.what());
  }
  return file;
}

}  // namespace tool
