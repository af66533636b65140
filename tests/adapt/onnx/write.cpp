// SPDX-License-Identifier: MIT
#include "cleave/adapt/onnx/write.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "cleave/adapt/onnx/load.hpp"
#include "cleave/adapt/onnx/split_onnx.hpp"
#include "support/child.hpp"
#include "support/error_text.hpp"
#include "support/model_corpus.hpp"
#include "support/onnx_cut.hpp"
#include "support/onnx_text.hpp"
#include "support/scratch_folder.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using names = std::set<std::string>;

names files_in(std::filesystem::path const& folder) {
  names all;
  for (auto const& entry : std::filesystem::directory_iterator(folder))
    all.insert(entry.path().filename().string());
  return all;
}

void write_text(std::filesystem::path const& file, std::string const& text) { std::ofstream(file) << text; }

std::string text_of(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("onnx::write_stages: files hold the stages and replace those of an earlier run") {
  scratch_folder const scratch;
  std::filesystem::path const out = scratch / "new/folder";
  auto const m = model("googlenet");
  auto const eight = cleave::onnx::split(m, 8);
  CHECK(cleave::onnx::write_stages(eight.stages, eight.types, out).size() == 8);
  CHECK(files_in(out).size() == 8);

  write_text(out / "notes.txt", "mine");
  write_text(out / "stage_1.json", "mine");
  auto const three = cleave::onnx::split(m, 3);
  auto const paths = cleave::onnx::write_stages(three.stages, three.types, out);
  CHECK(files_in(out) == names{"stage_0.onnx", "stage_1.onnx", "stage_2.onnx", "notes.txt", "stage_1.json"});
  auto const models = cleave::onnx::stages(three.stages, three.types);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(paths[i].filename() == onnx_stage_name(i));
    CHECK(load_onnx(paths[i]).SerializeAsString() == models[i].SerializeAsString());
  }
}

TEST_CASE("onnx::write_stages: does not touch a file that is not a stage of an earlier run") {
  for (std::string const name : {"stage_0.onnx", "stage_7.onnx", "stage_12.onnx.gz"}) {
    CAPTURE(name);
    scratch_folder const scratch;
    std::filesystem::path const out = scratch / "out";
    auto const m = model("one_node");
    auto const cut = cleave::onnx::split(m, 4);
    cleave::onnx::write_stages(cut.stages, cut.types, out);
    auto const before = text_of(out / "stage_0.onnx");
    write_text(out / name, "mine");
    CHECK_THROWS_WITH_AS(cleave::onnx::write_stages(cut.stages, cut.types, out),
                         doctest::Contains(name.c_str()), error);
    CHECK(text_of(out / name) == "mine");
    CHECK(files_in(out) == names{"stage_0.onnx", name});
    if (name != "stage_0.onnx") CHECK(text_of(out / "stage_0.onnx") == before);
  }
}

TEST_CASE("onnx::write_stages: rejects a value without a type before it writes anything") {
  scratch_folder const scratch;
  auto m = onnx_text("f (float[2] x) => (float[2] y) { h = acme.Frob(x)  y = Relu(h) }");
  import_domain(m, "acme");
  cleave::onnx::graph const g(m);  // without types, so that the cut is possible
  auto const stages = split(g, equal_slices(g, 2));
  CHECK_THROWS_WITH_AS(cleave::onnx::write_stages(stages, cleave::onnx::types(m), scratch / "out"),
                       doctest::Contains("'h'"), cleave::onnx::error);
  CHECK(!std::filesystem::exists(scratch / "out"));
  auto const given = cleave::onnx::split(m, 2, {.types = {.shapes = {{"h", {0, {2}}}}}});
  CHECK(cleave::onnx::write_stages(given.stages, given.types, scratch / "out").size() == 2);
}

TEST_CASE("onnx_files: leaves nothing behind without a commit") {
  scratch_folder const scratch;
  {
    onnx_files files(scratch / "out", "");
    files.add("stage_0.onnx", model("one_node"));
    CHECK(files_in(scratch / "out").size() == 1);
    CHECK(!std::filesystem::exists(scratch / "out/stage_0.onnx"));
  }
  CHECK(files_in(scratch / "out").empty());
  write_text(scratch / "file", "");
  CHECK_THROWS_AS(onnx_files(scratch / "file", ""), error);
}

