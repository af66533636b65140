// SPDX-License-Identifier: MIT
#include "cleave/run/gradients/gradient_buckets.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "cleave/run/host/host_device.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

constexpr rank_id r0{0};

struct one_device {
  host_ranks ranks{1};
  host_device d{ranks, r0};
  host_device::stream s;
};

template <class T>
region of(std::vector<T>& x) {
  return {x.data(), x.size(), sizeof(T) == 4 ? element_type::f32 : element_type::f64};
}

std::vector<double> numbers_in(region const& r) {
  std::vector<double> made(r.count);
  for (std::size_t i = 0; i < r.count; ++i)
    made[i] = r.type == element_type::f32 ? static_cast<double>(static_cast<float const*>(r.data)[i])
                                          : static_cast<double const*>(r.data)[i];
  return made;
}

/// Tensors packed in order, up to a size.
struct packed_tensors {
  packed_gradients<host_device> groups;

  packed_tensors(host_device& d, std::vector<gradient_copies> const& tensors, std::size_t most)
      : groups(d, packed_together(tensors, most)) {}
  std::vector<region> regions() const {
    std::vector<region> all;
    for (std::size_t g = 0; g < groups.count(); ++g) all.push_back(groups.at(g));
    return all;
  }
  void pack(host_device::stream& s) {
    for (std::size_t g = 0; g < groups.count(); ++g) groups.pack(g, s);
  }
  void unpack(host_device::stream& s) {
    for (std::size_t g = 0; g < groups.count(); ++g) groups.unpack(g, s);
  }
};

/// The elements of tensors with `counts` elements each, which begin at multiples of `unit`.
std::vector<double> tensors_in(std::vector<double> const& bucket, std::vector<std::size_t> const& counts,
                               std::size_t unit) {
  std::vector<double> made;
  std::size_t at = 0;
  for (auto const n : counts) {
    at = (at + unit - 1) / unit * unit;
    made.insert(made.end(), bucket.begin() + static_cast<std::ptrdiff_t>(at),
                bucket.begin() + static_cast<std::ptrdiff_t>(at + n));
    at += n;
  }
  CHECK(at == bucket.size());
  return made;
}

}  // namespace

TEST_CASE("packed_gradients: groups tensors of one type in order, up to a size, aligned to 16 bytes") {
  one_device x;
  std::vector<float> a{1, 2}, b{3}, c{4, 5}, d{6};
  std::vector<double> e{7}, f{8, 9};
  std::vector<gradient_copies> const tensors{{of(a)}, {of(e)}, {of(b)}, {of(c)}, {of(f)}, {of(d)}};
  packed_tensors buckets(x.d, tensors, 16);
  buckets.pack(x.s);
  std::vector<std::vector<double>> packed;
  for (auto const& r : buckets.regions()) packed.push_back(numbers_in(r));
  REQUIRE(packed.size() == 4);
  CHECK(tensors_in(packed[0], {2, 1}, 4) == std::vector<double>{1, 2, 3});
  CHECK(packed[1] == std::vector<double>{7});
  CHECK(tensors_in(packed[2], {2, 1}, 4) == std::vector<double>{4, 5, 6});
  CHECK(packed[3] == std::vector<double>{8, 9});
  CHECK(buckets.regions()[0].type == element_type::f32);
  CHECK(buckets.regions()[1].type == element_type::f64);
}

TEST_CASE("packed_gradients: a bucket of one tensor with one copy uses its memory directly") {
  one_device x;
  std::vector<float> a(100, 1), b{2};
  std::vector<gradient_copies> const tensors{{of(a)}, {of(b)}};
  for (std::size_t const most : {0u, 4u, 400u}) {
    packed_tensors buckets(x.d, tensors, most);
    REQUIRE(buckets.regions().size() == 2);
    CHECK(buckets.regions()[0] == of(a));
    CHECK(buckets.regions()[1] == of(b));
    buckets.pack(x.s);
    buckets.unpack(x.s);
    CHECK(a == std::vector<float>(100, 1));
  }
  CHECK(packed_tensors(x.d, tensors, 404).regions().size() == 1);
}

