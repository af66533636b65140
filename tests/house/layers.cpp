// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/project_files.hpp"

namespace {

using names = std::set<std::string>;
using table = std::map<std::string, names>;  // by folder: the folders that it may include

/// Returns the rows of the table of folders in docs/architecture.md.
table folders_of(std::string const& page) {
  table rows;
  std::regex const row("\\| ([a-z_0-9/]+) \\|[^|]*\\| ([^|]*) \\|[^|]*\\|");
  for (auto const& line : project::lines_of(page)) {
    std::smatch m;
    if (!std::regex_match(line, m, row) || m[1] == "folder") continue;
    auto& may = rows[m[1]];
    std::istringstream list(m[2]);
    for (std::string name; list >> name;) {
      if (name.ends_with(",")) name.pop_back();
      if (name != "–") may.insert(name);
    }
  }
  return rows;
}

table const& rooms() {
  static table const rows = folders_of(project::text_of(project::root / "docs/architecture.md"));
  return rows;
}

/// The folder of `file`, a path below include/cleave, and a flag for files in its `detail` folder.
struct place {
  std::string room;
  bool is_detail = false;
};
place place_of(std::string const& file) {
  auto const end = file.rfind('/');
  if (end == std::string::npos) return {};
  auto room = file.substr(0, end);
  bool const is_detail = room.ends_with("/detail");
  if (is_detail) room.erase(room.size() - 7);
  return {room, is_detail};
}

names const threads{"atomic", "barrier",   "condition_variable", "future",     "latch",
                    "mutex",  "semaphore", "shared_mutex",       "stop_token", "thread"};
names const may_use_threads{"run", "mpi", "cuda"};
names const thread_files{"core/joined_threads.hpp",  // exceptions in folders that may not
                         "partition/kway/detail/team.hpp", "torch/accumulation_hooks.hpp"};
names const banned{"functional", "iostream", "random", "regex"};

/// Returns the library outside std that an angled include belongs to, or "".
std::string outside_library(std::string const& header) {
  static std::vector<std::pair<std::regex, std::string>> const known{
      {std::regex("boost/.*"), "Boost"},
      {std::regex("range/v3/.*"), "range-v3"},
      {std::regex("onnx/.*|google/protobuf/.*"), "ONNX"},
      {std::regex("torch/.*|ATen/.*|c10/.*"), "Torch"},
      {std::regex("mpi\\.h"), "MPI"},
      {std::regex("opencv2/.*"), "OpenCV"},
      {std::regex("openvino/.*"), "OpenVINO"},
      {std::regex("cuda.*|nccl\\.h|cub/.*|nvtx3/.*"), "CUDA"},
      {std::regex("flatbuffers/.*|xxhash\\.h"), "bytes"},
      {std::regex("sodium\\.h"), "libsodium"},
      {std::regex("(dirent|fcntl|ifaddrs|netdb|poll|signal|unistd)\\.h|(arpa|net|netinet|sys)/.*"), "POSIX"},
      {std::regex("[a-z_0-9]+"), ""},
  };
  for (auto const& [pattern, library] : known)
    if (std::regex_match(header, pattern)) return library;
  return header;
}

names allowed_outside(std::string const& room, std::string const& top) {
  if (room == "run/rendezvous") return {"POSIX", "libsodium"};  // processes connect over sockets
  if (top == "run") return {"POSIX"};
  if (top == "mpi") return {"MPI"};
  if (top == "cuda") return {"CUDA", "dlfcn.h"};
  if (top == "torch") return {"Torch"};
  if (top == "inference") return {"ONNX"};
  if (top == "opencv") return {"OpenCV"};
  if (top == "openvino") return {"OpenVINO"};
  if (room == "formats/files") return {"POSIX"};
  if (top == "formats" || top == "checkpoint") return {"bytes"};
  if (top == "adapt") return {"Boost", "range-v3", "ONNX", "POSIX"};
  return {};
}

/// Returns the rule violations of the includes of one header, as sentences.
std::vector<std::string> faults(std::string const& file, std::string const& text) {
  std::vector<std::string> found;
  auto const say = [&](std::string const& what) { found.push_back(file + " " + what); };
  auto const [room, is_detail] = place_of(file);
  if (!rooms().contains(room)) return {file + " is in a folder that docs/architecture.md does not have"};
  auto const top = room.substr(0, room.find('/'));

  names libraries;
  static std::regex const include("#\\s*include\\s*([<\"])([^>\"]+)[>\"].*");
  for (auto const& line : project::lines_of(text)) {
    std::smatch m;
    if (!std::regex_match(line, m, include)) continue;
    std::string const target = m[2];
    if (target.starts_with("cleave needs ")) continue;  // a message to the user, in core/language.hpp
    if (m[1] == "\"" || target.starts_with("cleave/")) {
      if (m[1] != "\"" || !target.starts_with("cleave/") || place_of(target.substr(7)).room.empty()) {
        say("includes " + target + ": own headers are written \"cleave/FOLDER/NAME\"");
        continue;
      }
      auto const [other, other_is_detail] = place_of(target.substr(7));
      if (other == room) continue;
      if (other_is_detail) say("includes " + target + ", which is for " + other + " alone");
      if (!rooms().at(room).contains(other))
        say("includes " + target + ": " + room + " may not know " + other);
    } else if (banned.contains(target)) {
      say("includes <" + target + ">, which no public header may");
    } else if (threads.contains(target) && !may_use_threads.contains(top) && !thread_files.contains(file)) {
      say("includes <" + target + ">, which " + room + " may not");
    } else if (auto const library = outside_library(target); !library.empty()) {
      libraries.insert(library);
    }
  }
  for (auto const& library : libraries)
    if (!allowed_outside(room, top).contains(library))
      say("includes " + library + ", which " + room + " may not");
  libraries.erase("POSIX");
  if (libraries.size() > 1)
    if (top == "adapt") say("includes two libraries: " + *libraries.begin() + " and " + *libraries.rbegin());
  return found;
}

/// Returns the headers directly in include/cleave, by name, with their includes.
std::map<std::string, std::vector<std::string>> fronts() {
  std::map<std::string, std::vector<std::string>> found;
  for (auto const& file : project::headers()) {
    auto const name = file.substr(15);
    if (name.find('/') != std::string::npos) continue;
    for (auto const& line : project::lines_of(project::text_of(project::root / file)))
      if (line.starts_with("#include \"cleave/")) found[name].push_back(line.substr(17, line.size() - 18));
  }
  return found;
}

/// Returns all own headers that including `header` reads.
names reached_from(std::string const& header) {
  names seen;
  std::vector<std::string> open{header};
  while (!open.empty()) {
    auto const at = open.back();
    open.pop_back();
    if (!seen.insert(at).second) continue;
    for (auto const& line : project::lines_of(project::text_of(project::root / "include/cleave" / at)))
      if (line.starts_with("#include \"cleave/")) open.push_back(line.substr(17, line.size() - 18));
  }
  return seen;
}

/// Returns the fronts that a row of the table of needs in docs/architecture.md names.
names fronts_in_need_of(std::string const& need, std::string const& page) {
  for (auto const& line : project::lines_of(page)) {
    auto const begin = "| " + need + " | ";
    if (!line.starts_with(begin)) continue;
    names listed;
    std::istringstream list(line.substr(begin.size()));
    for (std::string name; list >> name && name != "|";)
      listed.insert((name.ends_with(",") ? name.substr(0, name.size() - 1) : name) + ".hpp");
    return listed;
  }
  return {};
}

/// Returns whether `header` includes a header of the system for which `is_meant` returns true.
template <class Predicate>
bool includes_of_system(std::string const& header, Predicate is_meant) {
  static std::regex const include("#\\s*include\\s*<([^>]+)>.*");
  for (auto const& line : project::lines_of(project::text_of(project::root / "include/cleave" / header)))
    if (std::smatch m; std::regex_match(line, m, include) && is_meant(m[1].str())) return true;
  return false;
}

}  // namespace

