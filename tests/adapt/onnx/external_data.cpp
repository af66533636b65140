// SPDX-License-Identifier: MIT
// Stages of models whose weights are in files of their own.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cleave/adapt/onnx/load.hpp"
#include "cleave/adapt/onnx/split_onnx.hpp"
#include "cleave/adapt/onnx/write.hpp"
#include "support/child.hpp"
#include "support/error_text.hpp"
#include "support/onnx_text.hpp"
#include "support/scratch_folder.hpp"

using namespace cleave::testing;

namespace fs = std::filesystem;

namespace {

using cleave::onnx::weights;

std::string text_of(fs::path const& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_text(fs::path const& file, std::string const& text) {
  std::ofstream(file, std::ios::binary) << text;
}

void set_place(::onnx::TensorProto& t, std::string const& location, std::string const& offset,
               std::string const& length) {
  t.set_data_location(::onnx::TensorProto::EXTERNAL);
  t.clear_external_data();
  for (auto const& [key, value] : {std::pair("location", location), {"offset", offset}, {"length", length}}) {
    if (value.empty()) continue;
    auto& entry = *t.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
}

/// A chain of four additions of weights in `w.bin` and `sub/v.bin`. `s` is added twice, first and last; the
/// weights are 256 floats each, at offsets 0, 4096 and 8192; `c` has no length.
::onnx::ModelProto chain_model() {
  auto m = onnx_text(R"(f (float[256] x) => (float[256] y) {
    p = Add(x, s)  q = Add(p, b)  r = Add(q, c)  y = Add(r, s) })");
  auto const add = [&](char const* name, std::string const& location, std::string const& offset,
                       std::string const& length) {
    auto& t = *m.mutable_graph()->add_initializer();
    t.set_name(name);
    t.set_data_type(::onnx::TensorProto::FLOAT);
    t.add_dims(256);
    set_place(t, location, offset, length);
  };
  add("s", "w.bin", "", "1024");
  add("b", "w.bin", "4096", "1024");
  add("c", "sub/v.bin", "8192", "");
  return m;
}

/// A folder with the data of that model.
struct data_folder {
  scratch_folder folder;

  data_folder() {
    fs::create_directory(at("sub"));
    write_text(at("w.bin"), std::string(1024, 's') + std::string(3072, '-') + std::string(1024, 'b'));
    write_text(at("sub/v.bin"), std::string(8192, '-') + std::string(1024, 'c') + std::string(100, '-'));
  }
  std::string at(std::string const& name) const { return folder / name; }
};

std::vector<fs::path> write(::onnx::ModelProto const& m, fs::path const& from, fs::path const& to,
                            weights how, std::uint32_t k = 4) {
  auto const cut = cleave::onnx::split(m, k);
  return cleave::onnx::write_stages(cut.stages, cut.types, to, {.weights = how, .model_folder = from});
}

/// The bytes of each weight of a stage, as a runtime reads them.
std::map<std::string, std::string> weights_of(fs::path const& stage) {
  std::map<std::string, std::string> all;
  auto const m = cleave::detail::load_onnx(stage);
  for (auto const& t : m.graph().initializer()) {
    auto const place = cleave::detail::onnx_data_place_of(t);
    all[t.name()] = text_of(stage.parent_path() / place.location).substr(place.offset, place.length);
  }
  return all;
}

}  // namespace

TEST_CASE(
    "write_stages: weights::split gives each stage the weights that it reads, and keeps their alignment") {
  data_folder const d;
  auto const stages = write(chain_model(), d.at(""), d.at("out"), weights::split, 2);
  REQUIRE(stages.size() == 2);
  std::string const s(1024, 's'), b(1024, 'b'), c(1024, 'c');
  CHECK(weights_of(stages[0]) == std::map<std::string, std::string>{{"s", s}, {"b", b}});
  CHECK(weights_of(stages[1]) == std::map<std::string, std::string>{{"s", s}, {"c", c}});
  CHECK(fs::file_size(d.at("out/stage_0.weights")) == 4096 + 1024);
  for (auto const& stage : stages) {
    auto const m = cleave::detail::load_onnx(stage);
    for (auto const& t : m.graph().initializer())
      CHECK(cleave::detail::onnx_data_place_of(t).offset % 4096 == 0);
  }
  CHECK(text_of(d.at("w.bin")).size() == 5120);
}

TEST_CASE("write_stages: weights::split copies what several tensors share once, also in bodies") {
  data_folder const d;
  auto m = onnx_text(R"(f (bool i, float[256] x) => (float[256] y) {
    h = Relu(x)
    y = If (i) <then_branch = a () => (float[256] t) { t = Add(h, p) },
                else_branch = e () => (float[256] u) { u = Add(h, q) }> })");
  for (auto& a : *m.mutable_graph()->mutable_node(1)->mutable_attribute()) {
    auto& t = *a.mutable_g()->add_initializer();
    t.set_name(a.g().node(0).input(1));
    t.set_data_type(::onnx::TensorProto::FLOAT);
    t.add_dims(256);
    set_place(t, "w.bin", "0", "1024");
  }
  auto const stages = write(m, d.at(""), d.at("out"), weights::split, 1);
  CHECK(text_of(d.at("out/stage_0.weights")) == std::string(1024, 's'));
  auto stage = cleave::detail::load_onnx(stages[0]);
  int tensors = 0;
  cleave::detail::each_onnx_tensor(stage, [&](::onnx::TensorProto const& t) {
    CHECK(cleave::detail::onnx_data_place_of(t) ==
          cleave::detail::onnx_data_place{"stage_0.weights", 0, 1024});
    ++tensors;
  });
  CHECK(tensors == 2);
}

