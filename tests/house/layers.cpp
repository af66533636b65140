// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "support/project_files.hpp"

namespace {

using names = std::set<std::string>;

names const host_layers{"core", "graph", "partition", "split", "analysis", "schedule", "run"};

/// Folder: the folders of the library that its headers may include, beside their own.
std::map<std::string, names> const may_include{
    {"core", {}},
    {"graph", {"core"}},
    {"partition", {"core", "graph"}},
    {"split", {"core", "graph", "partition"}},
    {"analysis", {"core", "graph", "split"}},
    {"schedule", {"core"}},
    {"run", {"core", "schedule"}},
    {"mpi", {"core", "schedule", "run"}},
    {"cuda", {"core", "schedule", "run"}},
    {"adapt", {"core", "graph", "partition", "split", "io"}},
    {"io", host_layers},
};

names const threads{"atomic", "barrier",   "condition_variable", "future",     "latch",
                    "mutex",  "semaphore", "shared_mutex",       "stop_token", "thread"};
names const may_use_threads{"run", "mpi", "cuda"};
names const thread_files{"include/cleave/partition/kway/team.hpp"};  // where the folder otherwise may not
names const banned{"functional", "iostream", "random", "regex"};

/// The library outside std that an angled include belongs to, or nothing.
std::string outside_library(std::string const& header) {
  static std::vector<std::pair<std::regex, std::string>> const known{
      {std::regex("boost/.*"), "Boost"},
      {std::regex("range/v3/.*"), "range-v3"},
      {std::regex("onnx/.*|google/protobuf/.*"), "ONNX"},
      {std::regex("torch/.*|ATen/.*|c10/.*"), "Torch"},
      {std::regex("mpi\\.h"), "MPI"},
      {std::regex("cuda.*|nccl\\.h|cub/.*"), "CUDA"},
      {std::regex("(fcntl|netdb|poll|signal|unistd)\\.h|(arpa|netinet|sys)/.*"), "POSIX"},
      {std::regex("[a-z_0-9]+"), ""},
  };
  for (auto const& [pattern, library] : known)
    if (std::regex_match(header, pattern)) return library;
  return header;
}

names const allowed_outside(std::string const& folder) {
  if (folder == "run") return {"POSIX"};  // ranks that are processes find each other over sockets
  if (folder == "mpi") return {"MPI"};
  if (folder == "cuda") return {"CUDA", "dlfcn.h"};
  return {};
}

/// What is wrong with the includes of one header, as sentences.
std::vector<std::string> faults(std::string const& file, std::string const& text) {
  std::vector<std::string> found;
  auto const say = [&](std::string const& what) { found.push_back(file + " " + what); };
  static std::regex const path("include/cleave/(\\w+)/.*");
  std::smatch m;
  if (!std::regex_match(file, m, path)) return {file + " is in no layer"};
  std::string const folder = m[1];
  if (!may_include.contains(folder)) return {file + " is in a folder that the table of layers does not have"};

  names libraries;
  static std::regex const include("#\\s*include\\s*([<\"])([^>\"]+)[>\"].*");
  for (auto const& line : project::lines_of(text)) {
    if (!std::regex_match(line, m, include)) continue;
    std::string const target = m[2];
    if (target.starts_with("cleave needs ")) continue;  // a message to who compiles, in core/language.hpp
    if (m[1] == "\"" || target.starts_with("cleave/")) {
      static std::regex const own("cleave/(\\w+)/.*");
      std::smatch t;
      if (m[1] != "\"" || !std::regex_match(target, t, own))
        say("includes " + target + ": own headers are written \"cleave/FOLDER/NAME\"");
      else if (t[1] != folder && !may_include.at(folder).contains(t[1]))
        say("includes " + target + ": " + folder + " may not know " + t[1].str());
    } else if (banned.contains(target)) {
      say("includes <" + target + ">, which no public header may");
    } else if (threads.contains(target) && !may_use_threads.contains(folder) &&
               !thread_files.contains(file)) {
      say("includes <" + target + ">, which " + folder + " may not");
    } else if (auto const library = outside_library(target); !library.empty()) {
      libraries.insert(library);
    }
  }
  if (folder == "adapt" || folder == "io") {
    if (libraries.size() > 1)
      say("includes two libraries: " + *libraries.begin() + " and " + *libraries.rbegin());
  } else {
    for (auto const& library : libraries)
      if (!allowed_outside(folder).contains(library))
        say("includes " + library + ", which " + folder + " may not");
  }
  return found;
}

/// What of `run` streams values through stages, forward only. The rest, which carries schedules out, is
/// opt-in.
std::set<std::string> const streaming = {
    "run/forward/forward.hpp", "run/model/concepts.hpp",    "run/model/failure.hpp",
    "run/forward/forward.hpp", "run/forward/forward.hpp",   "run/forward/forward.hpp",
    "run/forward/forward.hpp", "run/forward/forward.hpp",   "run/forward/forward.hpp",
    "run/model/ports.hpp",     "run/model/tensor_view.hpp", "run/forward/forward.hpp",
    "run/forward/forward.hpp"};

/// Readers of files, which not everybody has, and cuts of module trees with what runs them: headers of their
/// own, for the budget's sake. So are all schedules.
std::set<std::string> const opt_in = {"formats/graph_json.hpp",
                                      "formats/bytes/content.hpp",
                                      "checkpoint/checkpoint_writer.hpp",
                                      "checkpoint/generated/checkpoint_format.hpp",
                                      "checkpoint/checkpoint_writer.hpp",
                                      "checkpoint/checkpoint.hpp",
                                      "checkpoint/checkpoint_data.hpp",
                                      "checkpoint/checkpoint_data.hpp",
                                      "checkpoint/checkpoint_writer.hpp",
                                      "checkpoint/checkpoint_data.hpp",
                                      "checkpoint/checkpoint_writer.hpp",
                                      "checkpoint/checkpoint_ranks.hpp",
                                      "checkpoint/checkpoint_writer.hpp",
                                      "checkpoint/durable_file.hpp",
                                      "formats/bytes/content.hpp",
                                      "formats/bytes/fault.hpp",
                                      "formats/generated/format.hpp",
                                      "formats/bytes/content.hpp",
                                      "formats/bytes/place.hpp",
                                      "formats/bytes/reader.hpp",
                                      "formats/bytes/writer.hpp",
                                      "formats/bytes/envelope.hpp",
                                      "formats/pipe_buffer.hpp",
                                      "formats/stage_buffer.hpp",
                                      "core/name_digest.hpp",
                                      "core/utf8.hpp",
                                      "graph/module_graph.hpp",
                                      "formats/graph_json.hpp",
                                      "formats/graph_json.hpp",
                                      "formats/json/json_reader.hpp",
                                      "formats/json/json_reader.hpp",
                                      "formats/json/json_reader.hpp",
                                      "formats/nested_argument.hpp",
                                      "formats/plan_json.hpp",
                                      "formats/cost_table.hpp",
                                      "formats/cost_table.hpp",
                                      "formats/cost_table.hpp",
                                      "draw/schedule_chart.hpp",
                                      "draw/schedule_svg.hpp",
                                      "formats/schedule_json.hpp",
                                      "draw/schedule_page.hpp",
                                      "draw/schedule_svg.hpp",
                                      "draw/schedule_svg.hpp",
                                      "draw/schedule_trace.hpp",
                                      "formats/stage_map_json.hpp",
                                      "formats/timed_schedule.hpp",
                                      "partition/groups/alternation.hpp",
                                      "partition/groups/alternation.hpp",
                                      "partition/groups/capability.hpp",
                                      "partition/groups/capability_options.hpp",
                                      "partition/groups/detail/capability_units.hpp",
                                      "partition/groups/capability.hpp",
                                      "partition/groups/capability.hpp",
                                      "partition/groups/fusion_group.hpp",
                                      "partition/groups/merge_walk.hpp",
                                      "partition/units/part_needs.hpp",
                                      "graph/result_structure.hpp",
                                      "partition/named/cut_points.hpp",
                                      "partition/named/cut_points.hpp",
                                      "partition/named/cut_points.hpp",
                                      "pipe/module_pipe.hpp",
                                      "pipe/module_program.hpp",
                                      "pipe/pipe_plan.hpp",
                                      "pipe/relay.hpp",
                                      "graph/gradient_need.hpp",
                                      "partition/named/sink.hpp",
                                      "pipe/module_gradients.hpp",
                                      "pipe/stage_calls.hpp",
                                      "graph/bind_arguments.hpp",
                                      "formats/pipe_info.hpp",
                                      "pipe/pipe_transport.hpp",
                                      "split/movable_plan.hpp",
                                      "core/tie.hpp",
                                      "split/state/state_placement.hpp",
                                      "split/state/detail/tensor_classes.hpp",
                                      "split/state/place_state.hpp",
                                      "split/state/place_state.hpp",
                                      "split/state/send_state.hpp",
                                      "split/state/check_state.hpp",
                                      "pipe/module_state.hpp",
                                      "split/modules/outline.hpp",
                                      "split/placement_log.hpp",
                                      "partition/groups/capability.hpp",
                                      "pipe/device_placement.hpp",
                                      "split/modules/fuse_groups.hpp",
                                      "split/modules/fuse_groups.hpp",
                                      "split/modules/compile_pieces.hpp",
                                      "split/modules/fuse_groups.hpp",
                                      "core/rank_grid.hpp",
                                      "formats/bytes/registry.hpp",
                                      "partition/named/hierarchical_cut.hpp",
                                      "partition/named/hierarchical_cut.hpp",
                                      "partition/named/hierarchical_cut.hpp",
                                      "graph/argument_text.hpp",
                                      "graph/find_element.hpp",
                                      "split/modules/split_hierarchy.hpp",
                                      "split/modules/split_hierarchy.hpp",
                                      "split/modules/split_hierarchy.hpp",
                                      "split/modules/split_hierarchy.hpp",
                                      "backward/autograd.hpp",
                                      "backward/backward_plan.hpp",
                                      "backward/check_backward.hpp",
                                      "backward/loss.hpp",
                                      "backward/loss.hpp",
                                      "backward/make_backward_plan.hpp",
                                      "backward/stage_root.hpp",
                                      "backward/stage_root.hpp",
                                      "backward/stage_root.hpp",
                                      "backward/stage_backward.hpp",
                                      "backward/stage_root.hpp",
                                      "backward/with_backward.hpp",
                                      "backward/with_loss.hpp",
                                      "split/modules/liveness.hpp",
                                      "split/stage_contract.hpp",
                                      "backward/ties.hpp",
                                      "backward/ties.hpp",
                                      "pipe/pytree.hpp",
                                      "pipe/pytree.hpp",
                                      "backward/backward_graph.hpp",
                                      "backward/backward_graph.hpp",
                                      "backward/backward_phases.hpp",
                                      "backward/backward_graph.hpp",
                                      "backward/backward_phases.hpp",
                                      "pipe/pipe_check.hpp",
                                      "backward/recompute_hints.hpp",
                                      "backward/smallest_stash.hpp",
                                      "backward/weight_cut.hpp",
                                      "split/modules/wrapped_stage.hpp"};

/// Undirected graphs and the partitioners beside `balance`, each an include of its own.
std::regex const partitioners(
    "graph/(adjacency|neighbour).*|partition/"
    "(kway|acyclic|device_order|exact|classic|part_members|repartition|verify_partition).*|"
    "io/graph_files/.*");

bool is_opt_in(std::string const& header) {
  return opt_in.contains(header) || std::regex_match(header, partitioners);
}

}  // namespace

