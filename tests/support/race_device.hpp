// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/run/host/host_device.hpp"
#include "cleave/run/host/host_threads.hpp"
#include "support/race_log.hpp"

namespace cleave::testing {

/// The host device, which runs work as it is issued, with race detection. It reports all memory accesses to a
/// `race_log`, ordered only by events. So a missing wait is reported even if the result is right.
class race_device {
 public:
  using buffer = host_memory::buffer;
  struct stream {
    race_device* device;
    std::size_t line;
    vector_clock clock;
    host_device::stream inner;

    void read(region const& r, std::string const& name) { touch(r, race_log::access::read, name); }
    void write(region const& r, std::string const& name) { touch(r, race_log::access::write, name); }

   private:
    void touch(region const& r, race_log::access how, std::string const& name) {
      device->issue(*this);
      device->log_->touch(clock, line, r, how, name);
    }
  };
  struct event {
    host_device::event inner;
    vector_clock clock;
    std::vector<race_log::transfer_key> transfers;  // peers whose knowledge is included
    std::string name = "nothing";
  };
  struct sums {
    host_memory::sums inner;
    std::vector<region_pair> pairs;
  };

  /// `log` and `ranks` must outlive it.
  race_device(race_log& log, host_ranks& ranks, rank_id here)
      : log_(&log), inner_(ranks, here), host_line_(log.new_line()) {}

  /// From now on, the waits of these numbers, counted from 0, order nothing.
  void ignore_waits(std::set<std::size_t> which) { ignored_ = std::move(which); }
  std::size_t waits() const { return waits_; }
  /// Returns the names of the ignored waits that would have added an order.
  std::vector<std::string> const& missed() const { return missed_; }

  stream make_stream(int) { return {this, log_->new_line(), {}, {}}; }
  event make_event() { return {}; }
  void record(event& e, stream& s) {
    issue(s);
    e.clock = s.clock;
    e.transfers.clear();
    e.name = "work";
    inner_.record(e.inner, s.inner);
  }
  void wait(stream& s, event const& e) {
    inner_.wait(s.inner, e.inner);
    auto const known = time_of(e);
    if (!ignored_.contains(waits_++))
      s.clock.join(known);
    else if (auto const before = joined(s.clock, host_); !before.knows(known))
      missed_.push_back(e.name);
  }
  bool query(event const& e) {
    if (!inner_.query(e.inner)) return false;
    host_.join(time_of(e));
    return true;
  }
  std::chrono::nanoseconds elapsed(event const& from, event const& to) const {
    return inner_.elapsed(from.inner, to.inner);
  }

  buffer allocate(std::size_t n) { return host_memory::allocate(n); }
  void copy(stream& s, void* to, void const* from, std::size_t n) {
    s.read({const_cast<void*>(from), n, element_type::u8}, "a copy");
    s.write({to, n, element_type::u8}, "a copy");
    inner_.copy(s.inner, to, from, n);
  }
  sums make_sums(std::span<region_pair const> pairs) {
    return {host_memory::make_sums(pairs), {pairs.begin(), pairs.end()}};
  }
  void accumulate(stream& s, sums const& list, accumulate_options const& options) {
    for (auto const& p : list.pairs) {
      s.read(p.from, "a sum");
      s.write(p.to, "a sum");
    }
    inner_.accumulate(s.inner, list.inner, options);
  }

  /// The issuing thread itself reads `r`.
  void read_here(region const& r, std::string const& name) {
    host_.tick(host_line_);
    log_->touch(host_, host_line_, r, race_log::access::read, name);
  }

 private:
  friend class race_communicator;

  static vector_clock joined(vector_clock a, vector_clock const& b) {
    a.join(b);
    return a;
  }
  void issue(stream& s) {
    s.clock.join(host_);
    s.clock.tick(s.line);
  }
  vector_clock time_of(event const& e) const {
    auto clock = e.clock;
    for (auto const& t : e.transfers) clock.join(log_->transfer(t));
    return clock;
  }

