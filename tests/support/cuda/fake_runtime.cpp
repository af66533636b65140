// SPDX-License-Identifier: MIT
#include "support/cuda/fake_runtime.hpp"

#include <algorithm>
#include <chrono>

#include "support/cuda/fake_nccl.hpp"

namespace cleave::testing::fake {

using namespace detail;

/// The state of a thread of the test. When the thread ends, all others learn its clock, because joining a
/// thread involves no CUDA call.
struct thread_of_host {
  std::shared_ptr<host_thread> is;
  std::uint64_t epoch = 0;

  ~thread_of_host() {
    if (!is) return;
    auto& r = runtime::here();
    std::lock_guard lock(r.mutex);
    if (r.epoch_ == epoch) r.learn_all(is->clock);
  }
};

namespace {
thread_local thread_of_host this_thread;
}

bool& is_in_host_function() {
  static thread_local bool is_in = false;
  return is_in;
}

runtime& runtime::here() {
  static auto* const one = new runtime;  // threads may outlive main
  return *one;
}

void runtime::start(fake_cuda_options const& o) {
  options = o;
  log.emplace();
  memory.clear();
  gpus.clear();
  for (auto const& is : o.devices) {
    auto& g = gpus.emplace_back();
    g.is = is;
    g.limit = is.memory;
  }
  streams.clear();
  events.clear();
  graphs.clear();
  graph_execs.clear();
  pools.clear();
  communicators.clear();
  worlds.clear();
  registrations.clear();
  of_nccl.clear();
  nccl_bytes.clear();
  misuse.clear();
  ignored_waits = nullptr;
  missed.clear();
  injections.clear();
  hanging.clear();
  calls.clear();
  hanging_nccl.clear();
  deaths.clear();
  group_threads = connecting_groups = unregistered_messages = 0;
  waits = stream_count = event_count = communicator_count = unique_ids = 0;
  released = ending = false;
  threads_.clear();
  all_ = vector_clock();
  lessons_ = 0;
  ++epoch_;
}

void runtime::begin(fake_cuda_options const& o) {
  end();
  std::lock_guard lock(mutex);
  start(o);
}

void runtime::end() {
  std::vector<std::shared_ptr<stream>> all;
  {
    std::lock_guard lock(mutex);
    ending = true;
    release();
    abort_all(*this);
    for (auto const& [handle, s] : streams) {
      close(*s);
      all.push_back(s);
    }
  }
  for (auto const& s : all)
    if (s->worker.joinable()) s->worker.join();
  std::lock_guard lock(mutex);
  start({});
}

host_thread& runtime::thread() {
  auto& mine = this_thread;
  if (!mine.is || mine.epoch != epoch_) {
    mine.is = std::make_shared<host_thread>();
    mine.epoch = epoch_;
    mine.is->line = log->new_line();
    for (auto const& other : threads_) mine.is->clock.join(other->clock);
    threads_.push_back(mine.is);
  }
  return *mine.is;
}

clock_snapshot runtime::known(host_thread& t) {
  if (!t.known || t.known_lesson != lessons_) {
    t.clock.join(all_);
    t.known = std::make_shared<vector_clock const>(t.clock);
    t.known_lesson = lessons_;
  }
  return t.known;
}

void runtime::learn(host_thread& t, vector_clock const& clock) {
  if (t.clock.knows(clock)) return;
  t.clock.join(clock);
  t.known = nullptr;
}

void runtime::learn_all(vector_clock const& clock) {
  all_.join(clock);
  ++lessons_;
}

void runtime::meet() {
  for (auto const& t : threads_) all_.join(t->clock);
  ++lessons_;
}

void runtime::report(std::string const& sentence) {
  if (misuse.size() < 100 && std::ranges::find(misuse, sentence) == misuse.end()) misuse.push_back(sentence);
}

std::optional<int> runtime::injected(std::string_view function) {
  auto i = calls.find(function);
  if (i == calls.end()) i = calls.emplace(function, 0).first;
  ++i->second;
  for (auto j = injections.begin(); j != injections.end(); ++j) {
    if (j->name != function || --j->countdown > 0) continue;
    auto const code = j->code;
    injections.erase(j);
    return code;
  }
  return std::nullopt;
}

cudaError_t runtime::begin_call(host_thread& t, std::string_view function) {
  if (auto const code = injected(function)) return static_cast<cudaError_t>(*code);
  if (options.driver == fake_driver::absent) return cudaErrorInsufficientDriver;
  if (gpus.empty()) return cudaErrorNoDevice;
  return gpus[static_cast<std::size_t>(t.device)].broken;
}

void runtime::release() {
  released = true;
  changed.notify_all();
}

void runtime::settle(runtime_lock& lock) {
  auto const finished = [&] {
    std::size_t all = 0;
    for (auto const& [handle, s] : streams) all += s->finished;
    return all;
  };
  auto const all_idle = [&] {
    return std::ranges::all_of(streams, [](auto const& s) { return s.second->is_idle(); });
  };
  auto const max_fruitless_moves = std::chrono::milliseconds(300);
  while (!all_idle()) {
    auto const before = finished();
    if (!changed.wait_for(lock, max_fruitless_moves, [&] { return finished() > before || all_idle(); }))
      return;
  }
}

}  // namespace cleave::testing::fake
