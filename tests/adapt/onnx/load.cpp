// SPDX-License-Identifier: MIT
#include "cleave/adapt/onnx/load.hpp"

#include <doctest/doctest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cleave/adapt/onnx/graph.hpp"
#include "cleave/core/bytes.hpp"
#include "support/child.hpp"
#include "support/gunzip.hpp"
#include "support/model_corpus.hpp"
#include "support/scratch_folder.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::literals;
using namespace cleave::testing;

namespace {

std::optional<cleave::onnx::fault> parse_fault(std::string_view bytes,
                                               cleave::onnx::limits const& limits = {}) {
  try {
    cleave::onnx::parse(bytes, limits);
    return std::nullopt;
  } catch (cleave::onnx::error const& e) {
    CHECK(std::string(e.what()) == e.witness.message);
    return e.witness;
  }
}

std::optional<cleave::onnx::fault> load_fault(std::filesystem::path const& path,
                                              cleave::onnx::limits const& limits = {}) {
  try {
    load_onnx(path, limits);
    return std::nullopt;
  } catch (cleave::onnx::error const& e) {
    return e.witness;
  }
}

void write(std::filesystem::path const& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string varint(std::size_t n) {
  std::string s;
  for (; n > 127; n >>= 7) s += static_cast<char>((n & 127) | 128);
  return s + static_cast<char>(n);
}

/// The bytes of a message field in protobuf's wire format.
std::string field(unsigned number, std::string const& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}

/// Appends `times` pieces to a file, packed as one more member of a gzip file.
void append_gzip(std::string const& path, int times, std::string const& piece) {
  gzFile const file = gzopen(path.c_str(), "ab1");
  for (int n = 0; n < times; ++n) gzwrite(file, piece.data(), static_cast<unsigned>(piece.size()));
  gzclose(file);
}

/// The bytes of a model with `levels` nested bodies.
std::string nested(std::size_t levels) {
  std::string graph = field(1, field(4, "Leaf"));
  for (std::size_t i = 0; i < levels; ++i)
    graph = field(1, field(4, "If") + field(5, field(1, "then_branch") + field(6, graph)));
  return field(7, graph);
}

/// The bytes that a child of this process holds, whatever it does.
std::size_t memory_of_this_process() {
  return in_child([] { return std::string("idle"); }).peak_bytes;
}

}  // namespace

TEST_CASE("load_onnx: loads every model, gzipped or not, as parse reads its bytes") {
  for (auto const& file : model_files(giants::included)) {
    CAPTURE(file);
    CHECK(load_onnx(file).SerializeAsString() == cleave::onnx::parse(gunzip(file)).SerializeAsString());
  }
}

TEST_CASE("load_onnx: rejects a file that it cannot read and names its path") {
  scratch_folder const folder;
  std::filesystem::path const there = folder / "there.onnx";
  auto const bytes = gunzip(model_file("one_node"));
  write(there, bytes);
  CHECK(!load_fault(there));

  auto const absent = load_fault(folder / "absent.onnx");
  REQUIRE(absent);
  CHECK(absent->kind == cleave::onnx::fault_kind::file);
  CHECK(absent->message.find("absent.onnx: cannot be opened") != std::string::npos);
  CHECK(load_fault(folder / "")->kind == cleave::onnx::fault_kind::file);
  CHECK(load_fault(there, {.max_bytes = bytes.size() - 1})->kind == cleave::onnx::fault_kind::file);
  CHECK(!load_fault(there, {.max_bytes = bytes.size()}));

  write(folder / "no.onnx.gz", bytes);
  CHECK(load_fault(folder / "no.onnx.gz")->kind == cleave::onnx::fault_kind::parse);
  CHECK(load_fault("/dev/zero")->kind == cleave::onnx::fault_kind::parse);
}

TEST_CASE("load_onnx: rejects a file that unpacks to more than the limit") {
  auto const giant = model_file("ladder_100k");
  REQUIRE(giant.extension() == ".gz");
  CHECK(load_fault(giant, {.max_bytes = 1 << 20})->kind == cleave::onnx::fault_kind::file);
}

TEST_CASE("onnx::read_file: refuses by the size and the first bytes, before it reads the others") {
  scratch_folder const folder;
  auto const idle = memory_of_this_process();
  auto const refusal = [&](std::string const& name, cleave::onnx::limits const& limits = {}) {
    auto const r = in_child([&]() -> std::string {
      cleave::onnx::read_file(folder / name, limits);
      return "read";
    });
    CHECK(r.exit == 1);
    CHECK(r.peak_bytes < idle + 64_MiB);
    return r.said;
  };
  write(folder / "zeros.onnx", "");
  std::filesystem::resize_file(folder / "zeros.onnx", 2_GiB - 1);
  CHECK(refusal("zeros.onnx").starts_with("the bytes are not an ONNX model"));
  CHECK(refusal("zeros.onnx", {.max_bytes = 1 << 20, .raised_by = "--most"}) ==
        "it has more bytes than the limit of 1 MiB; --most raises it");
  std::filesystem::resize_file(folder / "zeros.onnx", 2_GiB);
  CHECK(refusal("zeros.onnx", {.max_bytes = std::size_t{1} << 40, .raised_by = "--most"}) ==
        "it has more bytes than the limit of 2.0 GiB");
  write(folder / "page.onnx", "<html>");
  std::filesystem::resize_file(folder / "page.onnx", 1_GiB);
  CHECK(refusal("page.onnx").starts_with("this is a page of HTML"));
}

TEST_CASE("onnx::read_file: a gzip file that unpacks to far more than its size takes no memory for that") {
  scratch_folder const folder;
  append_gzip(folder / "bomb.onnx.gz", 300, std::string(1 << 20, '\x08'));
  std::filesystem::copy_file(folder / "bomb.onnx.gz", folder / "lying.onnx.gz");
  std::fstream(folder / "lying.onnx.gz").seekp(-4, std::ios::end) << "\x08\x08\x08" << '\0';
  auto const idle = memory_of_this_process();
  for (std::string const name : {"bomb.onnx.gz", "lying.onnx.gz"}) {
    CAPTURE(name);
    auto const r = in_child([&]() -> std::string {
      cleave::onnx::read_file(folder / name, {.raised_by = "--most"});
      return "read";
    });
    CHECK(r.said ==
          "it unpacks to more than 256 MiB, too much for a file of its size; if you trust it, decompress it "
          "first (gunzip -k), or give --most");
    CHECK(r.peak_bytes < idle + 64_MiB);
  }
  CHECK(in_child([&] {
          return std::to_string(
              cleave::onnx::read_file(folder / "bomb.onnx.gz", {.max_ratio = 10'000}).size());
        }).said == std::to_string(300 << 20));
  append_gzip(folder / "two.onnx.gz", 1, "\x08\x07");
  append_gzip(folder / "two.onnx.gz", 1, "\x3a\x01\x01\x01");
  CHECK(cleave::onnx::read_file(folder / "two.onnx.gz") == "\x08\x07\x3a\x01\x01\x01");
}

TEST_CASE("onnx::parse: names the format of bytes that are not an ONNX model") {
  auto const model = gunzip(model_file("one_node"));
  auto const says = [](std::string_view bytes, std::string_view word) {
    auto const fault = parse_fault(bytes);
    return fault && fault->kind == cleave::onnx::fault_kind::parse &&
           fault->message.find(word) != std::string::npos;
  };
  CHECK(says("\x1f\x8b rest", "gzip"));
  CHECK(says("\xef\xbb\xbf" + model, "byte order mark"));
  CHECK(says("<!DOCTYPE html>", "HTML"));
  CHECK(says("version https://git-lfs.github.com/spec/v1", "LFS"));
  CHECK(says("PK\x03\x04", "zip archive"));
  CHECK(says("{\"format\": \"cleave graph 1\", \"nodes\": []}", "JSON"));
  CHECK(says(model.substr(0, model.size() / 2), "truncated"));
  CHECK(parse_fault("")->kind == cleave::onnx::fault_kind::empty);
  CHECK(parse_fault(model, {.max_bytes = 10})->kind == cleave::onnx::fault_kind::file);
  CHECK(!parse_fault(model));
}

TEST_CASE(
    "onnx::parse: accepts bodies up to protobuf's depth limit, and distinguishes deeper ones from damage") {
  CHECK(!parse_fault(nested(32)));
  CHECK(parse_fault(nested(40))->kind == cleave::onnx::fault_kind::depth);
  auto const deep = nested(5000);
  CHECK(parse_fault(deep)->kind == cleave::onnx::fault_kind::depth);
  CHECK(protobuf_depth(nested(10)) == 2 + 3 * 10 + 1);
  CHECK(protobuf_depth(deep) == 2 + 3 * 5000 + 1);
  CHECK(parse_fault(nested(20).substr(0, 100))->kind == cleave::onnx::fault_kind::parse);
}

TEST_CASE("protobuf_depth: returns a depth for any bytes") {
  auto const model = gunzip(model_file("script_if_loop"));
  CHECK(protobuf_depth(model) > 4);
  for (std::size_t cut = 0; cut < model.size(); ++cut)
    CHECK(protobuf_depth(std::string_view(model).substr(0, cut)) <= protobuf_depth(model));
  CHECK(protobuf_depth(std::string(64, '\xff')) == 1);
}

TEST_CASE("onnx_fault_word: returns the word for a kind of fault") {
  CHECK(onnx_fault_word(cleave::onnx::fault_kind::file) == "file");
  CHECK(onnx_fault_word(cleave::onnx::fault_kind::operation) == "operator");
  CHECK(onnx_fault_word(cleave::onnx::fault_kind::order) == "order");
}
