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

/// A CUDA runtime and an NCCL for machines without a GPU. Code compiled by g++ and nvcc for the real
/// libraries is linked to these functions instead. Streams are threads, kernels are bodies that tests bind,
/// and ranks are threads of one process.
///
/// New memory is filled with NaN, and kernel parameters are copied at launch. Undefined use of the real
/// libraries is reported. Only streams, events and messages order work: two unordered accesses to the same
/// bytes are reported as a race in every interleaving.
namespace cleave::testing {

struct fake_gpu {
  std::string name = "Fake GPU";
  int major = 9, minor = 0;
  int processors = 4;
  std::size_t memory = std::size_t{8} << 30;  ///< in bytes
};

/// Selects if devices can access each other's memory.
enum class fake_peers { reachable, apart };
/// An absent driver fails all calls with `cudaErrorInsufficientDriver`.
enum class fake_driver { present, absent };
/// NCCL refuses two ranks on one GPU, unless their hosts have different names.
enum class ranks_on_one_gpu { refused, allowed };
/// `one_thread`: only the thread that made a communicator may call it; calls from other threads are reported.
/// One that blocks may be called from any thread, one at a time, and any communicator may be aborted.
enum class nccl_callers { any_thread, one_thread };
/// Selects if groups of several communicators of a GPU progress concurrently, or in issue order only. NCCL
/// guarantees neither.
enum class fake_groups { at_once, in_turn };
/// NCCL calls that hang (`abort` never returns) until `fake_cuda::release`.
enum class fake_nccl_hang { init, split, group, revoke, finalize, abort };
/// Selects if the peers of a dead rank see an error. Over a network they do; within a machine they do not.
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

/// A call of `cudaStreamWaitEvent`: its number from 0 overall, in its stream, and in the calling thread.
struct fake_wait {
  std::size_t number, in_stream, in_thread;
  int device;
  std::size_t stream;  ///< its number in reports
};

/// The scope of one test with the fake libraries. State is new when it begins and gone when it ends. Without
/// one the defaults hold. No other thread may be inside a call when it begins or ends.
class fake_cuda {
 public:
  explicit fake_cuda(fake_cuda_options const& options = {});
  /// Releases hanging calls, aborts communicators, waits for streams and frees everything. Ends the program
  /// if there are reports that the test has not read.
  ~fake_cuda();
  fake_cuda(fake_cuda const&) = delete;
  fake_cuda& operator=(fake_cuda const&) = delete;

  /// Returns races and misuse so far as sentences, each once. First waits a while for the streams to become
  /// idle.
  std::vector<std::string> reports() const;
  /// Returns what is not destroyed yet: device memory, streams, events, graphs, communicators.
  std::vector<std::string> leaks() const;

  /// Skips all waits for which `which` is true from now on. Programs without them must be reported as wrong.
  void ignore_waits(std::function<bool(fake_wait const&)> which);
  std::size_t waits() const;
  /// Returns the names of the skipped waits that would have added an order to their stream.
  std::vector<std::string> missed() const;

  /// Makes the `nth` call of `function` from now on (1 is the next) do nothing and return `code`.
  void fail(std::string const& function, std::size_t nth, int code);
  /// Makes every call for that device return `error` from now on, as after a kernel crash.
  void fail_device(int device, cudaError_t error);
  std::size_t calls(std::string const& function) const;
  /// Makes allocations beyond `bytes` in total fail.
  void limit_memory(int device, std::size_t bytes);

  /// Makes the `nth` run from now on of a kernel whose name contains `part` hang until `release`.
  void hang(std::string const& part, std::size_t nth);
  /// Ends everything that hangs, and lets nothing hang from now on.
  void release();

  /// Reports an access of the calling thread to host memory that copies use too.
  void host_reads(void const* from, std::size_t bytes, std::string const& name);
  void host_writes(void* to, std::size_t bytes, std::string const& name);
  /// Synchronizes the clocks of all threads, after they have met in a way that no call shows.
  void threads_met();

  void hang_nccl(fake_nccl_hang what);
  /// Kills a rank, by its number in the communicators of all ranks. It dies at the begin of the `group`-th
  /// group from now on (1 is the next), and its messages never end.
  void kill_rank(int rank, std::size_t group, fake_death death);
  /// Returns how many threads NCCL has started for groups: one for each of a communicator that does not
  /// block.
  std::size_t group_threads() const;
  /// Returns how many groups of NCCL had to open a connection. A collective opens one for each order of size.
  std::size_t connecting_groups() const;
  /// Returns how many messages and sums of more than one rank were issued with memory that is not registered
  /// with their communicator.
  std::size_t unregistered_messages() const;
  /// Returns the bytes that all calls of `function` together had as their argument, such as those sent.
  std::uint64_t nccl_bytes(std::string const& function) const;
  /// Raises an asynchronous error on that rank's communicators.
  void fail_communicators(int rank, ncclResult_t error);
  /// Sets the value of `NCCL_HOSTID` for the calling thread.
  void host(std::string const& name);

 private:
  mutable bool asked_ = false;
};

/// The memory that a kernel reads and writes, in bytes.
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

/// The implementation of a kernel launch, with the layout of its parameters. Bodies run one at a time in the
/// whole program, and must not call these libraries.
struct fake_kernel {
  struct parameter {
    std::size_t size, alignment;
    bool is_pointer;
  };
  std::vector<parameter> parameters;
  std::function<void(dim3, dim3, void* const*)> body;
  std::function<void(fake_accesses&, dim3, dim3, void* const*)> accesses;  // empty: unknown
};

/// Binds a kernel until the program ends; a new binding replaces the old one.
void bind_kernel(void const* stub, fake_kernel kernel);

/// Binds the kernel with that stub (`&kernel<float>` in a source that nvcc compiles). Each launch runs
/// `body(grid, block, parameters…)` once.
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

/// Binds a kernel that reports its accesses: `accesses(a, grid, block, parameters…)` adds them to `a`. It is
/// called when the work runs, so that it can read tables in device memory. Bounds and races are checked.
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
