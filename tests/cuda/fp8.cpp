// SPDX-License-Identifier: MIT
#include "cleave/cuda/fp8.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "../examples/frameworks/cuda/fp8_stages.hpp"
#include "cleave/cuda/threads.hpp"
#include "cleave/run/sums/accumulate_tile.hpp"
#include "cleave/run/sums/floating_bits.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;
using format = cleave::cuda::fp8_format;

namespace {

using lines = std::vector<std::string>;

/// Returns the value of a finite code, from the definition of the formats.
double value_of(format f, unsigned code) {
  int const mantissa = f == format::e4m3 ? 3 : 2, bias = f == format::e4m3 ? 7 : 15;
  int const exponent = static_cast<int>((code & 0x7fu) >> mantissa),
            rest = static_cast<int>(code & ((1u << mantissa) - 1));
  double const x = exponent == 0 ? std::ldexp(rest, 1 - bias - mantissa)
                                 : std::ldexp((1 << mantissa) + rest, exponent - bias - mantissa);
  return (code & 0x80u) != 0 ? -x : x;
}
unsigned largest_code(format f) { return f == format::e4m3 ? 0x7e : 0x7b; }

/// Returns the nearest code by trying all; of two, the even one.
unsigned nearest_code(format f, double x) {
  unsigned best = 0;
  for (unsigned code = 0; code <= largest_code(f); ++code) {
    auto const off = std::abs(value_of(f, code) - std::abs(x)),
               so_far = std::abs(value_of(f, best) - std::abs(x));
    if (off < so_far || (off == so_far && code % 2 == 0)) best = code;
  }
  return best | (std::signbit(x) ? 0x80u : 0u);
}

template <format F>
void check_format() {
  for (unsigned code = 0; code < 256; ++code) {
    if ((code & 0x7fu) > largest_code(F)) continue;
    CHECK(widened_fp8<F>(static_cast<std::uint8_t>(code)) == value_of(F, code));
    CHECK(fp8_of<F>(static_cast<float>(value_of(F, code))) == code);
  }
  CHECK(std::isnan(widened_fp8<F>(fp8_nan)));
  CHECK(fp8_of<F>(std::numeric_limits<float>::quiet_NaN()) == fp8_nan);
  rng random(3);
  for (int i = 0; i < 20'000; ++i) {
    auto x = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
    if (!(std::abs(x) <= fp8_numbers<F>::most)) x = std::fmod(x, fp8_numbers<F>::most);
    if (std::isnan(x)) continue;
    CHECK(fp8_of<F>(x) == nearest_code(F, x));
  }
  for (unsigned code = 0; code < largest_code(F); ++code) {  // ties
    auto const x = static_cast<float>((value_of(F, code) + value_of(F, code + 1)) / 2);
    CHECK(fp8_of<F>(x) == nearest_code(F, x));
  }
}

/// A GPU with a stream and values of one type.
template <class T>
struct on_gpu {
  cleave::cuda::device d;
  cuda_stream s = d.make_stream(0);
  cleave::cuda::buffer values, packed, back;
  std::uint64_t count;

