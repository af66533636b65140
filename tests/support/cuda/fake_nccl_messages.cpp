// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "support/cuda/fake_nccl_calls.hpp"

using namespace cleave::testing;
using namespace cleave::testing::fake;

namespace {

/// The requests of the calling thread since its group began.
struct open_group {
  struct member {
    ncclComm_t handle;
    cudaStream_t on;
    message_call what;
  };
  int depth = 0;
  ncclResult_t error = ncclSuccess;  // of a member
  std::vector<member> members;
  std::vector<std::shared_ptr<communicator>> aborted;
};
thread_local open_group open;

ncclResult_t check(runtime& r, communicator& c, message_call const& m) {
  bool const has_peer = m.is != message_kind::all_reduce && m.is != message_kind::all_gather &&
                        m.is != message_kind::reduce_scatter;
  if (has_peer && (m.peer < 0 || m.peer >= c.in->size)) {
    c.last_error = std::string(name_of(m.is)) + " : invalid peer or root " + std::to_string(m.peer);
    r.report(m.text() + " by " + c.text() + ", which has no such rank");
    return ncclInvalidArgument;
  }
  if (c.is_stopped() || c.is_finalized) {
    c.last_error = std::string(name_of(m.is)) + " on a communicator that was revoked, aborted or finalized";
    return ncclInvalidUsage;
  }
  for (auto const& f : m.memory(c.rank, c.in->size))
    if (auto const fault = r.memory.fault_later(f.data, f.bytes)) {
      r.report(m.text() + " by " + c.text() + (f.is_write ? " writes " : " reads ") + *fault);
      return ncclInvalidArgument;
    }
  return ncclSuccess;
}

/// Announces the ends of a message, which peers need to connect. `is_connected` checks that its peers have
/// done so.
void announce(communicator const& c, message_call const& m) {
  auto& w = *c.in;
  if (is_collective(m.is))
    w.announced_collectives[connection_of(m)].insert(c.rank);
  else if (m.is == message_kind::send)
    w.announced_sends.insert({c.rank, m.peer});
  else
    w.announced_receives.insert({m.peer, c.rank});
}

bool is_connected(communicator const& c, message_call const& m) {
  auto const& w = *c.in;
  if (is_collective(m.is)) {
    auto const i = w.announced_collectives.find(connection_of(m));
    return i != w.announced_collectives.end() && i->second.size() == static_cast<std::size_t>(w.size);
  }
  return m.is == message_kind::send ? w.announced_receives.contains({c.rank, m.peer})
                                    : w.announced_sends.contains({m.peer, c.rank});
}

/// If the test asks for it, waits for the groups of the same GPU that were issued before.
void run_in_turn(runtime& r, stream& s, communicator& c, std::vector<message_call> const& members,
                 std::size_t turn, runtime_lock& lock) {
  auto& turns = r.gpus[static_cast<std::size_t>(c.device)].turns;
  r.changed.wait(lock, [&] { return c.is_stopped() || r.ending || *turns.begin() == turn; });
  run_group(r, s, c, members, lock);
  turns.erase(turn);
}

/// Launches the part of a group that belongs to one communicator and one stream.
ncclResult_t launch(runtime& r, host_thread& t, ncclComm_t handle, cudaStream_t on,
                    std::vector<message_call> members, runtime_lock& lock) {
  auto const c = find_communicator(r, t, handle, "ncclGroupEnd", nccl_when::settled);
  auto const s = find_stream(r, t, on, "ncclGroupEnd");
  if (!c || !s) return ncclInvalidArgument;
  if (c->error != ncclSuccess) return c->error;
  if (s->device != c->device) {
    r.report("messages by " + c->text() + " are put on " + s->text() + " of another device");
    return ncclInvalidUsage;
  }
  work w;
  w.is = work::kind::message;
  w.name = (members.size() == 1 ? members[0].text() : std::to_string(members.size()) + " messages") + " by " +
           c->text();
  for (auto const& m : members)
    for (auto const& f : m.memory(c->rank, c->in->size)) w.pointers.push_back(f.data);
  bool const is_counted = !s->capture;
  if (s->capture) s->capture->into->communicators.push_back(c);
  auto& g = r.gpus[static_cast<std::size_t>(c->device)];
  auto const turn = g.groups++;
  bool const is_in_turn = is_counted && r.options.groups == fake_groups::in_turn;
  w.run = [&r, c, members, is_counted, is_in_turn, turn](stream& here, runtime_lock& held) {
    if (is_in_turn)
      run_in_turn(r, here, *c, members, turn, held);
    else
      run_group(r, here, *c, members, held);
    if (is_counted) --c->outstanding;
    r.changed.notify_all();
  };
  if (!std::ranges::all_of(members, [&](message_call const& m) { return is_connected(*c, m); }))
    ++r.connecting_groups;
  for (auto const& m : members) {
    announce(*c, m);
    count_unregistered(r, *c, m);
  }
  if (is_in_turn) g.turns.insert(turn);
  if (issue(r, t, *s, std::move(w), lock) != cudaSuccess) return ncclUnhandledCudaError;
  if (is_counted) ++c->outstanding;
  s->unsettled = c;
  return begin_progress(
      r, *c, fake_nccl_hang::group,
      [here = c.get(), all = std::move(members)] {
        return std::ranges::all_of(all, [&](message_call const& m) { return is_connected(*here, m); });
      },
      nullptr, lock);
}

/// Launches all parts, by communicator and stream, in the order of their first use.
ncclResult_t launch_all(runtime& r, host_thread& t, std::vector<open_group::member> all, runtime_lock& lock) {
  auto result = ncclSuccess;
  while (!all.empty()) {
    auto const handle = all.front().handle;
    auto const on = all.front().on;
    std::vector<message_call> mine;
    std::vector<open_group::member> rest;
    for (auto const& m : all) {
      if (m.handle == handle && m.on == on)
        mine.push_back(m.what);
      else
        rest.push_back(m);
    }
    all = std::move(rest);
    auto const one = launch(r, t, handle, on, std::move(mine), lock);
    if (one != ncclSuccess && (result == ncclSuccess || result == ncclInProgress)) result = one;
  }
  return result;
}

ncclResult_t add(ncclComm_t handle, cudaStream_t on, message_call const& m) {
  return nccl_call(name_of(m.is), handle, nccl_when::settled,
                   [&](runtime& r, host_thread& t, communicator& c, runtime_lock& lock) {
                     auto const error = c.error != ncclSuccess ? c.error : check(r, c, m);
                     r.nccl_bytes[name_of(m.is)] += m.bytes();
                     if (error != ncclSuccess && open.depth > 0) open.error = error;
                     if (error != ncclSuccess) return error;
                     if (open.depth == 0) return launch(r, t, handle, on, {m}, lock);
                     open.members.push_back({handle, on, m});
                     return ncclSuccess;
                   });
}

}  // namespace