TEST_CASE("packed_gradients: adjacent tensors form a bucket in place") {
  one_device x;
  std::vector<double> memory{1, 2, 3, 4, 5, 6, 7};
  auto const piece = [&](std::size_t first, std::uint64_t count) {
    return region{memory.data() + first, count, element_type::f64};
  };
  packed_tensors row(x.d, {{piece(0, 2)}, {piece(2, 4)}, {piece(6, 1)}}, 1000);
  REQUIRE(row.regions().size() == 1);
  CHECK(row.regions()[0] == piece(0, 7));
  for (auto const& apart : {std::vector<gradient_copies>{{piece(0, 1)}, {piece(1, 2)}},  // not at 16 bytes
                            std::vector<gradient_copies>{{piece(0, 2)}, {piece(4, 2)}},
                            std::vector<gradient_copies>{{piece(2, 2)}, {piece(0, 2)}},
                            std::vector<gradient_copies>{{piece(0, 2), piece(4, 2)}, {piece(2, 2)}}}) {
    packed_tensors packed(x.d, apart, 1000);
    REQUIRE(packed.regions().size() == 1);
    CHECK(packed.regions()[0].data != apart.front().front().data);
  }
}

TEST_CASE("packed_gradients: pack() adds copies in order, and unpack() makes all copies equal") {
  one_device x;
  std::vector<double> a{1e30, 1}, b{-1e30, 2}, c{1, 3}, alone{5};
  packed_tensors buckets(x.d, {{of(a), of(b), of(c)}, {of(alone)}}, 1000);
  REQUIRE(buckets.regions().size() == 1);
  for (int step = 0; step < 2; ++step) {
    a = {1e30, 1}, b = {-1e30, 2}, c = {1, 3}, alone = {5};
    buckets.pack(x.s);
    CHECK(numbers_in(buckets.regions()[0]) == std::vector<double>{1, 6, 5});
    static_cast<double*>(buckets.regions()[0].data)[1] = 60;
    buckets.unpack(x.s);
    for (auto const* copy : {&a, &b, &c}) CHECK(*copy == std::vector<double>{1, 60});
    CHECK(alone == std::vector<double>{5});
  }
}

TEST_CASE("packed_gradients: pack() and unpack() give random tensors the sum of their copies") {
  rng random(51);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    one_device x;
    std::deque<std::vector<double>> memory;
    std::vector<gradient_copies> tensors;
    std::vector<std::vector<double>> sums;
    for (std::size_t t = random.below(7); t > 0; --t) {
      auto& copies = tensors.emplace_back();
      auto& sum = sums.emplace_back(random.below(5));
      for (std::size_t c = 1 + random.below(3); c > 0; --c) {
        auto& own = memory.emplace_back(sum.size());
        for (std::size_t i = 0; i < own.size(); ++i)
          sum[i] += own[i] = static_cast<double>(random.below(9)) - 4;
        copies.push_back(of(own));
      }
    }
    auto const most = 8 * random.below(12);
    packed_tensors buckets(x.d, tensors, most);
    buckets.pack(x.s);
    std::vector<double> packed, wanted;
    std::size_t next = 0;
    for (auto const& r : buckets.regions()) {
      std::vector<std::size_t> counts;
      for (std::uint64_t at = 0; next < sums.size() && (at + 1) / 2 * 2 + sums[next].size() <= r.count;
           ++next) {
        at = (at + 1) / 2 * 2 + sums[next].size();
        counts.push_back(sums[next].size());
      }
      auto const inside = tensors_in(numbers_in(r), counts, 2);
      packed.insert(packed.end(), inside.begin(), inside.end());
    }
    for (auto const& s : sums) wanted.insert(wanted.end(), s.begin(), s.end());
    CHECK(packed == wanted);
    buckets.unpack(x.s);
    for (std::size_t t = 0; t < tensors.size(); ++t)
      for (auto const& copy : tensors[t]) CHECK(numbers_in(copy) == sums[t]);
  }
}

