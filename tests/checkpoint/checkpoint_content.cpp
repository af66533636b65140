// SPDX-License-Identifier: MIT
#include "cleave/checkpoint/checkpoint_writer.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/check_checkpoint.hpp"
#include "support/random_tensors.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::checkpoint_format;
using testing::content_fault;
using fault = checkpoint_fault::kind;
using builder = flatbuffers::FlatBufferBuilder;

namespace {

checkpoint_index random_index(testing::rng& random) {
  checkpoint_index made{random.next(), rank_id{static_cast<std::uint32_t>(random.next())}, {}};
  for (auto& t : testing::random_tensors(random, random.below(20)).tensors)
    made.tensors.push_back(
        {std::move(t.names), t.tensor.type, t.tensor.shape, {random.next(), random.next()}});
  return made;
}

struct hand_written {
  std::vector<std::string> names = {"w"};
  std::vector<std::int64_t> shape = {2, 3};
  unsigned type = 0;
  std::size_t tensors = 1;
  std::uint32_t version = checkpoint_version;

  std::vector<std::byte> bytes() const {
    builder to;
    std::vector<flatbuffers::Offset<Tensor>> list;
    Digest const digest(1, 2);
    for (std::size_t i = 0; i < tensors; ++i) {
      auto const texts = to.CreateVectorOfStrings(names);
      auto const extents = to.CreateVector(shape);
      list.push_back(CreateTensor(to, texts, static_cast<ElementType>(type), extents, &digest));
    }
    auto const part = CreatePartDirect(to, 4, 2, &list);
    FinishContentBuffer(to, CreateContent(to, version, part));
    auto const made = std::as_bytes(std::span(to.GetBufferPointer(), to.GetSize()));
    return {made.begin(), made.end()};
  }
};

std::string refused(std::vector<std::byte> const& bytes) {
  auto const found = content_fault(bytes, [](checkpoint_content const& c) { c.index(); });
  if (!found) return "accepted";
  CHECK(found->file == "file");
  auto const ending = std::string("; this library never writes such a file: do not use it");
  CHECK((found->what == fault::structure) == found->said.ends_with(ending));
  return found->said.substr(0, found->said.find(';'));
}

}  // namespace

TEST_CASE("checkpoint_content: indices and manifests read back equal, and equal indices give equal bytes") {
  testing::rng random(1);
  for (int i = 0; i < 100; ++i) {
    auto const index = random_index(random);
    auto const written = content_of(index);
    CHECK(testing::taken_for_checkpoint(written));
    CHECK(written == content_of(checkpoint_index(index)));
    auto blank = index;
    for (auto& t : blank.tensors) t.elements = {};
    CHECK(content_of(blank).size() == written.size());
  }
  checkpoint_manifest manifest{{7, {{"a", std::string("\0b", 2)}, {"ä", ""}}}, {}};
  for (std::uint32_t r = 0; r < 9; ++r)
    manifest.parts.push_back({7, random.next(), random.next(), {random.next(), r}, rank_id{r}});
  checkpoint_manifest read;
  CHECK(!content_fault(content_of(manifest), [&](checkpoint_content const& c) { read = c.manifest(); }));
  CHECK(read == manifest);
}

TEST_CASE("checkpoint_format: numbers element types as the library does") {
  CHECK(element_names.size() == ElementType_MAX + 1);
  for (std::size_t i = 0; i < element_names.size(); ++i) {
    std::string const name = EnumNameElementType(static_cast<ElementType>(i));
    CHECK((name == element_names[i] || (name == "boolean" && element_names[i] == "bool")));
  }
}

TEST_CASE("checkpoint_content: rejects content that no writer writes") {
  CHECK(refused(hand_written{}.bytes()) == "accepted");
  CHECK(refused({}) == "its content is not valid FlatBuffers data of a checkpoint");
  CHECK(refused(std::vector<std::byte>(100)) == "its content is not valid FlatBuffers data of a checkpoint");
  CHECK(refused(hand_written{.names = {}}.bytes()) == "a tensor has no name");
  CHECK(refused(hand_written{.names = {"a", ""}}.bytes()) == "a tensor has an empty name");
  CHECK(refused(hand_written{.names = {"\xff"}}.bytes()) == "a text is not UTF-8");
  CHECK(refused(hand_written{.type = 10}.bytes()) == "a tensor has elements of type 10");
  CHECK(refused(hand_written{.shape = {1, 1, 1, 1, 1, 1, 1, 1, 1}}.bytes()) == "a tensor has too many axes");
  auto const most = std::numeric_limits<std::int64_t>::max();
  CHECK(refused(hand_written{.shape = {-1}}.bytes()) == "a tensor has an invalid shape");
  CHECK(refused(hand_written{.shape = {most}}.bytes()) == "a tensor has an invalid shape");
  CHECK(refused(hand_written{.shape = {most}, .type = 8, .tensors = 3}.bytes()) ==
        "a tensor has an invalid shape");
  CHECK(refused(hand_written{.version = 0}.bytes()) == "it has no version");
  CHECK(refused(content_of(checkpoint_manifest{})) == "it is not the file of a rank");
  auto const as_manifest = [](checkpoint_content const& c) { c.manifest(); };
  CHECK(content_fault(hand_written{}.bytes(), as_manifest)->said.starts_with("it is not a manifest;"));
}

TEST_CASE("checkpoint_content: rejects a newer version and names it") {
  auto const read = [](checkpoint_content const& c) { c.index(); };
  auto const found = content_fault(hand_written{.version = 3}.bytes(), read);
  REQUIRE(found);
  CHECK(found->what == fault::version);
  CHECK(found->said ==
        "it is a checkpoint of version 3, this library reads version 1; read it with the version "
        "of the library that wrote it, or a newer one");
}

TEST_CASE("checkpoint_content: rejects texts that share their bytes") {
  builder to;
  Digest const digest(1, 2);
  auto const text = to.CreateString(std::string(10'000, 'x'));
  std::vector<flatbuffers::Offset<flatbuffers::String>> const many(1'000, text);
  auto const names = to.CreateVector(many);
  std::vector<std::int64_t> const none;
  auto const shape = to.CreateVector(none);
  std::vector<flatbuffers::Offset<Tensor>> const list{
      CreateTensor(to, names, ElementType_f32, shape, &digest)};
  auto const part = CreatePartDirect(to, 1, 1, &list);
  FinishContentBuffer(to, CreateContent(to, 1, part));
  auto const made = std::as_bytes(std::span(to.GetBufferPointer(), to.GetSize()));
  CHECK(refused({made.begin(), made.end()}) == "texts overlap");
}

TEST_CASE("checkpoint_content: rejects lists at misaligned offsets") {
  auto bytes = hand_written{}.bytes();
  std::size_t refusals = 0;
  for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    auto moved = bytes;
    moved[at] ^= std::byte{4};
    refusals += refused(moved) == "a list of numbers is not aligned" ? 1 : 0;
  }
  CHECK(refusals > 0);
}

TEST_CASE("checkpoint_content: bytes with random changes are rejected or give another valid checkpoint") {
  testing::rng random(2);
  std::size_t taken = 0;
  for (int i = 0; i < 3'000; ++i) {
    auto bytes = content_of(random_index(random));
    for (auto n = 1 + random.below(3); n > 0; --n)
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(256));
    if (random.one_in(4)) bytes.resize(random.below(bytes.size()));
    taken += testing::taken_for_checkpoint(bytes) ? 1 : 0;
  }
  CHECK(taken > 300);
  CHECK(taken < 2'700);
}