TEST_CASE("onnx::write_stages: does not replace stages of another model unless asked to") {
  scratch_folder const scratch;
  std::filesystem::path const out = scratch / "out";
  auto const m = model("googlenet");
  auto const three = cleave::onnx::split(m, 3);
  auto const paths = cleave::onnx::write_stages(three.stages, three.types, out);
  std::vector<std::string> before;
  for (auto const& p : paths) before.push_back(text_of(p));
  auto const stage = load_onnx(paths[1]), other = model("one_node");
  for (auto const* another : {&stage, &other}) {
    auto const one = cleave::onnx::split(*another, 1);
    CHECK_THROWS_WITH_AS(cleave::onnx::write_stages(one.stages, one.types, out),
                         doctest::Contains("is a stage of another model; move it away, or write elsewhere"),
                         error);
    CHECK(files_in(out).size() == 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(text_of(paths[i]) == before[i]);
  }
  auto const one = cleave::onnx::split(other, 1);
  CHECK(cleave::onnx::write_stages(one.stages, one.types, out, cleave::onnx::replace::of_any_model).size() ==
        1);
  CHECK(files_in(out) == names{"stage_0.onnx"});
}

TEST_CASE("onnx_model_mark: ignores weights and shapes") {
  auto m = model("one_node");
  auto const mark = onnx_model_mark(m);
  m.mutable_graph()->mutable_input(0)->clear_type();
  m.mutable_graph()->clear_initializer();
  CHECK(onnx_model_mark(m) == mark);
  m.mutable_graph()->mutable_node(0)->set_op_type("Other");
  CHECK(onnx_model_mark(m) != mark);
}

TEST_CASE("onnx::write_stages: leaves other files of the user alone and follows no links") {
  scratch_folder const scratch;
  std::filesystem::path const out = scratch / "out";
  std::filesystem::create_directory(out);
  write_text(out / "stage_0.onnx.part", "mine");
  write_text(scratch / "victim", "mine");
  std::filesystem::create_symlink(scratch / "victim", out / "stage_1.onnx.part");
  auto const m = model("googlenet");
  auto const two = cleave::onnx::split(m, 2);
  cleave::onnx::write_stages(two.stages, two.types, out);
  CHECK(text_of(out / "stage_0.onnx.part") == "mine");
  CHECK(text_of(scratch / "victim") == "mine");
  for (auto const* name : {"stage_0.onnx", "stage_1.onnx"})
    CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(out / name)));
}

TEST_CASE("onnx::write_stages: keeps the earlier stages if a new one cannot be written") {
  scratch_folder const scratch;
  auto const m = model("googlenet");
  auto const two = cleave::onnx::split(m, 2), three = cleave::onnx::split(m, 3);
  cleave::onnx::write_stages(two.stages, two.types, scratch / "out");
  auto const limited = testing::in_child([&] {
    rlimit const size{1'000, 1'000};
    setrlimit(RLIMIT_FSIZE, &size);
    signal(SIGXFSZ, SIG_IGN);
    return error_text([&] { cleave::onnx::write_stages(three.stages, three.types, scratch / "out"); });
  });
  CHECK(limited.said == "file '" + (scratch / "out/stage_0.onnx") + "' cannot be written: File too large");
  CHECK(files_in(scratch / "out") == names{"stage_0.onnx", "stage_1.onnx"});
}

TEST_CASE("onnx::is_stage_name: accepts only stage_<number>.onnx, gzipped or not, and .weights") {
  for (auto const* name :
       {"stage_0.onnx", "stage_12.onnx", "stage_007.onnx", "stage_3.onnx.gz", "stage_3.weights"})
    CHECK(cleave::onnx::is_stage_name(name));
  for (auto const* name : {"stage_.onnx", "stage_1.json", "stage_1a.onnx", "stage_1.onnx.part",
                           "xstage_1.onnx", "stage_1", "stage_1.weights.gz"})
    CHECK(!cleave::onnx::is_stage_name(name));
}
