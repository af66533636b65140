// SPDX-License-Identifier: MIT
#include "support/cuda/fake_events.hpp"

#include <utility>

#include "support/cuda/fake_runtime.hpp"

using namespace cleave::testing;
using namespace cleave::testing::fake;

namespace {

std::shared_ptr<event> find_event(runtime& r, cudaEvent_t handle, char const* function) {
  auto const i = r.events.find(handle);
  if (i != r.events.end() && !i->second->is_destroyed) return i->second;
  r.report(std::string(function) + " of an event that " +
           (i == r.events.end() ? "there is not" : "is destroyed"));
  return nullptr;
}

bool is_reached(event const& e) { return !e.last || e.last->is_reached; }

/// Makes `s` join the capture in which the event was last recorded, if it was.
cudaError_t join_capture(stream& s, event const& e) {
  auto const& c = e.captured;
  if (c->has_ended) return cudaErrorCapturedEvent;
  if (s.capture && s.capture != c) {
    s.capture->is_invalid = c->is_invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  if (!s.capture) {
    s.capture = c;
    s.branch = c->members.size();
    c->members.push_back(&s);
    c->into->devices.push_back(s.device);
    s.front.clear();
  }
  s.front.insert(s.front.end(), e.front.begin(), e.front.end());
  return cudaSuccess;
}

bool is_left_out(runtime& r, host_thread& t, stream& s) {
  fake_wait const w{r.waits++, s.waits++, t.waits++, s.device, s.number};
  return r.ignored_waits && r.ignored_waits(w);
}

cudaError_t wait_on_stream(runtime& r, host_thread& t, stream& s, event& e, runtime_lock& lock) {
  bool const left_out = is_left_out(r, t, s);
  if (e.captured) return left_out && s.capture ? cudaSuccess : join_capture(s, e);
  if (s.capture) {
    s.capture->is_invalid = true;
    return cudaErrorStreamCaptureIsolation;
  }
  if (!e.last) return cudaSuccess;
  work w;
  w.name = "a wait for an event";
  if (left_out) {
    auto here = std::make_shared<mark>();
    r.missed.push_back({e.last, here, "wait " + std::to_string(s.waits - 1) + " of " + s.text()});
    w = mark_work(std::move(here), nullptr);
  } else {
    w.run = [&r, of = e.last](stream& on, runtime_lock& l) {
      wait_for(r, *of, l);
      on.clock.join(of->clock);
    };
  }
  w.is_counted = true;
  return issue(r, t, s, std::move(w), lock);
}

cudaError_t record_event(runtime& r, host_thread& t, stream& s, event& e, runtime_lock& lock) {
  if (e.device != s.device) {
    r.report("cudaEventRecord of an event of device " + std::to_string(e.device) + " on " + s.text() +
             " of device " + std::to_string(s.device));
    return cudaErrorInvalidResourceHandle;
  }
  if (s.capture) {
    if (s.capture->is_invalid) return cudaErrorStreamCaptureInvalidated;
    e.captured = s.capture;
    e.front = s.front;
    e.last = nullptr;
    return cudaSuccess;
  }
  auto m = std::make_shared<mark>();
  auto w = mark_work(m, nullptr);
  w.name = "the record of an event";
  w.is_counted = true;
  auto const error = issue(r, t, s, std::move(w), lock);
  if (error != cudaSuccess) return error;
  e.captured = nullptr;
  e.last = std::move(m);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  return call("cudaEventCreateWithFlags", [&](runtime& r, host_thread& t, runtime_lock&) {
    auto e = std::make_shared<event>();
    e->number = r.event_count++;
    e->device = t.device;
    e->has_timing = (flags & cudaEventDisableTiming) == 0;
    *handle = reinterpret_cast<cudaEvent_t>(e.get());
    r.events[e.get()] = std::move(e);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* handle) {
  return cudaEventCreateWithFlags(handle, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return call("cudaEventDestroy", [&](runtime& r, host_thread&, runtime_lock&) {
    auto const e = find_event(r, handle, "cudaEventDestroy");
    if (!e) return cudaErrorInvalidResourceHandle;
    e->is_destroyed = true;
    e->captured = nullptr;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t on) {
  return call("cudaEventRecord", [&](runtime& r, host_thread& t, runtime_lock& lock) {
    auto const e = find_event(r, handle, "cudaEventRecord");
    auto const s = find_stream(r, t, on, "cudaEventRecord");
    return e && s ? record_event(r, t, *s, *e, lock) : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t on, unsigned) {
  return cudaEventRecord(handle, on);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t on, cudaEvent_t handle, unsigned) {
  return call("cudaStreamWaitEvent", [&](runtime& r, host_thread& t, runtime_lock& lock) {
    auto const e = find_event(r, handle, "cudaStreamWaitEvent");
    auto const s = find_stream(r, t, on, "cudaStreamWaitEvent");
    return e && s ? wait_on_stream(r, t, *s, *e, lock) : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return call("cudaEventQuery", [&](runtime& r, host_thread& t, runtime_lock&) {
    auto const e = find_event(r, handle, "cudaEventQuery");
    if (!e) return cudaErrorInvalidResourceHandle;
    if (e->captured) return cudaErrorCapturedEvent;
    if (auto const error = forbid_capture(r, t); error != cudaSuccess) return error;
    if (!is_reached(*e)) return cudaErrorNotReady;
    if (e->last) r.learn(t, e->last->clock);
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return call("cudaEventSynchronize", [&](runtime& r, host_thread& t, runtime_lock& lock) {
    auto const e = find_event(r, handle, "cudaEventSynchronize");
    if (!e) return cudaErrorInvalidResourceHandle;
    if (e->captured) return cudaErrorCapturedEvent;
    if (auto const error = forbid_capture(r, t); error != cudaSuccess) return error;
    auto const m = e->last;
    if (!m) return cudaSuccess;
    wait_for(r, *m, lock);
    r.learn(t, m->clock);
    r.learn_all(m->clock);
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return call("cudaEventElapsedTime", [&](runtime& r, host_thread&, runtime_lock&) {
    auto const a = find_event(r, from, "cudaEventElapsedTime");
    auto const b = find_event(r, to, "cudaEventElapsedTime");
    bool const can_be_told = a && b && a->has_timing && b->has_timing && a->last && b->last;
    if (!can_be_told || a->device != b->device) return cudaErrorInvalidResourceHandle;
    if (!is_reached(*a) || !is_reached(*b)) return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(b->last->at - a->last->at).count();
    return cudaSuccess;
  });
}

}  // extern "C"
