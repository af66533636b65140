// SPDX-License-Identifier: MIT
#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "support/cuda/fake_runtime.hpp"

using namespace cleave::testing;
using namespace cleave::testing::fake;

namespace {

constexpr std::size_t most_parameter_bytes = 32764, most_threads = 1024, most_shared_bytes = 227 * 1024;

/// The kernels that nvcc-compiled sources register before main, and those that tests bind, for the whole
/// program.
struct kernel_table {
  std::mutex mutex;
  std::map<void const*, std::string> names;  // by stub
  std::map<void const*, std::shared_ptr<fake_kernel const>> bodies;

  static kernel_table& here() {
    static auto* const one = new kernel_table;
    return *one;
  }
  std::string name_of(void const* stub) {
    std::lock_guard lock(mutex);
    auto const i = names.find(stub);
    return i == names.end() ? "a kernel that is not registered" : "kernel " + i->second;
  }
  std::shared_ptr<fake_kernel const> body_of(void const* stub) {
    std::lock_guard lock(mutex);
    auto const i = bodies.find(stub);
    return i == bodies.end() ? nullptr : i->second;
  }
};

/// Returns the demangled name without return type and parameters.
std::string readable(char const* mangled) {
  int status = 0;
  auto* const text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 ? text : mangled;
  std::free(text);
  if (name.starts_with("void ")) name.erase(0, 5);
  std::string const nowhere = "(anonymous namespace)::";
  for (auto i = name.find(nowhere); i != name.npos; i = name.find(nowhere)) name.erase(i, nowhere.size());
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth == 0 && name[i] == '(') return name.substr(0, i);
  }
  return name;
}

/// The parameters as they were at launch.
class parameter_copy {
 public:
  parameter_copy(fake_kernel const& k, void* const* from) {
    std::size_t bytes = 0;
    std::vector<std::size_t> places;
    for (auto const& p : k.parameters) {
      bytes = (bytes + p.alignment - 1) / p.alignment * p.alignment;
      places.push_back(bytes);
      bytes += p.size;
    }
    bytes_ = bytes;
    constexpr std::size_t widest = 256;  // more than the alignment of any parameter
    storage_.resize(bytes + widest);
    void* begin = storage_.data();
    std::size_t space = storage_.size();
    std::align(widest, bytes, begin, space);
    for (std::size_t i = 0; i < places.size(); ++i) {
      auto* const to = static_cast<std::byte*>(begin) + places[i];
      std::memcpy(to, from[i], k.parameters[i].size);
      pointers_.push_back(to);
    }
  }
  parameter_copy(parameter_copy const&) = delete;
  parameter_copy& operator=(parameter_copy const&) = delete;

  std::size_t bytes() const { return bytes_; }
  void* const* pointers() const { return pointers_.data(); }

 private:
  std::size_t bytes_ = 0;
  std::vector<std::byte> storage_;
  std::vector<void*> pointers_;
};

struct launch {
  std::shared_ptr<fake_kernel const> kernel;
  std::string name;
  dim3 grid, block;
  std::shared_ptr<parameter_copy const> parameters;
};

bool is_to_hang(runtime& r, std::string const& name) {
  for (auto i = r.hanging.begin(); i != r.hanging.end(); ++i) {
    if (name.find(i->name) == std::string::npos || --i->countdown > 0) continue;
    r.hanging.erase(i);
    return !r.released;
  }
  return false;
}

/// Returns true if a kernel may access this memory: that of its own device, the host, or an enabled peer.
bool is_in_reach(runtime& r, int device, footprint const& f) {
  auto const* const a = r.memory.find(f.data);
  auto const& peers = r.gpus[static_cast<std::size_t>(device)].peers;
  return a->device == host_device || a->device == device ||
         std::ranges::find(peers, a->device) != peers.end();
}

/// Reports the accesses of a kernel. Returns false if some of the memory is invalid.
bool touch_all(runtime& r, stream& s, launch const& l, std::string const& name, runtime_lock& lock) {
  fake_accesses told;
  lock.unlock();
  {
    std::lock_guard one_at_a_time(r.data);
    l.kernel->accesses(told, l.grid, l.block, l.parameters->pointers());
  }
  lock.lock();
  std::vector<footprint> memory;
  bool all = true;
  for (auto const& range : told.ranges()) {
    if (range.bytes == 0) continue;
    footprint const f{range.data, range.bytes, range.is_write};
    memory.push_back(f);
    if (r.memory.fault(f.data, f.bytes) || is_in_reach(r, s.device, f)) continue;
    r.report(name + " touches " + r.memory.find(f.data)->text() + ", a peer's that it has no access to");
    all = false;
  }
  return touch(r, s, memory, name) && all;
}

void run(runtime& r, stream& s, launch const& l, std::string const& name, runtime_lock& lock) {
  if (is_to_hang(r, name)) r.changed.wait(lock, [&] { return r.released; });
  if (l.kernel->accesses && !touch_all(r, s, l, name, lock)) return;
  lock.unlock();
  {
    std::lock_guard one_at_a_time(r.data);
    l.kernel->body(l.grid, l.block, l.parameters->pointers());
  }
  lock.lock();
}

std::size_t product(dim3 const& d) { return std::size_t{d.x} * d.y * d.z; }

