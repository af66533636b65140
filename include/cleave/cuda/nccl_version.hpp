// SPDX-License-Identifier: MIT
#pragma once
#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/cuda/nccl_check.hpp"
#include "cleave/run/model/concepts.hpp"

namespace cleave::detail {

/// Which NCCL a rank has, as its numbers: 22809 is 2.28.9.
struct nccl_version {
  std::int32_t header = NCCL_VERSION_CODE;  ///< for which the program was compiled
  std::int32_t library = 0;                 ///< that was loaded

  bool operator==(nccl_version const&) const = default;
};

/// `2.28.9`.
inline std::string nccl_version_text(std::int32_t code) {
  std::int32_t const major = code >= 10000 ? 10000 : 1000;  // 2.9 was the first with five digits
  return std::to_string(code / major) + "." + std::to_string(code % major / 100) + "." +
         std::to_string(code % 100);
}

/// \throws run_error
inline nccl_version own_nccl_version(rank_id here) {
  int code = 0;
  if (auto const r = ncclGetVersion(&code); r != ncclSuccess)
    throw run_error(nccl_failure("ncclGetVersion", r, nullptr, here));
  return {.library = code};
}

/// The rank whose NCCL is older than what its program was compiled for, or other than that of rank 0.
struct nccl_version_fault {
  rank_id rank;
  nccl_version there;
  std::optional<nccl_version> of_rank_0;  ///< nothing: it is the rank alone

  bool operator==(nccl_version_fault const&) const = default;
};

/// An NCCL that cannot be used. The witness: which, and whose.
class nccl_version_error : public witness_error<nccl_version_fault> {
 public:
  explicit nccl_version_error(nccl_version_fault const& f) : witness_error(text_of(f), f) {}

 private:
  static std::string text_of(nccl_version_fault const& f) {
    auto const who = "rank " + std::to_string(index(f.rank));
    auto const have = nccl_version_text(f.there.library), built = nccl_version_text(f.there.header);
    if (!f.of_rank_0)
      return who + " has loaded NCCL " + have + ", but was compiled for " + built +
             "; let it find that library or a newer one first (LD_LIBRARY_PATH)";
    if (f.there.library != f.of_rank_0->library)
      return who + " has loaded NCCL " + have + ", but rank 0 has loaded " +
             nccl_version_text(f.of_rank_0->library) + "; install the same on all machines";
    return who + " was compiled for NCCL " + built + ", but rank 0 for " +
           nccl_version_text(f.of_rank_0->header) + "; start the same program everywhere";
  }
};

/// Of the versions of ranks 0, 1, …: the first that cannot be used, or nothing. O(ranks).
inline std::optional<nccl_version_fault> find_nccl_version_fault(std::span<nccl_version const> of_ranks) {
  for (std::uint32_t r = 0; r < of_ranks.size(); ++r) {
    if (of_ranks[r].library < of_ranks[r].header)
      return nccl_version_fault{rank_id{r}, of_ranks[r], std::nullopt};
    if (of_ranks[r] != of_ranks[0]) return nccl_version_fault{rank_id{r}, of_ranks[r], of_ranks[0]};
  }
  return std::nullopt;
}

/// Every rank tells all others which NCCL it has; all find the same fault. Each of `ranks` ranks of the board
/// calls it. \throws nccl_version_error, on all ranks; run_error
template <meeting_board B>
void agree_on_nccl(B& board, rank_id here, std::uint32_t ranks, std::chrono::steady_clock::time_point until) {
  std::vector<nccl_version> all(ranks);
  all[index(here)] = own_nccl_version(here);
  for (std::uint32_t r = 0; r < ranks; ++r)
    board.broadcast(std::as_writable_bytes(std::span(&all[r], 1)), rank_id{r}, until);
  if (auto const fault = find_nccl_version_fault(all)) throw nccl_version_error(*fault);
}

}  // namespace cleave::detail
