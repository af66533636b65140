// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/cuda/kernels.hpp"
#include "cleave/cuda/memory.hpp"
#include "cleave/cuda/resources.hpp"
#include "cleave/cuda/stream.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/sums/sum_of_squares.hpp"
#include "cleave/run/sums/sum_table.hpp"

namespace cleave::detail {

/// Elements that do not lie at a multiple of their size, as a GPU needs them: `beyond` bytes behind one.
struct misplaced_elements {
  element_type type;
  std::uint64_t count;
  std::size_t beyond;

  bool operator==(misplaced_elements const&) const = default;
};

/// The first region of a table whose elements do, or nothing. Linear.
inline std::optional<misplaced_elements> find_misplaced_elements(sum_table const& table) {
  auto const beyond = [](void const* p, element_type t) {
    return static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(p) % size_of(t));
  };
  for (auto const& run : table.runs)
    for (auto const& s : std::span(table.segments).subspan(run.first_segment, run.segments)) {
      if (auto const b = beyond(s.from, run.from)) return misplaced_elements{run.from, s.count, b};
      if (auto const b = beyond(s.to, run.to)) return misplaced_elements{run.to, s.count, b};
    }
  return std::nullopt;
}

class misplaced_elements_error : public witness_error<misplaced_elements> {
 public:
  explicit misplaced_elements_error(misplaced_elements const& m)
      : witness_error("sums: a region of " + std::to_string(m.count) + " elements of " +
                          std::string(name_of(m.type)) + " begins " + std::to_string(m.beyond) +
                          " bytes behind a multiple of their size, where a GPU cannot read them; begin it at "
                          "such a multiple",
                      m) {}
};

/// A list of additions whose table is in the memory of a GPU.
class cuda_sums {
 public:
  /// Waits until the table is there. \throws misplaced_elements_error, cuda_error
  cuda_sums(std::shared_ptr<cuda_resources> const& of, sum_table const& table, cuda_stream const& uploading)
      : runs_(table.runs) {
    if (auto const m = find_misplaced_elements(table)) throw misplaced_elements_error(*m);
    auto const all = std::as_bytes(std::span(table.segments));
    segments_ = cuda_buffer(of, all.size());
    if (all.empty()) return;
    check_cuda(
        cudaMemcpyAsync(segments_.data(), all.data(), all.size(), cudaMemcpyHostToDevice, uploading.handle()),
        "cudaMemcpyAsync");
    check_cuda(cudaStreamSynchronize(uploading.handle()), "cudaStreamSynchronize");
  }

  sum_segment const* segments() const { return static_cast<sum_segment const*>(segments_.data()); }
  std::span<sum_run const> runs() const { return runs_; }
  std::uint64_t tiles() const {
    std::uint64_t all = 0;
    for (auto const& r : runs_) all += r.tiles;
    return all;
  }

  /// One kernel for each run. \throws cuda_error
  void issue(cuda_stream const& s, accumulate_options const& o, std::uint32_t processors) const {
    for (auto const& r : runs_) launch_sums(s.handle(), segments(), r, o, processors);
    check_launch("launch of sums");
  }

 private:
  cuda_buffer segments_;
  std::vector<sum_run> runs_;
};

/// How large gradients are: the sum of the squares of some regions, in the order in which the host adds them.
class cuda_squares {
 public:
  /// As of `cuda_sums`.
  cuda_squares(std::shared_ptr<cuda_resources> const& of, std::span<region const> regions,
               cuda_stream const& uploading)
      : regions_(regions.begin(), regions.end()),
        terms_(of, make_squares_table(regions), uploading),
        partials_(of, (terms_.tiles() + 1) * sizeof(double)),
        sum_(of, sizeof(double)) {}

  bool is_of(std::span<region const> regions) const { return std::ranges::equal(regions, regions_); }

  /// \throws cuda_error
  void issue(cuda_stream const& s, std::uint32_t processors) const {
    auto* at = static_cast<double*>(partials_.data());
    auto const* const all = at;
    for (auto const& r : terms_.runs()) {
      launch_squares(s.handle(), terms_.segments(), r, at, processors);
      at += r.tiles;
    }
    launch_sum_of_partials(s.handle(), all, terms_.tiles(), at);
    check_launch("launch of a sum of squares");
    check_cuda(cudaMemcpyAsync(sum_.data(), at, sizeof(double), cudaMemcpyDeviceToHost, s.handle()),
               "cudaMemcpyAsync");
  }
  /// Precondition: what was issued last has ended.
  double sum() const { return *static_cast<double const*>(sum_.data()); }

 private:
  std::vector<region> regions_;
  cuda_sums terms_;
  cuda_buffer partials_;
  pinned_buffer sum_;
};

}  // namespace cleave::detail
