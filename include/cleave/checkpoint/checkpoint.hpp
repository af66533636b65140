// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/checkpoint/checkpoint_data.hpp"
#include "cleave/checkpoint/checkpoint_writer.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/run/model/named_tensor.hpp"
#include "cleave/run/model/tensor_view.hpp"

/// Reads checkpoints into any number of stages and ranks. Tensors are found by name.
namespace cleave::inline v0_2 {

/// Options of `read_checkpoint`.
struct read_checkpoint_options {
  /// Notes that the checkpoint must have, such as the name of the model or a digest of its graph.
  std::vector<checkpoint_note> expected = {};
  /// The serial number of the checkpoint to read. If absent, the newest complete checkpoint is read.
  std::optional<std::uint64_t> serial = {};
  /// The data that is checked before a checkpoint is chosen. With several ranks, one rank checks all elements
  /// and sends the serial number to the others. The others check the elements that they load.
  enum class extent : std::uint8_t { all_elements, no_elements } checked = extent::all_elements;
};

/// A checkpoint on the disk with its files open. It may be removed from the folder while it is loaded.
class checkpoint {
 public:
  /// Opens and checks a checkpoint. `newer` lists the damaged newer checkpoints. O(size), or O(names) if no
  /// elements are checked.
  /// \throws checkpoint_error, file_error
  checkpoint(std::string const& folder, checkpoint_file const& file, read_checkpoint_options const& options,
             std::vector<checkpoint_fault> const& newer = {})
      : serial_(file.serial), path_(folder + "/" + file.name), passed_over_(newer) {
    auto manifest = detail::read_manifest(folder, file);
    require_notes(manifest.label.notes, options.expected);
    parts_ = detail::open_parts(folder, manifest);
    label_ = std::move(manifest.label);
    names_ = detail::sorted_names(parts_);
    for (auto const& part : parts_) {
      auto& offsets = offsets_.emplace_back();
      auto at = part.first_element;
      for (auto const& t : part.index.tensors) offsets.push_back(std::exchange(at, at + t.bytes()));
    }
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      checked_.emplace_back(offsets_[p].size(), false);
      if (options.checked == read_checkpoint_options::extent::no_elements) continue;
      for (std::size_t t = 0; t < offsets_[p].size(); ++t) check_unless_checked({p, t});
      checked_[p].assign(offsets_[p].size(), true);
    }
  }

  std::uint64_t serial() const { return serial_; }
  std::uint64_t step() const { return label_.step; }
  std::vector<checkpoint_note> const& notes() const { return label_.notes; }
  /// Returns the tensors of all ranks that wrote the checkpoint.
  std::vector<stored_tensor> tensors() const {
    std::vector<stored_tensor> all;
    for (auto const& part : parts_)
      all.insert(all.end(), part.index.tensors.begin(), part.index.tensors.end());
    return all;
  }
  /// Returns the faults of damaged newer checkpoints, newest first, in whose place this one was read.
  std::vector<checkpoint_fault> const& passed_over() const { return passed_over_; }

  /// Returns the reason why `load(into)` would fail before it reads elements, or nothing. O(names in `into` ×
  /// log names).
  std::optional<checkpoint_fault> find_load_fault(std::span<named_tensor const> into) const {
    for (auto const& wanted : into)
      if (auto fault = find_fault(wanted)) return fault;
    return std::nullopt;
  }

  /// Performs all checks of `load(into)`, so that `load` can skip them. O(bytes).
  /// \throws checkpoint_error, named_tensor_error, file_error
  void check(std::span<named_tensor const> into) {
    for (auto const& [from, to] : sound_loads(into)) checked_[from.part][from.tensor] = true;
  }

  /// Fills tensors with the elements stored under their names.
  ///
  /// Each tensor must have the stored type and shape. Several tensors may have the same name. A tensor may
  /// have some or all names of a tie. All tensors to be loaded are checked before any is written. Elements
  /// are read directly into the tensors. Several threads may load at the same time. O(bytes).
  /// \throws checkpoint_error, named_tensor_error, file_error
  void load(std::span<named_tensor const> into) const {
    for (auto const& [from, to] : sound_loads(into))
      detail::read_exactly(parts_[from.part].file, offset(from),
                           std::span(static_cast<std::byte*>(to), stored(from).bytes()));
  }

 private:
  struct place {
    std::size_t part, tensor;
    bool operator==(place const&) const = default;
  };

  struct single_load {
    place from;
    void* to;
  };

  /// Returns the sources and destinations of all loads in the order of the files, after checking them.
  std::vector<single_load> sound_loads(std::span<named_tensor const> into) const {
    for (std::size_t i = 0; i < into.size(); ++i)
      if (auto const fault = detail::find_named_tensor_fault(into[i], i))
        throw detail::named_tensor_error(*fault);
    if (auto const fault = find_load_fault(into)) throw checkpoint_error(*fault);
    std::vector<single_load> loads;
    for (auto const& wanted : into) loads.push_back({*find_place(wanted.names.front()), wanted.tensor.data});
    std::ranges::sort(loads, {}, [](auto const& l) { return std::pair(l.from.part, l.from.tensor); });
    for (std::size_t i = 0; i < loads.size(); ++i)
      if (i == 0 || loads[i].from != loads[i - 1].from) check_unless_checked(loads[i].from);
    return loads;
  }

