// SPDX-License-Identifier: MIT
#include "support/cuda/fake_cuda.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "support/cuda/fake_nccl.hpp"
#include "support/cuda/fake_runtime.hpp"

namespace cleave::testing {

using namespace detail;

using fake::runtime;
using fake::runtime_lock;

namespace {

std::vector<std::string> all_reports() {
  auto& r = runtime::here();
  runtime_lock lock(r.mutex);
  r.settle(lock);
  {
    std::lock_guard one_at_a_time(r.data);
    for (auto const& sentence : r.memory.overruns()) r.report(sentence);
  }
  auto all = r.misuse;
  for (auto const& sentence : r.log->reports())
    if (all.size() < 200) all.push_back(sentence);
  return all;
}

void count(std::vector<std::string>& all, std::size_t n, std::string const& what) {
  if (n > 0) all.push_back(std::to_string(n) + " " + what);
}

template <class Map>
std::size_t alive(Map const& all) {
  std::size_t n = 0;
  for (auto const& [handle, x] : all) n += x->is_destroyed ? 0 : 1;
  return n;
}

void touch_here(void const* data, std::size_t bytes, bool is_write, std::string const& name) {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  auto& t = r.thread();
  r.known(t);
  t.clock.tick(t.line);
  t.known = nullptr;
  fake::touch(r, t.clock, t.line, {data, bytes, is_write}, name);
}

}  // namespace

fake_cuda::fake_cuda(fake_cuda_options const& options) { runtime::here().begin(options); }

fake_cuda::~fake_cuda() {
  auto const all = asked_ || std::uncaught_exceptions() > 0 ? std::vector<std::string>() : all_reports();
  runtime::here().end();
  if (all.empty()) return;
  for (auto const& sentence : all) std::fprintf(stderr, "fake_cuda: %s\n", sentence.c_str());
  std::abort();
}

std::vector<std::string> fake_cuda::reports() const {
  asked_ = true;
  return all_reports();
}

std::vector<std::string> fake_cuda::leaks() const {
  auto& r = runtime::here();
  runtime_lock lock(r.mutex);
  r.settle(lock);
  std::vector<std::string> all;
  for (auto const& [begin, a] : r.memory.all())
    if (a.freed_by.empty()) all.push_back(a.text());
  std::size_t streams = 0, pools = 0;
  for (auto const& [handle, s] : r.streams)
    streams += s->is_destroyed || s->is_legacy || s->is_of_thread || s->is_inner ? 0 : 1;
  for (auto const& [handle, p] : r.pools) pools += p->is_destroyed || p->is_default ? 0 : 1;
  count(all, streams, "streams");
  count(all, alive(r.events), "events");
  count(all, pools, "memory pools");
  count(all, alive(r.graphs), "graphs");
  count(all, alive(r.graph_execs), "instantiated graphs");
  count(all, alive(r.communicators), "communicators");
  return all;
}

void fake_cuda::ignore_waits(std::function<bool(fake_wait const&)> which) {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  r.ignored_waits = std::move(which);
}

std::size_t fake_cuda::waits() const {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  return r.waits;
}

std::vector<std::string> fake_cuda::missed() const {
  auto& r = runtime::here();
  runtime_lock lock(r.mutex);
  r.settle(lock);
  std::vector<std::string> all;
  for (auto const& m : r.missed)
    if (m.of->is_reached && m.at->is_reached && !m.at->clock.knows(m.of->clock)) all.push_back(m.name);
  return all;
}

void fake_cuda::fail(std::string const& function, std::size_t nth, int code) {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  r.injections.push_back({function, nth, code});
}

void fake_cuda::fail_device(int device, cudaError_t error) {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  r.gpus.at(static_cast<std::size_t>(device)).broken = error;
}

std::size_t fake_cuda::calls(std::string const& function) const {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  auto const i = r.calls.find(function);
  return i == r.calls.end() ? 0 : i->second;
}

void fake_cuda::limit_memory(int device, std::size_t bytes) {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  r.gpus.at(static_cast<std::size_t>(device)).limit = bytes;
}

void fake_cuda::hang(std::string const& part, std::size_t nth) {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  r.hanging.push_back({part, nth, 0});
}

void fake_cuda::release() {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  r.release();
}

void fake_cuda::host_reads(void const* from, std::size_t bytes, std::string const& name) {
  touch_here(from, bytes, false, name);
}

void fake_cuda::host_writes(void* to, std::size_t bytes, std::string const& name) {
  touch_here(to, bytes, true, name);
}

void fake_cuda::threads_met() {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  r.meet();
}

void fake_cuda::hang_nccl(fake_nccl_hang what) {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  r.hanging_nccl.push_back(what);
}

std::size_t fake_cuda::group_threads() const {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  return r.group_threads;
}

std::size_t fake_cuda::unregistered_messages() const {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  return r.unregistered_messages;
}

std::uint64_t fake_cuda::nccl_bytes(std::string const& function) const {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  auto const i = r.nccl_bytes.find(function);
  return i == r.nccl_bytes.end() ? 0 : i->second;
}

std::size_t fake_cuda::connecting_groups() const {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  return r.connecting_groups;
}

void fake_cuda::kill_rank(int rank, std::size_t group, fake_death death) {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  r.deaths.push_back({rank, group, death});
}

void fake_cuda::fail_communicators(int rank, ncclResult_t error) {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  fake::fail_rank(r, rank, error);
}

void fake_cuda::host(std::string const& name) {
  auto& r = runtime::here();
  std::lock_guard lock(r.mutex);
  r.thread().host_name = name;
}

}  // namespace cleave::testing
