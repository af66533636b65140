// SPDX-License-Identifier: MIT
// The kernels of the library on a GPU, against what the host makes of the same bytes: sums of all types,
// sizes and addresses, reductions, sums of squares. Nothing else may be written.
//
//   gpu_kernels [few]        few: for tools that make kernels slow
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cleave/cuda/detail/kernels.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/run/host/host_device.hpp"
#include "cleave/run/sums/sum_in_order.hpp"
#include "cleave/run/sums/sum_of_squares.hpp"
#include "gpu/report.hpp"
#include "support/rng.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::gpu_report;
using cleave::testing::rng;
using cleave::testing::text;

/// The GPU and a stream on it.
struct place {
  cleave::cuda::device device;
  cuda_stream stream = device.make_stream(0);

  void copy(void* to, void const* from, std::size_t n) {
    device.copy(stream, to, from, n);
    finish();
  }
  void finish() {
    cleave::cuda::check(cudaGetLastError(), "launch");
    cleave::cuda::check(cudaStreamSynchronize(stream.handle()), "cudaStreamSynchronize");
  }
};

/// Bytes of the device and as many of the host, from a multiple of 256 on.
class twin_bytes {
 public:
  twin_bytes(place& p, std::size_t size)
      : place_(&p), host_(host_memory::allocate(size)), device_(p.device.allocate(size)) {}

  region on_host(std::size_t at, std::size_t count, element_type t) const {
    return {static_cast<std::byte*>(host_.data()) + at, count, t};
  }
  region on_device(std::size_t at, std::size_t count, element_type t) const {
    return {static_cast<std::byte*>(device_.data()) + at, count, t};
  }
  void to_device() const { place_->copy(device_.data(), host_.data(), host_.size()); }

  /// Elements that differ, all NaN of f32 and of f64 being one; other bytes too. `regions` are of the host.
  std::size_t differences(std::span<region const> regions) const {
    auto there = host_memory::allocate(host_.size());
    place_->copy(there.data(), device_.data(), host_.size());
    auto* const made = static_cast<std::byte*>(there.data());
    auto const* const wanted = static_cast<std::byte const*>(host_.data());
    if (std::memcmp(made, wanted, host_.size()) == 0) return 0;
    std::size_t different = 0;
    for (auto const& r : regions) {
      auto* const other = made + (static_cast<std::byte const*>(r.data) - wanted);
      dispatch_element_type(r.type, [&](auto zero) {
        using T = decltype(zero);
        for (std::size_t i = 0; i < r.count; ++i)
          different +=
              is_same<T>(static_cast<std::byte const*>(r.data) + i * sizeof(T), other + i * sizeof(T)) ? 0
                                                                                                       : 1;
      });
      std::memcpy(other, r.data, r.bytes());
    }
    return different + (std::memcmp(made, wanted, host_.size()) == 0 ? 0 : 1);
  }

 private:
  template <class T>
  static bool is_same(std::byte const* a, std::byte const* b) {
    if (std::memcmp(a, b, sizeof(T)) == 0) return true;
    if constexpr (std::is_floating_point_v<T>) {
      T x, y;
      std::memcpy(&x, a, sizeof x);
      std::memcpy(&y, b, sizeof y);
      return std::isnan(x) && std::isnan(y);
    }
    return false;
  }

  place* place_;
  host_memory::buffer host_;
  cleave::cuda::buffer device_;
};

enum class numbers { finite, any };

/// Numbers of very different sizes; of `any`, some are bits as they come: NaN, infinite, next to 0.
void put_random(region const& to, numbers kind, rng& random) {
  dispatch_element_type(to.type, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < to.count; ++i) {
      T x;
      auto const bits = random.next();
      if constexpr (!std::is_integral_v<T>)
        x = narrowed<T>(std::ldexp(random.unit() - 0.5, static_cast<int>(random.below(14))));
      if (std::is_integral_v<T> || (kind == numbers::any && random.one_in(16)))
        std::memcpy(&x, &bits, sizeof x);
      if (to.type == element_type::boolean) std::memset(&x, static_cast<int>(bits & 1), sizeof x);
      std::memcpy(static_cast<std::byte*>(to.data) + i * sizeof x, &x, sizeof x);
    }
  });
}

