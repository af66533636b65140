// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/run/host/host_device.hpp"
#include "cleave/run/host/host_group.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/run/host/host_threads.hpp"
#include "cleave/run/host/member_communicator.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/stable_list.hpp"
#include "cleave/schedule/model/simulate_options.hpp"

namespace cleave::inline v0_2::detail {

/// Links that take time, and a thread that ends each message when its bytes would have arrived. Thread-safe.
class throttled_links {
 public:
  using clock = host_event::clock;
  using duration = std::chrono::duration<double>;

  /// `unit` is the length of the unit of time in `o`. \throws simulate_option_error
  throttled_links(simulate_options o, duration unit, std::uint32_t ranks)
      : options_(std::move(o)), unit_(unit), ranks_(ranks), free_(std::size_t{ranks} * ranks) {
    using enum simulate_option_fault::kind;
    auto const pairs = std::uint64_t{ranks} * ranks;
    if (!one_or_each(options_.links).covers(pairs))
      throw simulate_option_error({link_count, options_.links.size(), pairs});
    if (auto const f = find_link_fault(options_)) throw simulate_option_error(*f);
    if (auto const f = find_uplink_fault(options_, ranks)) throw simulate_option_error(*f);
    for (auto const& u : options_.uplinks) {
      std::vector<char> is_inside(ranks);
      for (auto const r : u.ranks) is_inside[index(r)] = 1;
      uplinks_.push_back({std::move(is_inside), u.bandwidth, {}, {}});
    }
    thread_ = std::thread([this] { serve(); });
  }
  throttled_links(throttled_links&&) = delete;
  ~throttled_links() { stop(); }

  /// Lets a message leave now, or once its channels are free. Ends `left` when its last byte has left and
  /// `arrived` when that has arrived, on another thread and not after `stop`.
  void move(host_ranks& ranks, rank_id from, rank_id to, std::size_t bytes, host_event* left,
            host_event* arrived) {
    std::lock_guard lock(mutex_);
    auto const link = one_or_each(options_.links).of(std::size_t{index(from)} * ranks_ + index(to));
    auto const last = bytes == 0 ? clock::now() : leave(from, to, static_cast<double>(bytes), link.bandwidth);
    end_at(last, {left, &ranks, from});
    end_at(later(last, options_.base_latency + link.latency), {arrived, &ranks, to});
    changed_.notify_one();
  }

  /// Ends the thread. Messages on their way never arrive.
  void stop() noexcept {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct uplink {
    std::vector<char> is_inside;  // by rank
    double bandwidth;
    clock::time_point out, in;  // free from then on

    bool is_on_way(rank_id from, rank_id to) const { return is_inside[index(from)] != is_inside[index(to)]; }
    clock::time_point& free(rank_id from) { return is_inside[index(from)] ? out : in; }
  };
  struct ending {
    host_event* event;
    host_ranks* ranks;
    rank_id of;
  };
  struct timed_ending : ending {
    clock::time_point at;
    std::uint64_t order;
  };
  struct later_first {
    bool operator()(timed_ending const& a, timed_ending const& b) const {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };

  /// Returns the time that is `units` of the options after `t`, at most about a century.
  clock::time_point later(clock::time_point t, double units) const {
    constexpr duration longest{3e9};
    auto const wait = (std::min)(unit_ * units, longest);
    return t + std::chrono::duration_cast<clock::duration>(wait);
  }

  /// Occupies the channels of a message. Returns when its last byte has left.
  clock::time_point leave(rank_id from, rank_id to, double size, double bandwidth) {
    auto& channel = free_[std::size_t{index(from)} * ranks_ + index(to)];
    auto begin = (std::max)(clock::now(), channel);
    for (auto& u : uplinks_)
      if (u.is_on_way(from, to)) begin = (std::max)(begin, u.free(from));
    channel = later(begin, size / bandwidth);
    for (auto& u : uplinks_)
      if (u.is_on_way(from, to)) {
        u.free(from) = later(begin, size / u.bandwidth);
        channel = (std::max)(channel, u.free(from));
      }
    return channel;
  }

  void end_at(clock::time_point t, ending const& e) {
    endings_.push_back({e, t, endings_begun_++});
    std::ranges::push_heap(endings_, later_first{});
  }

  void serve() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      if (endings_.empty()) {
        changed_.wait(lock);
        continue;
      }
      auto const next = endings_.front();
      if (clock::now() < next.at) {
        changed_.wait_until(lock, next.at);
        continue;
      }
      std::ranges::pop_heap(endings_, later_first{});
      endings_.pop_back();
      end_transfer(*next.ranks, next.of, next.event);
    }
  }

  simulate_options options_;
  duration unit_;
  std::uint32_t ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<clock::time_point> free_;  // by pair of ranks: free from then on
  std::vector<uplink> uplinks_;
  std::vector<timed_ending> endings_;  // a heap
  std::uint64_t endings_begun_ = 0;
  bool stopped_ = false;
  std::thread thread_;
};

/// The throttled links of a group.
struct throttled_links_of_group {
  throttled_links* all;

  void move(host_ranks& ranks, rank_id from, rank_id to, std::size_t bytes, host_event* left,
            host_event* arrived) const {
    all->move(ranks, from, to, bytes, left, arrived);
  }
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The backend of `host_threads` with links that take time, to try a plan for other machines on this one. A
/// message arrives when it would arrive over the links and uplinks of a simulation. Sums of gradients take no
/// time of links.
class throttled_threads {
 public:
  using device = host_device;
  using group = detail::linked_group<detail::throttled_links_of_group>;
  using communicator = member_communicator<host_device, group>;

  /// Takes the links, the uplinks and `base_latency` of `timing`, whose unit of time has the length `unit`.
  explicit throttled_threads(simulate_options timing,
                             std::chrono::duration<double> unit = std::chrono::seconds(1))
      : timing_(std::move(timing)), unit_(unit) {}

  /// \throws simulate_option_error if the links do not fit the number of ranks
  device make_device(host_ranks& ranks, rank_id r) {
    if (!links_) links_ = std::make_unique<detail::throttled_links>(timing_, unit_, ranks.count());
    return {ranks, r};
  }
  group& make_group(detail::stable_list<group>& to, host_ranks& ranks, std::vector<rank_id> members,
                    std::span<device> /*devices*/) {
    return to.emplace(ranks, std::move(members), detail::throttled_links_of_group{links_.get()});
  }
  void begin(device&) {}
  void end(std::span<device>) noexcept {
    if (links_) links_->stop();
  }

 private:
  simulate_options timing_;
  std::chrono::duration<double> unit_;
  std::unique_ptr<detail::throttled_links> links_;
};

static_assert(thread_backend<throttled_threads>);
}  // namespace cleave