  race_log* log_;
  host_device inner_;
  std::size_t host_line_;
  vector_clock host_;
  std::set<std::size_t> ignored_;
  std::size_t waits_ = 0;
  std::vector<std::string> missed_;
};

/// The host communicator on that device. Each message is a line of its own, ordered after the stream's work
/// at issue time. Only the event of its group orders work after its end.
class race_communicator {
 public:
  race_communicator(host_group& group, std::uint32_t member, race_device& d)
      : inner_(group, member), group_(&group), device_(&d), log_(d.log_), members_(group.size()) {}

  rank_id rank() const { return inner_.rank(); }
  std::uint32_t size() const { return inner_.size(); }
  void begin_group() {
    inner_.begin_group();
    open_.clear();
  }
  void send(region r, message const& m, race_device::stream& s) {
    open_.push_back({r,
                     race_log::access::read,
                     "message " + std::to_string(m.number) + ", sent",
                     {group_, index(rank()), index(m.peer), sent_[m.peer]++}});
    inner_.send(r, m, s.inner);
  }
  void receive(region r, message const& m, race_device::stream& s) {
    open_.push_back({r,
                     race_log::access::write,
                     "message " + std::to_string(m.number) + ", received",
                     {group_, index(m.peer), index(rank()), received_[m.peer]++}});
    inner_.receive(r, m, s.inner);
  }
  void all_reduce(region r, reduce_op op, std::uint32_t number, race_device::stream& s) {
    open_.push_back({r,
                     race_log::access::write,
                     "reduction " + std::to_string(number),
                     {group_, index(rank()), index(rank()), reductions_++}});
    inner_.all_reduce(r, op, number, s.inner);
  }
  void end_group(race_device::event& e, race_device::stream& s) {
    device_->issue(s);
    e.clock = s.clock;
    e.transfers.clear();
    e.name.clear();
    for (auto const& t : open_) {
      e.name += (e.name.empty() ? "" : "; ") + t.name;
      auto clock = s.clock;
      auto const line = log_->new_line();
      clock.tick(line);
      log_->touch(clock, line, t.memory, t.how, t.name);
      auto const& [group, from, to, which] = t.key;
      bool const is_reduction = from == to;
      // A receiver knows that the sent data have been read. After a reduction a rank only knows that the
      // others have begun it.
      if (is_reduction || from == index(rank())) log_->begin_transfer(t.key, is_reduction ? s.clock : clock);
      for (std::uint32_t r = 0; is_reduction && r < members_; ++r)
        e.transfers.push_back({group, r, r, which});
      if (!is_reduction && to == index(rank())) e.transfers.push_back(t.key);
      e.clock.join(clock);
    }
    inner_.end_group(e.inner, s.inner);
  }
  std::optional<failure> poll() const { return inner_.poll(); }
  void abort(failure const& f) noexcept { inner_.abort(f); }

 private:
  struct transfer {
    region memory;
    race_log::access how;
    std::string name;
    race_log::transfer_key key;
  };

  host_communicator inner_;
  void const* group_;
  race_device* device_;
  race_log* log_;
  std::uint32_t members_;
  std::vector<transfer> open_;
  std::map<rank_id, std::uint64_t> sent_, received_;
  std::uint64_t reductions_ = 0;
};

static_assert(device<race_device> && communicator<race_communicator, race_device>);

/// Stages that report their accesses to inputs until the end of the backward pass, results, gradients and
/// saved activations.
template <class Stages>
class race_stages {
 public:
  explicit race_stages(Stages s) : stages_(std::move(s)) {}