TEST_CASE("write_stages: the weights of an earlier cut are replaced and removed, those of others never") {
  data_folder const d;
  write(chain_model(), d.at(""), d.at("out"), weights::split, 4);
  CHECK(fs::exists(d.at("out/stage_3.weights")));
  write(chain_model(), d.at(""), d.at("out"), weights::split, 2);
  CHECK(!fs::exists(d.at("out/stage_3.weights")));
  CHECK(!fs::exists(d.at("out/stage_2.onnx")));
  write(chain_model(), d.at(""), d.at("out"), weights::reference, 2);
  CHECK(!fs::exists(d.at("out/stage_0.weights")));

  for (std::string const name : {"stage_0.weights", "stage_9.weights"}) {
    write_text(d.at("out/" + name), "mine");
    auto const before = text_of(d.at("out/stage_0.onnx"));
    auto const said = error_text([&] { write(chain_model(), d.at(""), d.at("out"), weights::split, 2); });
    CHECK(said.find(name + "': is not the weights of a stage written by cleave") != std::string::npos);
    CHECK(text_of(d.at("out/" + name)) == "mine");
    CHECK(text_of(d.at("out/stage_0.onnx")) == before);
    fs::remove(d.at("out/" + name));
  }
}

TEST_CASE("write_stages: names the weight whose file is missing or too short, and writes nothing") {
  data_folder const d;
  auto const refused = [&](std::string const& location, std::string const& offset,
                           std::string const& length) {
    auto m = chain_model();
    set_place(*m.mutable_graph()->mutable_initializer(1), location, offset, length);
    auto const said = error_text([&] { write(m, d.at(""), d.at("out"), weights::split); });
    CHECK(fs::is_empty(d.at("out")));
    return said;
  };
  CHECK(refused("gone.bin", "", "").find("weight 'b': its file 'gone.bin' is missing") != std::string::npos);
  CHECK(refused("sub", "", "").find("weight 'b': its file 'sub' is missing") != std::string::npos);
  for (auto const& [offset, length] : std::vector<std::pair<std::string, std::string>>{
           {"4097", "1024"}, {"4097", ""}, {"5121", "1"}, {"999999999999999999", "999999999999999999"}}) {
    auto const said = refused("w.bin", offset, length);
    CAPTURE(said);
    CHECK(said.find("its file 'w.bin' has 5120 bytes, but the weight needs ") != std::string::npos);
    CHECK(said.find("from byte " + offset + " on; fetch the file again") != std::string::npos);
  }
  CHECK(refused("../w.bin", "", "").find("outside the model's folder") != std::string::npos);
  CHECK(refused("/etc/passwd", "", "").find("outside the model's folder") != std::string::npos);
}

