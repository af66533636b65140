// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/run/model/concepts.hpp"
#include "support/comes_true.hpp"

namespace cleave::testing {

using namespace detail;

/// Tests all guarantees that `run/model/concepts.hpp` makes about devices. The device must have no work yet;
/// its memory is accessed by copies only.
template <device D>
class device_promises {
 public:
  explicit device_promises(D& d) : device_(d), first_(d.make_stream(0)), second_(d.make_stream(-1)) {}

  /// Returns the broken guarantees, as sentences.
  std::vector<std::string> broken() {
    broken_.clear();
    try_events();
    try_memory();
    try_order();
    try_sums();
    try_ends();
    return broken_;
  }

 private:
  using numbers = std::array<double, 4>;
  using stream = typename D::stream;
  using event = typename D::event;

  void must(bool kept, char const* promise) {
    if (!kept) broken_.emplace_back(promise);
  }
  bool ends(stream& s) {
    auto e = device_.make_event();
    device_.record(e, s);
    return comes_true([&] { return device_.query(e); });
  }
  numbers read(stream& s, void const* from) {
    numbers made{};
    device_.copy(s, made.data(), from, sizeof made);
    must(ends(s), "work ends");
    return made;
  }
  region elements(typename D::buffer const& b) const { return {b.data(), 4, element_type::f64}; }

  void try_events() {
    auto begin = device_.make_event(), end = device_.make_event();
    must(device_.query(begin), "an event has happened until something is recorded in it");
    device_.wait(first_, begin);
    must(ends(first_), "nothing waits for an event that nothing is recorded in");
    device_.record(begin, first_);
    must(ends(first_), "work ends");
    device_.record(end, first_);
    auto moved = std::move(end);
    must(comes_true([&] { return device_.query(moved) && device_.query(begin); }), "moved events happen");
    must(device_.elapsed(begin, moved).count() >= 0, "what is recorded later is not earlier");
    device_.record(begin, first_);
    must(ends(first_) && device_.query(begin), "an event is recorded again");
    must(device_.elapsed(moved, begin).count() >= 0, "then its time is the later one");
  }

  void try_memory() {
    for (std::size_t const n : {0u, 1u, 255u, 100'000u}) {
      auto b = device_.allocate(n);
      void* const at = b.data();
      must(reinterpret_cast<std::uintptr_t>(at) % 256 == 0, "memory is aligned to 256 bytes");
      auto const moved = std::move(b);
      must(moved.data() == at, "memory stays when its buffer moves");
      device_.copy(first_, at, at, 0);
    }
    auto const one = device_.allocate(sizeof(numbers)), two = device_.allocate(sizeof(numbers));
    numbers const given{1, -2, 3, 0.5};
    device_.copy(first_, one.data(), given.data(), sizeof given);
    device_.copy(first_, two.data(), one.data(), sizeof given);
    must(read(first_, two.data()) == given, "copies go to memory of the device, there, and back, in order");
  }

  void try_order() {
    auto const room = device_.allocate(sizeof(numbers)), copied = device_.allocate(sizeof(numbers));
    auto e = device_.make_event();
    std::vector<numbers> given;
    for (int i = 0; i < 50; ++i) given.push_back({i + 0., i + 1., i + 2., i + 3.});
    for (auto const& g : given) {
      device_.copy(first_, room.data(), g.data(), sizeof g);
      device_.record(e, first_);  // again, already reached or not
      device_.wait(second_, e);
      device_.copy(second_, copied.data(), room.data(), sizeof g);
      device_.record(e, second_);
      device_.wait(first_, e);
    }
    must(read(second_, copied.data()) == given.back(), "what waits for an event sees what was before it");
    must(read(first_, room.data()) == given.back(), "events recorded again order what is issued afterwards");
  }

  void try_sums() {
    auto const a = device_.allocate(sizeof(numbers)), b = device_.allocate(sizeof(numbers)),
               c = device_.allocate(sizeof(numbers));
    numbers const ones{1, 1, 1, 1}, steps{1, 2, 3, 4};
    std::array const pairs{region_pair{elements(a), elements(b)}, region_pair{elements(b), elements(c)}};
    auto made = device_.make_sums(pairs);
    auto const none = device_.make_sums({});
    auto const list = std::move(made);
    device_.copy(first_, a.data(), steps.data(), sizeof steps);
    device_.copy(first_, b.data(), ones.data(), sizeof ones);
    device_.copy(first_, c.data(), ones.data(), sizeof ones);
    device_.accumulate(first_, none, {});
    device_.accumulate(first_, list, {.factor = 2});
    must(read(first_, c.data()) == numbers{7, 11, 15, 19}, "a pair sees what those before it wrote");
    device_.accumulate(first_, list, {.factor = 3, .target = accumulate_options::target::overwritten});
    must(read(first_, c.data()) == numbers{9, 18, 27, 36}, "sums are issued again, and may overwrite");
  }

  void try_ends() {
    auto const room = device_.allocate(sizeof(numbers));
    numbers const given{4, 3, 2, 1};
    {
      auto s = device_.make_stream(0);
      auto moved = std::move(s);
      for (int i = 0; i < 50; ++i) device_.copy(moved, room.data(), given.data(), sizeof given);
    }
    must(read(first_, room.data()) == given, "a stream that is destroyed ends its work");
  }

  D& device_;
  std::vector<std::string> broken_;
  stream first_, second_;  // last, because their pending work uses all other members
};

}  // namespace cleave::testing