TEST_CASE("layers: the table of folders in docs/architecture.md allows every include") {
  for (auto const& file : project::headers()) {
    if (place_of(file.substr(15)).room.empty()) continue;  // a top-level header
    for (auto const& fault : faults(file.substr(15), project::text_of(project::root / file)))
      FAIL_CHECK(fault);
  }
}

TEST_CASE("layers: the table of folders has a row for each folder, no other rows and no cycle") {
  names folders;
  for (auto const& file : project::headers())
    if (auto const room = place_of(file.substr(15)).room; !room.empty()) folders.insert(room);
  for (auto const& room : folders) CHECK_MESSAGE(rooms().contains(room), room, " is not in the table");
  names below;  // folders whose includes are all below them
  for (bool grows = true; grows;) {
    grows = false;
    for (auto const& [room, may] : rooms())
      if (!below.contains(room) && std::ranges::includes(below, may)) grows = below.insert(room).second;
  }
  for (auto const& [room, may] : rooms()) {
    CHECK_MESSAGE(folders.contains(room), room, " is in the table, but not in include/cleave");
    CHECK_MESSAGE(below.contains(room), room, " is in a cycle of folders, or above one");
  }
}

TEST_CASE("folders_of: reads each folder and the folders it may include from a table row") {
  auto const rows = folders_of("| a | what | – | – |\n| a/b | what | a, c | – |\n| c | what | a | std |\n");
  CHECK(rows == table{{"a", {}}, {"a/b", {"a", "c"}}, {"c", {"a"}}});
}