  void forward(race_device::stream& s, stage_pass const& p, std::span<tensor_view const> in,
               std::span<tensor_view> out) {
    auto const name = name_of("forward pass", p);
    inputs_[{p.stage, p.microbatch}].assign(in.begin(), in.end());
    read(s, in, name);
    stages_.forward(s.inner, p, in, out);
    for (auto const& v : out) s.write(v.elements(), name);
    s.write(p.saved, name);
  }
  void backward(race_device::stream& s, stage_pass const& p, std::span<tensor_view const> gradients,
                std::span<tensor_view const> in) {
    before_backward(s, p, gradients, name_of("backward pass", p));
    gradient_writes writes(s, p, stages_.gradients(p.stage), name_of("backward pass", p));
    stages_.backward(s.inner, writes.pass(), gradients, in);
    write(s, in, name_of("backward pass", p));
  }
  void backward_input(race_device::stream& s, stage_pass const& p, std::span<tensor_view const> gradients,
                      std::span<tensor_view const> in) {
    before_backward(s, p, gradients, name_of("input pass", p));
    stages_.backward_input(s.inner, p, gradients, in);
    write(s, in, name_of("input pass", p));
    s.write(p.saved_for_weights, name_of("input pass", p));
  }
  void backward_weight(race_device::stream& s, stage_pass const& p) {
    s.read(p.saved_for_weights, name_of("weight pass", p));
    gradient_writes writes(s, p, stages_.gradients(p.stage), name_of("weight pass", p));
    stages_.backward_weight(s.inner, writes.pass());
  }
  void recompute(race_device::stream& s, stage_pass const& p, std::span<tensor_view const> in) {
    read(s, in, name_of("recompute", p));
    stages_.recompute(s.inner, p, in);
    s.write(p.saved, name_of("recompute", p));
  }
  void offload(race_device::stream& s, stage_pass const& p) {
    s.read(p.saved, name_of("offload", p));
    stages_.offload(s.inner, p);
  }
  void reload(race_device::stream& s, stage_pass const& p) {
    s.write(p.saved, name_of("reload", p));
    stages_.reload(s.inner, p);
  }
  std::span<region const> gradients(stage_id i) { return stages_.gradients(i); }
  Stages& here() { return stages_; }

 private:
  /// Notes that a pass writes gradients: each when it is reported as ready, the others at the end.
  class gradient_writes {
   public:
    gradient_writes(race_device::stream& s, stage_pass const& p, std::span<region const> all,
                    std::string name)
        : stream_(s), pass_(p), open_(all.begin(), all.end()), name_(std::move(name)) {
      if (pass_.ready) ready_ = std::exchange(pass_.ready, {&report, this, p.stage});
    }
    ~gradient_writes() {
      for (std::uint32_t n = 0; n < open_.size(); ++n) write(n);
    }
    gradient_writes(gradient_writes const&) = delete;
    gradient_writes& operator=(gradient_writes const&) = delete;
    stage_pass const& pass() const { return pass_; }

   private:
    static void report(void* to, stage_id, std::uint32_t n) {
      auto& self = *static_cast<gradient_writes*>(to);
      self.write(n);
      self.ready_(n);
    }
    void write(std::uint32_t n) {
      if (auto const r = std::exchange(open_[n], std::nullopt)) stream_.write(*r, name_);
    }

    race_device::stream& stream_;
    stage_pass pass_;
    std::vector<std::optional<region>> open_;
    std::string name_;
    gradient_report ready_;
  };

  static std::string name_of(char const* pass, stage_pass const& p) {
    return std::string(pass) + " of stage " + std::to_string(index(p.stage)) + ", microbatch " +
           std::to_string(index(p.microbatch));
  }
  static void read(race_device::stream& s, std::span<tensor_view const> all, std::string const& name) {
    for (auto const& v : all)
      if (v.data) s.read(v.elements(), name);
  }
  static void write(race_device::stream& s, std::span<tensor_view const> all, std::string const& name) {
    for (auto const& v : all)
      if (v.data) s.write(v.elements(), name);
  }
  void before_backward(race_device::stream& s, stage_pass const& p, std::span<tensor_view const> gradients,
                       std::string const& name) {
    read(s, gradients, name);
    read(s, inputs_[{p.stage, p.microbatch}], name);
    s.read(p.saved, name);
  }

  Stages stages_;
  std::map<std::pair<stage_id, microbatch_id>, std::vector<tensor_view>> inputs_;
};

}  // namespace cleave::testing
