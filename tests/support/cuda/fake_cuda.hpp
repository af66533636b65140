// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// A CUDA runtime and an NCCL for machines without a GPU: what g++ and nvcc compiled for the real libraries
/// is linked to these functions instead. Streams are threads, kernels are bodies that tests bind, ranks are
/// threads of one process. Memory is filled with NaN, kernel parameters are copied when launched, and what
/// the real libraries leave undefined is reported. Of order, only what streams, events and messages promise
/// counts: two accesses of the same bytes that nothing orders are reported whenever they happen, however they
/// fell.
namespace cleave::testing {

struct fake_gpu {
  std::string name = "Fake GPU";
  int major = 9, minor = 0;
  int processors = 4;
  std::size_t memory = std::size_t{8} << 30;  ///< in bytes
};

/// Whether devices reach each other's memory.
enum class fake_peers { reachable, apart };
/// An absent driver fails all calls with `cudaErrorInsufficientDriver`.
enum class fake_driver { present, absent };
/// NCCL refuses two ranks on one GPU, unless their hosts have different names.
enum class ranks_on_one_gpu { refused, allowed };
/// `one_thread`: each communicator is called by the thread that made it; others are reported.
enum class nccl_callers { any_thread, one_thread };
/// Whether groups of several communicators of a GPU progress at once, or each only when those issued before
/// it have ended: NCCL promises neither.
enum class fake_groups { at_once, in_turn };
/// NCCL calls that never settle (`abort` never returns), until `fake_cuda::release`.
enum class fake_nccl_hang { init, split, group, revoke, finalize, abort };
/// Whether the peers of a rank that has died see an error: over a network they do, within a machine not.
enum class fake_death { seen, unseen };

struct fake_cuda_options {
  std::uint64_t seed = 1;                      ///< of the delays
  std::chrono::microseconds longest_delay{0};  ///< before one in three items of a stream
  std::vector<fake_gpu> devices = {fake_gpu()};
  fake_driver driver = fake_driver::present;
  fake_peers peers = fake_peers::reachable;
  std::size_t queue_limit = 1024;  ///< unfinished items of a stream; enqueueing more blocks
  int nccl_version = NCCL_VERSION_CODE;
  ranks_on_one_gpu sharing = ranks_on_one_gpu::refused;
  nccl_callers callers = nccl_callers::any_thread;
  fake_groups groups = fake_groups::at_once;
  std::chrono::microseconds longest_settling{200};  ///< of a non-blocking NCCL call
};

/// A call of `cudaStreamWaitEvent`, counted from 0 in all, in its stream, and in the thread that calls.
struct fake_wait {
  std::size_t number, in_stream, in_thread;
  int device;
  std::size_t stream;  ///< as reports number them
};

/// One test's time with the fake libraries: everything is as new when it begins, and gone when it ends.
/// Without one the defaults hold. No other thread may be inside a call when it begins or ends.
class fake_cuda {
 public:
  explicit fake_cuda(fake_cuda_options const& options = {});
  /// Releases what hangs, aborts communicators, waits for streams, frees all. Ends the program if there are
  /// reports that nobody has asked for.
  ~fake_cuda();
  fake_cuda(fake_cuda const&) = delete;
  fake_cuda& operator=(fake_cuda const&) = delete;

  /// Races and misuse so far, as sentences, each once. Waits for the streams to become idle, if they do soon.
  std::vector<std::string> reports() const;
  /// What has been created and is not destroyed: devices' memory, streams, events, graphs, communicators.
  std::vector<std::string> leaks() const;

  /// The waits that `which` is true for are left out from now on: programs without them must be found wrong.
  void ignore_waits(std::function<bool(fake_wait const&)> which);
  std::size_t waits() const;
  /// Of the waits left out, what those were for that would have told their stream something.
  std::vector<std::string> missed() const;

  /// The `nth` call of `function` from now on, 1 being the next, does nothing and returns `code`.
  void fail(std::string const& function, std::size_t nth, int code);
  /// Every call for that device returns `error` from now on, as after a kernel that has crashed.
  void fail_device(int device, cudaError_t error);
  std::size_t calls(std::string const& function) const;
  /// Allocations beyond so many bytes in all fail.
  void limit_memory(int device, std::size_t bytes);

