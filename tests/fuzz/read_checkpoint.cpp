// SPDX-License-Identifier: MIT
// Fuzzes the payload of a checkpoint envelope and the files of a folder: the bytes must be rejected or
// survive a round trip. Checksums are corrected first, because no mutation would get them right.
#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/checkpoint/checkpoint.hpp"
#include "cleave/checkpoint/checkpoint_data.hpp"
#include "cleave/core/expects.hpp"
#include "fuzz/unless_refused.hpp"
#include "support/check_checkpoint.hpp"
#include "support/scratch_folder.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::content_fault;
using cleave::testing::scratch_folder;
using cleave::testing::unless_refused;

namespace {

/// A folder that holds the files of one checkpoint.
class only_checkpoint {
 public:
  /// Writes a manifest of that step, as it is or in an envelope, and a part if there is one.
  void write(std::uint64_t step, std::span<std::byte const> manifest) const {
    keep(manifest_stem(1, step) + std::string(manifest_ending), manifest);
  }
  void keep(std::string const& name, std::span<std::byte const> bytes) const {
    cleave::file_handle(folder_ / name, O_WRONLY | O_CREAT | O_TRUNC, "created").write(bytes);
  }
  std::string path() const { return folder_.path(); }

 private:
  scratch_folder folder_{scratch_folder::in_memory()};
};

/// Reads the manifest, whose parts are missing, as a folder has it.
void check_manifest(std::span<std::byte const> bytes) {
  std::uint64_t step = 9;
  content_fault(bytes, [&](checkpoint_content const& c) { step = c.manifest().label.step; });
  for (auto const& file : {seal_envelope(bytes), std::vector<std::byte>(bytes.begin(), bytes.end())}) {
    only_checkpoint const folder;
    folder.write(step, file);
    auto const read = unless_refused([&] { return read_checkpoint(folder.path()).step(); });
    expects(!read || *read == step, "a checkpoint of that step");
  }
}

/// Reads the file of a rank with this index, whose elements are zeros, if they are few.
void check_part(std::span<std::byte const> bytes) {
  std::optional<checkpoint_index> index;
  content_fault(bytes, [&](checkpoint_content const& c) { index = c.index(); });
  std::uint64_t elements = 0;
  for (std::size_t i = 0; index && i < index->tensors.size(); ++i) {
    auto const more = index->tensors[i].bytes();
    if (more > 65536) return;
    elements += more;
  }
  if (!index || elements > 65536) return;
  auto file = seal_envelope(bytes);
  checkpoint_part const part{index->step, file.size() + elements, file.size(), digest_of(bytes), index->rank};
  file.resize(part.bytes);
  only_checkpoint const folder;
  folder.keep(part_name(part), file);
  folder.write(part.step, seal_envelope(content_of(checkpoint_manifest{{part.step, {}}, {part}})));
  unless_refused([&] {
    auto const c = read_checkpoint(folder.path());
    expects(c.step() == part.step, "the step of the part");
    return true;
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const bytes = std::as_bytes(std::span(data, size));
  cleave::testing::taken_for_checkpoint(bytes);
  find_checkpoint_file({reinterpret_cast<char const*>(data), size});
  check_manifest(bytes);
  check_part(bytes);
  return 0;
}
