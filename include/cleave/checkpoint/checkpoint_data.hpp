// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/model/named_tensor.hpp"
#include "cleave/run/model/tensor_view.hpp"

/// What a checkpoint is made of, as plain data; docs/running.md says how it lies on the disk.
namespace cleave {

/// xxh3-128 of some bytes: it finds accidents, and nobody who means harm.
struct checkpoint_digest {
  std::uint64_t low = 0, high = 0;

  bool operator==(checkpoint_digest const&) const = default;
};

/// What the user writes down with a step: the model's name, a digest of what it is of, a learning rate.
struct checkpoint_note {
  std::string key, value;

  bool operator==(checkpoint_note const&) const = default;
};

struct checkpoint_label {
  std::uint64_t step = 0;
  std::vector<checkpoint_note> notes = {};  ///< no key twice

  bool operator==(checkpoint_label const&) const = default;
};

/// The file of one rank. Its bytes may be sent as they are to the rank that completes the checkpoint.
struct checkpoint_part {
  std::uint64_t step = 0;
  std::uint64_t bytes = 0;        ///< all of the file
  std::uint64_t index_bytes = 0;  ///< of them those before the elements
  checkpoint_digest index = {};   ///< of the index, which has the digests of all tensors
  rank_id rank = {};

  bool operator==(checkpoint_part const&) const = default;
};

/// A tensor in a file.
struct stored_tensor {
  std::vector<std::string> names;
  element_type type = element_type::f32;
  tensor_shape shape = {};
  checkpoint_digest elements = {};

  /// Precondition: the shape is one of a tensor.
  std::uint64_t bytes() const { return *detail::find_tensor_bytes(type, shape); }
  bool operator==(stored_tensor const&) const = default;
};

/// What the file of a rank begins with. The elements follow, in the order of the tensors and without gaps.
struct checkpoint_index {
  std::uint64_t step = 0;
  rank_id rank = {};
  std::vector<stored_tensor> tensors = {};

  bool operator==(checkpoint_index const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// All files of a step.
struct checkpoint_manifest {
  checkpoint_label label = {};
  std::vector<checkpoint_part> parts = {};

  bool operator==(checkpoint_manifest const&) const = default;
};

}  // namespace cleave::detail