TEST_CASE(
    "faults: reports includes of higher layers, other detail folders, outside libraries, banned headers") {
  auto const count = [](std::string const& file, std::string const& text) {
    return faults(file, text).size();
  };
  CHECK(count("graph/a.hpp", "#include \"cleave/core/ids.hpp\"\n#include <vector>\n") == 0);
  CHECK(count("graph/a.hpp", "#include \"cleave/split/plan.hpp\"\n") == 1);
  CHECK(count("graph/a.hpp", "#include <cleave/core/ids.hpp>\n") == 1);
  CHECK(count("graph/a.hpp", "#include \"csr.hpp\"\n") == 1);
  CHECK(count("graph/a.hpp", "#include \"cleave/graph.hpp\"\n") == 1);
  CHECK(count("graph/a.hpp", "#include \"cleave/graph/detail/b.hpp\"\n") == 0);
  CHECK(count("graph/detail/a.hpp", "#include \"cleave/graph/b.hpp\"\n") == 0);
  CHECK(count("split/a.hpp", "#include \"cleave/graph/detail/b.hpp\"\n") == 1);
  CHECK(count("partition/kway/a.hpp", "#include \"cleave/partition/exact/exact.hpp\"\n") == 1);
  CHECK(count("graph/a.hpp", "#include <boost/graph/graph_traits.hpp>\n") == 1);
  CHECK(count("graph/a.hpp", "#include <functional>\n") == 1);
  CHECK(count("graph/a.hpp", "#include <thread>\n") == 1);
  CHECK(count("run/model/a.hpp", "#include <thread>\n") == 0);
  CHECK(count("formats/a.hpp", "#include <thread>\n") == 1);
  CHECK(count("run/rendezvous/a.hpp", "#include <arpa/inet.h>\n#include <sys/socket.h>\n") == 0);
  CHECK(count("schedule/model/a.hpp", "#include <netinet/tcp.h>\n#include <poll.h>\n") == 1);
  CHECK(count("run/model/a.hpp", "#include \"cleave/graph/csr.hpp\"\n") == 1);
  CHECK(count("adapt/onnx/a.hpp", "#include <onnx/onnx_pb.h>\n#include <google/protobuf/message.h>\n") == 0);
  CHECK(count("adapt/onnx/a.hpp", "#include <onnx/onnx_pb.h>\n#include <boost/config.hpp>\n") == 1);
  CHECK(count("util/a.hpp", "") == 1);
}

