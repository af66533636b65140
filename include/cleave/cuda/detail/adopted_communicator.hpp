// SPDX-License-Identifier: MIT
#pragma once
#include <nccl.h>

#include <cstdint>
#include <string>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/cuda/nccl_rank.hpp"

namespace cleave::inline v0_2::cuda {

/// A communicator that the caller has made, and ends. It must outlive the pipeline. The run calls it only
/// while a pipeline is constructed, to split communicators of its own from it.
struct adopted_communicator {
  ncclComm_t handle = nullptr;  ///< null: the run makes one
  /// Blocking, unless the caller made the communicator with `ncclConfig_t::blocking = 0`.
  cuda::nccl_calls calls = cuda::nccl_calls::blocking;
  /// The action on the communicator after a failure of the run. `left`: none; if a rank was missing in a
  /// split, a thread stays until the caller aborts the communicator. `aborted`: the run aborts it, also if it
  /// fails before it has used it, and the caller must not use it any more.
  enum class on_failure : std::uint8_t { left, aborted } on_failure = on_failure::left;
};

}  // namespace cleave::cuda

namespace cleave::inline v0_2::detail {

inline nccl_slot slot_of(cuda::adopted_communicator const& a) {
  return {.handle = a.handle,
          .blocks = a.calls == cuda::nccl_calls::blocking,
          .owner = a.on_failure == cuda::adopted_communicator::on_failure::left
                       ? nccl_owner::caller
                       : nccl_owner::caller_until_failure};
}

/// Aborts a communicator that the run has not used before it failed, if the caller has allowed that.
inline void abort_unused(cuda::adopted_communicator const& a) noexcept {
  bool const may_abort = a.on_failure == cuda::adopted_communicator::on_failure::aborted;
  if (a.handle && may_abort) static_cast<void>(ncclCommAbort(a.handle));
}

/// A communicator of the caller that does not have the ranks of the run, or another GPU.
struct adopted_communicator_fault {
  static constexpr char subject[] = "cuda::adopted_communicator: ";
  enum class kind : std::uint8_t {
    size,  ///< it has `got` ranks, but the run has `wanted`
    rank,  ///< this process is rank `got` of it, but rank `wanted` of the run
    gpu,   ///< it uses GPU `got`, but this rank uses GPU `wanted`
  };
  kind what;
  std::uint32_t got, wanted;

  bool operator==(adopted_communicator_fault const&) const = default;
};

/// Says what differs, and what to do.
inline std::string describe(adopted_communicator_fault const& f) {
  auto const got = std::to_string(f.got), wanted = std::to_string(f.wanted);
  switch (f.what) {
    case adopted_communicator_fault::kind::size:
      return "it has " + got + " ranks, but the run has " + wanted + "; pass one with all ranks of the run";
    case adopted_communicator_fault::kind::rank:
      return "this process is rank " + got + " of it, but rank " + wanted +
             " of the run; number the ranks of both in the same way";
    case adopted_communicator_fault::kind::gpu:
      return "it uses GPU " + got + ", but this rank uses GPU " + wanted +
             "; choose that GPU with cuda::pipeline_options::gpu";
  }
  return {};
}

using adopted_communicator_error = fault_error<adopted_communicator_fault>;

/// Checks that `c` has the ranks of the run, and the GPU of this one.
/// \throws adopted_communicator_error, run_error
inline void require_adoptable(nccl_rank const& r, ncclComm_t c, rank_id here, std::uint32_t size) {
  using kind = adopted_communicator_fault::kind;
  int count = 0, number = 0, gpu = 0;
  r.check("ncclCommCount", ncclCommCount(c, &count), c);
  r.check("ncclCommUserRank", ncclCommUserRank(c, &number), c);
  r.check("ncclCommCuDevice", ncclCommCuDevice(c, &gpu), c);
  auto const require = [](kind what, int got, std::uint32_t wanted) {
    if (static_cast<std::uint32_t>(got) != wanted)
      throw adopted_communicator_error({what, static_cast<std::uint32_t>(got), wanted});
  };
  require(kind::size, count, size);
  require(kind::rank, number, index(here));
  require(kind::gpu, gpu, static_cast<std::uint32_t>(r.device().number()));
}

}  // namespace cleave::detail