  on_gpu(std::vector<T> const& x, fp8_block_list const& all)
      : values(d.allocate(x.size() * sizeof(T))),
        packed(d.allocate(all.bytes())),
        back(d.allocate(x.size() * sizeof(T))),
        count(x.size()) {
    cleave::cuda::check(cudaMemcpy(values.data(), x.data(), x.size() * sizeof(T), cudaMemcpyHostToDevice),
                        "cudaMemcpy");
  }
  tensor_view view() const {
    return {packed.data(), element_type::u8, {static_cast<std::int64_t>(packed.size())}};
  }
  std::vector<std::byte> bytes(cleave::cuda::buffer const& of) const {
    std::vector<std::byte> made(of.size());
    cleave::cuda::check(cudaStreamSynchronize(s.handle()), "cudaStreamSynchronize");
    cleave::cuda::check(cudaMemcpy(made.data(), of.data(), made.size(), cudaMemcpyDeviceToHost),
                        "cudaMemcpy");
    return made;
  }
};

/// Packs on the host, block by block.
template <class T, format F>
std::vector<std::byte> packed_on_host(std::vector<T> const& x, fp8_block_list const& all) {
  std::vector<std::byte> made(all.bytes());
  auto const* const from = reinterpret_cast<std::byte const*>(x.data());
  auto const each = all.block == 0 ? all.count : all.block;
  for (std::uint64_t b = 0; b < all.blocks(); ++b) {
    auto const first = b * each, count = std::min(each, all.count - first);
    auto const largest = std::bit_cast<float>(fp8_largest<T, plain_lanes>(from + first * sizeof(T), count));
    std::memcpy(made.data() + b * sizeof(float), &largest, sizeof largest);
    fp8_pack<T, F, plain_lanes>(from + first * sizeof(T), made.data() + all.first_byte() + first, count,
                                largest);
  }
  return made;
}

template <class T>
std::vector<T> some_values(rng& random, std::size_t count) {
  std::vector<T> x;
  for (std::size_t i = 0; i < count; ++i) {
    auto const mantissa = (static_cast<float>(random.below(2'000'001)) - 1e6f) / 1e6f;
    x.push_back(narrowed<T>(std::ldexp(mantissa, static_cast<int>(random.below(30)) - 20)));
  }
  return x;
}

/// Packs and unpacks on a GPU, and compares the bytes with the host's and the values with the bound.
template <class T, element_type Type, format F>
void check_round_trip(std::size_t count, std::uint64_t block) {
  CAPTURE(count);
  CAPTURE(block);
  rng random(count + block);
  auto const x = some_values<T>(random, count);
  fp8_block_list const all{count, block};
  fake_cuda const fake;
  {
    on_gpu<T> g(x, all);
    cleave::cuda::fp8_messages const messages(g.d, {.values = F, .gradients = F, .block = block});
    messages.pack_values(g.s.handle(), {g.values.data(), count, Type}, g.view());
    messages.unpack_gradients(g.s.handle(), g.view(), {g.back.data(), count, Type});
    CHECK(g.bytes(g.packed) == packed_on_host<T, F>(x, all));
    auto const raw = g.bytes(g.back);
    std::vector<T> y(count);
    std::memcpy(y.data(), raw.data(), raw.size());
    auto const each = block == 0 ? count : block;
    double const relative = F == format::e4m3 ? 0x1p-4 : 0x1p-3;
    double const smallest = F == format::e4m3 ? 0x1p-10 / 448 : 0x1p-17 / 57344;
    double const of_type = Type == element_type::f32 ? 0x1p-22 : Type == element_type::f16 ? 0x1p-11 : 0x1p-8;
    for (std::size_t first = 0; first < count; first += each) {
      double largest = 0;
      for (std::size_t i = first; i < std::min(count, first + each); ++i)
        largest = std::max(largest, std::abs(static_cast<double>(widened(x[i]))));
      for (std::size_t i = first; i < std::min(count, first + each); ++i) {
        double const was = widened(x[i]), is = widened(y[i]);
        double const packed = std::max(std::abs(was) * relative, largest * smallest) * 1.001;
        double const bound = packed + of_type * (std::abs(was) + packed) + 0x1p-24;
        CHECK_MESSAGE(std::abs(is - was) <= bound, was);
      }
    }
  }
  CHECK(fake.reports() == lines());
  CHECK(fake.leaks() == lines());
}

}  // namespace

TEST_CASE("fp8_of: rounds to the nearest number, as all codes say") {
  check_format<format::e4m3>();
  check_format<format::e5m2>();
}

