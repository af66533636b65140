// SPDX-License-Identifier: MIT
// What the tool does with files that are too large, and without the memory for them.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cleave/core/bytes.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "support/onnx_text.hpp"
#include "support/scratch_folder.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;
using namespace cleave::literals;

namespace fs = std::filesystem;

namespace {

using words = std::vector<std::string>;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#elif defined(__has_feature)
constexpr bool sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool sanitized = false;
#endif
/// What the tool may take to refuse a file; sanitizers take more themselves.
constexpr std::size_t little = sanitized ? 256_MiB : 64_MiB;

/// Makes a file of `size` zero bytes that takes no room on the disk.
void put_zeros(std::string const& file, std::uint64_t size) {
  std::ofstream{file};
  fs::resize_file(file, size);
}

/// Writes a chain as a graph in JSON.
void put_graph_chain(std::string const& file, std::size_t nodes) {
  std::ofstream to(file);
  to << R"({"format":"cleave graph 1","nodes":[{"name":"n0","cost":1,"bytes":4})";
  for (std::size_t n = 1; n < nodes; ++n)
    to << ",{\"name\":\"n" << n << "\",\"operands\":[\"n" << n - 1 << R"("],"cost":1,"bytes":4})";
  to << "]}";
}

/// Writes a chain as an ONNX model.
void put_model_chain(std::string const& file, std::size_t nodes) {
  auto model = onnx_text("f (float[4] v0) => (float[4] v" + std::to_string(nodes) + ") { }");
  for (std::size_t n = 0; n < nodes; ++n) {
    auto& node = *model.mutable_graph()->add_node();
    node.set_op_type("Relu");
    node.add_input("v" + std::to_string(n));
    node.add_output("v" + std::to_string(n + 1));
  }
  std::ofstream to(file, std::ios::binary);
  model.SerializeToOstream(&to);
}

bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

/// A call that reads a file of this name.
struct reading {
  std::string file;
  words before, after;
  words operator()(std::string const& path) const {
    auto line = before;
    line.push_back(path);
    line.insert(line.end(), after.begin(), after.end());
    return line;
  }
};

std::vector<reading> const readings = {{"g.graph", {"partition"}, {"-k", "2"}},
                                       {"g.mtx", {"partition"}, {"-k", "2"}},
                                       {"g.edges", {"partition"}, {"-k", "2"}},
                                       {"g.dimacs", {"partition"}, {"-k", "2"}},
                                       {"g.dag", {"partition"}, {"-k", "2"}},
                                       {"g.json", {"partition"}, {"-k", "2"}},
                                       {"g.hgr", {"partition"}, {"-k", "2"}},
                                       {"g.mtx", {"order"}, {}},
                                       {"g.graph", {"bench"}, {"-k", "2"}},
                                       {"g.json", {"split"}, {"-k", "2"}},
                                       {"g.json", {"inspect"}, {}},
                                       {"g.csv", {"split"}, {"-k", "2"}},
                                       {"g.csv", {"verify"}, {}},
                                       {"g.json", {"verify"}, {}},
                                       {"g.csv", {"simulate"}, {}},
                                       {"g.csv", {"report"}, {}},
                                       {"g.csv", {"schedule", "1F1B", "--costs"}, {}},
                                       {"g.onnx", {"inspect"}, {}},
                                       {"g.onnx", {"split"}, {"-k", "2"}},
                                       {"g.onnx", {"demo"}, {}}};

}  // namespace

TEST_CASE("cleave: refuses a file above the limit without reading it, and names the option that raises it") {
  for (auto const& r : readings) {
    CAPTURE(r.before.front());
    CAPTURE(r.file);
    scratch_folder const at;
    put_zeros(at / r.file, 5_GiB);
    auto const said = run_tool(r(at / r.file));
    CAPTURE(said.to_stderr);
    CHECK(said.exit == 3);
    CHECK(said.peak_bytes < little);
    bool const is_model = r.file.ends_with(".onnx");
    CHECK(has(said.to_stderr,
              r.file + ": it has more bytes than the limit of " + (is_model ? "2.0" : "4") + " GiB"));
    CHECK(has(said.to_stderr, "--max-file") != is_model);  // protobuf's own limit cannot be raised
  }
}

