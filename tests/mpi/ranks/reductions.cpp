// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cleave/mpi/pipeline.hpp"
#include "cleave/run/sums/floating_bits.hpp"
#include "rank_case.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

using namespace detail;

namespace {

enum class numbers { small, any };  // small: sums are exact in any order; any: sums are rounded

template <class T>
T element(rng& r, numbers kind) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(r.below(10));
  } else {
    auto const x = kind == numbers::small ? static_cast<double>(r.below(16)) - 8 : (r.unit() - 0.5) * 100;
    if constexpr (std::is_same_v<T, double>)
      return x;
    else
      return narrowed<T>(static_cast<float>(x));
  }
}

/// The elements that rank `r` contributes.
template <class T>
std::vector<T> brought(std::uint64_t seed, std::uint32_t r, std::size_t count, numbers kind) {
  rng random(seed * 1000 + r);
  std::vector<T> all(count);
  for (auto& x : all) x = element<T>(random, kind);
  return all;
}

/// The expected result: the sum or the maximum in order of the ranks.
template <class T>
std::vector<T> reduced(std::uint64_t seed, std::uint32_t ranks, std::size_t count, numbers kind,
                       element_type t, reduce_op op) {
  std::vector<std::vector<T>> all;
  std::vector<region> regions;
  for (std::uint32_t r = 0; r < ranks; ++r) all.push_back(brought<T>(seed, r, count, kind));
  for (auto& a : all) regions.push_back({a.data(), count, t});
  sum_in_order(regions, op);
  return all.front();
}

/// Checks several reductions at once, together with messages.
template <class T>
void check_type(mpi_communicator& c, cleave::mpi::device& d, element_type t, numbers kind) {
  static std::uint32_t number = 0;
  auto s = d.make_stream(0);
  for (std::size_t const count : {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{3001}}) {
    for (auto const op : {reduce_op::sum, reduce_op::max}) {
      auto const seed = rng(number + static_cast<std::uint64_t>(t) * 7 + count).next() % 1000;
      auto here = brought<T>(seed, index(c.rank()), count, kind);
      auto also = brought<T>(seed + 1, index(c.rank()), count, kind);
      std::uint32_t const mine = index(c.rank());
      std::uint32_t before = 0;
      rank_id const next{(mine + 1) % c.size()}, last{(mine + c.size() - 1) % c.size()};
      mpi_event end, end_of_other;
      c.begin_group();
      c.all_reduce({here.data(), count, t}, op, number, s);
      c.send({const_cast<std::uint32_t*>(&mine), 1, element_type::i32}, {next, number, {}}, s);
      c.receive({&before, 1, element_type::i32}, {last, number, {}}, s);
      c.end_group(end, s);
      c.begin_group();
      c.all_reduce({also.data(), count, t}, op, number + 1, s);
      c.end_group(end_of_other, s);
      d.wait(s, end_of_other);
      d.wait(s, end);
      number += 2;
      must(before == index(last), "a message beside a reduction");
      auto const expected = reduced<T>(seed, c.size(), count, kind, t, op);
      auto const expected_also = reduced<T>(seed + 1, c.size(), count, kind, t, op);
      bool const equal =
          count == 0 || (std::memcmp(here.data(), expected.data(), count * sizeof(T)) == 0 &&
                         std::memcmp(also.data(), expected_also.data(), count * sizeof(T)) == 0);
      must(equal, "reduction " + std::to_string(number) + " of " + std::to_string(count) + " " +
                      std::string(name_of(t)));
    }
  }
}

void check_types(mpi_communicator& c, cleave::mpi::device& d, numbers kind) {
  check_type<float>(c, d, element_type::f32, kind);
  check_type<double>(c, d, element_type::f64, kind);
  check_type<float16_bits>(c, d, element_type::f16, kind);
  check_type<bfloat16_bits>(c, d, element_type::bf16, kind);
  check_type<std::int64_t>(c, d, element_type::i64, kind);
  check_type<std::int32_t>(c, d, element_type::i32, kind);
  check_type<std::int16_t>(c, d, element_type::i16, kind);
  check_type<std::int8_t>(c, d, element_type::i8, kind);
  check_type<std::uint8_t>(c, d, element_type::u8, kind);
}

}  // namespace

int reduce_everywhere(cleave::mpi::environment& mpi, rank_arguments) {
  for (std::size_t const slice : {std::size_t{64}, std::size_t{1} << 20}) {
    if (mpi.size() > 4 && slice > 64) continue;  // many ranks share few processors
    cleave::mpi::device d;
    mpi_communicator ordered(
        MPI_COMM_WORLD, d,
        {.reductions = cleave::mpi::reductions::ordered, .longest_piece = 999, .shortest_slice = slice});
    check_types(ordered, d, numbers::any);
    auto alone = ordered.split(index(mpi.rank()), 0);
    auto s = d.make_stream(0);
    mpi_event end;
    double x = 3;
    alone.begin_group();
    alone.all_reduce({&x, 1, element_type::f64}, reduce_op::sum, 1, s);
    alone.end_group(end, s);
    d.wait(s, end);
    must(alone.size() == 1 && x > 2.9 && x < 3.1, "a rank alone");
  }
  for (std::size_t const piece : {std::size_t{1} << 30, std::size_t{999}}) {
    cleave::mpi::device d;
    mpi_communicator library(MPI_COMM_WORLD, d, {.longest_piece = piece});
    check_types(library, d, numbers::small);
  }
  if (mpi.rank() == rank_id{0}) say("reductions agree");
  return 0;
}

}  // namespace cleave::testing