TEST_CASE("layers: every include points down the table") {
  for (auto const& file : project::headers()) {
    if (file == "include/cleave/cleave.hpp") continue;
    for (auto const& fault : faults(file, project::text_of(project::root / file))) FAIL_CHECK(fault);
  }
}

TEST_CASE("layers: an include that points up, an outside library and a banned header are found") {
  auto const count = [](std::string const& file, std::string const& text) {
    return faults(file, text).size();
  };
  CHECK(count("include/cleave/graph/a.hpp", "#include \"cleave/core/ids.hpp\"\n#include <vector>\n") == 0);
  CHECK(count("include/cleave/graph/a.hpp", "#include \"cleave/split/plan.hpp\"\n") == 1);
  CHECK(count("include/cleave/graph/a.hpp", "#include <cleave/core/ids.hpp>\n") == 1);
  CHECK(count("include/cleave/graph/a.hpp", "#include \"csr.hpp\"\n") == 1);
  CHECK(count("include/cleave/graph/a.hpp", "#include <boost/graph/graph_traits.hpp>\n") == 1);
  CHECK(count("include/cleave/graph/a.hpp", "#include <functional>\n") == 1);
  CHECK(count("include/cleave/graph/a.hpp", "#include <thread>\n") == 1);
  CHECK(count("include/cleave/run/a.hpp", "#include <thread>\n") == 0);
  CHECK(count("include/cleave/io/a.hpp", "#include <thread>\n") == 1);
  CHECK(count("include/cleave/run/a.hpp", "#include <arpa/inet.h>\n#include <sys/socket.h>\n") == 0);
  CHECK(count("include/cleave/schedule/a.hpp", "#include <netinet/tcp.h>\n#include <poll.h>\n") == 1);
  CHECK(count("include/cleave/run/a.hpp", "#include \"cleave/graph/csr.hpp\"\n") == 1);
  CHECK(count("include/cleave/adapt/a.hpp",
              "#include <onnx/onnx_pb.h>\n#include <google/protobuf/message.h>\n") == 0);
  CHECK(count("include/cleave/adapt/a.hpp", "#include <onnx/onnx_pb.h>\n#include <boost/config.hpp>\n") == 1);
  CHECK(count("include/cleave/util/a.hpp", "") == 1);
}

