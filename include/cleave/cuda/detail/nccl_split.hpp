// SPDX-License-Identifier: MIT
#pragma once
#include <nccl.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "cleave/cuda/nccl_rank.hpp"

namespace cleave::inline v0_2::detail {

/// The arguments of a split. Ranks of the same colour are connected, ordered by key.
struct nccl_split_options {
  std::optional<int> colour = {};  ///< none: this rank gets no communicator
  int key = 0;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
};

/// What NCCL reads and writes in a split. It may outlast the rank, which may give the split up.
class nccl_split_result {
 public:
  explicit nccl_split_result(ncclConfig_t const& config) : config_(config) {}

  ncclComm_t handle() const { return handle_; }
  /// Makes the call. One that blocks returns once all ranks have made it.
  ncclResult_t call(ncclComm_t of, nccl_split_options const& o) {
    return ncclCommSplit(of, o.colour.value_or(NCCL_SPLIT_NOCOLOR), o.key, &handle_, &config_);
  }
  /// Called by the thread of the call when it has ended, and by the rank if it gives the call up. Returns the
  /// new communicator to the second of them, which must end it, or null.
  ncclComm_t take_last() { return is_taken_.exchange(true) ? handle_ : nullptr; }

  /// Keeps `r` as long as the program runs, because NCCL may write to it at any time.
  static void keep(std::unique_ptr<nccl_split_result> r) noexcept {
    static std::atomic<nccl_split_result*> last = nullptr;
    auto* const kept = r.release();
    kept->earlier_ = last.exchange(kept);
  }

 private:
  ncclComm_t handle_ = nullptr;
  ncclConfig_t config_;
  std::atomic<bool> is_taken_ = false;
  nccl_split_result* earlier_ = nullptr;  // in the list of those that are kept
};

/// Splits the communicator of `from` and writes the new one to `made`: null without a colour. If it throws,
/// `made` is null, or a communicator that has arrived all the same and must be aborted. Collective.
/// \throws run_error if the call fails, or other ranks do not make it within `nccl_options::connect_within`
inline void split_communicator(nccl_rank& r, nccl_slot const& from, ncclComm_t& made,
                               nccl_split_options const& o) {
  static constexpr std::string_view name = "ncclCommSplit";
  if (from.blocks) {
    auto const result = std::make_shared<nccl_split_result>(o.config);
    try {
      r.connecting_call(name, from, [result, with = from.handle, o] {
        auto const ended = result->call(with, o);
        if (ended != ncclSuccess) return ended;
        if (auto const late = result->take_last()) static_cast<void>(ncclCommAbort(late));
        return ended;
      });
    } catch (...) {
      made = result->take_last();
      throw;
    }
    made = result->handle();
    return;
  }
  auto result = std::make_unique<nccl_split_result>(o.config);
  try {
    r.check(name, result->call(from.handle, o), from.handle);
    r.settle(name, from.handle, r.options().connect_within,
             [&] { return !o.colour || result->handle() != nullptr; });
  } catch (...) {
    made = result->handle();
    if (!made) nccl_split_result::keep(std::move(result));
    throw;
  }
  made = result->handle();
}

}  // namespace cleave::detail
