// SPDX-License-Identifier: MIT
// The machine code that nvcc made of the kernels, checked because no GPU measures their speed: no stack is
// used, addresses are known to be global, accesses have 16 bytes, and products are rounded separately.
#include "support/cuda/object_code.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cleave/cuda/detail/device_lanes.hpp"
#include "cleave/cuda/detail/square_lane.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/sums/accumulate_tile.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

std::vector<kernel_code> const& all_kernels() {
  static std::vector<kernel_code> const all = kernels_in("/proc/self/exe");
  return all;
}

std::vector<kernel_code> kernels_of(std::string const& part) {
  std::vector<kernel_code> found;
  for (auto const& k : all_kernels())
    if (k.name.find(part) != std::string::npos) found.push_back(k);
  return found;
}

kernel_code only(std::string const& part) {
  auto const found = kernels_of(part);
  REQUIRE_MESSAGE(found.size() == 1, part, " is there ", found.size(), " times");
  return found[0];
}

/// The number of accesses of a kind, of any width.
std::size_t all_of(kernel_code const& k, std::string const& kind) {
  std::size_t n = 0;
  for (auto const& [access, times] : k.accesses)
    if (access.starts_with(kind + ".")) n += times;
  return n;
}

/// With at most `most_registers` registers, as many blocks run at once as the launch intends.
void check_code(kernel_code const& k, std::uint32_t most_registers = 64) {
  CHECK_MESSAGE(k.frame == 0, k.name, " has a stack of ", k.frame, " bytes");
  for (auto const* kind : {"LDL", "STL", "LD", "ST"})
    CHECK_MESSAGE(all_of(k, kind) == 0, k.name, " has ", all_of(k, kind), " of ", kind);
  CHECK_MESSAGE(k.fused == 0, k.name, " rounds ", k.fused, " sums of products once");
  CHECK_MESSAGE((k.registers > 0 && k.registers <= most_registers), k.name, " has ", k.registers,
                " registers");
}

template <class T>
std::string const name_in_code = "cleave::detail::bfloat16_bits";
template <>
std::string const name_in_code<float> = "float";
template <>
std::string const name_in_code<double> = "double";
template <>
std::string const name_in_code<float16_bits> = "cleave::detail::float16_bits";

std::string bits(std::size_t bytes) { return "." + std::to_string(8 * bytes); }

template <class From, class To, class Operation>
void check_accumulate(std::string const& operation) {
  auto const k = only("accumulate_kernel<" + name_in_code<From> + ", " + name_in_code<To> +
                      ", cleave::detail::" + operation + ">");
  check_code(k);
  constexpr std::size_t elements = device_lanes::pack_elements<From, To>,
                        packs = device_lanes::packs_at_once<From, To, Operation>;
  auto const from = bits(elements * sizeof(From)), to = bits(elements * sizeof(To));
  std::size_t const of_target = Operation::reads_target ? packs : 0;
  if (from == to) {
    CHECK_MESSAGE(k.count("LDG" + from) >= packs + of_target, k.name);
  } else {
    CHECK_MESSAGE(k.count("LDG" + from) >= packs, k.name);
    CHECK_MESSAGE(k.count("LDG" + to) >= of_target, k.name);
  }
  CHECK_MESSAGE((from == ".128" || to == ".128"), k.name);
  CHECK_MESSAGE(k.count("STG" + to) >= packs, k.name);
  // all other writes are of single elements
  CHECK_MESSAGE(all_of(k, "STG") == k.count("STG" + to) + k.count("STG" + bits(sizeof(To))), k.name);
}

template <class From>
void check_accumulate_from() {
  auto const to = []<class To>(To) {
    check_accumulate<From, To, adding>("adding");
    check_accumulate<From, To, overwriting>("overwriting");
  };
  to(float{}), to(double{}), to(float16_bits{}), to(bfloat16_bits{});
}

template <class T>
void check_squares() {
  auto const k = only("squares_kernel<" + name_in_code<T> + ">");
  check_code(k, 80);
  std::size_t const loads = device_lanes::rows_at_once * square_packs<T, device_lanes>;
  CHECK_MESSAGE(k.count("LDG.128") >= loads, k.name);
}

}  // namespace

TEST_CASE("kernels_in: detects stack use, generic addressing and fused rounding in control kernels") {
  CHECK(only("control_of_rounding").fused == 2);
  CHECK(only("control_of_any_address").count("LD.32") > 0);
  CHECK(only("control_of_any_address").count("ST.32") > 0);
  CHECK(only("control_of_stack").frame >= 256);
  CHECK(all_of(only("control_of_stack"), "LDL") > 0);
  CHECK(only("control_of_16_bytes").accesses ==
        std::map<std::string, std::size_t>{{"LDG.128", 1}, {"STG.128", 1}});
}

TEST_CASE("accumulate_kernel: accesses the longer type 16 bytes at a time, for all pairs of types") {
  check_accumulate_from<float>();
  check_accumulate_from<double>();
  check_accumulate_from<float16_bits>();
  check_accumulate_from<bfloat16_bits>();
}

TEST_CASE("squares_kernel: reads memory 16 bytes at a time") {
  check_squares<float>();
  check_squares<double>();
  check_squares<float16_bits>();
  check_squares<bfloat16_bits>();
  check_code(only("partials_kernel"));
}

TEST_CASE("reduce_kernel: accesses memory 16 bytes at a time, except for 1- and 2-byte integers") {
  auto const all = kernels_of("reduce_kernel<");
  CHECK(all.size() == 9 * 2 * 2);
  for (auto const& k : all) {
    check_code(k);
    bool const is_short =
        k.name.find("<short") != std::string::npos || k.name.find(" char") != std::string::npos;
    bool const of_two = k.name.find(", 2ul>") != std::string::npos;
    if (!is_short) CHECK_MESSAGE(k.count("LDG.128") >= (of_two ? 8 : 4), k.name);
    if (!is_short) CHECK_MESSAGE(k.count("STG.128") >= (of_two ? 8 : 4), k.name);
  }
}