namespace {

/// Gradients of these types and sizes in bytes, without memory.
std::vector<region> regions_of(std::vector<std::pair<element_type, std::size_t>> const& list) {
  std::vector<region> made;
  for (auto const& [type, bytes] : list) made.push_back({nullptr, bytes / size_of(type), type});
  return made;
}

using positions = std::vector<tensor_positions>;
constexpr stage_id here{1};

}  // namespace

TEST_CASE("gradient_groups: without a plan, fills groups from the last gradient to the first") {
  using enum element_type;
  auto const all = regions_of({{f32, 8}, {f32, 8}, {f64, 8}, {f32, 8}, {f32, 8}});
  CHECK(gradient_groups(here, all, {{}, 16}) == positions{{3, 4}, {2}, {0, 1}});
  CHECK(gradient_groups(here, all, {{}, 1}) == positions{{4}, {3}, {2}, {1}, {0}});
  CHECK(gradient_groups(here, all, {{}, 1000}) == positions{{2}, {0, 1, 3, 4}});
  CHECK(gradient_groups(here, {}, {}).empty());

  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  auto const large = regions_of({{f32, mebibyte}, {f32, mebibyte}, {f32, mebibyte / 2}, {f32, mebibyte / 2}});
  CHECK(gradient_groups(here, large, {}) == positions{{2, 3}, {0, 1}});  // the first has at most 1 MiB
  CHECK(gradient_groups(here, large, {{{here, {3}}}, 25 * mebibyte}) == positions{{3}, {0, 1, 2}});
}

TEST_CASE("gradient_groups: the buckets of a plan come first, in its order, each divided by type") {
  using enum element_type;
  auto const all = regions_of({{f32, 8}, {f64, 8}, {f32, 8}, {f32, 8}, {bf16, 2}});
  std::vector<gradient_bucket> const plan{{here, {2, 0}}, {stage_id{0}, {1}}, {here, {1, 3}}, {here, {}}};
  CHECK(gradient_groups(here, all, {plan, 1}) == positions{{0, 2}, {3}, {1}, {4}});
}

TEST_CASE("gradient_groups: random plans give each gradient one group of one type, in the order promised") {
  rng random(52);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    std::vector<region> all;
    for (auto n = random.below(12); n > 0; --n)
      all.push_back({nullptr, random.below(6), random.one_in(3) ? element_type::f64 : element_type::f32});
    tensor_positions order(all.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    random.shuffle(order);
    std::vector<gradient_bucket> plan;
    for (std::size_t at = 0; at < order.size() && !random.one_in(4);) {
      auto& b = plan.emplace_back(gradient_bucket{here, {}});
      for (auto n = random.below(4); n > 0 && at < order.size(); --n) b.gradients.push_back(order[at++]);
    }
    auto const most = random.below(60);
    auto const groups = gradient_groups(here, all, {plan, most});
    std::vector<std::size_t> bucket_of(all.size(), plan.size()), group_of(all.size(), groups.size());
    for (std::size_t b = 0; b < plan.size(); ++b)
      for (auto const n : plan[b].gradients) bucket_of[n] = b;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      REQUIRE(!groups[g].empty());
      std::size_t bytes = 0;
      for (auto const n : groups[g]) {
        CHECK(group_of[n] == groups.size());
        group_of[n] = g;
        CHECK(all[n].type == all[groups[g].front()].type);
        CHECK(bucket_of[n] == bucket_of[groups[g].front()]);
        bytes += all[n].bytes();
      }
      if (g > 0) CHECK(bucket_of[groups[g - 1].front()] <= bucket_of[groups[g].front()]);
      if (bucket_of[groups[g].front()] == plan.size() && groups[g].size() > 1) CHECK(bytes <= most);
    }
    CHECK(std::ranges::find(group_of, groups.size()) == group_of.end());
  }
}
