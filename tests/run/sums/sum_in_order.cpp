// SPDX-License-Identifier: MIT
#include "cleave/run/sums/sum_in_order.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

template <class T>
std::vector<region> regions_of(std::vector<std::vector<T>>& lists, element_type t) {
  std::vector<region> r;
  for (auto& l : lists) r.push_back({l.data(), l.size(), t});
  return r;
}

template <class T>
std::vector<std::vector<T>> reduced(std::vector<std::vector<T>> lists, element_type t, reduce_op op) {
  auto const regions = regions_of(lists, t);
  CHECK_FALSE(find_reduction_fault(regions, op));
  sum_in_order(regions, op);
  return lists;
}

/// Checks that every list becomes the reduction of all by `f`, from left to right.
template <class T, class F>
void check_numbers(element_type t, reduce_op op, F f, std::uint64_t seed) {
  testing::rng random(seed);
  for (std::size_t ranks = 1; ranks < 6; ++ranks) {
    std::vector<std::vector<T>> lists(ranks, std::vector<T>(random.below(1500)));
    for (auto& l : lists) l.resize(lists[0].size());
    for (auto& l : lists)
      for (auto& x : l) x = static_cast<T>((random.unit() - 0.5) * 200);
    std::vector<T> twin = lists[0];
    for (std::size_t r = 1; r < ranks; ++r)
      for (std::size_t k = 0; k < twin.size(); ++k) twin[k] = static_cast<T>(f(twin[k], lists[r][k]));
    CHECK(reduced(lists, t, op) == std::vector<std::vector<T>>(ranks, twin));
  }
}

template <class T>
void check_type(element_type t, std::uint64_t seed) {
  check_numbers<T>(t, reduce_op::max, [](T a, T b) { return a < b ? b : a; }, seed);
  check_numbers<T>(t, reduce_op::sum, [](T a, T b) { return a + b; }, seed + 1);
}

}  // namespace

TEST_CASE("sum_in_order: gives every region the reduction of all, from left to right") {
  check_type<float>(element_type::f32, 10);
  check_type<double>(element_type::f64, 20);
  check_type<std::int64_t>(element_type::i64, 30);
  check_type<std::int32_t>(element_type::i32, 40);
  check_type<std::int16_t>(element_type::i16, 50);
  check_type<std::int8_t>(element_type::i8, 60);
}

TEST_CASE("sum_in_order: adds in the order of the list") {
  std::vector<std::vector<float>> const lists = {{1e8f}, {1.f}, {-1e8f}};
  CHECK(reduced(lists, element_type::f32, reduce_op::sum)[1][0] == 0.f);
  CHECK(reduced<float>({{1e8f}, {-1e8f}, {1.f}}, element_type::f32, reduce_op::sum)[1][0] == 1.f);
}

TEST_CASE("sum_in_order: integers wrap around") {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  CHECK(reduced<std::int64_t>({{most}, {1}}, element_type::i64, reduce_op::sum)[0][0] ==
        std::numeric_limits<std::int64_t>::min());
  CHECK(reduced<std::int8_t>({{100}, {100}}, element_type::i8, reduce_op::sum)[1][0] == -56);
  CHECK(reduced<std::uint8_t>({{200}, {100}}, element_type::u8, reduce_op::sum)[1][0] == 44);
}

TEST_CASE("sum_in_order: adds 16-bit floats in f32 and rounds once") {
  // 1, 2^-8, 2^-8 as bf16: rounded each time, the sum would stay 1
  std::vector<std::vector<std::uint16_t>> const bf16 = {{0x3f80}, {0x3b80}, {0x3b80}};
  CHECK(reduced(bf16, element_type::bf16, reduce_op::sum)[2][0] == 0x3f81);
  std::vector<std::vector<std::uint16_t>> const f16 = {{0x3c00}, {0x1000}, {0x1000}};  // 1, 2^-11, 2^-11
  CHECK(reduced(f16, element_type::f16, reduce_op::sum)[0][0] == 0x3c01);
  CHECK(reduced<std::uint16_t>({{0xbc00}, {0x4000}}, element_type::f16, reduce_op::max)[0][0] == 0x4000);
}

TEST_CASE("sum_in_order: the maximum with a NaN is NaN, and of equal numbers the first wins") {
  std::vector<std::vector<float>> const lists = {
      {1, NAN, -0.f, 0.f}, {NAN, 1, 0.f, -0.f}, {2, INFINITY, -1, -1}};
  auto const made = reduced(lists, element_type::f32, reduce_op::max);
  for (auto const& l : made) {
    CHECK(std::isnan(l[0]));
    CHECK(std::isnan(l[1]));
    CHECK(std::signbit(l[2]));
    CHECK_FALSE(std::signbit(l[3]));
  }
}

TEST_CASE("find_reduction_fault: names the region that does not fit") {
  std::vector<float> a(3), b(4);
  std::vector<double> c(3);
  region const f32{a.data(), 3, element_type::f32};
  auto const fault = [&](region const& other, reduce_op op = reduce_op::sum) {
    return find_reduction_fault(std::vector{f32, other}, op).value_or("none");
  };
  CHECK(fault({b.data(), 4, element_type::f32}) ==
        "region 1 has 4 elements of f32, region 0 has 3 elements of f32");
  CHECK(fault({c.data(), 3, element_type::f64}) ==
        "region 1 has 3 elements of f64, region 0 has 3 elements of f32");
  CHECK(fault({nullptr, 3, element_type::f32}) == "region 1 has no address");
  std::vector<std::uint8_t> yes = {1}, no = {0};
  std::vector<region> const truths = {{yes.data(), 1, element_type::boolean},
                                      {no.data(), 1, element_type::boolean}};
  CHECK(*find_reduction_fault(truths, reduce_op::sum) ==
        "region 0 has bool elements, which cannot be summed; use i64 or u8");
  CHECK_FALSE(find_reduction_fault(truths, reduce_op::max));
  sum_in_order(truths, reduce_op::max);
  CHECK(no[0] == 1);
  sum_in_order({}, reduce_op::sum);
}