TEST_CASE("write_stages: weights::link makes hard links, and never replaces a file") {
  data_folder const d;
  auto const stages = write(chain_model(), d.at(""), d.at("out"), weights::link, 2);
  CHECK(fs::hard_link_count(d.at("w.bin")) == 2);
  CHECK(fs::equivalent(d.at("out/sub/v.bin"), d.at("sub/v.bin")));
  CHECK(weights_of(stages[0]).at("b") == std::string(1024, 'b'));
  CHECK(write(chain_model(), d.at(""), d.at("out"), weights::link, 3).size() == 3);  // again
  CHECK(fs::hard_link_count(d.at("w.bin")) == 2);

  CHECK(write(chain_model(), d.at(""), d.at(""), weights::link, 2).size() == 2);  // where they are
  CHECK(fs::hard_link_count(d.at("w.bin")) == 2);

  fs::remove(d.at("out/w.bin"));
  write_text(d.at("out/w.bin"), "mine");
  auto const said = error_text([&] { write(chain_model(), d.at(""), d.at("out"), weights::link, 2); });
  CHECK(said.find("out/w.bin': exists and is not the model's file") != std::string::npos);
  CHECK(text_of(d.at("out/w.bin")) == "mine");

  auto m = chain_model();
  set_place(*m.mutable_graph()->mutable_initializer(1), "stage_1.onnx", "", "");
  write_text(d.at("stage_1.onnx"), std::string(1024, 'b'));
  CHECK(error_text([&] {
          write(m, d.at(""), d.at("other"), weights::link, 2);
        }).find("the name of a stage") != std::string::npos);
}

TEST_CASE(
    "write_stages: weights::reference does not remove the weights of an earlier cut that it refers to") {
  data_folder const d;
  write(chain_model(), d.at(""), d.at("out"), weights::split, 2);
  auto const stage = cleave::detail::load_onnx(d.at("out/stage_0.onnx"));
  auto const before = text_of(d.at("out/stage_0.weights"));
  auto const cut = cleave::onnx::split(stage, 2);
  auto const write_again = [&](weights how, fs::path const& to) {
    return error_text([&] {
      cleave::onnx::write_stages(
          cut.stages, cut.types, to,
          {.replace = cleave::onnx::replace::of_any_model, .weights = how, .model_folder = d.at("out")});
    });
  };
  auto const said = write_again(weights::reference, d.at("out"));
  CHECK(said.find("the model's weights are in 'stage_0.weights', the name of a stage") != std::string::npos);
  CHECK(text_of(d.at("out/stage_0.weights")) == before);
  CHECK(write_again(weights::reference, d.at("elsewhere")) == "accepted");
  CHECK(write_again(weights::split, d.at("out")) == "accepted");
  CHECK(fs::exists(d.at("out/stage_1.weights")));
}

TEST_CASE("write_stages: weights::link names a file of weights that is missing") {
  data_folder const d;
  fs::remove(d.at("w.bin"));
  auto const said = error_text([&] { write(chain_model(), d.at(""), d.at("out"), weights::link, 2); });
  CHECK(said.find("w.bin': No such file or directory; put the weights in the model's folder") !=
        std::string::npos);
  CHECK(!fs::exists(d.at("out/stage_0.onnx")));
}

TEST_CASE("write_stages: weights::split needs memory for a block, not for the weights") {
  data_folder const d;
  auto m = chain_model();
  constexpr std::int64_t size = std::int64_t{96} << 20;
  for (auto& t : *m.mutable_graph()->mutable_initializer()) {
    t.set_dims(0, size / 4);
    set_place(t, "w.bin", "", "");
  }
  fs::resize_file(d.at("w.bin"), static_cast<std::uint64_t>(size));  // sparse
  auto const idle = in_child([] { return std::string(); });
  auto const child =
      in_child([&] { return std::to_string(write(m, d.at(""), d.at("out"), weights::split, 1).size()); });
  CAPTURE(child.to_stderr);
  CHECK(child.said == "1");
  CHECK(fs::file_size(d.at("out/stage_0.weights")) == static_cast<std::uint64_t>(size));
  CHECK(child.peak_bytes < idle.peak_bytes + (std::size_t{64} << 20));
}
