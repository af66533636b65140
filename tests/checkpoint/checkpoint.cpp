// SPDX-License-Identifier: MIT
#include "cleave/checkpoint/checkpoint.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/checkpoint/checkpoint_writer.hpp"
#include "support/checkpoint_folder.hpp"
#include "support/random_tensors.hpp"
#include "support/rng.hpp"
#include "support/scratch_folder.hpp"

using namespace cleave;

using namespace cleave::detail;
using fault = checkpoint_fault::kind;
using extent = read_checkpoint_options::extent;
using testing::scratch_folder;

namespace {

auto const in_memory = scratch_folder::in_memory();

/// Adds a tensor like `t` with separate memory, under some of its names.
void add_target(testing::owned_tensors& to, named_tensor const& t, testing::rng& random) {
  std::vector<std::string> names;
  for (auto const& name : t.names)
    if (names.empty() || random.one_in(2)) names.push_back(name);
  std::ranges::reverse(names);
  to.add(std::move(names), t.tensor.type, t.tensor.shape);
}

/// `weight` f32[2, 3], and `tied.in`, tied to `tied.out`, i64[4]: 56 bytes.
testing::owned_tensors small_state(std::uint64_t seed = 1) {
  testing::owned_tensors made;
  made.add({"weight"}, element_type::f32, {2, 3});
  made.add({"tied.in", "tied.out"}, element_type::i64, {4});
  testing::rng random(seed);
  made.fill(random);
  return made;
}

void write_small(scratch_folder const& folder, std::uint64_t step, std::size_t kept = 9) {
  auto const state = small_state(step);
  checkpoint_label const label{step, {{"model", "small"}, {"digest", "c0ffee"}}};
  std::vector<checkpoint_part> parts;
  for (std::uint32_t r = 0; r < 2; ++r)
    parts.push_back(
        write_checkpoint_part(folder.path(), step, rank_id{r}, std::span(state.tensors).subspan(r, 1)));
  complete_checkpoint(folder.path(), label, parts, {.kept = kept});
}

std::string file_of(scratch_folder const& folder, std::string const& begin, std::string const& end) {
  for (auto const& [name, text] : testing::texts_in(folder.path()))
    if (name.starts_with(begin) && name.ends_with(end)) return name;
  return "no such file";
}

/// The error of read_checkpoint; checks that find_checkpoint_fault reports the same.
std::string refusal_of(scratch_folder const& folder, read_checkpoint_options const& options = {}) {
  auto const found = find_checkpoint_fault(folder.path(), options);
  try {
    read_checkpoint(folder.path(), options);
  } catch (checkpoint_error const& e) {
    CHECK((found && *found == e.witness));
    return e.what();
  }
  CHECK(!found);
  return "accepted";
}

std::string load_refusal(checkpoint const& from, std::vector<named_tensor> const& into) {
  try {
    from.load(into);
  } catch (checkpoint_error const& e) {
    CHECK(from.find_load_fault(into) == e.witness);
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("read_checkpoint: state written by 1 to 8 ranks loads by name in 1 to 8 others") {
  testing::rng random(1);
  std::size_t ties = 0, bytes = 0;
  for (int round = 0; round < 60; ++round) {
    scratch_folder const folder(in_memory);
    auto const state = testing::random_tensors(random, random.below(25));
    checkpoint_label const label{random.next(), {{"model", "m"}, {"learning rate", "0.1"}}};
    testing::write_as_ranks(folder.path(), label, state.tensors, 1 + random.below(8), random);

    for (std::size_t reader = 1 + random.below(8); reader > 0; --reader) {
      auto const checked = random.one_in(2) ? extent::all_elements : extent::no_elements;
      auto const found = read_checkpoint(folder.path(), {.expected = {{"model", "m"}}, .checked = checked});
      CHECK(found.step() == label.step);
      CHECK(found.notes() == label.notes);
      CHECK(found.tensors().size() == state.tensors.size());
      testing::owned_tensors mine;
      std::vector<std::size_t> original;
      for (std::size_t i = 0; i < state.tensors.size(); ++i)
        for (std::size_t copies = random.below(3); copies > 0; --copies) {
          add_target(mine, state.tensors[i], random);
          original.push_back(i);
        }
      found.load(mine.tensors);
      for (std::size_t i = 0; i < original.size(); ++i) {
        REQUIRE(testing::same_elements(mine.tensors[i].tensor, state.tensors[original[i]].tensor));
        ties += mine.tensors[i].names.size() > 1;
        bytes += mine.memory[i].size();
      }
    }
  }
  CHECK(ties > 50);
  CHECK(bytes > 10'000);
}

TEST_CASE("read_checkpoint: loads tensors larger than one piece") {
  scratch_folder const folder(in_memory);
  testing::owned_tensors state, back;
  for (auto* to : {&state, &back}) {
    to->add({"a"}, element_type::u8, {static_cast<std::int64_t>(2 * checkpoint_piece)});
    to->add({"b"}, element_type::u8, {static_cast<std::int64_t>(checkpoint_piece + 1)});
  }
  for (std::size_t i = 0; i < state.memory.size(); ++i)
    for (std::size_t at = 0; at < state.memory[i].size(); ++at)
      state.memory[i][at] = static_cast<std::byte>(at * 31 + at / 251 + i);
  write_checkpoint(folder.path(), {}, state.tensors);
  read_checkpoint(folder.path()).load(back.tensors);
  CHECK(state.memory == back.memory);
}

TEST_CASE("read_checkpoint: lists a tied tensor once, with all its names") {
  scratch_folder const folder;
  write_small(folder, 1);
  auto const tensors = read_checkpoint(folder.path()).tensors();
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[1].names == std::vector<std::string>{"tied.in", "tied.out"});
  std::uint64_t elements = 0;
  for (auto const& t : tensors) elements += t.bytes();
  CHECK(elements == 56);
}

TEST_CASE("checkpoint: load rejects a mismatch, states both sides and loads nothing") {
  scratch_folder const folder;
  write_small(folder, 7);
  auto const found = read_checkpoint(folder.path());
  auto const in = "checkpoint '" + (folder / "checkpoint-00000001-step-7.manifest") + "': ";
  testing::owned_tensors good;
  good.add({"tied.out", "tied.in"}, element_type::i64, {4});
  auto const untouched = good.memory;
  auto const with = [&](std::vector<std::string> names, element_type type, tensor_shape const& shape) {
    auto into = good;
    into.tensors[0].tensor.data = good.memory[0].data();
    into.add(std::move(names), type, shape);
    auto const said = load_refusal(found, into.tensors);
    CHECK((said == "accepted") == (good.memory != untouched));
    return said;
  };
  CHECK(with({"weights"}, element_type::f32, {2, 3}) ==
        in + "no tensor is called 'weights'; nearest: 'weight', 'tied.in', 'tied.out'");
  CHECK(with({"weight"}, element_type::f16, {2, 3}) ==
        in + "'weight' is f32[2, 3] in the checkpoint, but the tensor to be loaded is f16[2, 3]");
  CHECK(with({"weight"}, element_type::f32, {3, 2}) ==
        in + "'weight' is f32[2, 3] in the checkpoint, but the tensor to be loaded is f32[3, 2]");
  CHECK(with({"weight"}, element_type::f32, {6}) ==
        in + "'weight' is f32[2, 3] in the checkpoint, but the tensor to be loaded is f32[6]");
  CHECK(with({"weight", "tied.in"}, element_type::f32, {2, 3}) ==
        in + "'weight' and 'tied.in' name one tensor to be loaded, but two tensors in the checkpoint");
  CHECK(with({"weight"}, element_type::f32, {2, 3}) == "accepted");

  float x = 0;
  std::vector<named_tensor> const nameless{{{}, {&x, element_type::f32, {}}}};
  CHECK_THROWS_AS(found.load(nameless), named_tensor_error);
  CHECK(found.find_load_fault(nameless)->what == fault::missing_name);
}

TEST_CASE("read_checkpoint: rejects a checkpoint of another model and does not skip it") {
  scratch_folder const folder;
  write_small(folder, 1);
  write_small(folder, 2);
  auto const in = "checkpoint '" + (folder / "checkpoint-00000002-step-2.manifest") + "': its note ";
  CHECK(refusal_of(folder, {.expected = {{"digest", "c0ffee"}, {"model", "small"}}}) == "accepted");
  CHECK(refusal_of(folder, {.expected = {{"model", "large"}}}) ==
        in + "'model' is 'small', but 'large' is expected; the checkpoint is of another model");
  CHECK(refusal_of(folder, {.expected = {{"optimiser", "adam"}}}) ==
        in + "'optimiser' is missing, but 'adam' is expected; the checkpoint is of another model");
}

TEST_CASE("read_checkpoint: rejects a folder without a checkpoint and a checkpoint number that is missing") {
  scratch_folder const folder;
  CHECK(refusal_of(folder) ==
        "checkpoint '" + folder.path() +
            "': it has no checkpoint; the files of a step form one only if their manifest exists");
  auto const state = small_state();
  write_checkpoint_part(folder.path(), 1, rank_id{0}, state.tensors);
  CHECK(find_checkpoint_fault(folder.path())->what == fault::none);
  write_small(folder, 1);
  CHECK(refusal_of(folder, {.serial = 3}) == "checkpoint '" + folder.path() + "': it has no checkpoint 3");
  CHECK(find_checkpoint_fault(folder / "missing")->what == fault::none);
}

TEST_CASE("read_checkpoint: skips damaged newer checkpoints and reports them") {
  scratch_folder const folder;
  for (std::uint64_t step = 1; step <= 4; ++step) write_small(folder, step);
  auto const gone = file_of(folder, "step-4-rank-1-", ".part");
  std::filesystem::remove(folder / gone);
  auto const cut = file_of(folder, "checkpoint-00000003", ".manifest");
  std::filesystem::resize_file(folder / cut, 40);

  auto const found = read_checkpoint(folder.path());
  CHECK(found.step() == 2);
  CHECK(found.serial() == 2);
  REQUIRE(found.passed_over().size() == 2);
  CHECK(describe(found.passed_over()[0]) ==
        "'" + (folder / gone) +
            "': the manifest names this file, but it does not exist; copy it to the folder");
  CHECK(found.passed_over()[1].what == fault::length);
  CHECK(found.passed_over()[1].file == folder / cut);
  auto state = small_state();
  found.load(state.tensors);
  CHECK(state.memory == small_state(2).memory);

  CHECK(refusal_of(folder, {.serial = 4}).ends_with("but it does not exist; copy it to the folder"));
  CHECK(read_checkpoint(folder.path(), {.serial = 1}).step() == 1);
  for (auto const& [name, text] : testing::texts_in(folder.path()))
    if (name.ends_with(".part")) std::filesystem::resize_file(folder / name, text.size() - 1);
  CHECK(refusal_of(folder).ends_with("; none of the 3 older ones is complete either"));
}

TEST_CASE("read_checkpoint: skips what is no file of a rank, and damage to the version of a file") {
  scratch_folder const folder;
  for (std::uint64_t step = 1; step <= 3; ++step) write_small(folder, step);
  for (std::string const& name :
       {file_of(folder, "checkpoint-00000003", ".manifest"), file_of(folder, "step-2-rank-1-", ".part")}) {
    std::fstream file(folder / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(7);
    file.put('\5');
  }
  std::filesystem::create_directory(folder / "checkpoint-00000009-step-9.manifest");
  REQUIRE(::mkfifo((folder / "checkpoint-00000008-step-8.manifest").c_str(), 0600) == 0);
  std::ofstream(folder / "checkpoint-18446744073709551615-step-9.manifest");
  auto const found = read_checkpoint(folder.path());
  CHECK(found.step() == 1);
  REQUIRE(found.passed_over().size() == 5);
  CHECK(found.passed_over()[0].what == fault::length);  // empty
  CHECK(describe(found.passed_over()[1]).ends_with("cannot be read: it is not a regular file"));
  CHECK(describe(found.passed_over()[2]).ends_with("cannot be read: it is not a regular file"));
  for (std::size_t i = 3; i < 5; ++i) CHECK(found.passed_over()[i].what == fault::altered);

  write_small(folder, 4);  // its number need not be above those of what is no checkpoint
  CHECK(read_checkpoint(folder.path()).step() == 4);
}

TEST_CASE("read_checkpoint: takes the checkpoint that was written last, even if its step is lower") {
  scratch_folder const folder;
  for (std::uint64_t const step : {10u, 20u, 15u}) write_small(folder, step);
  CHECK(read_checkpoint(folder.path()).step() == 15);
}

TEST_CASE("checkpoint: an open checkpoint loads completely after its files are removed") {
  scratch_folder const folder;
  write_small(folder, 1);
  auto const found = read_checkpoint(folder.path());
  for (auto const& [name, text] : testing::texts_in(folder.path())) std::filesystem::remove(folder / name);
  auto state = small_state();
  found.load(state.tensors);
  CHECK(state.memory == small_state(1).memory);
}

TEST_CASE("find_checkpoint_fault: rejects every file that is cut short anywhere or extended") {
  scratch_folder const folder(in_memory);
  write_small(folder, 1);
  for (auto const& [name, text] : testing::texts_in(folder.path())) {
    for (std::size_t size = 0; size < text.size(); ++size) {
      testing::write_text(folder / name, text.substr(0, size));
      auto const found = find_checkpoint_fault(folder.path());
      REQUIRE_MESSAGE(found, name, " of ", size, " bytes");
      CHECK(found->file == folder / name);
      bool const told = found->what == fault::length || (found->what == fault::altered && size < 4);
      CHECK_MESSAGE(told, name, " of ", size, " bytes: ", describe(*found));
    }
    testing::write_text(folder / name, text + '\0');
    CHECK(find_checkpoint_fault(folder.path())->what == fault::length);
    testing::write_text(folder / name, text);
  }
  CHECK(!find_checkpoint_fault(folder.path()));
}

TEST_CASE("read_checkpoint: rejects 5,000 bit flips and loads nothing from damaged files") {
  scratch_folder const folder(in_memory);
  write_small(folder, 1);
  testing::rng random(6);
  std::set<fault> seen;
  auto const files = testing::texts_in(folder.path());
  for (int i = 0; i < 5'000; ++i) {
    auto const& [name, text] =
        *std::next(files.begin(), static_cast<std::ptrdiff_t>(random.below(files.size())));
    auto altered = text;
    auto const bit = random.below(8 * text.size());
    altered[bit / 8] = static_cast<char>(altered[bit / 8] ^ (1 << bit % 8));
    testing::write_text(folder / name, altered);
    if (i % 2 == 0) {
      auto const found = find_checkpoint_fault(folder.path());
      REQUIRE_MESSAGE(found, "bit ", bit, " of ", name);
      seen.insert(found->what);
    } else {
      auto state = small_state(2);
      CHECK_THROWS_AS(read_checkpoint(folder.path(), {.checked = extent::no_elements}).load(state.tensors),
                      checkpoint_error);
      REQUIRE(state.memory == small_state(2).memory);
    }
    testing::write_text(folder / name, text);
  }
  CHECK(seen == std::set{fault::altered, fault::length});
}

TEST_CASE("read_checkpoint: rejects mixed files of two checkpoints") {
  scratch_folder const folder;
  write_small(folder, 1);
  write_small(folder, 2);
  auto const first = file_of(folder, "step-1-rank-0", ".part"),
             second = file_of(folder, "step-2-rank-0", ".part");
  std::filesystem::copy_file(folder / first, folder / second,
                             std::filesystem::copy_options::overwrite_existing);
  CHECK(refusal_of(folder, {.serial = 2}) ==
        "checkpoint '" + (folder / second) +
            "': its digest differs from the manifest; it is another file, or was altered");
  auto const manifest = file_of(folder, "checkpoint-00000001", ".manifest");
  std::filesystem::rename(folder / manifest, folder / "checkpoint-00000003-step-3.manifest");
  CHECK(refusal_of(folder, {.serial = 3}).ends_with("it is of step 1, which differs from its name"));
}
