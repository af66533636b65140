// SPDX-License-Identifier: MIT
// A C interface to cleave with 32-bit arrays, so that peers.py times it like METIS: only the call, with the
// graph in memory. peers.py compiles it:
//   g++ -O3 -std=c++20 -pthread -shared -fPIC -I include bench/peers/cleave_peer.cpp -o libcleave_peer.so
#include <algorithm>
#include <cleave/graph/adjacency.hpp>
#include <cleave/partition/kway/kway.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>

namespace {

std::span<std::int32_t const> list_of(std::int32_t const* from, std::size_t size) {
  return from == nullptr ? std::span<std::int32_t const>() : std::span(from, size);
}

}  // namespace

/// Weights may be null (all 1). `preset`: 0 fast, 1 standard, 2 quality. Returns 0, or 1 with a text in
/// `message`.
extern "C" int cleave_partition(std::int32_t nodes, std::int32_t const* first, std::int32_t const* head,
                                std::int32_t const* node_weight, std::int32_t const* edge_weight,
                                std::int32_t parts, double eps, std::int32_t preset, std::uint64_t seed,
                                std::int32_t threads, std::int64_t* cut, std::int32_t* part, char* message,
                                std::size_t message_size) {
  try {
    auto const n = static_cast<std::size_t>(nodes), arcs = static_cast<std::size_t>(first[n]);
    cleave::adjacency_view<std::int32_t, std::int32_t, std::int32_t> const graph{
        {first, n + 1}, {head, arcs}, list_of(node_weight, n), list_of(edge_weight, arcs)};
    auto const p = cleave::partition_kway(graph, static_cast<std::uint32_t>(parts),
                                          {.preset = static_cast<cleave::kway_preset>(preset),
                                           .imbalance = eps,
                                           .seed = seed,
                                           .threads = static_cast<std::uint32_t>(threads)});
    *cut = static_cast<std::int64_t>(p.cut);
    std::ranges::transform(p.of, part, [](cleave::part_id id) { return static_cast<std::int32_t>(id); });
    return 0;
  } catch (std::exception const& e) {
    std::snprintf(message, message_size, "%s", e.what());
    return 1;
  }
}
