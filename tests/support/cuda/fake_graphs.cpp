// SPDX-License-Identifier: MIT
#include "support/cuda/fake_graphs.hpp"

#include <algorithm>
#include <utility>

#include "support/cuda/fake_runtime.hpp"

namespace cleave::testing::fake {

using namespace detail;

cudaError_t record(stream& s, work w) {
  auto& c = *s.capture;
  if (c.is_invalid) return cudaErrorStreamCaptureInvalidated;
  c.into->nodes.push_back({std::move(w), s.front, s.branch});
  s.front = {c.into->nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t forbid_capture(runtime& r, host_thread& t) {
  if (t.capture_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  bool found = false;
  for (auto const& [handle, s] : r.streams) {
    if (!s->capture || s->capture->mode == cudaStreamCaptureModeRelaxed) continue;
    if (s->capture->mode == cudaStreamCaptureModeThreadLocal && s->capture->by != &t) continue;
    s->capture->is_invalid = true;
    found = true;
  }
  return found ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

namespace {

template <class T, class Handle>
std::shared_ptr<T> find(runtime& r, std::map<void const*, std::shared_ptr<T>> const& all, Handle handle,
                        char const* function) {
  auto const i = all.find(handle);
  if (i != all.end() && !i->second->is_destroyed) return i->second;
  r.report(std::string(function) + " of a graph that there is not");
  return nullptr;
}

/// Returns true if every node precedes the last nodes of the stream that ends the capture.
bool is_joined(stream const& origin) {
  auto const& nodes = origin.capture->into->nodes;
  std::vector<bool> is_before(nodes.size(), false);
  auto open = origin.front;
  while (!open.empty()) {
    auto const n = open.back();
    open.pop_back();
    if (is_before[n]) continue;
    is_before[n] = true;
    open.insert(open.end(), nodes[n].after.begin(), nodes[n].after.end());
  }
  return std::ranges::find(is_before, false) == is_before.end();
}

void leave(capture& c) {
  c.has_ended = true;
  for (auto* const s : c.members) {
    s->front.clear();
    auto const kept = std::exchange(s->capture, nullptr);
  }
}

cudaError_t begin_capture(host_thread& t, stream& s, cudaStreamCaptureMode mode) {
  if (s.is_legacy) return cudaErrorStreamCaptureUnsupported;
  if (s.capture) return cudaErrorIllegalState;
  s.capture = std::make_shared<capture>();
  s.capture->into = std::make_shared<graph>();
  s.capture->into->devices = {s.device};
  s.capture->origin = &s;
  s.capture->members = {&s};
  s.capture->by = &t;
  s.capture->mode = mode;
  s.branch = 0;
  s.front.clear();
  return cudaSuccess;
}

cudaError_t end_capture(runtime& r, host_thread& t, stream& s, cudaGraph_t* handle) {
  *handle = nullptr;
  if (!s.capture) return cudaErrorIllegalState;
  auto const c = s.capture;
  if (c->origin != &s) return cudaErrorStreamCaptureUnmatched;
  if (c->by != &t && c->mode != cudaStreamCaptureModeRelaxed) return cudaErrorStreamCaptureWrongThread;
  bool const joined = is_joined(s);
  leave(*c);
  if (c->is_invalid || !joined) {
    let_go_of_memory(r, *c->into);
    c->into->communicators.clear();
    return c->is_invalid ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined;
  }
  r.graphs[c->into.get()] = c->into;
  *handle = reinterpret_cast<cudaGraph_t>(c->into.get());
  return cudaSuccess;
}

std::shared_ptr<graph_exec> instantiate(runtime& r, std::shared_ptr<graph> const& g,
                                        unsigned long long flags) {
  auto e = std::make_shared<graph_exec>();
  e->what = std::make_shared<graph>(*g);
  e->frees_on_launch = (flags & cudaGraphInstantiateFlagAutoFreeOnLaunch) != 0;
  for (auto const device : g->devices) {
    e->branches.push_back(make_stream(r, device, false, 0));
    e->branches.back()->is_inner = true;
  }
  r.graph_execs[e.get()] = e;
  return e;
}

/// Ends the life of a graph's memory when its work has ended.
void end_of_memory(runtime& r, host_thread& t, graph_exec& e) {
  if (std::ranges::all_of(e.branches, &stream::is_idle)) return let_go_of_memory(r, *e.what);
  for (auto const& b : e.branches) push_wait(r, t, *e.branches.front(), push_mark(r, t, *b));
  work w;
  w.name = "the end of a graph";
  w.run = [&r, g = e.what](stream&, runtime_lock&) { let_go_of_memory(r, *g); };
  w.issued = r.known(t);
  w.is_counted = false;
  push(*e.branches.front(), std::move(w));
}

bool have_same_shape(graph const& a, graph const& b) {
  return a.devices == b.devices &&
         std::ranges::equal(a.nodes, b.nodes, [](graph_node const& m, graph_node const& n) {
           return m.what.is == n.what.is && m.after == n.after && m.branch == n.branch;
         });
}

/// Issues the graph's work to its own streams, which start after the work in `s`; later work in `s` follows
/// them.
cudaError_t launch_graph(runtime& r, host_thread& t, stream& s, graph_exec& e, runtime_lock& lock) {
  work first;
  first.name = "a graph";
  first.run = [](stream&, runtime_lock&) {};
  if (s.capture) {
    r.report("a graph is launched on a stream under capture, which this fake library cannot capture");
    return cudaErrorStreamCaptureUnsupported;
  }
  for (auto const& n : e.what->nodes)
    for (auto const& f : n.what.memory)
      if (auto const fault = r.memory.fault_later(f.data, f.bytes)) {
        r.report(n.what.name + ", in a graph, " + (f.is_write ? "writes " : "reads ") + *fault);
        return cudaErrorInvalidValue;
      }
  auto& memory = *e.what->memory;
  bool const leaves_some = memory.given_back.size() < memory.taken.size();
  if (leaves_some && memory.is_there && !e.frees_on_launch) return cudaErrorInvalidValue;
  if (auto const error = issue(r, t, s, std::move(first), lock); error != cudaSuccess) return error;
  memory.is_there = true;
  auto const begin = push_mark(r, t, s);
  for (auto const& b : e.branches) push_wait(r, t, *b, begin);
  std::vector<std::shared_ptr<mark>> ends;
  for (auto const& n : e.what->nodes) {
    auto& b = *e.branches[n.branch];
    for (auto const other : n.after)
      if (e.what->nodes[other].branch != n.branch) push_wait(r, t, b, ends[other]);
    auto w = n.what;
    w.issued = r.known(t);
    w.is_counted = false;
    push(b, std::move(w));
    ends.push_back(push_mark(r, t, b));
  }
  for (auto const& b : e.branches) push_wait(r, t, s, push_mark(r, t, *b));
  return cudaSuccess;
}

}  // namespace

}  // namespace cleave::testing::fake

using namespace cleave::testing;
using namespace cleave::testing::fake;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t on, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCapture", [&](runtime& r, host_thread& t, runtime_lock&) {
    auto const s = find_stream(r, t, on, "cudaStreamBeginCapture");
    return s ? begin_capture(t, *s, mode) : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t on, cudaGraph_t* to) {
  return call("cudaStreamEndCapture", [&](runtime& r, host_thread& t, runtime_lock&) {
    auto const s = find_stream(r, t, on, "cudaStreamEndCapture");
    return s ? end_capture(r, t, *s, to) : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t on, cudaStreamCaptureStatus* to) {
  return call("cudaStreamIsCapturing", [&](runtime& r, host_thread& t, runtime_lock&) {
    auto const s = find_stream(r, t, on, "cudaStreamIsCapturing");
    if (!s) return cudaErrorInvalidResourceHandle;
    *to = !s->capture              ? cudaStreamCaptureStatusNone
          : s->capture->is_invalid ? cudaStreamCaptureStatusInvalidated
                                   : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call("cudaThreadExchangeStreamCaptureMode", [&](runtime&, host_thread& t, runtime_lock&) {
    std::swap(t.capture_mode, *mode);
    return cudaSuccess;
  });
}

/// Only counts the nodes, because the fake has no node handles.
cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* count) {
  return call("cudaGraphGetNodes", [&](runtime& r, host_thread&, runtime_lock&) {
    auto const g = find(r, r.graphs, handle, "cudaGraphGetNodes");
    if (!g || nodes) return cudaErrorInvalidValue;
    *count = g->nodes.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  return call("cudaGraphDestroy", [&](runtime& r, host_thread&, runtime_lock&) {
    auto const g = find(r, r.graphs, handle, "cudaGraphDestroy");
    if (!g) return cudaErrorInvalidValue;
    g->is_destroyed = true;
    g->communicators.clear();
    let_go_of_memory(r, *g);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* to, cudaGraph_t handle, unsigned long long flags) {
  return call("cudaGraphInstantiateWithFlags", [&](runtime& r, host_thread&, runtime_lock&) {
    auto const g = find(r, r.graphs, handle, "cudaGraphInstantiateWithFlags");
    if (!g) return cudaErrorInvalidValue;
    *to = reinterpret_cast<cudaGraphExec_t>(instantiate(r, g, flags).get());
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* to, cudaGraph_t handle, unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(to, handle, flags);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t handle, cudaStream_t) {
  return call("cudaGraphUpload", [&](runtime& r, host_thread&, runtime_lock&) {
    return find(r, r.graph_execs, handle, "cudaGraphUpload") ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t on) {
  return call("cudaGraphLaunch", [&](runtime& r, host_thread& t, runtime_lock& lock) {
    auto const e = find(r, r.graph_execs, handle, "cudaGraphLaunch");
    auto const s = find_stream(r, t, on, "cudaGraphLaunch");
    if (!e || !s) return e ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
    return launch_graph(r, t, *s, *e, lock);
  });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t handle, cudaGraph_t from,
                                cudaGraphExecUpdateResultInfo* info) {
  return call("cudaGraphExecUpdate", [&](runtime& r, host_thread&, runtime_lock&) {
    auto const e = find(r, r.graph_execs, handle, "cudaGraphExecUpdate");
    auto const g = find(r, r.graphs, from, "cudaGraphExecUpdate");
    if (!e || !g) return cudaErrorInvalidValue;
    bool const fits = have_same_shape(*e->what, *g);
    if (info) {
      *info = {};
      info->result = fits ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
    }
    if (!fits) return cudaErrorGraphExecUpdateFailure;
    *e->what = *g;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  return call("cudaGraphExecDestroy", [&](runtime& r, host_thread& t, runtime_lock&) {
    auto const e = find(r, r.graph_execs, handle, "cudaGraphExecDestroy");
    if (!e) return cudaErrorInvalidValue;
    e->is_destroyed = true;
    e->what->communicators.clear();
    end_of_memory(r, t, *e);
    for (auto const& b : e->branches) {
      b->is_destroyed = true;
      close(*b);
    }
    return cudaSuccess;
  });
}

}  // extern "C"