  /// The `nth` run from now on of a kernel whose name contains `part` does not end before `release`.
  void hang(std::string const& part, std::size_t nth);
  /// Ends all that hangs, and lets nothing hang from now on.
  void release();

  /// The calling thread reads or writes memory of the host that copies read or write too.
  void host_reads(void const* from, std::size_t bytes, std::string const& name);
  void host_writes(void* to, std::size_t bytes, std::string const& name);
  /// All threads know from now on what any of them knows: they have met in a way that no call tells.
  void threads_met();

  void hang_nccl(fake_nccl_hang what);
  /// The rank of that number, in every communicator that is not a split one, dies where it would begin the
  /// `group`-th group from now on, 1 being the next: its messages never end.
  void kill_rank(int rank, std::size_t group, fake_death death);
  /// An asynchronous error of that rank's communicators.
  void fail_communicators(int rank, ncclResult_t error);
  /// What `NCCL_HOSTID` says to the calling thread.
  void host(std::string const& name);

 private:
  mutable bool asked_ = false;
};

/// What a kernel reads and writes, in bytes.
class fake_accesses {
 public:
  struct range {
    void const* data;
    std::size_t bytes;
    bool is_write;
  };

  void reads(void const* from, std::size_t bytes) { ranges_.push_back({from, bytes, false}); }
  void writes(void const* to, std::size_t bytes) { ranges_.push_back({to, bytes, true}); }
  std::vector<range> const& ranges() const { return ranges_; }

 private:
  std::vector<range> ranges_;
};

/// What a launch of a kernel does here, its parameters by their places. Bodies run one at a time in the whole
/// program, and call nothing of these libraries.
struct fake_kernel {
  struct parameter {
    std::size_t size, alignment;
    bool is_pointer;
  };
  std::vector<parameter> parameters;
  std::function<void(dim3, dim3, void* const*)> body;
  std::function<void(fake_accesses&, dim3, dim3, void* const*)> accesses;  // empty: not known
};

/// Stays bound until the program ends; binding anew replaces.
void bind_kernel(void const* stub, fake_kernel kernel);

/// Binds the kernel whose stub (`&kernel<float>` in a source that nvcc compiles) it is: `body(grid, block,
/// parameters…)` runs once a launch.
template <class... Parameters, class Body>
void bind_kernel(void (*stub)(Parameters...), Body body) {
  auto const run = [body]<std::size_t... I>(dim3 grid, dim3 block, void* const* p,
                                            std::index_sequence<I...>) {
    body(grid, block, *static_cast<std::remove_cvref_t<Parameters> const*>(p[I])...);
  };
  fake_kernel k;
  k.parameters = {{sizeof(Parameters), alignof(Parameters), std::is_pointer_v<Parameters>}...};
  k.body = [run](dim3 grid, dim3 block, void* const* p) {
    run(grid, block, p, std::index_sequence_for<Parameters...>());
  };
  bind_kernel(reinterpret_cast<void const*>(stub), std::move(k));
}

/// The same for a kernel that says what it touches: `accesses(a, grid, block, parameters…)` tells `a`. It is
/// asked when the work runs, so that tables in the device's memory can be read; bounds and races are checked.
template <class... Parameters, class Body, class Accesses>
void bind_kernel(void (*stub)(Parameters...), Body body, Accesses accesses) {
  auto const run = [body]<std::size_t... I>(dim3 grid, dim3 block, void* const* p,
                                            std::index_sequence<I...>) {
    body(grid, block, *static_cast<std::remove_cvref_t<Parameters> const*>(p[I])...);
  };
  auto const tell = [accesses]<std::size_t... I>(fake_accesses& a, dim3 grid, dim3 block, void* const* p,
                                                 std::index_sequence<I...>) {
    accesses(a, grid, block, *static_cast<std::remove_cvref_t<Parameters> const*>(p[I])...);
  };
  fake_kernel k;
  k.parameters = {{sizeof(Parameters), alignof(Parameters), std::is_pointer_v<Parameters>}...};
  k.body = [run](dim3 grid, dim3 block, void* const* p) {
    run(grid, block, p, std::index_sequence_for<Parameters...>());
  };
  k.accesses = [tell](fake_accesses& a, dim3 grid, dim3 block, void* const* p) {
    tell(a, grid, block, p, std::index_sequence_for<Parameters...>());
  };
  bind_kernel(reinterpret_cast<void const*>(stub), std::move(k));
}

}  // namespace cleave::testing