cudaError_t check_shape(runtime& r, launch const& l, std::size_t shared) {
  bool const is_right = product(l.grid) > 0 && l.grid.x <= 0x7fffffffu && l.grid.y <= 0xffffu &&
                        l.grid.z <= 0xffffu && product(l.block) > 0 && product(l.block) <= most_threads &&
                        l.block.z <= 64 && shared <= most_shared_bytes;
  if (is_right) return cudaSuccess;
  r.report(l.name + " is launched with " + std::to_string(product(l.grid)) + " blocks of " +
           std::to_string(product(l.block)) + " threads and " + plural_bytes(shared) + " that they share");
  return cudaErrorInvalidConfiguration;
}

/// Returns the pointers among the parameters. Their allocations must live, but not all bytes may be accessed.
std::vector<void const*> pointers_of(launch const& l) {
  std::vector<void const*> found;
  for (std::size_t i = 0; i < l.kernel->parameters.size(); ++i) {
    if (!l.kernel->parameters[i].is_pointer) continue;
    void const* p = nullptr;
    std::memcpy(&p, l.parameters->pointers()[i], sizeof(p));
    if (p) found.push_back(p);
  }
  return found;
}

cudaError_t launch_kernel(runtime& r, host_thread& t, void const* stub, dim3 grid, dim3 block, void** from,
                          std::size_t shared, cudaStream_t on, runtime_lock& lock) {
  launch l{kernel_table::here().body_of(stub), kernel_table::here().name_of(stub), grid, block, nullptr};
  if (!l.kernel) {
    r.report(l.name + " is launched, and no body is bound to it");
    return cudaErrorInvalidDeviceFunction;
  }
  if (auto const error = check_shape(r, l, shared); error != cudaSuccess) return error;
  l.parameters = std::make_shared<parameter_copy const>(*l.kernel, from);
  if (l.parameters->bytes() > most_parameter_bytes) {
    r.report(l.name + " is launched with " + plural_bytes(l.parameters->bytes()) + " of parameters");
    return cudaErrorInvalidValue;
  }
  auto const s = find_stream(r, t, on, "a launch");
  if (!s) return cudaErrorInvalidResourceHandle;
  if (s->device != t.device) {
    r.report(l.name + " is launched on " + s->text() + " of device " + std::to_string(s->device) +
             " by a thread that uses device " + std::to_string(t.device));
    return cudaErrorInvalidResourceHandle;
  }
  work w;
  w.is = work::kind::kernel;
  w.name = l.name;
  w.pointers = pointers_of(l);
  for (auto const* const p : w.pointers)
    if (auto const fault = r.memory.fault_later(p, 1); fault && r.memory.find(p)) {
      r.report(l.name + " is given a pointer to " + *fault);
      return cudaErrorInvalidValue;
    }
  w.run = [&r, l, name = l.name + " on " + s->text()](stream& here, runtime_lock& held) {
    run(r, here, l, name, held);
  };
  return issue(r, t, *s, std::move(w), lock);
}

struct configuration {
  dim3 grid, block;
  std::size_t shared;
  void* stream;
};
thread_local std::vector<configuration> configurations;

}  // namespace

void cleave::testing::bind_kernel(void const* stub, fake_kernel kernel) {
  auto& table = kernel_table::here();
  std::lock_guard lock(table.mutex);
  table.bodies[stub] = std::make_shared<fake_kernel const>(std::move(kernel));
}

/// The functions that host code compiled by nvcc 13 calls.
extern "C" {

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, void* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  if (configurations.empty()) return cudaErrorMissingConfiguration;
  auto const c = configurations.back();
  configurations.pop_back();
  *grid = c.grid;
  *block = c.block;
  *shared = c.shared;
  *static_cast<void**>(stream) = c.stream;
  return cudaSuccess;
}

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, char const*, int, std::size_t, int, int) {}

void __cudaRegisterFunction(void**, char const* stub, char*, char const* name, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {
  auto& table = kernel_table::here();
  std::lock_guard lock(table.mutex);
  table.names[stub] = readable(name);
}

/// The caller keeps the kernel for the whole run of the program, so this never fails.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, void const* stub) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** parameters,
                               std::size_t shared, cudaStream_t on) {
  return cudaLaunchKernel(kernel, grid, block, parameters, shared, on);
}

cudaError_t cudaLaunchKernel(void const* stub, dim3 grid, dim3 block, void** parameters, std::size_t shared,
                             cudaStream_t on) {
  return call("cudaLaunchKernel", [&](runtime& r, host_thread& t, runtime_lock& lock) {
    return launch_kernel(r, t, stub, grid, block, parameters, shared, on, lock);
  });
}

cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const* c, void const* stub, void** parameters) {
  return cudaLaunchKernel(stub, c->gridDim, c->blockDim, parameters, c->dynamicSmemBytes, c->stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* to, void const*) {
  return call("cudaFuncGetAttributes", [&](runtime&, host_thread&, runtime_lock&) {
    *to = {};
    to->maxThreadsPerBlock = static_cast<int>(most_threads);
    to->numRegs = 32;
    to->binaryVersion = to->ptxVersion = 90;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(void const*, cudaFuncAttribute, int) {
  return call("cudaFuncSetAttribute", [](runtime&, host_thread&, runtime_lock&) { return cudaSuccess; });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void const*, int threads,
                                                                   std::size_t, unsigned) {
  return call("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
              [&](runtime&, host_thread&, runtime_lock&) {
                if (threads <= 0) return cudaErrorInvalidValue;
                *blocks = 2048 / threads;
                return cudaSuccess;
              });
}

}  // extern "C"
