// SPDX-License-Identifier: MIT
#pragma once
#include <nccl.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/run/model/failure.hpp"

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 18, 1)
#error "cleave needs NCCL 2.18.1 or newer, whose communicators can be split"
#endif

namespace cleave::inline v0_2::detail {

/// The result of an NCCL call.
struct nccl_answer {
  std::string_view call;  ///< name of the function: `ncclSend`
  ncclResult_t result = ncclSuccess;
  std::string_view sentence = {};    ///< error string of the result
  std::string_view last_error = {};  ///< text of the latest error
};

/// Returns advice for an error, or an empty string if NCCL's own text is enough.
constexpr std::string_view nccl_remedy(nccl_answer const& a) {
  auto const says = [&](std::string_view words) { return a.last_error.find(words) != words.npos; };
  if (says("Duplicate GPU detected"))
    return NCCL_VERSION_CODE >= NCCL_VERSION(2, 30, 0)
               ? "give each rank a GPU of its own; to try several ranks on one, set "
                 "NCCL_MULTI_RANK_GPU_ENABLE=1, or give each process another NCCL_HOSTID"
               : "give each rank a GPU of its own; to try several ranks on one, give each process another "
                 "NCCL_HOSTID, with NCCL_NET=Socket";
  if (says("driver version is insufficient"))
    return "install a driver, or a newer one; nvidia-smi shows the installed version";
  if (says("out of memory")) return "other programs may be using GPU memory; nvidia-smi lists them";
  switch (a.result) {
    case ncclSystemError:
      return "often caused by the network or by shared memory: NCCL_SOCKET_IFNAME chooses the interface, a "
             "container may need a larger /dev/shm";
    default:
      return {};
  }
}

/// Returns the failure code for a result: a lost peer, a device error, or a transport error.
constexpr failure_code failure_code_of(ncclResult_t r) {
  return r == ncclRemoteError          ? failure_code::peer_lost
         : r == ncclUnhandledCudaError ? failure_code::device
                                       : failure_code::transport;
}

/// Returns the failure that `reporter` noticed: `rank 1: transport error: ncclCommInitRankConfig: invalid
/// usage: Duplicate GPU detected …; give each …`.
inline failure nccl_failure(nccl_answer const& a, rank_id reporter) {
  auto text = std::string(a.call) + ": " + std::string(a.sentence);
  if (!a.last_error.empty()) text += ": " + printable(a.last_error, 400);
  if (auto const remedy = nccl_remedy(a); !remedy.empty()) text.append("; ").append(remedy);
  return {.code = failure_code_of(a.result), .detail = std::move(text), .reporter = reporter};
}

/// Returns the failure of a call, with the texts from NCCL. A null `of` means the latest error of any
/// communicator.
inline failure nccl_failure(std::string_view call, ncclResult_t r, ncclComm_t of, rank_id reporter) {
  char const *const sentence = ncclGetErrorString(r), *const last = ncclGetLastError(of);
  return nccl_failure({call, r, sentence ? sentence : "", last ? last : ""}, reporter);
}

/// Returns the failure for a call that did not end in time.
inline failure nccl_timeout(std::string_view call, std::int64_t milliseconds, rank_id reporter) {
  return {.code = failure_code::timeout,
          .detail = std::string(call) + " did not finish within " + std::to_string(milliseconds) +
                    " ms; check that all ranks are running and can reach each other: NCCL_SOCKET_IFNAME "
                    "selects the interface, NCCL_DEBUG=INFO prints details",
          .reporter = reporter};
}

/// Returns the failure for a group with too many messages.
inline failure too_many_messages(std::size_t together, std::uint32_t most, rank_id reporter) {
  return {.code = failure_code::transport,
          .detail = std::to_string(together) + " messages are in one group, but at most " +
                    std::to_string(most) +
                    " are allowed; use smaller groups (message_grouping::none), or raise "
                    "cuda::nccl_options::largest_group",
          .reporter = reporter};
}

}  // namespace cleave::detail