TEST_CASE("cleave: --max-file raises and lowers the limit; a file that is wrong at once is not read on") {
  for (auto const& r : readings) {
    CAPTURE(r.before.front());
    CAPTURE(r.file);
    scratch_folder const at;
    bool const is_model = r.file.ends_with(".onnx");
    put_zeros(at / r.file, is_model ? 2_GiB - 1 : 5_GiB);
    auto call = r(at / r.file);
    call.insert(call.end(), {"--max-file", "6GiB"});
    auto const raised = run_tool(call);
    CAPTURE(raised.to_stderr);
    CHECK(raised.exit == 3);
    CHECK(raised.peak_bytes < little);
    CHECK(has(raised.to_stderr,
              is_model ? "the bytes are not an ONNX model" : "line 1, column 1: a zero byte"));
    call.back() = "1MB";
    auto const lowered = run_tool(call);
    CHECK(lowered.exit == 3);
    CHECK(has(lowered.to_stderr, "the limit of 976.6 KiB; --max-file raises it"));
  }
  CHECK(has(run_tool({"inspect", "x.onnx", "--max-file", "0"}).to_stderr,
            "--max-file takes a size from 1B to below 16EiB, as in 8GiB, not '0'"));
}

TEST_CASE("cleave: a text that turns into zero bytes is read only so far") {
  scratch_folder const at;
  std::ofstream(at / "g.graph") << "2 1\n2\n";
  fs::resize_file(at / "g.graph", 3_GiB);
  auto const said = run_tool({"partition", at / "g.graph", "-k", "2"});
  CHECK(said.exit == 3);
  CHECK(said.peak_bytes < little);
  CHECK(has(said.to_stderr, "g.graph: line 3, column 1: a zero byte"));
}

TEST_CASE("cleave: out of memory names the file, what is needed and the remedy" * doctest::skip(sanitized)) {
  scratch_folder const at;
  {
    std::ofstream rows(at / "g.graph");
    rows << "1000000 999999\n2\n";
    for (int n = 2; n < 1'000'000; ++n) rows << n - 1 << ' ' << n + 1 << '\n';
    rows << "999999\n";
  }
  auto limit = 64_MiB;  // enough for the program itself, whose libraries differ from build to build
  while (run_tool_within(RLIMIT_AS, limit, {"version"}).exit != 0 && limit < 1_GiB) limit += 16_MiB;
  auto const working = run_tool_within(RLIMIT_AS, limit, {"partition", at / "g.graph", "-k", "2"});
  CAPTURE(working.to_stderr);
  CHECK(working.exit == 3);
  CHECK(has(working.to_stderr, "out of memory for "));
  CHECK(has(working.to_stderr, "g.graph of 13.1 MiB: more than "));
  CHECK(has(working.to_stderr, "are needed, and ulimit -v allows " + std::to_string(limit / 1_MiB) +
                                   " MiB; allow the process more memory"));
  CHECK(has(working.to_stderr, "read a METIS file by rows (--stream), or use a smaller file"));
  fs::resize_file(at / "g.graph", 1_GiB);
  auto const reading = run_tool_within(RLIMIT_AS, limit + 64_MiB, {"partition", at / "g.graph", "-k", "2"});
  CAPTURE(reading.to_stderr);
  CHECK(reading.exit == 3);
  CHECK(has(reading.to_stderr, "g.graph: there is no memory for its 1 GiB; allow the process more"));
}

TEST_CASE("cleave: a chain takes at most so many bytes a node more than its file" *
          doctest::skip(sanitized)) {
  struct reading {
    std::string file;
    words before, behind;
    std::size_t most;  // bytes a node
  };
  std::vector<reading> const all = {{"g.json", {"inspect"}, {}, 950},
                                    {"g.json", {"split"}, {"-k", "4"}, 1'200},
                                    {"g.json", {"split"}, {"-k", "4", "--out", "o"}, 1'850},
                                    {"m.onnx", {"inspect"}, {}, 1'650},
                                    {"m.onnx", {"split"}, {"-k", "4"}, 1'900}};
  for (auto const& r : all) {
    CAPTURE(r.file);
    CAPTURE(r.before.front());
    auto const peak = [&](std::size_t nodes) {
      scratch_folder const at;
      auto const file = at / r.file;
      r.file == "g.json" ? put_graph_chain(file, nodes) : put_model_chain(file, nodes);
      auto call = r.before;
      call.push_back(file);
      for (auto const& word : r.behind) call.push_back(word == "o" ? std::string(at / "o") : word);
      auto const said = run_tool(call);
      CAPTURE(said.to_stderr);
      CHECK(said.exit == 0);
      return said.peak_bytes - fs::file_size(file);
    };
    std::size_t const few = 1'000, many = 100'000;
    auto const each = (peak(many) - peak(few)) / (many - few);
    CAPTURE(each);
    CHECK(each <= r.most);
  }
}