std::vector<std::shared_ptr<communicator>>* cleave::testing::fake::aborted_in_group() {
  return open.depth > 0 ? &open.aborted : nullptr;
}

extern "C" {

ncclResult_t ncclGroupStart() {
  ++open.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  auto& r = runtime::here();
  runtime_lock lock(r.mutex);
  if (open.depth == 0) {
    r.report("ncclGroupEnd without ncclGroupStart");
    return ncclInvalidUsage;
  }
  if (--open.depth > 0) return ncclSuccess;
  if (auto const aborted = std::exchange(open.aborted, {}); !aborted.empty())
    abort_together(r, aborted, lock);
  auto const members = std::exchange(open.members, {});
  auto const error = std::exchange(open.error, ncclSuccess);
  if (auto const code = r.injected("ncclGroupEnd")) return static_cast<ncclResult_t>(*code);
  return error != ncclSuccess ? error : launch_all(r, r.thread(), members, lock);
}

ncclResult_t ncclSend(void const* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t on) {
  return add(c, on, {message_kind::send, from, nullptr, count, type, peer, ncclSum});
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t on) {
  return add(c, on, {message_kind::receive, nullptr, to, count, type, peer, ncclSum});
}

ncclResult_t ncclAllReduce(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t c, cudaStream_t on) {
  return add(c, on, {message_kind::all_reduce, from, to, count, type, 0, op});
}

ncclResult_t ncclAllGather(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t c,
                           cudaStream_t on) {
  return add(c, on, {message_kind::all_gather, from, to, count, type, 0, ncclSum});
}

ncclResult_t ncclReduceScatter(void const* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t c, cudaStream_t on) {
  return add(c, on, {message_kind::reduce_scatter, from, to, count, type, 0, op});
}

ncclResult_t ncclBroadcast(void const* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t c, cudaStream_t on) {
  return add(c, on, {message_kind::broadcast, from, to, count, type, root, ncclSum});
}

ncclResult_t ncclReduce(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t c, cudaStream_t on) {
  return add(c, on, {message_kind::reduce, from, to, count, type, root, op});
}

}  // extern "C"
