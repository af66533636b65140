// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/checkpoint/checkpoint.hpp"
#include "cleave/checkpoint/checkpoint_data.hpp"
#include "cleave/checkpoint/checkpoint_writer.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/named_tensor.hpp"

/// Checkpoints of ranks that are processes. A failure at one rank is an error at all ranks.
namespace cleave::inline v0_2 {

/// A rendezvous that knows the number of ranks and its own rank.
template <class B>
concept ranked_rendezvous = collective_rendezvous<B> && requires(B const& b) {
  { b.rank() } -> std::same_as<rank_id>;
  { b.size() } -> std::same_as<std::uint32_t>;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Exchanges one message per rank and returns all messages by rank, at every rank.
/// \throws run_error
template <ranked_rendezvous Board, class Said>
std::vector<Said> agreed_by_all_ranks(Board& b, Said const& mine,
                                      std::chrono::steady_clock::time_point until) {
  std::vector<Said> all(b.size());
  all[index(b.rank())] = mine;
  for (std::uint32_t r = 0; r < b.size(); ++r)
    b.broadcast(std::as_writable_bytes(std::span(&all[r], 1)), rank_id{r}, until);
  return all;
}

/// Returns the first rank whose message is all zeros, which stands for a failure, if any.
template <class Said>
std::optional<std::uint32_t> find_silent(std::vector<Said> const& all) {
  for (std::uint32_t r = 0; r < all.size(); ++r)
    if (all[r] == Said{}) return r;
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Writes a checkpoint of all ranks and returns its serial number.
///
/// Every rank calls it with its own state and with the same folder, step and deadline `until`. If it returns
/// at one rank, the checkpoint is complete. It then returns at all ranks, except those that a failure of the
/// run reaches first.
///
/// \throws named_tensor_error or file_error at a rank that failed; checkpoint_error at the other ranks, which
/// names that rank, and no new checkpoint exists; run_error if a rank is lost or late
template <ranked_rendezvous Board>
std::uint64_t write_checkpoint(Board& b, std::string const& folder, checkpoint_label const& label,
                               std::span<named_tensor const> state,
                               std::chrono::steady_clock::time_point until,
                               checkpoint_options const& options = {}) {
  auto const refuse = [&](std::uint32_t rank, char const* what) {
    throw checkpoint_error({checkpoint_fault::kind::parts, folder,
                            "rank " + std::to_string(rank) + what + std::to_string(label.step) +
                                "; see the error of that rank"});
  };
  std::exception_ptr failed;
  auto const attempt = [&](auto f) {
    try {
      f();
    } catch (...) {
      failed = std::current_exception();
    }
  };
  checkpoint_part mine;
  attempt([&] { mine = write_checkpoint_part(folder, label.step, b.rank(), state); });
  auto const parts = detail::agreed_by_all_ranks(b, mine, until);
  if (failed) std::rethrow_exception(failed);
  if (auto const rank = detail::find_silent(parts)) refuse(*rank, " has not written its file of step ");

  std::uint64_t serial = 0;
  if (b.rank() == rank_id{0}) attempt([&] { serial = complete_checkpoint(folder, label, parts, options); });
  b.broadcast(std::as_writable_bytes(std::span(&serial, 1)), rank_id{0}, until);
  if (failed) std::rethrow_exception(failed);
  if (serial == 0) refuse(0, " has not completed step ");
  return serial;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns true if a manifest of any step is in `folder`.
/// \throws checkpoint_error if it cannot be read as a folder
inline bool has_manifest(std::string const& folder) {
  auto const files = checkpoint_files(folder);
  return !files.empty() && files.front().what == checkpoint_file::kind::manifest;  // these come first
}

/// Loads the newest complete checkpoint. If the folder has none, throws if one is `required`; otherwise
/// returns nothing at all ranks.
template <ranked_rendezvous Board>
std::optional<checkpoint> load_newest_checkpoint(Board& b, std::string const& folder,
                                                 std::span<named_tensor const> into,
                                                 std::chrono::steady_clock::time_point until,
                                                 read_checkpoint_options options, bool required) {
  constexpr auto nothing = (std::numeric_limits<std::uint64_t>::max)();  // no serial number
  std::exception_ptr failed;
  std::optional<checkpoint> found;
  auto const attempt = [&](auto f) {
    try {
      f();
    } catch (...) {
      failed = std::current_exception();
    }
  };
  std::uint64_t serial = 0;
  if (b.rank() == rank_id{0})
    attempt([&] {
      serial = required || has_manifest(folder) ? found.emplace(read_checkpoint(folder, options)).serial()
                                                : nothing;
    });
  b.broadcast(std::as_writable_bytes(std::span(&serial, 1)), rank_id{0}, until);
  if (serial == nothing) return std::nullopt;
  if (!found && serial != 0) {
    options.serial = serial;
    options.checked = read_checkpoint_options::extent::no_elements;
    attempt([&] { found.emplace(read_checkpoint(folder, options)); });
  }
  if (found) attempt([&] { found->check(into); });
  auto const sound = agreed_by_all_ranks(b, std::uint64_t{found && !failed}, until);
  if (failed) std::rethrow_exception(failed);
  if (auto const rank = find_silent(sound))
    throw checkpoint_error(
        {checkpoint_fault::kind::parts, folder,
         "rank " + std::to_string(*rank) + " cannot load its tensors; see the error of that rank"});
  found->load(into);
  return found;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Loads the newest complete checkpoint and returns it for its step and notes.
///
/// Every rank calls it with the tensors of its own stages. No rank writes to a tensor before all ranks have
/// checked theirs.
///
/// \throws checkpoint_error, named_tensor_error or file_error at a rank that failed; checkpoint_error at the
/// other ranks, which names that rank; run_error if a rank is lost or late
template <ranked_rendezvous Board>
checkpoint load_checkpoint(Board& b, std::string const& folder, std::span<named_tensor const> into,
                           std::chrono::steady_clock::time_point until,
                           read_checkpoint_options options = {}) {
  return *detail::load_newest_checkpoint(b, folder, into, until, std::move(options), true);
}

/// Loads the newest complete checkpoint like `load_checkpoint`. If the folder has no checkpoint yet, returns
/// nothing at all ranks and leaves the tensors as they are. So a program that calls it at its start may be
/// started again after a failure.
/// \throws as `load_checkpoint`; also if there are checkpoints, but all are damaged
template <ranked_rendezvous Board>
std::optional<checkpoint> resume_from_checkpoint(Board& b, std::string const& folder,
                                                 std::span<named_tensor const> into,
                                                 std::chrono::steady_clock::time_point until,
                                                 read_checkpoint_options options = {}) {
  return detail::load_newest_checkpoint(b, folder, into, until, std::move(options), false);
}

}  // namespace cleave
