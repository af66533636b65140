// SPDX-License-Identifier: MIT
// `cleave split --weights`: models whose weights are in files of their own.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/onnx_text.hpp"
#include "support/scratch_folder.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;

namespace fs = std::filesystem;

namespace {

/// A folder with a model of two additions, whose weights are in a file of this name.
struct scene {
  scratch_folder folder;

  explicit scene(std::string const& data = "w.bin") {
    auto m = onnx_text("f (float[256] x) => (float[256] y) { p = Add(x, a)  y = Add(p, b) }");
    for (std::string const name : {"a", "b"}) {
      auto& t = add_external(*m.mutable_graph(), name, 256, data);
      auto& offset = *t.add_external_data();
      offset.set_key("offset");
      offset.set_value(name == "a" ? "0" : "1024");
    }
    std::ofstream(at("m.onnx"), std::ios::binary) << m.SerializeAsString();
    fs::create_directories(fs::path(at(data)).parent_path());
    std::ofstream(at(data), std::ios::binary) << std::string(1024, 'a') + std::string(1024, 'b');
  }
  std::string at(std::string const& name) const { return folder / name; }
  child_report split(std::vector<std::string> const& more) const {
    std::vector<std::string> line{"split", at("m.onnx"), "-k", "2"};
    line.insert(line.end(), more.begin(), more.end());
    return run_tool(line);
  }
};

}  // namespace

TEST_CASE("cleave split --weights split: gives each stage its own weights") {
  scene const s;
  auto const r = s.split({"--out", s.at("out"), "--weights", "split"});
  CAPTURE(r.to_stderr);
  REQUIRE(r.exit == 0);
  CHECK(text_of_file(s.at("out/stage_0.weights")) == std::string(1024, 'a'));
  CHECK(text_of_file(s.at("out/stage_1.weights")) == std::string(1024, 'b'));
  CHECK(r.said.find("external weights") == std::string::npos);
  CHECK(s.split({"--out", s.at("out")})
            .said.find("external weights, to be copied to the folder of the stages: 'w.bin'") !=
        std::string::npos);
  CHECK(!fs::exists(s.at("out/stage_0.weights")));
}

TEST_CASE("cleave split --weights link: makes hard links") {
  scene const s;
  REQUIRE(s.split({"--out", s.at("out"), "--weights", "link"}).exit == 0);
  CHECK(fs::equivalent(s.at("out/w.bin"), s.at("w.bin")));
  CHECK(fs::hard_link_count(s.at("w.bin")) == 2);
}

TEST_CASE("cleave split --weights link: makes no link outside the folder of the stages") {
  scene const s("data/deep/w.bin");
  for (auto const* folder : {"out", "elsewhere"}) fs::create_directory(s.at(folder));
  fs::create_directory_symlink(s.at("elsewhere"), s.at("out/data"));
  auto const r = s.split({"--out", s.at("out"), "--weights", "link"});
  CHECK(r.exit == 3);
  CHECK(r.to_stderr.find("out/data/deep/w.bin': would be outside '") != std::string::npos);
  CHECK(fs::is_empty(s.at("elsewhere")));
  fs::remove(s.at("out/data"));
  CHECK(s.split({"--out", s.at("out"), "--weights", "link"}).exit == 0);
  fs::create_directory_symlink(s.at("out"), s.at("alias"));  // the folder itself may be a link
  CHECK(s.split({"--out", s.at("alias/"), "--weights", "link"}).exit == 0);
}

TEST_CASE("cleave split: names the files of weights that only bodies of nodes have") {
  scratch_folder const folder;
  auto m = onnx_text(
      "f (float[2] x, bool c) => (float[2] z) { y = If(c) <then_branch = t () => (float[2] a) { a = Add(x, "
      "w) }, "
      "else_branch = e () => (float[2] b) { b = Neg(x) }>  z = Neg(y) }");
  add_external(*m.mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_g(), "w", 2, "inner.bin");
  std::ofstream(folder / "m.onnx", std::ios::binary) << m.SerializeAsString();
  std::ofstream(folder / "inner.bin", std::ios::binary) << std::string(8, 'w');
  auto const r = run_tool({"split", folder / "m.onnx", "-k", "2"});
  CAPTURE(r.to_stderr);
  CHECK(r.exit == 0);
  CHECK(r.said.find("external weights, to be copied to the folder of the stages: 'inner.bin'") !=
        std::string::npos);
}

TEST_CASE("cleave split --weights: never writes over the weights of the model") {
  scene const s("stage_0.weights");
  for (std::string const how : {"split", "reference", "link"}) {
    auto const r = s.split({"--out", s.at(""), "--weights", how, "--overwrite"});
    CAPTURE(how);
    CHECK(r.exit == 3);
    CHECK(r.to_stderr.find("--out would overwrite ") != std::string::npos);
    CHECK(text_of_file(s.at("stage_0.weights")).size() == 2048);
    CHECK(!fs::exists(s.at("stage_0.onnx")));
  }
}

TEST_CASE("cleave split --weights: says what is wrong") {
  scene const s;
  CHECK(s.split({"--weights", "split"}).exit == 2);
  CHECK(s.split({"--weights", "split"}).to_stderr.find("--weights needs --out") != std::string::npos);
  CHECK(s.split({"--weights", "copy", "--out", s.at("out")}).exit == 2);
  fs::remove(s.at("w.bin"));
  auto const r = s.split({"--weights", "split", "--out", s.at("out")});
  CHECK(r.exit == 3);
  CHECK(r.to_stderr.find("weight 'a': its file 'w.bin' is missing; put it in the model's folder") !=
        std::string::npos);
}
