// SPDX-License-Identifier: MIT
#include "cleave/checkpoint/checkpoint_data.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "support/scratch_folder.hpp"

using namespace cleave;

using namespace cleave::detail;
using kind = checkpoint_file::kind;

TEST_CASE("find_checkpoint_file: recognises parts, manifests and unfinished files by their names") {
  checkpoint_part const part{9, 100, 50, {0x0123456789abcdef, 0xf}, rank_id{3}};
  CHECK(part_name(part) == "step-9-rank-3-000000000000000f0123456789abcdef.part");
  CHECK(manifest_stem(12, 9) == "checkpoint-00000012-step-9");
  CHECK(manifest_stem(1'234'567'890, 9) == "checkpoint-1234567890-step-9");
  auto const found = [](std::string const& name) { return find_checkpoint_file(name).value(); };
  CHECK(found(part_name(part)) == checkpoint_file{kind::part, 9, 0, part_name(part)});
  CHECK(found("checkpoint-00000012-step-9.manifest") ==
        checkpoint_file{kind::manifest, 9, 12, "checkpoint-00000012-step-9.manifest"});
  CHECK(found("step-7-rank-3.411-0.unfinished").what == kind::unfinished);
  CHECK(found("step-7-rank-3.411-0.unfinished").step == 7);
  CHECK(found("checkpoint-00000012-step-9.411-0.unfinished").what == kind::unfinished);
}

TEST_CASE("find_checkpoint_file: ignores names that do not belong to a checkpoint") {
  for (auto const* name :
       {"", "notes.txt", "checkpoint-", "checkpoint-1", "checkpoint-1-step-", "checkpoint-1-step-9",
        "checkpoint-1-step-9.manifest.old", "checkpoint--1-step-9.manifest", "checkpoint-x-step-9.manifest",
        "checkpoint-99999999999999999999999-step-9.manifest", "step-9-rank-3.part", "step-9-rank-3",
        "step-9-rank--a.part", "step-9.unfinished", "step-9-rank-1unfinished", "my-step-9-rank-3-a.part"})
    CHECK_MESSAGE(!find_checkpoint_file(name), name);
}

TEST_CASE("checkpoint_files: lists the newest manifest first, even if its step is lower") {
  testing::scratch_folder const folder;
  for (auto const* name : {"checkpoint-00000009-step-90.manifest", "checkpoint-00000010-step-8.manifest",
                           "checkpoint-00000100-step-9.manifest", "step-9-rank-0-a.part", "other"})
    std::ofstream(folder / name) << "x";
  auto const files = checkpoint_files(folder.path());
  REQUIRE(files.size() == 4);
  CHECK(files[0].serial == 100);
  CHECK(files[1].serial == 10);
  CHECK(files[2].serial == 9);
  CHECK(files[3].what == kind::part);
}

TEST_CASE("checkpoint_files: reports a folder that cannot be read") {
  testing::scratch_folder const folder;
  auto const missing = folder / "missing";
  CHECK_THROWS_WITH_AS(
      checkpoint_files(missing),
      ("checkpoint '" + missing + "': it cannot be read as a folder: No such file or directory").c_str(),
      checkpoint_error);
}