constexpr element_type floating[] = {element_type::f32, element_type::f64, element_type::f16,
                                     element_type::bf16};
constexpr std::size_t sizes[] = {0,    1,    7,    8,    9,      255,    256,   2047,
                                 2049, 8191, 8192, 8193, 16'385, 50'003, 70'000};

/// Where tensors lie, one after the other.
struct row_of_tensors {
  std::size_t end = 0;
  /// Behind a gap, `offset` elements after a multiple of 16 bytes.
  std::size_t put(std::size_t count, element_type t, std::size_t offset) {
    std::size_t const at = (end + 47) / 16 * 16 + offset * size_of(t);
    end = at + count * size_of(t);
    return at;
  }
};

/// Offsets from a multiple of 16 bytes, in elements.
std::vector<std::size_t> offsets(element_type t, bool few) {
  std::size_t const all = 16 / size_of(t);
  if (few) return all > 2 ? std::vector<std::size_t>{0, all - 1} : std::vector<std::size_t>{0, 1};
  std::vector<std::size_t> each(all);
  for (std::size_t i = 0; i < all; ++i) each[i] = i;
  return each;
}

struct tally {
  std::size_t tensors = 0, elements = 0, different = 0;
};

/// Sums of all sizes from all addresses to all addresses, by one table.
void check_sums(place& p, element_type from, element_type to, bool few, rng& random, tally& all) {
  struct at {
    std::size_t from, to, count;
  };
  row_of_tensors row;
  std::vector<at> pairs;
  for (auto const n : sizes)
    for (auto const a : offsets(from, few))
      for (auto const b : offsets(to, few)) {
        bool const in_place = from == to && a == b;
        auto const first = row.put(n, from, a);
        pairs.push_back({first, in_place ? first : row.put(n, to, b), n});
      }
  twin_bytes const memory(p, row.end + 64);
  std::vector<region_pair> on_host, on_device;
  std::vector<region> regions;
  for (auto const& [a, b, n] : pairs) {
    on_host.push_back({memory.on_host(a, n, from), memory.on_host(b, n, to)});
    on_device.push_back({memory.on_device(a, n, from), memory.on_device(b, n, to)});
    regions.insert(regions.end(), {on_host.back().from, on_host.back().to});
    all.elements += n;
  }
  all.tensors += pairs.size();
  auto const flags = p.device.allocate(16);
  for (auto const how : {accumulate_options::target::added_to, accumulate_options::target::overwritten})
    for (auto const kind : {numbers::finite, numbers::any}) {
      for (auto const& r : regions) put_random(r, kind, random);
      memory.to_device();
      float const scale = static_cast<float>(random.unit() * 4 - 2);
      std::uint32_t bad = 0, bad_there = 0;
      p.copy(flags.data(), &bad, sizeof bad);
      p.copy(static_cast<float*>(flags.data()) + 1, &scale, sizeof scale);
      accumulate_options o{.factor = random.unit() * 4 - 2, .target = how, .nonfinite = &bad};
      if (kind == numbers::any) o.device_factor = &scale;
      host_memory::run_sums(host_memory::make_sums(on_host), o);
      o.nonfinite = static_cast<std::uint32_t*>(flags.data());
      if (o.device_factor) o.device_factor = static_cast<float const*>(flags.data()) + 1;
      auto const sums = p.device.make_sums(on_device);
      p.device.accumulate(p.stream, sums, o);
      p.finish();
      p.copy(&bad_there, flags.data(), sizeof bad_there);
      all.different += memory.differences(regions) + (bad == bad_there ? 0 : 1);
    }
}

void check_reductions(place& p, bool few, rng& random, gpu_report& report) {
  tally all;
  std::vector<std::size_t> how_many = {1, 2, 3, 4, 8, 9, 440};
  if (few) how_many = {2, 3, 9};
  for (std::size_t t = 0; t < element_names.size(); ++t)
    for (auto const regions : how_many)
      for (auto const op : {reduce_op::sum, reduce_op::max})
        for (std::size_t const count :
             {std::size_t{0}, std::size_t{1}, std::size_t{255}, 8193 + random.below(9000)})
          for (bool const aligned : {true, false}) {
            auto const type = static_cast<element_type>(t);
            if (type == element_type::boolean && op == reduce_op::sum) continue;
            if (regions > 9 && count > 255) continue;
            row_of_tensors row;
            std::vector<std::size_t> places;
            for (std::size_t r = 0; r < regions; ++r)
              places.push_back(row.put(count, type, aligned ? 0 : random.below(16 / size_of(type))));
            twin_bytes const memory(p, row.end + 64);
            std::vector<region> on_host, on_device;
            for (auto const at : places) {
              on_host.push_back(memory.on_host(at, count, type));
              on_device.push_back(memory.on_device(at, count, type));
              put_random(on_host.back(), op == reduce_op::sum ? numbers::any : numbers::finite, random);
            }
            std::vector<std::vector<std::byte>> given;
            for (auto const& r : on_host) {
              auto const* const bytes = static_cast<std::byte const*>(r.data);
              given.emplace_back(bytes, bytes + r.bytes());
            }
            auto const put_back = [&](std::size_t r) {
              std::ranges::copy(given[r], static_cast<std::byte*>(on_host[r].data));
            };
            memory.to_device();
            sum_in_order(on_host, op);
            for (std::size_t r = 0; r + 1 < regions; ++r) put_back(r);  // the last alone gets the result
            launch_sum_in_order(p.stream.handle(), on_device, op, p.device.processors(),
                                static_cast<std::uint32_t>(regions - 1));
            p.finish();
            all.different += memory.differences(on_host);
            put_back(regions - 1);
            memory.to_device();
            sum_in_order(on_host, op);
            launch_sum_in_order(p.stream.handle(), on_device, op, p.device.processors());
            p.finish();
            all.tensors += regions;
            all.elements += regions * count;
            all.different += memory.differences(on_host);
          }
  report.check(all.different == 0, "sums in order and maxima, all types, up to 440 copies",
               "the bits of the host",
               text("%zu of %zu elements in %zu tensors differ", all.different, all.elements, all.tensors));
}

void check_squares(place& p, bool few, rng& random, gpu_report& report) {
  std::size_t rounds = few ? 3 : 40, different = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    row_of_tensors row;
    struct at {
      std::size_t first, count;
      element_type type;
    };
    std::vector<at> places;
    for (std::size_t i = 0; i < 1 + random.below(9); ++i) {
      auto const type = floating[random.below(4)];
      auto const n = random.one_in(4) ? random.below(400'000) : sizes[random.below(std::size(sizes))];
      places.push_back({row.put(n, type, random.below(16 / size_of(type))), n, type});
    }
    twin_bytes const memory(p, row.end + 64);
    std::vector<region> on_host, on_device;
    for (auto const& [first, n, type] : places) {
      on_host.push_back(memory.on_host(first, n, type));
      on_device.push_back(memory.on_device(first, n, type));
      put_random(on_host.back(), numbers::finite, random);
    }
    memory.to_device();
    double const here = sum_of_squares(on_host), there = p.device.sum_of_squares(on_device);
    different += std::memcmp(&here, &there, sizeof here) == 0 ? 0 : 1;
    different += memory.differences(on_host);
  }
  report.check(different == 0, "sums of squares, all types", "the same double as the host's",
               text("%zu of %zu differ", different, rounds));
}

/// Every place where one element is not finite is told, and what was told stays.
void check_flag(place& p, gpu_report& report) {
  constexpr std::size_t n = 50'000;
  twin_bytes const memory(p, 6 * n + 512);
  auto const from = memory.on_host(0, n, element_type::bf16);
  std::fill_n(static_cast<std::uint16_t*>(from.data), n, std::uint16_t{0x3f80});
  auto const to = (2 * n + 255) / 256 * 256;
  std::fill_n(static_cast<float*>(memory.on_host(to, n, element_type::f32).data), n, 1.f);
  region_pair const pair{memory.on_device(0, n, element_type::bf16),
                         memory.on_device(to, n, element_type::f32)};
  auto const sums = p.device.make_sums({&pair, 1});
  auto const flag = p.device.allocate(sizeof(std::uint32_t));
  auto const told_with = [&](std::uint32_t before) {
    memory.to_device();
    p.copy(flag.data(), &before, sizeof before);
    p.device.accumulate(p.stream, sums, {.nonfinite = static_cast<std::uint32_t*>(flag.data())});
    p.finish();
    std::uint32_t after = 2;
    p.copy(&after, flag.data(), sizeof after);
    return after;
  };
  std::size_t wrong = (told_with(0) == 0 ? 0u : 1u) + (told_with(1) == 1 ? 0u : 1u), tried = 2;
  for (std::size_t const at : {0u, 1u, 8191u, 8192u, 49'998u, 49'999u})
    for (auto const bits : {std::uint16_t{0x7f80}, std::uint16_t{0xff80}, std::uint16_t{0x7fc0}}) {
      auto& element = static_cast<std::uint16_t*>(from.data)[at];
      element = bits;
      wrong += told_with(0) == 1 ? 0 : 1;
      element = 0x3f80;
      ++tried;
    }
  report.check(wrong == 0, "an element that is not finite is told", "everywhere, and only then",
               text("%zu of %zu wrong", wrong, tried));
}

/// A tensor of more than 2^31 elements (2^20 on the fake), of one value; looked at here and there, and behind
/// its end.
void check_large(place& p, gpu_report& report) {
  constexpr std::size_t seen = 1 << 16;
  int const power = gpu_report::is_fake() ? 20 : 31;
  std::size_t const border = std::size_t{1} << power, n = border + 99'999;
  std::size_t free = 0, all = 0;
  cleave::cuda::check(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
  auto const what = text("a tensor of more than 2^%d elements", power);
  if (free / 7 < n) return report.skip(what, "the GPU has not 14 GiB free");
  auto const from = p.device.allocate(n * 2), to = p.device.allocate(n * 4 + 64);
  // Each is 0.747…; on the stream of the sums, which does not wait for the default stream.
  cleave::cuda::check(cudaMemsetAsync(from.data(), 0x3f, n * 2, p.stream.handle()), "cudaMemsetAsync");
  region_pair const pair{{from.data(), n, element_type::bf16}, {to.data(), n, element_type::f32}};
  auto const sums = p.device.make_sums({&pair, 1});
  p.device.accumulate(p.stream, sums, {.factor = 2, .target = accumulate_options::target::overwritten});
  p.device.accumulate(p.stream, sums, {.factor = 1});
  p.finish();
  float const wanted = 3 * widened(bfloat16_bits{0x3f3f});
  std::size_t wrong = 0;
  std::vector<float> some(seen);
  for (std::size_t const at : {std::size_t{0}, n / 2, border - seen / 2, n - seen}) {
    p.copy(some.data(), static_cast<float const*>(to.data()) + at, seen * sizeof(float));
    wrong += static_cast<std::size_t>(std::ranges::count_if(some, [&](float x) { return x != wanted; }));
  }
  std::byte behind[64];
  p.copy(behind, static_cast<std::byte const*>(to.data()) + n * 4, sizeof behind);
  wrong +=
      static_cast<std::size_t>(std::ranges::count_if(behind, [](auto b) { return b != std::byte{0xff}; }));
  report.check(wrong == 0, what, "as small ones", text("%zu elements looked at, %zu wrong", 4 * seen, wrong));
}

}  // namespace

int main(int count, char** arguments) try {
  bool const few = count > 1 && std::string_view(arguments[1]) == "few";
  gpu_report report(few ? "kernels, few" : "kernels");
  place p;
  rng random(11);
  for (auto const from : floating)
    for (auto const to : floating) {
      tally all;
      check_sums(p, from, to, few, random, all);
      report.check(
          all.different == 0, "sums of " + std::string(name_of(from)) + " to " + std::string(name_of(to)),
          "the bits of the host, at every address",
          text("%zu of %zu elements in %zu tensors differ", all.different, 4 * all.elements, all.tensors));
    }
  check_reductions(p, few, random, report);
  check_squares(p, few, random, report);
  check_flag(p, report);
  if (!few || gpu_report::is_fake()) check_large(p, report);
  return report.status();
} catch (std::exception const& e) {
  return std::fprintf(stderr, "gpu_kernels: %s\n", e.what()), 1;
}