TEST_CASE("front headers: contain only includes, each with a sentence about it") {
  for (auto const& [name, includes] : fronts()) {
    if (name == "version.hpp") continue;  // which has macros
    CHECK_MESSAGE(!includes.empty(), name, " includes nothing");
    for (auto const& header : includes)
      CHECK_MESSAGE(!place_of(header).is_detail, name, " includes ", header);
    std::string before;
    bool has_include = false;
    for (auto const& line : project::lines_of(project::text_of(project::root / "include/cleave" / name))) {
      bool const ends_sentence = before.starts_with("///") && before.ends_with('.');
      if (has_include && ends_sentence)
        CHECK_MESSAGE(line.starts_with("#include"), name, ": ", before, " is of no header");
      has_include |= line.starts_with("#include");
      static std::regex const known(
          "// SPDX.*|#pragma once|///.*|#include \"cleave/.*\"|#if __has_include.*|#endif|");
      CHECK_MESSAGE(std::regex_match(line, known), name, ": ", line);
      if (line.starts_with("#include") && name != "cleave.hpp")
        CHECK_MESSAGE((before.starts_with("///") || before.starts_with("#if")), name, ": ", line,
                      " lacks a sentence");
      before = line;
    }
  }
}

TEST_CASE(
    "front headers: cleave.hpp reads core, graph, partition and split; heavy folders have their own front") {
  auto const reached = reached_from("cleave.hpp");
  CHECK(reached.contains("graph.hpp"));
  CHECK(reached.contains("partition.hpp"));
  CHECK(reached.contains("split.hpp"));
  for (auto const& header : reached) {
    auto const room = place_of(header).room;
    auto const top = room.substr(0, room.find('/'));
    CHECK_MESSAGE((top.empty() || top == "core" || top == "graph" || top == "partition" || top == "split"),
                  "cleave.hpp reads ", header);
  }
  std::map<std::string, std::string> const heavy{{"kway", "partition/kway"},
                                                 {"exact", "partition/exact"},
                                                 {"acyclic", "partition/acyclic"},
                                                 {"schedule_search", "schedule/search"}};
  names const above{"repartition.hpp",  // it needs both kinds of partitions
                    "hypergraph.hpp",   // it cuts a graph first
                    "mapping.hpp",      // so does it
                    "streaming.hpp"};   // it cuts buffers
  for (auto const& [front, includes] : fronts())
    for (auto const& header : reached_from(front))
      for (auto const& [own, room] : heavy)
        if (place_of(header).room == room && !above.contains(front))
          CHECK_MESSAGE(front == own + ".hpp", front, " reads ", header);
}

TEST_CASE(
    "front headers: docs/architecture.md says which of them need exceptions, threads, POSIX and an order of "
    "bytes") {
  names without_exceptions, with_threads, with_posix, little_endian;
  for (auto const& [front, includes] : fronts()) {
    auto const reached = reached_from(front);
    auto const one_of_them = [&](auto is_meant) {
      return std::ranges::any_of(reached, [&](auto const& h) { return includes_of_system(h, is_meant); });
    };
    if (!reached.contains("core/needs_exceptions.hpp") && front != "version.hpp")
      without_exceptions.insert(front);
    if (one_of_them([](std::string const& h) { return threads.contains(h); })) with_threads.insert(front);
    if (one_of_them([](std::string const& h) { return outside_library(h) == "POSIX"; }))
      with_posix.insert(front);
    for (auto const& header : reached)
      if (project::text_of(project::root / "include/cleave" / header)
              .find("static_assert(std::endian::native == std::endian::little") != std::string::npos)
        little_endian.insert(front);
  }
  auto const page = project::text_of(project::root / "docs/architecture.md");
  CHECK(fronts_in_need_of("no exceptions", page) == without_exceptions);
  CHECK(fronts_in_need_of("threads", page) == with_threads);
  CHECK(fronts_in_need_of("POSIX", page) == with_posix);
  CHECK(fronts_in_need_of("little-endian numbers", page) == little_endian);
}

// What is thrown there is thrown by detail::raise, which has another end where nothing can be thrown.
TEST_CASE("headers that work without exceptions: throw and catch nothing") {
  std::regex const word("(^|[^a-z_])(throw|try|catch)([^a-z_]|$)");
  for (auto const& header : reached_from("cleave.hpp")) {
    if (header == "core/error.hpp") continue;
    for (auto const& line : project::lines_of(project::text_of(project::root / "include/cleave" / header)))
      CHECK_MESSAGE(!std::regex_search(line.substr(0, line.find("//")), word), header, ": ", line);
  }
}
