// SPDX-License-Identifier: MIT
#include "support/cuda/fake_nccl_calls.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <utility>

namespace cleave::testing::fake {

using namespace detail;

namespace {

struct inside_table {
  std::mutex mutex;
  std::map<void const*, std::thread::id> inside;

  static inside_table& here() {
    static auto* const one = new inside_table;
    return *one;
  }
};

/// Returns true if another thread is inside a call of the communicator.
bool is_inside(void const* handle) {
  auto& table = inside_table::here();
  std::lock_guard lock(table.mutex);
  auto const i = table.inside.find(handle);
  return i != table.inside.end() && i->second != std::this_thread::get_id();
}

}  // namespace

nccl_caller::nccl_caller(void const* handle, std::string_view function) : handle_(handle) {
  bool is_second = false;
  {
    auto& table = inside_table::here();
    std::lock_guard lock(table.mutex);
    auto const [i, is_new] = table.inside.emplace(handle, std::this_thread::get_id());
    entered_ = is_new;
    is_second = i->second != std::this_thread::get_id();
  }
  if (!is_second || !handle || function == "ncclCommAbort") return;  // which ends that call
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  r.report(std::string(function) + " of a communicator that another thread is inside a call of");
}

nccl_caller::~nccl_caller() {
  if (!entered_) return;
  auto& table = inside_table::here();
  std::lock_guard lock(table.mutex);
  table.inside.erase(handle_);
}

std::string& last_nccl_error() {
  static thread_local std::string text;
  return text;
}

std::shared_ptr<communicator> find_communicator(runtime& r, host_thread& t, ncclComm_t handle,
                                                std::string const& function, nccl_when when) {
  auto const i = r.communicators.find(handle);
  if (i == r.communicators.end() || i->second->is_destroyed) {
    r.report(function + " of a communicator that " +
             (i == r.communicators.end() ? "there is not" : "is destroyed: " + i->second->text()));
    return nullptr;
  }
  auto const& c = i->second;
  if (r.options.callers == nccl_callers::one_thread && !c->is_blocking && c->made_by != &t &&
      function != "ncclCommAbort")
    r.report(function + " of " + c->text() + " by a thread that did not make it");
  if (when == nccl_when::settled && c->ready && c->error == ncclSuccess)
    r.report(function + " of " + c->text() + " while its last call is in progress");
  return c;
}

namespace {

std::shared_ptr<world> make_world(runtime& r, int size) {
  auto w = std::make_shared<world>();
  w->number = r.communicator_count++;
  w->size = size;
  w->members.resize(static_cast<std::size_t>(size));
  return w;
}

std::shared_ptr<communicator> join_world(runtime& r, host_thread& t, std::shared_ptr<world> const& w,
                                         int rank, int device) {
  auto c = std::make_shared<communicator>();
  c->in = w;
  c->rank = rank;
  c->device = device;
  c->run_size = w->size;
  c->made_by = &t;
  auto const* const id = std::getenv("NCCL_HOSTID");
  c->host_name = !t.host_name.empty() ? t.host_name : id ? id : "";
  c->random = splitmix(r.options.seed * 977 + w->number * 64 + static_cast<std::size_t>(rank));
  w->members[static_cast<std::size_t>(rank)] = c.get();
  r.communicators[c.get()] = c;
  return c;
}

bool are_all_there(world const& w) { return std::ranges::find(w.members, nullptr) == w.members.end(); }

/// Makes NCCL reject two ranks of one host on the same GPU.
void refuse_shared_gpus(runtime& r, communicator& c) {
  if (r.options.sharing == ranks_on_one_gpu::allowed) return;
  for (auto const& other : c.in->members) {
    if (other == &c || other->device != c.device || other->host_name != c.host_name) continue;
    char text[128];
    std::snprintf(text, sizeof(text), "Duplicate GPU detected : rank %d and rank %d both on CUDA device %x",
                  c.rank, other->rank, static_cast<unsigned>(16 + c.device) << 12);
    fail(c, ncclInvalidUsage, text);
    return;
  }
}

ncclResult_t refuse(ncclResult_t error, std::string const& why) {
  last_nccl_error() = why;
  return error;
}

ncclResult_t init(runtime& r, host_thread& t, ncclComm_t* to, int size, ncclUniqueId const& id, int rank,
                  ncclConfig_t const* config, runtime_lock& lock) {
  *to = nullptr;
  if (auto const e = r.begin_call(t, "cudaGetDevice"); e != cudaSuccess)
    return refuse(ncclUnhandledCudaError, std::string("Cuda failure '") + cudaGetErrorString(e) + "'");
  if (size < 1 || rank < 0 || rank >= size)
    return refuse(ncclInvalidArgument,
                  "Invalid rank requested : " + std::to_string(rank) + "/" + std::to_string(size));
  if (config && config->magic != 0xcafebeefu)
    return refuse(ncclInvalidArgument, "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
  std::string const name(id.internal, strnlen(id.internal, sizeof(id.internal)));
  auto& w = r.worlds[name];
  if (!w) w = make_world(r, size);
  if (w->size != size || w->members[static_cast<std::size_t>(rank)]) {
    auto const why = w->size != size
                         ? "rank " + std::to_string(rank) + " says that there are " + std::to_string(size) +
                               " ranks, others say " + std::to_string(w->size)
                         : "rank " + std::to_string(rank) + " comes twice";
    r.report("ncclCommInitRankConfig: " + why);
    return refuse(ncclInvalidUsage, why);
  }
  auto const c = join_world(r, t, w, rank, t.device);
  c->is_blocking = !config || config->blocking != 0;
  *to = reinterpret_cast<ncclComm_t>(c.get());
  return begin_progress(
      r, *c, fake_nccl_hang::init, [w] { return are_all_there(*w); },
      [&r, here = c.get()] { refuse_shared_gpus(r, *here); }, lock);
}

/// Creates the communicator of a color, ranks ordered by key and then by old rank. `to` is written when the
/// caller polls.
void finish_split(runtime& r, host_thread& t, communicator& parent, std::size_t number, ncclComm_t* to,
                  bool is_blocking) {
  parent.splitting_to = nullptr;
  auto const& all = parent.in->splits[number];
  auto const color = all.at(parent.rank).color;
  if (color == NCCL_SPLIT_NOCOLOR) return;
  std::vector<std::pair<int, int>> ranks;  // key, rank
  for (auto const& [rank, s] : all)
    if (s.color == color) ranks.push_back({s.key, rank});
  std::ranges::sort(ranks);
  auto& w = parent.in->children[{number, color}];
  if (!w) w = make_world(r, static_cast<int>(ranks.size()));
  auto const place = std::ranges::find(ranks, parent.rank, &std::pair<int, int>::second) - ranks.begin();
  auto const c = join_world(r, t, w, static_cast<int>(place), parent.device);
  c->is_blocking = is_blocking;
  c->made_by = parent.made_by;  // whose thread may have left the call to another
  c->run_size = parent.run_size;
  c->is_dead = parent.is_dead;
  *to = reinterpret_cast<ncclComm_t>(c.get());
}

ncclResult_t split(runtime& r, host_thread& t, communicator& c, split_call how, ncclComm_t* to,
                   ncclConfig_t const* config, runtime_lock& lock) {
  *to = nullptr;
  if (c.error != ncclSuccess) return c.error;
  c.splitting_to = to;
  auto const number = c.splits++;
  auto& splits = c.in->splits;
  if (splits.size() <= number) splits.resize(number + 1);
  splits[number].emplace(c.rank, how);
  bool const is_blocking =
      config && config->blocking != NCCL_CONFIG_UNDEF_INT ? config->blocking != 0 : c.is_blocking;
  return begin_progress(
      r, c, fake_nccl_hang::split,
      [w = c.in, number] { return w->splits[number].size() == static_cast<std::size_t>(w->size); },
      [&r, &t, &c, number, to, is_blocking] { finish_split(r, t, c, number, to, is_blocking); }, lock);
}

/// Checks that no graph can launch messages of the communicator any more; NCCL waits for that.
void require_no_graph(runtime& r, communicator const& c, std::string const& function) {
  for (auto const& [handle, e] : r.graph_execs)
    if (std::ranges::find(e->what->communicators, &c, &std::shared_ptr<communicator>::get) !=
        e->what->communicators.end())
      return r.report(function + " of " + c.text() + " waits for ever for a graph with messages of it");
}

void destroy(runtime& r, communicator& c) {
  c.is_destroyed = true;
  std::erase_if(r.registrations, [&](auto const& i) { return i.second->with == &c; });
  c.ready = nullptr;
  c.then = nullptr;
  for (auto const& [handle, s] : r.streams)
    if (s->unsettled.lock().get() == &c) s->unsettled.reset();
  r.changed.notify_all();
}

}  // namespace

void abort_together(runtime& r, std::vector<std::shared_ptr<communicator>> const& all, runtime_lock& lock) {
  for (auto const& c : all) {
    require_no_graph(r, *c, "ncclCommAbort");
    c->is_aborted = true;
    end_split(*c);
  }
  r.changed.notify_all();
  bool const is_to_hang = std::ranges::find(r.hanging_nccl, fake_nccl_hang::abort) != r.hanging_nccl.end();
  for (auto const& c : all) {
    r.changed.wait(lock,
                   [&] { return r.released || (!is_to_hang && c->running == 0 && c->outstanding == 0); });
    destroy(r, *c);
    while (is_inside(c.get())) r.changed.wait_for(lock, std::chrono::microseconds(100));  // it returns soon
  }
}

}  // namespace cleave::testing::fake

using namespace cleave::testing;
using namespace cleave::testing::fake;

extern "C" {

ncclResult_t ncclGetVersion(int* to) {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  if (auto const code = r.injected("ncclGetVersion")) return static_cast<ncclResult_t>(*code);
  *to = r.options.nccl_version;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* to) {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  if (auto const code = r.injected("ncclGetUniqueId")) return static_cast<ncclResult_t>(*code);
  *to = {};
  std::snprintf(to->internal, sizeof(to->internal), "fake unique id %zu", r.unique_ids++);
  return ncclSuccess;
}

char const* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

char const* ncclGetLastError(ncclComm_t handle) {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  auto const i = r.communicators.find(handle);
  if (i != r.communicators.end()) last_nccl_error() = i->second->last_error;
  return last_nccl_error().c_str();
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* to, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  auto& r = runtime::here();
  runtime_lock lock(r.mutex);
  if (auto const code = r.injected("ncclCommInitRankConfig")) return static_cast<ncclResult_t>(*code);
  return init(r, r.thread(), to, size, id, rank, config, lock);
}

ncclResult_t ncclCommInitRank(ncclComm_t* to, int size, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(to, size, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* to, ncclConfig_t* config) {
  return nccl_call("ncclCommSplit", handle, nccl_when::settled,
                   [&](runtime& r, host_thread& t, communicator& c, runtime_lock& lock) {
                     return split(r, t, c, {color, key}, to, config, lock);
                   });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* to) {
  return nccl_call("ncclCommGetAsyncError", handle, nccl_when::always,
                   [&](runtime& r, host_thread&, communicator& c, runtime_lock&) {
                     *to = poll(r, c);
                     return ncclSuccess;
                   });
}

ncclResult_t ncclCommRevoke(ncclComm_t handle, int flags) {
  return nccl_call("ncclCommRevoke", handle, nccl_when::always,
                   [&](runtime& r, host_thread&, communicator& c, runtime_lock& lock) {
                     if (flags != 0) return ncclInvalidArgument;
                     c.is_revoked = true;
                     return begin_progress(
                         r, c, fake_nccl_hang::revoke, [&c] { return c.running == 0; }, nullptr, lock);
                   });
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  return nccl_call("ncclCommFinalize", handle, nccl_when::settled,
                   [&](runtime& r, host_thread&, communicator& c, runtime_lock& lock) {
                     if (c.is_revoked || c.is_finalized) {
                       r.report("ncclCommFinalize of " + c.text() + ", which is " +
                                (c.is_revoked ? "revoked" : "finalized already"));
                       return ncclInvalidUsage;
                     }
                     c.is_finalized = true;
                     return begin_progress(
                         r, c, fake_nccl_hang::finalize, [&c] { return c.outstanding == 0; }, nullptr, lock);
                   });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  if (!handle) return ncclSuccess;
  return nccl_call("ncclCommDestroy", handle, nccl_when::settled,
                   [&](runtime& r, host_thread&, communicator& c, runtime_lock&) {
                     require_no_graph(r, c, "ncclCommDestroy");
                     require_no_registration(r, c, "ncclCommDestroy");
                     if (c.error != ncclSuccess)
                       r.report("ncclCommDestroy of " + c.text() + ", which has failed: only abort ends it");
                     if (c.outstanding > 0 && !c.is_revoked)
                       r.report("ncclCommDestroy of " + c.text() + ", whose messages have not all ended");
                     c.is_aborted = true;
                     destroy(r, c);
                     return ncclSuccess;
                   });
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  if (!handle) return ncclSuccess;
  return nccl_call("ncclCommAbort", handle, nccl_when::always,
                   [&](runtime& r, host_thread&, communicator&, runtime_lock& lock) {
                     auto const c = r.communicators.at(handle);
                     if (auto* const group = aborted_in_group())
                       group->push_back(c);
                     else
                       abort_together(r, {c}, lock);
                     return ncclSuccess;
                   });
}

ncclResult_t ncclCommCount(ncclComm_t handle, int* to) {
  return nccl_call("ncclCommCount", handle, nccl_when::settled,
                   [&](runtime&, host_thread&, communicator& c, runtime_lock&) {
                     *to = c.in->size;
                     return ncclSuccess;
                   });
}

ncclResult_t ncclCommUserRank(ncclComm_t handle, int* to) {
  return nccl_call("ncclCommUserRank", handle, nccl_when::settled,
                   [&](runtime&, host_thread&, communicator& c, runtime_lock&) {
                     *to = c.rank;
                     return ncclSuccess;
                   });
}

ncclResult_t ncclCommCuDevice(ncclComm_t handle, int* to) {
  return nccl_call("ncclCommCuDevice", handle, nccl_when::settled,
                   [&](runtime&, host_thread&, communicator& c, runtime_lock&) {
                     *to = c.device;
                     return ncclSuccess;
                   });
}

}  // extern "C"