namespace {

/// A header that is there to include others lacks none of `expected` and has no more.
void check_includes(std::string const& file, std::vector<std::string> expected) {
  std::vector<std::string> found;
  for (auto const& line : project::lines_of(project::text_of(project::root / file)))
    if (line.starts_with("#include")) found.push_back(line);
  std::ranges::sort(expected);
  std::ranges::sort(found);
  for (auto const& line : expected)
    CHECK_MESSAGE(std::ranges::count(found, line) == 1, file, " lacks ", line);
  for (auto const& line : found)
    CHECK_MESSAGE(std::ranges::count(expected, line) == 1, file, " should not have ", line);
}

}  // namespace

TEST_CASE("layers: cleave.hpp includes every header of the host library, and only those") {
  std::vector<std::string> expected;
  for (auto const& file : project::headers())
    if ((host_layers.contains(file.substr(15, file.find('/', 15) - 15)) ||
         file.starts_with("include/cleave/io/")) &&
        !file.starts_with("include/cleave/schedule/") && !is_opt_in(file.substr(15)) &&
        (!file.starts_with("include/cleave/run/") || streaming.contains(file.substr(15))))
      expected.push_back("#include \"" + file.substr(8) + "\"");
  check_includes("include/cleave/cleave.hpp", expected);
}

TEST_CASE("layers: adapt/onnx.hpp includes every header of its folder, and only those") {
  std::vector<std::string> expected;
  for (auto const& file : project::headers())
    if (file.starts_with("include/cleave/adapt/onnx/"))
      expected.push_back("#include \"" + file.substr(8) + "\"");
  check_includes("include/cleave/onnx.hpp", expected);
}