  stored_tensor const& stored(place p) const { return parts_[p.part].index.tensors[p.tensor]; }
  std::uint64_t offset(place p) const { return offsets_[p.part][p.tensor]; }
  void check_unless_checked(place p) const {
    if (!checked_[p.part][p.tensor]) detail::check_elements(parts_[p.part].file, stored(p), offset(p));
  }

  std::optional<place> find_place(std::string_view name) const {
    auto const found = std::ranges::lower_bound(names_, name, {}, &detail::stored_name::name);
    if (found == names_.end() || found->name != name) return std::nullopt;
    return place{found->part, found->tensor};
  }

  void require_notes(std::vector<checkpoint_note> const& here, std::vector<checkpoint_note> const& expected) {
    for (auto const& [key, value] : expected) {
      auto const found = std::ranges::find(here, key, &checkpoint_note::key);
      if (found != here.end() && found->value == value) continue;
      auto const said = found == here.end() ? " is missing" : " is " + quoted(found->value);
      throw checkpoint_error({checkpoint_fault::kind::other_model, path_,
                              "its note " + quoted(key) + said + ", but " + quoted(value) +
                                  " is expected; the checkpoint is of another model"});
    }
  }

  std::optional<checkpoint_fault> find_fault(named_tensor const& wanted) const {
    using enum checkpoint_fault::kind;
    auto const fault = [&](checkpoint_fault::kind what, std::string const& said) {
      return checkpoint_fault{what, path_, said};
    };
    std::optional<place> first;
    for (auto const& name : wanted.names) {
      auto const found = find_place(name);
      if (!found) return fault(missing_name, "no tensor is called " + quoted(name) + nearest_to(name));
      if (!first) first = found;
      if (*found != *first)
        return fault(tie, quoted(wanted.names.front()) + " and " + quoted(name) +
                              " name one tensor to be loaded, but two tensors in the checkpoint");
    }
    if (!first) return fault(missing_name, "a tensor that is to be loaded has no name");
    auto const& there = stored(*first);
    auto const& tensor = wanted.tensor;
    auto const differs = [&](checkpoint_fault::kind what) {
      return fault(what, quoted(wanted.names.front()) + " is " + layout_text(there.type, there.shape) +
                             " in the checkpoint, but the tensor to be loaded is " +
                             layout_text(tensor.type, tensor.shape));
    };
    if (there.type != tensor.type) return differs(element_type);
    if (there.shape != tensor.shape) return differs(shape);
    return std::nullopt;
  }

  std::string nearest_to(std::string_view name) const {
    std::vector<std::string> all;
    for (auto const& known : names_) all.emplace_back(known.name);
    return suggestion(nearest_names(name, all));
  }

  std::uint64_t serial_;
  std::string path_;
  checkpoint_label label_;
  std::vector<part_file> parts_;
  std::vector<detail::stored_name> names_;  // sorted
  std::vector<std::vector<std::uint64_t>> offsets_;
  std::vector<checkpoint_fault> passed_over_;
  std::vector<std::vector<bool>> checked_;  // for each tensor of each part: its elements are checked
};

/// Returns the newest complete checkpoint in `folder`. Damaged newer checkpoints are skipped and listed in
/// the result. A checkpoint of another model or of a newer format version is not skipped but throws.
/// \throws checkpoint_error, with the fault of the newest checkpoint if none is complete; file_error
inline checkpoint read_checkpoint(std::string const& folder, read_checkpoint_options const& options = {}) {
  auto const files = detail::checkpoint_files(folder);
  std::vector<checkpoint_fault> damaged;
  for (auto const& file : files) {
    if (file.what != checkpoint_file::kind::manifest) break;
    if (options.serial && file.serial != *options.serial) continue;
    try {
      return checkpoint(folder, file, options, damaged);
    } catch (checkpoint_error const& e) {
      if (!detail::is_damage(e.witness.what)) throw;
      damaged.push_back(e.witness);
    }
  }
  if (damaged.empty())
    throw checkpoint_error(
        {checkpoint_fault::kind::none, folder,
         options.serial
             ? "it has no checkpoint " + std::to_string(*options.serial)
             : "it has no checkpoint; the files of a step form one only if their manifest exists"});
  auto first = damaged.front();
  if (damaged.size() > 1)
    first.said += "; none of the " + std::to_string(damaged.size() - 1) + " older ones is complete either";
  throw checkpoint_error(first);
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the reason why `read_checkpoint` would throw, or nothing.
inline std::optional<checkpoint_fault> find_checkpoint_fault(std::string const& folder,
                                                             read_checkpoint_options const& options = {}) {
  try {
    read_checkpoint(folder, options);
  } catch (checkpoint_error const& e) {
    return e.witness;
  }
  return std::nullopt;
}

}  // namespace cleave::detail
