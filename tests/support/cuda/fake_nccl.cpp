// SPDX-License-Identifier: MIT
#include "support/cuda/fake_nccl.hpp"

#include <algorithm>
#include <utility>

#include "support/cuda/fake_runtime.hpp"

namespace cleave::testing::fake {

using namespace detail;

std::string communicator::text() const {
  return "rank " + std::to_string(rank) + " of communicator " + std::to_string(in->number);
}

void end_split(communicator& c) {
  if (auto* const to = std::exchange(c.splitting_to, nullptr)) *to = nullptr;
}

ncclResult_t fail(communicator& c, ncclResult_t error, std::string const& why) {
  c.last_error = why;
  end_split(c);
  if (c.error == ncclSuccess) c.error = error;
  return error;
}

void fail_rank(runtime& r, int rank, ncclResult_t error) {
  for (auto const& [handle, c] : r.communicators)
    if (c->rank == rank && !c->is_destroyed) fail(*c, error, "an error that a test asked for");
  r.changed.notify_all();
}

void abort_all(runtime& r) {
  for (auto const& [handle, c] : r.communicators) c->is_aborted = true;
  r.changed.notify_all();
}

namespace {

bool hangs(runtime const& r, fake_nccl_hang what) {
  return !r.released && std::ranges::find(r.hanging_nccl, what) != r.hanging_nccl.end();
}

void forget_unsettled(runtime& r, communicator const& c) {
  for (auto const& [handle, s] : r.streams)
    if (s->unsettled.lock().get() == &c) s->unsettled.reset();
}

}  // namespace

ncclResult_t poll(runtime& r, communicator& c) {
  auto const now = std::chrono::steady_clock::now();
  if (c.error_at && now >= *c.error_at && c.error == ncclSuccess)
    fail(c, ncclRemoteError, "a peer's process exited");
  if (c.error != ncclSuccess) return c.error;
  if (!c.ready) return ncclSuccess;
  if (now < c.settles_at || hangs(r, c.in_progress) || !c.ready()) return ncclInProgress;
  c.ready = nullptr;
  if (c.job.joinable()) c.job.join();
  if (auto const next = std::exchange(c.then, nullptr)) next();
  forget_unsettled(r, c);
  return c.error;
}

ncclResult_t begin_progress(runtime& r, communicator& c, fake_nccl_hang what, std::function<bool()> ready,
                            std::function<void()> then, runtime_lock& lock) {
  auto const longest = static_cast<std::size_t>(r.options.longest_settling.count());
  bool const at_once = longest == 0 || (c.is_blocking && what == fake_nccl_hang::group);
  auto const pause = at_once || c.random.below(4) == 0 ? 0 : c.random.below(longest) + 1;
  c.settles_at = std::chrono::steady_clock::now() + std::chrono::microseconds(pause);
  c.ready = std::move(ready);
  c.then = std::move(then);
  c.in_progress = what;
  if (!c.is_blocking && what == fake_nccl_hang::group) {
    ++r.group_threads;
    c.job = std::jthread([] {});  // NCCL launches in it; here the caller has launched already
  }
  r.changed.notify_all();
  if (!c.is_blocking) return pause == 0 ? poll(r, c) : ncclInProgress;
  ncclResult_t state = poll(r, c);
  while (state == ncclInProgress && !c.is_aborted) {
    r.changed.wait_for(lock, std::chrono::microseconds(100));
    state = poll(r, c);
  }
  return state;
}

}  // namespace cleave::testing::fake
