// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <utility>

#include "support/cuda/fake_nccl.hpp"
#include "support/cuda/fake_runtime.hpp"

namespace cleave::testing::fake {

using namespace detail;

char const* name_of(message_kind k) {
  static constexpr char const* names[] = {"ncclSend",      "ncclRecv",          "ncclAllReduce",
                                          "ncclAllGather", "ncclReduceScatter", "ncclBroadcast",
                                          "ncclReduce"};
  return names[static_cast<std::size_t>(k)];
}

std::size_t message_call::bytes() const { return count * size_of(type); }

std::vector<footprint> message_call::memory(int rank, int size) const {
  auto const n = bytes(), all = n * static_cast<std::size_t>(size);
  switch (is) {
    case message_kind::send:
      return {{from, n, false}};
    case message_kind::receive:
      return {{to, n, true}};
    case message_kind::all_gather:
      return {{from, n, false}, {to, all, true}};
    case message_kind::reduce_scatter:
      return {{from, all, false}, {to, n, true}};
    case message_kind::broadcast:
      return rank == peer ? std::vector<footprint>{{from, n, false}, {to, n, true}}
                          : std::vector<footprint>{{to, n, true}};
    case message_kind::reduce:
      return rank == peer ? std::vector<footprint>{{from, n, false}, {to, n, true}}
                          : std::vector<footprint>{{from, n, false}};
    case message_kind::all_reduce:
      break;
  }
  return {{from, n, false}, {to, n, true}};
}

std::string message_call::text() const {
  auto const what = std::string(name_of(is)) + " of " + plural_bytes(bytes());
  if (is == message_kind::send) return what + " to rank " + std::to_string(peer);
  if (is == message_kind::receive) return what + " from rank " + std::to_string(peer);
  return what;
}

connection connection_of(message_call const& m) {
  return {m.is, static_cast<int>(std::bit_width(m.bytes()))};
}

namespace {

using post_ptr = std::shared_ptr<post>;

/// Moves the bytes of a message once both ends are there.
void meet(runtime& r, post& sent, post& received) {
  auto const bytes = std::min(sent.what.bytes(), received.what.bytes());
  if (sent.what.bytes() != received.what.bytes()) {
    auto const why = sent.by->text() + " sends " + plural_bytes(sent.what.bytes()) + " where " +
                     received.by->text() + " expects " + plural_bytes(received.what.bytes());
    r.report(why);
    fail(*sent.by, ncclInvalidUsage, why);
    fail(*received.by, ncclInvalidUsage, why);
  }
  {
    std::lock_guard one_at_a_time(r.data);
    std::memmove(received.what.to, sent.what.from, bytes);
  }
  sent.end = sent.start;
  received.end = received.start;
  received.end.join(sent.start);  // a receiver knows that the sent data have been read
  sent.is_done = received.is_done = true;
  r.changed.notify_all();
}

bool agree(message_call const& a, message_call const& b) {
  bool const has_root = a.is == message_kind::broadcast || a.is == message_kind::reduce;
  bool const has_op = a.is != message_kind::all_gather && a.is != message_kind::broadcast;
  return a.is == b.is && a.count == b.count && a.type == b.type && (!has_op || a.op == b.op) &&
         (!has_root || a.peer == b.peer);
}

void compute(std::vector<post_ptr> const& posts) {
  auto const& first = posts[0]->what;
  auto const n = first.bytes();
  std::vector<std::vector<std::byte>> inputs;  // copied, because they may overlap results
  for (auto const& p : posts) {
    auto const* const from = static_cast<std::byte const*>(p->what.from);
    bool const is_read = first.is != message_kind::broadcast || p->by->rank == first.peer;
    auto const bytes = first.is == message_kind::reduce_scatter ? n * posts.size() : is_read ? n : 0;
    inputs.emplace_back(from, from + bytes);
  }
  std::vector<std::byte> sum(first.is == message_kind::reduce_scatter ? n * posts.size() : n);
  if (first.is != message_kind::all_gather && first.is != message_kind::broadcast)
    reduce(inputs, first.type, first.op, sum.data());
  for (std::size_t rank = 0; rank < posts.size(); ++rank) {
    auto* const to = static_cast<std::byte*>(posts[rank]->what.to);
    if (first.is == message_kind::all_gather) {
      for (std::size_t i = 0; i < posts.size(); ++i) std::ranges::copy(inputs[i], to + i * n);
    } else if (first.is == message_kind::broadcast) {
      std::ranges::copy(inputs[static_cast<std::size_t>(first.peer)], to);
    } else if (first.is == message_kind::reduce_scatter) {
      std::memcpy(to, sum.data() + rank * n, n);
    } else if (first.is == message_kind::all_reduce || first.peer == static_cast<int>(rank)) {
      std::ranges::copy(sum, to);
    }
  }
}

/// Runs a collective once all ranks are there. They must have requested the same.
void meet_all(runtime& r, std::vector<post_ptr> const& posts) {
  bool all_agree = true;
  for (auto const& p : posts) {
    if (agree(posts[0]->what, p->what)) continue;
    all_agree = false;
    auto const why = p->by->text() + " takes part in " + p->what.text() + " where " + posts[0]->by->text() +
                     " takes part in " + posts[0]->what.text();
    r.report(why);
    for (auto const& q : posts) fail(*q->by, ncclInvalidUsage, why);
  }
  if (all_agree) {
    std::lock_guard one_at_a_time(r.data);
    compute(posts);
  }
  vector_clock end;
  for (auto const& p : posts) end.join(p->start);
  for (auto const& p : posts) {
    p->end = end;
    p->is_done = true;
  }
  r.changed.notify_all();
}

void put(runtime& r, communicator& c, post_ptr const& p) {
  auto& w = *c.in;
  if (is_collective(p->what.is)) {
    auto const number = c.collectives++;
    auto& all = w.collectives[number];
    all.resize(static_cast<std::size_t>(w.size));
    all[static_cast<std::size_t>(c.rank)] = p;
    if (std::ranges::find(all, nullptr) != all.end()) return;
    meet_all(r, all);
    w.collectives.erase(number);
    return;
  }
  bool const is_send = p->what.is == message_kind::send;
  world::pair const way = is_send ? world::pair{c.rank, p->what.peer} : world::pair{p->what.peer, c.rank};
  auto &sends = w.sends[way], &receives = w.receives[way];
  (is_send ? sends : receives).push_back(p);
  while (!sends.empty() && !receives.empty()) {
    meet(r, *sends.front(), *receives.front());
    sends.pop_front();
    receives.pop_front();
  }
}

/// Withdraws the pending requests of a stopped communicator.
void take_back(communicator& c) {
  auto const is_its = [&](post_ptr const& p) { return p && p->by == &c; };
  for (auto* const all : {&c.in->sends, &c.in->receives})
    for (auto& [way, queue] : *all) std::erase_if(queue, is_its);
  for (auto& [number, posts] : c.in->collectives)
    for (auto& p : posts)
      if (is_its(p)) p = nullptr;
}

/// Kills all communicators of the thread; peers see that after a while, or never.
void die(runtime& r, communicator& c, fake_death how) {
  for (auto const& [handle, other] : r.communicators) {
    if (other->made_by != c.made_by) continue;
    other->is_dead = true;
    for (auto const& peer : other->in->members)
      if (peer && peer->made_by != c.made_by && how == fake_death::seen)
        peer->error_at = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  }
}

void count_deaths(runtime& r, communicator& c) {
  for (auto& d : r.deaths) {
    if (c.in->size != c.run_size || d.rank != c.rank || d.countdown == 0 || --d.countdown > 0) continue;
    die(r, c, d.how);
  }
}

std::size_t lane_line(runtime& r, stream& s, std::size_t i) {
  while (s.lanes.size() <= i) s.lanes.push_back(r.log->new_line());
  return s.lanes[i];
}

/// Starts a member. Members progress independently: each is a line of its own, ordered after the stream.
post_ptr begin_member(runtime& r, stream& s, communicator& c, message_call const& m, std::size_t i) {
  auto p = std::make_shared<post>(post{m, &c, s.clock, {}, false});
  auto const line = lane_line(r, s, i);
  p->start.tick(line);
  auto const name = m.text() + " by " + c.text() + " on " + s.text();
  for (auto const& f : m.memory(c.rank, c.in->size)) {
    if (auto const fault = r.memory.fault(f.data, f.bytes)) {
      r.report(name + (f.is_write ? " writes " : " reads ") + *fault);
      return nullptr;
    }
    touch(r, p->start, line, f, name);
  }
  return p;
}

}  // namespace

void run_group(runtime& r, stream& s, communicator& c, std::vector<message_call> const& members,
               runtime_lock& lock) {
  if (c.is_stopped() || r.ending) return;
  count_deaths(r, c);
  ++c.running;
  std::vector<post_ptr> posts;
  auto const is_stopped = [&] { return c.is_stopped() || r.ending; };
  if (c.is_dead) {
    r.changed.wait(lock, is_stopped);
  } else {
    for (std::size_t i = 0; i < members.size(); ++i)
      if (auto p = begin_member(r, s, c, members[i], i)) posts.push_back(std::move(p));
    for (auto const& p : posts) put(r, c, p);
    r.changed.wait(lock, [&] {
      return is_stopped() || std::ranges::all_of(posts, [](post_ptr const& p) { return p->is_done; });
    });
    take_back(c);
  }
  for (auto const& p : posts) s.clock.join(p->is_done ? p->end : p->start);
  --c.running;
  r.changed.notify_all();
}

}  // namespace cleave::testing::fake
