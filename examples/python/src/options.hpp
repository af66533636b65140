// SPDX-License-Identifier: MIT
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cleave/core/ids.hpp>
#include <cleave/partition/kway/options.hpp>
#include <cleave/partition/model/partition.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "arrays.hpp"

namespace binding {

/// Lets Python handle signals between the steps of a partitioner, and calls the progress callback. What that
/// raises ends the partitioner.
class python_observer : public cleave::kway_observer {
 public:
  /// \param callback  called with the step, the number of nodes and the gain; may be None
  explicit python_observer(nanobind::object callback) : callback_(std::move(callback)) {}

  void passed(cleave::detail::kway_phase phase, std::size_t nodes, std::int64_t gained) override {
    constexpr char const* names[] = {"coarsened", "first_cut", "projected", "refined"};
    auto const now = std::chrono::steady_clock::now();
    bool const due = now - checked_ >= std::chrono::milliseconds(50);  // waiting for the lock takes time
    if (!due && callback_.is_none()) return;
    checked_ = now;
    nanobind::gil_scoped_acquire const lock;
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
    if (!callback_.is_none()) callback_(names[static_cast<std::size_t>(phase)], nodes, gained);
  }

 private:
  nanobind::object callback_;
  std::chrono::steady_clock::time_point checked_ = std::chrono::steady_clock::now();
};

/// Returns parts from an array of integers; negative ones mean no part.
inline std::vector<cleave::part_id> parts_of(std::span<std::int32_t const> of) {
  std::vector<cleave::part_id> parts(of.size());
  for (std::size_t n = 0; n < of.size(); ++n)
    parts[n] = of[n] < 0 ? cleave::no_part : cleave::part_id{static_cast<std::uint32_t>(of[n])};
  return parts;
}

inline cleave::partition partition_of(array const& labels, std::uint32_t k) {
  return {parts_of(numbers_of<std::int32_t>(labels, "labels")), k};
}

/// The options of a partitioner as Python gives them: a dictionary with all of them.
class python_options {
 public:
  explicit python_options(nanobind::dict const& given) : observer_(given["progress"]) {
    options_.preset = static_cast<cleave::kway_preset>(nanobind::cast<int>(given["preset"]));
    options_.imbalance = nanobind::cast<double>(given["eps"]);
    if (auto shares = nanobind::cast<std::vector<double>>(given["shares"]); !shares.empty())
      options_.share = std::move(shares);
    if (auto const fixed = nanobind::cast<maybe_array>(given["fixed"]))
      options_.fixed = parts_of(numbers_of<std::int32_t>(*fixed, "fixed"));
    for (nanobind::handle const further : nanobind::cast<nanobind::list>(given["further"])) {
      auto const weights = numbers_of<double>(nanobind::cast<array>(further[0]), "weights");
      options_.further_weights.push_back(
          {{weights.begin(), weights.end()}, nanobind::cast<double>(further[1])});
    }
    options_.connected = nanobind::cast<bool>(given["connected"]);
    options_.seed = nanobind::cast<std::uint64_t>(given["seed"]);
    options_.threads = nanobind::cast<std::uint32_t>(given["threads"]);
    options_.observer = &observer_;
  }
  python_options(python_options const&) = delete;
  python_options& operator=(python_options const&) = delete;

  cleave::kway_options const& get() const { return options_; }

 private:
  python_observer observer_;
  cleave::kway_options options_;
};

/// Returns a list of Python floats or integers as the numbers are.
template <class Number>
nanobind::list list_of(std::vector<Number> const& numbers) {
  nanobind::list list;
  for (auto const number : numbers) list.append(number);
  return list;
}

}  // namespace binding
