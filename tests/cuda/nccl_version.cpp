// SPDX-License-Identifier: MIT
#include "cleave/cuda/pipeline.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string fault_text(std::vector<nccl_version> const& of_ranks) {
  auto const f = find_nccl_version_fault(of_ranks);
  if (!f) return "";
  CHECK(nccl_version_error(*f).witness == *f);
  return nccl_version_error(*f).what();
}

}  // namespace

TEST_CASE("nccl_version_text: writes version numbers as NCCL does") {
  CHECK(nccl_version_text(22809) == "2.28.9");
  CHECK(nccl_version_text(21805) == "2.18.5");
  CHECK(nccl_version_text(2804) == "2.8.4");
  CHECK(nccl_version_text(NCCL_VERSION_CODE) ==
        std::to_string(NCCL_MAJOR) + "." + std::to_string(NCCL_MINOR) + "." + std::to_string(NCCL_PATCH));
}

TEST_CASE(
    "find_nccl_version_fault: accepts equal versions on all ranks, also a library newer than the header") {
  CHECK(fault_text({}) == "");
  CHECK(fault_text({{22809, 22809}, {22809, 22809}}) == "");
  CHECK(fault_text({{21805, 22809}, {21805, 22809}, {21805, 22809}}) == "");
}

TEST_CASE("find_nccl_version_fault: names the rank whose library is older than its header") {
  CHECK(fault_text({{22809, 22809}, {22809, 22703}}) ==
        "rank 1 has loaded NCCL 2.27.3, but was compiled for 2.28.9; put that version or a newer one first "
        "in LD_LIBRARY_PATH");
}

TEST_CASE("find_nccl_version_fault: names a rank whose version differs from rank 0's") {
  CHECK(fault_text({{22703, 22703}, {22703, 22703}, {22703, 22809}}) ==
        "rank 2 has loaded NCCL 2.28.9, but rank 0 has loaded 2.27.3; install the same version on all hosts");
  CHECK(fault_text({{22703, 22809}, {22809, 22809}}) ==
        "rank 1 was compiled for NCCL 2.28.9, but rank 0 for 2.27.3; run the same program on all ranks");
}
