// SPDX-License-Identifier: MIT
#include "cleave/checkpoint.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "cleave/formats/files/durable_file.hpp"
#include "support/allocation_faults.hpp"
#include "support/scratch_folder.hpp"

using namespace cleave;
using testing::check_each_failure;
using testing::scratch_folder;

namespace {

/// The state of a rank: two tensors, of which one has two names.
struct small_state {
  std::vector<float> weight = std::vector<float>(6, 1.5F);
  std::vector<double> bias = std::vector<double>(3, 2.5);
  std::vector<named_tensor> named = {
      {{"a weight with a long name", "its tie"}, {weight.data(), element_type::f32, {2, 3}}},
      {{"bias"}, {bias.data(), element_type::f64, {3}}}};
};

std::size_t files_in(scratch_folder const& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

/// Returns the number of open files of this process.
std::size_t open_files() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

}  // namespace

TEST_CASE("write_checkpoint: each allocation that fails is told, and the newest checkpoint is whole") {
  scratch_folder const folder(scratch_folder::in_memory());
  small_state state;
  std::uint64_t step = 0, newest_step = 0;
  auto const open = open_files();
  check_each_failure(
      [&] {
        write_checkpoint(folder.path(), {++step, {{"model", "a model of the test"}}}, state.named);
        newest_step = step;
        return true;
      },
      [&] {
        if (open_files() != open) return false;
        auto const newest = read_checkpoint(folder.path());
        return newest.passed_over().empty() && newest.step() == newest_step;
      });
  write_checkpoint(folder.path(), {++step, {}}, state.named);
  CHECK(files_in(folder) == 4);  // two checkpoints, nothing that was begun
}

TEST_CASE("write_checkpoint_part: nothing remains of a file that could not be written") {
  scratch_folder const folder(scratch_folder::in_memory());
  small_state state;
  auto const open = open_files();
  bool written = false;
  check_each_failure(
      [&] {
        written = false;
        auto const part = write_checkpoint_part(folder.path(), 7, rank_id{1}, state.named);
        written = true;
        return part;
      },
      [&] {
        auto const files = files_in(folder);
        for (auto const& entry : std::filesystem::directory_iterator(folder.path()))
          std::filesystem::remove(entry.path());
        return open_files() == open && files == (written ? 1 : 0);
      });
  CHECK(written);
}

TEST_CASE("read_checkpoint: each allocation that fails is told, and no damage is seen in its place") {
  scratch_folder const folder(scratch_folder::in_memory());
  small_state state, loaded;
  write_checkpoint(folder.path(), {1, {}}, state.named);
  write_checkpoint(folder.path(), {2, {}}, state.named);
  auto const open = open_files();
  check_each_failure(
      [&] {
        loaded.weight.assign(6, 0.F);
        auto const c = read_checkpoint(folder.path());
        c.load(loaded.named);
        return c.step() * 100 + c.tensors().size();
      },
      [&] { return open_files() == open && files_in(folder) == 4; });
  CHECK(loaded.weight == state.weight);
}

TEST_CASE("pending_files: a file that could not be begun leaves the others with their names") {
  scratch_folder const folder(scratch_folder::in_memory());
  auto const open = open_files();
  std::string const text = "some text", other = "another text";
  check_each_failure(
      [&] {
        pending_files files(folder.path());
        files.add("the first file of several", std::as_bytes(std::span(text)));
        try {
          files.add("the second file of several", std::as_bytes(std::span(other)));
        } catch (std::bad_alloc const&) {
          files.add("the second file of several", std::as_bytes(std::span(other)));  // there is memory again
        }
        files.keep();
        bool const right = std::filesystem::file_size(folder / "the first file of several") == text.size() &&
                           std::filesystem::file_size(folder / "the second file of several") == other.size();
        for (auto const* name : {"the first file of several", "the second file of several"})
          std::filesystem::remove(folder / name);
        return right && files_in(folder) == 0;
      },
      [&] {
        for (auto const& entry : std::filesystem::directory_iterator(folder.path()))
          std::filesystem::remove(entry.path());
        return open_files() == open;
      });
}
