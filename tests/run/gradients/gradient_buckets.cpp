// SPDX-License-Identifier: MIT
#include "cleave/run/gradients/gradient_reducer.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <deque>
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

TEST_CASE("gradient_buckets: groups tensors of one type in order, up to a size, aligned to 16 bytes") {
  one_device x;
  std::vector<float> a{1, 2}, b{3}, c{4, 5}, d{6};
  std::vector<double> e{7}, f{8, 9};
  std::vector<gradient_copies> const tensors{{of(a)}, {of(e)}, {of(b)}, {of(c)}, {of(f)}, {of(d)}};
  gradient_buckets<host_device> buckets(x.d, tensors, 16);
  buckets.pack(x.s);
  std::vector<std::vector<double>> packed;
  for (auto const& r : buckets.regions()) packed.push_back(numbers_in(r));
  REQUIRE(packed.size() == 4);
  CHECK(tensors_in(packed[0], {2, 1}, 4) == std::vector<double>{1, 2, 3});
  CHECK(tensors_in(packed[1], {2, 1}, 4) == std::vector<double>{4, 5, 6});
  CHECK(packed[2] == std::vector<double>{7});
  CHECK(packed[3] == std::vector<double>{8, 9});
  CHECK(buckets.regions()[0].type == element_type::f32);
  CHECK(buckets.regions()[2].type == element_type::f64);
}

TEST_CASE("gradient_buckets: a bucket of one tensor with one copy uses its memory directly") {
  one_device x;
  std::vector<float> a(100, 1), b{2};
  std::vector<gradient_copies> const tensors{{of(a)}, {of(b)}};
  for (std::size_t const most : {0u, 4u, 400u}) {
    gradient_buckets<host_device> buckets(x.d, tensors, most);
    REQUIRE(buckets.regions().size() == 2);
    CHECK(buckets.regions()[0] == of(a));
    CHECK(buckets.regions()[1] == of(b));
    buckets.pack(x.s);
    buckets.unpack(x.s);
    CHECK(a == std::vector<float>(100, 1));
  }
  CHECK(gradient_buckets<host_device>(x.d, tensors, 404).regions().size() == 1);
}

TEST_CASE("gradient_buckets: adjacent tensors form a bucket in place") {
  one_device x;
  std::vector<double> memory{1, 2, 3, 4, 5, 6, 7};
  auto const piece = [&](std::size_t first, std::uint64_t count) {
    return region{memory.data() + first, count, element_type::f64};
  };
  gradient_buckets<host_device> row(x.d, {{piece(0, 2)}, {piece(2, 4)}, {piece(6, 1)}}, 1000);
  REQUIRE(row.regions().size() == 1);
  CHECK(row.regions()[0] == piece(0, 7));
  for (auto const& apart : {std::vector<gradient_copies>{{piece(0, 1)}, {piece(1, 2)}},  // not at 16 bytes
                            std::vector<gradient_copies>{{piece(0, 2)}, {piece(4, 2)}},
                            std::vector<gradient_copies>{{piece(2, 2)}, {piece(0, 2)}},
                            std::vector<gradient_copies>{{piece(0, 2), piece(4, 2)}, {piece(2, 2)}}}) {
    gradient_buckets<host_device> packed(x.d, apart, 1000);
    REQUIRE(packed.regions().size() == 1);
    CHECK(packed.regions()[0].data != apart.front().front().data);
  }
}

TEST_CASE("gradient_buckets: pack() adds copies in order, and unpack() makes all copies equal") {
  one_device x;
  std::vector<double> a{1e30, 1}, b{-1e30, 2}, c{1, 3}, alone{5};
  gradient_buckets<host_device> buckets(x.d, {{of(a), of(b), of(c)}, {of(alone)}}, 1000);
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

TEST_CASE("gradient_buckets: pack() and unpack() give random tensors the sum of their copies") {
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
    gradient_buckets<host_device> buckets(x.d, tensors, most);
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