TEST_CASE("cuda::fp8_messages: kernels have the bytes of the host, and errors within the bound") {
  for (std::uint64_t const block : {0u, 16u, 128u})
    for (std::size_t const count : {1u, 16u, 1000u, 10'007u}) {
      check_round_trip<float, element_type::f32, format::e4m3>(count, block);
      check_round_trip<float, element_type::f32, format::e5m2>(count, block);
      check_round_trip<bfloat16_bits, element_type::bf16, format::e4m3>(count, block);
      check_round_trip<float16_bits, element_type::f16, format::e5m2>(count, block);
    }
}

TEST_CASE("cuda::fp8_messages: values and gradients travel between stages in a quarter of the bytes") {
  fake_cuda fake;
  {
    using stages = cleave::cuda::callable_stage<example::fp8_stages>;
    auto const plan = example::fp8_plan();
    CHECK(plan.blocks()[0].activations.bytes == 32 + 1000);  // eight scales, a byte for each value
    CHECK(plan.blocks()[0].gradients.bytes == 32 + 1000);
    cleave::cuda::thread_pipeline<stages> run(
        plan, [](rank_id, cleave::cuda::device& d) { return stages(example::fp8_stages(d)); });
    cleave::cuda::device d;
    std::vector<float> x(4 * example::fp8_width);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 77) - 38;
    auto const memory = d.allocate(x.size() * sizeof(float));
    cleave::cuda::check(cudaMemcpy(memory.data(), x.data(), memory.size(), cudaMemcpyHostToDevice),
                        "cudaMemcpy");
    std::vector<tensor_view> inputs;
    for (std::size_t m = 0; m < 4; ++m)
      inputs.push_back({static_cast<float*>(memory.data()) + m * example::fp8_width,
                        element_type::f32,
                        {example::fp8_width}});
    std::vector<double> const weights(4, 1);
    run.run_step({.inputs = inputs, .inputs_of_each = 1, .weights = weights});
    fake.threads_met();  // the caller and its ranks
    for (std::uint32_t m = 0; m < 4; ++m) {
      std::vector<float> y(example::fp8_width);
      auto const made = run.result(microbatch_id{m}, 0);
      REQUIRE(made);
      cleave::cuda::check(cudaMemcpy(y.data(), made->data, y.size() * sizeof(float), cudaMemcpyDeviceToHost),
                          "cudaMemcpy");
      for (std::size_t i = 0; i < y.size(); ++i) {
        auto const was = x[m * example::fp8_width + i];
        CHECK_MESSAGE(std::abs(y[i] - was) <= std::abs(was) / 15.9f, i);
      }
    }
    auto const arrived = run.stages_of(rank_id{0}).bodies().arrived();
    std::vector<float> g(example::fp8_width);
    cleave::cuda::check(cudaMemcpy(g.data(), arrived.data, arrived.bytes(), cudaMemcpyDeviceToHost),
                        "cudaMemcpy");
    CHECK(g == std::vector<float>(example::fp8_width, 1));
  }
  CHECK(fake.reports() == lines());
}

TEST_CASE("fp8_pack: zeros stay zeros, and a value that is not finite makes its block NaN") {
  fp8_block_list const all{32, 16};
  std::vector<float> x(32, 0.f);
  x[16] = std::numeric_limits<float>::infinity();
  auto const packed = packed_on_host<float, format::e4m3>(x, all);
  float y[32];
  for (std::size_t b = 0; b < 2; ++b) {
    float largest = 0;
    std::memcpy(&largest, packed.data() + b * sizeof largest, sizeof largest);
    fp8_unpack<float, format::e4m3, plain_lanes>(packed.data() + all.first_byte() + 16 * b,
                                                 reinterpret_cast<std::byte*>(y + 16 * b), 16, largest);
  }
  for (int i = 0; i < 16; ++i) {
    CHECK(y[i] == 0);
    CHECK(std::isnan(y[16 + i]));
  }
  x.assign(32, 1e-42f);  // the scale would be 0
  for (auto const byte : packed_on_host<float, format::e4m3>(x, all)) CHECK(byte != std::byte{fp8_nan});
}

TEST_CASE(
    "cuda::in_fp8: changes the layouts of the edges asked for, and refuses those that cannot be changed") {
  using kind = fp8_fault::kind;
  run_layouts l;
  l.edges.push_back({.type = element_type::f32, .shape = {8, 4}, .batch_axis = 0});
  l.edges.push_back({.type = element_type::bf16, .shape = {100}});
  l.edges.push_back({.type = element_type::i64, .shape = {4}});
  l.edges.push_back({.type = element_type::f32, .shape = {4}, .extents = shape_kind::dynamic});
  auto const made = cleave::cuda::in_fp8(l, {0, 1}, {.block = 16});
  CHECK(made.edges[0].type == element_type::u8);
  CHECK(made.edges[0].shape == tensor_shape{16 + 32});
  CHECK(!made.edges[0].batch_axis);
  CHECK(made.edges[1].shape == tensor_shape{32 + 100});
  CHECK(made.edges[2] == l.edges[2]);
  CHECK(cleave::cuda::in_fp8(l, {}) == l);
  auto const fault = [&](std::vector<std::uint32_t> const& edges, std::uint64_t block) {
    try {
      static_cast<void>(cleave::cuda::in_fp8(l, edges, {.block = block}));
    } catch (fp8_error const& e) {
      CHECK(describe(e.witness) != "");
      return e.witness;
    }
    FAIL("not refused");
    return fp8_fault{};
  };
  CHECK(fault({2}, 0) == fp8_fault{kind::type, 2});
  CHECK(fault({3}, 0) == fp8_fault{kind::shape, 3});
  CHECK(fault({4}, 0) == fp8_fault{kind::edge, 4});
  CHECK(fault({0}, 8) == fp8_fault{kind::block, 8});
}
