// SPDX-License-Identifier: MIT
#include "cleave/cuda/detail/nccl_check.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string told(nccl_answer const& a) { return describe(nccl_failure(a, rank_id{2})); }

}  // namespace

TEST_CASE("nccl_failure: names the rank, the call, NCCL's result and its last error") {
  CHECK(told({"ncclSend", ncclInvalidArgument, "invalid argument (run with NCCL_DEBUG=WARN for details)",
              "Send : invalid root 7"}) ==
        "rank 2: transport error: ncclSend: invalid argument (run with NCCL_DEBUG=WARN for details): Send : "
        "invalid root 7");
  CHECK(told({"ncclGroupEnd", ncclInternalError, "internal error", ""}) ==
        "rank 2: transport error: ncclGroupEnd: internal error");
}

TEST_CASE("nccl_failure: shortens long NCCL messages and escapes control characters") {
  auto const text =
      told({"ncclSend", ncclInvalidUsage, "invalid usage", "a\nb\x1b[1m" + std::string(5000, 'x')});
  CHECK(text.find("a\\x0ab\\x1b[1m") != text.npos);
  CHECK(text.size() < 600);
}

TEST_CASE("failure_code_of: maps ncclRemoteError to peer_lost and CUDA errors to device") {
  CHECK(failure_code_of(ncclRemoteError) == failure_code::peer_lost);
  CHECK(failure_code_of(ncclUnhandledCudaError) == failure_code::device);
  CHECK(failure_code_of(ncclSystemError) == failure_code::transport);
  CHECK(told({"NCCL", ncclRemoteError, "remote process exited or there was a network error"}) ==
        "rank 2: peer lost: NCCL: remote process exited or there was a network error");
}

TEST_CASE("nccl_remedy: gives a remedy for errors that have one") {
  auto const duplicate = told({"ncclCommInitRankConfig", ncclInvalidUsage, "invalid usage",
                               "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000"});
  CHECK(
      duplicate.starts_with("rank 2: transport error: ncclCommInitRankConfig: invalid usage: Duplicate GPU "
                            "detected : rank 1 and rank 0 both on CUDA device 1000; give each rank a GPU of "
                            "its own; to try several ranks on one, "));
  CHECK(duplicate.find("NCCL_HOSTID") != duplicate.npos);
  CHECK((duplicate.find("NCCL_MULTI_RANK_GPU_ENABLE=1") != duplicate.npos) ==
        (NCCL_VERSION_CODE >= NCCL_VERSION(2, 30, 0)));
  auto const remedy = [](ncclResult_t r, char const* last) {
    return std::string(nccl_remedy({"ncclCommInitRankConfig", r, "", last}));
  };
  CHECK(remedy(ncclUnhandledCudaError,
               "Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'") ==
        "install a driver, or a newer one; nvidia-smi shows the installed version");
  CHECK(remedy(ncclUnhandledCudaError, "Cuda failure 'out of memory'") ==
        "other programs may be using GPU memory; nvidia-smi lists them");
  CHECK(remedy(ncclSystemError, "socketStartConnect: Connect to 10.0.0.3 failed")
            .starts_with("often caused by the network"));
  CHECK(remedy(ncclInvalidUsage, "").empty());
}

TEST_CASE("nccl_timeout: tells how long the call had and how to find the cause") {
  CHECK(describe(nccl_timeout("ncclCommSplit", 1500, rank_id{3})) ==
        "rank 3: timed out: ncclCommSplit did not finish within 1500 ms; check that all ranks are running "
        "and can reach each other: NCCL_SOCKET_IFNAME selects the interface, NCCL_DEBUG=INFO prints details");
}
