// SPDX-License-Identifier: MIT
#include "support/cuda/fake_streams.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "support/cuda/fake_nccl.hpp"
#include "support/cuda/fake_runtime.hpp"

namespace cleave::testing::fake {

using namespace detail;

namespace {

void delay(runtime const& r, stream& s, runtime_lock& lock) {
  auto const longest = static_cast<std::size_t>(r.options.longest_delay.count());
  if (longest == 0 || !(s.random.below(3) == 0) || r.ending) return;
  auto const pause = std::chrono::microseconds(s.random.below(longest) + 1);
  lock.unlock();
  std::this_thread::sleep_for(pause);
  lock.lock();
}

/// The thread of a stream: runs its work in order.
void serve(runtime& r, std::shared_ptr<stream> const& mine) {
  auto& s = *mine;
  runtime_lock lock(r.mutex);
  for (;;) {
    s.arrived.wait(lock, [&] { return s.is_closing || !s.queue.empty(); });
    if (s.queue.empty()) return;
    auto w = std::move(s.queue.front());
    s.queue.pop_front();
    s.doing = w.name;
    s.touching = w.memory;
    s.holding = w.pointers;
    delay(r, s, lock);
    s.clock.join(*w.issued);
    s.clock.tick(s.line);
    if (touch(r, s, w.memory, w.name)) w.run(s, lock);
    s.doing.clear();
    s.touching.clear();
    s.holding.clear();
    if (w.is_counted) --s.counted;
    ++s.finished;
    r.changed.notify_all();
  }
}

/// Makes blocking streams and the default stream of a device wait for each other.
void wait_for_legacy(runtime& r, host_thread& t, stream& s) {
  auto const& legacy = r.gpus[static_cast<std::size_t>(s.device)].legacy;
  if (s.is_legacy) {
    for (auto const& [handle, other] : r.streams)
      if (other->device == s.device && other->is_blocking && !other->has_ended())
        push_wait(r, t, s, push_mark(r, t, *other));
  } else if (s.is_blocking && legacy) {
    push_wait(r, t, s, push_mark(r, t, *legacy));
  }
}

/// Returns true if work on the default stream would have to wait for a stream under capture.
bool is_implicitly_captured(runtime const& r, stream const& s) {
  bool found = false;
  for (auto const& [handle, other] : r.streams) {
    if (!s.is_legacy || other->device != s.device || !other->is_blocking || !other->capture) continue;
    other->capture->is_invalid = true;
    found = true;
  }
  return found;
}

}  // namespace

std::string stream::text() const {
  if (is_legacy) return "the default stream of device " + std::to_string(device);
  if (is_of_thread) return "a thread's default stream of device " + std::to_string(device);
  return (is_inner ? "a graph's stream " : "stream ") + std::to_string(number);
}

std::shared_ptr<stream> make_stream(runtime& r, int device, bool is_blocking, int priority) {
  auto s = std::make_shared<stream>();
  s->number = r.stream_count++;
  s->device = device;
  s->priority = priority;
  s->is_blocking = is_blocking;
  s->line = r.log->new_line();
  s->random = splitmix(r.options.seed * 1000 + s->number);
  s->worker = std::thread([&r, s] { serve(r, s); });
  r.streams[s.get()] = s;
  return s;
}

void close(stream& s) {
  s.is_closing = true;
  s.arrived.notify_all();
}

std::shared_ptr<stream> find_stream(runtime& r, host_thread& t, cudaStream_t handle, char const* function) {
  if (handle == nullptr || handle == cudaStreamLegacy) {
    auto& g = r.gpus[static_cast<std::size_t>(t.device)];
    if (!g.legacy) {
      g.legacy = make_stream(r, t.device, false, 0);
      g.legacy->is_legacy = true;
    }
    return g.legacy;
  }
  if (handle == cudaStreamPerThread) {
    auto& own = r.gpus[static_cast<std::size_t>(t.device)].of_threads[&t];
    if (!own) {
      own = make_stream(r, t.device, true, 0);
      own->is_of_thread = true;
    }
    return own;
  }
  auto const i = r.streams.find(handle);
  if (i != r.streams.end() && !i->second->is_destroyed) return i->second;
  r.report(
      std::string(function) + " of " +
      (i == r.streams.end() ? "a stream that there is not" : i->second->text() + ", which is destroyed"));
  return nullptr;
}

void push(stream& s, work w) {
  if (w.is_counted) ++s.counted;
  s.queue.push_back(std::move(w));
  s.arrived.notify_one();
}

std::shared_ptr<mark> push_mark(runtime& r, host_thread& t, stream& s) {
  auto m = std::make_shared<mark>();
  push(s, mark_work(m, r.known(t)));
  return m;
}

work mark_work(std::shared_ptr<mark> m, clock_snapshot known) {
  work w;
  w.name = "a mark";
  w.run = [m = std::move(m)](stream& on, runtime_lock&) {
    m->clock = on.clock;
    m->at = std::chrono::steady_clock::now();
    m->is_reached = true;
  };
  w.issued = std::move(known);
  w.is_counted = false;
  return w;
}

void push_wait(runtime& r, host_thread& t, stream& s, std::shared_ptr<mark> of) {
  work w;
  w.name = "a wait";
  w.run = [&r, of = std::move(of)](stream& on, runtime_lock& lock) {
    wait_for(r, *of, lock);
    on.clock.join(of->clock);
  };
  w.issued = r.known(t);
  w.is_counted = false;
  push(s, std::move(w));
}

void wait_for(runtime& r, mark const& m, runtime_lock& lock) {
  r.changed.wait(lock, [&] { return m.is_reached; });
}

cudaError_t issue(runtime& r, host_thread& t, stream& s, work w, runtime_lock& lock) {
  w.name += " on " + s.text();
  if (auto const c = s.unsettled.lock())
    r.report(w.name + " comes while the last call of " + c->text() +
             " is in progress: what it puts on the stream may come later");
  for (auto const& f : w.memory)
    if (auto const fault = r.memory.fault_later(f.data, f.bytes)) {
      r.report(w.name + (f.is_write ? " writes " : " reads ") + *fault);
      return cudaErrorInvalidValue;
    }
  if (s.capture) return record(s, std::move(w));
  if (is_implicitly_captured(r, s)) return cudaErrorStreamCaptureImplicit;
  wait_for_legacy(r, t, s);
  r.changed.wait(lock, [&] { return s.counted < r.options.queue_limit; });
  w.issued = r.known(t);
  push(s, std::move(w));
  return cudaSuccess;
}

bool touch(runtime& r, stream& s, std::vector<footprint> const& memory, std::string const& name) {
  bool all = true;
  for (auto const& f : memory) {
    auto const fault = r.memory.fault(f.data, f.bytes);
    if (fault)
      r.report(name + (f.is_write ? " writes " : " reads ") + *fault);
    else
      touch(r, s.clock, s.line, f, name);
    all = all && !fault;
  }
  return all;
}

void touch(runtime& r, vector_clock const& clock, std::size_t line, footprint const& f,
           std::string const& name) {
  r.log->touch(clock, line, f.as_region(), f.is_write ? race_log::access::write : race_log::access::read,
               name);
}

}  // namespace cleave::testing::fake
