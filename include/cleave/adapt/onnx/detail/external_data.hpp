// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/fault.hpp"
#include "cleave/adapt/onnx/types.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/formats/files/durable_file.hpp"

/// Weights of a model that are in files of their own, as external data of ONNX.
namespace cleave::inline v0_2::detail {

/// Calls `f` with each tensor of a model that may have external data: initializers and attributes, also in
/// bodies, functions and graphs for training. No recursion.
template <class F>
void each_onnx_tensor(::onnx::ModelProto& m, F f) {
  std::vector<::onnx::GraphProto*> open{m.mutable_graph()};
  auto const sparse = [&](::onnx::SparseTensorProto& t) { f(*t.mutable_values()), f(*t.mutable_indices()); };
  auto const visit = [&](::onnx::NodeProto& n) {
    for (auto& a : *n.mutable_attribute()) {
      if (a.has_t()) f(*a.mutable_t());
      for (auto& t : *a.mutable_tensors()) f(t);
      if (a.has_sparse_tensor()) sparse(*a.mutable_sparse_tensor());
      for (auto& t : *a.mutable_sparse_tensors()) sparse(t);
      if (a.has_g()) open.push_back(a.mutable_g());
      for (auto& g : *a.mutable_graphs()) open.push_back(&g);
    }
  };
  for (auto& function : *m.mutable_functions())
    for (auto& n : *function.mutable_node()) visit(n);
  for (auto& training : *m.mutable_training_info()) {
    if (training.has_initialization()) open.push_back(training.mutable_initialization());
    if (training.has_algorithm()) open.push_back(training.mutable_algorithm());
  }
  while (!open.empty()) {
    auto& g = *open.back();
    open.pop_back();
    for (auto& t : *g.mutable_initializer()) f(t);
    for (auto& t : *g.mutable_sparse_initializer()) sparse(t);
    for (auto& n : *g.mutable_node()) visit(n);
  }
}

/// The place of a tensor's external data.
struct onnx_data_place {
  std::string location;  ///< relative to the model's folder
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  ///< 0 if the file does not say it

  auto operator<=>(onnx_data_place const&) const = default;
};

/// Returns the place of external data. Precondition: `find_onnx_external_fault` accepts the tensor.
inline onnx_data_place onnx_data_place_of(::onnx::TensorProto const& t) {
  onnx_data_place place;
  for (auto const& entry : t.external_data()) {
    auto const& text = entry.value();
    if (entry.key() == "location") place.location = text;
    if (entry.key() == "offset") std::from_chars(text.data(), text.data() + text.size(), place.offset);
    if (entry.key() == "length") std::from_chars(text.data(), text.data() + text.size(), place.length);
  }
  return place;
}

/// Copies the external data of stages from the files of their model into one file for each stage.
class onnx_data_copier {
 public:
  /// `folder` is that of the model, which locations are relative to.
  explicit onnx_data_copier(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Copies the data that `stage` refers to and makes it refer to `name` instead. `begin()` is called for the
  /// new file, a `pending_file&`, if there is any data. Data that several tensors share is copied once.
  /// Offsets keep their alignment, up to 4 KiB, and from 1 MiB of data on up to 64 KiB. Only one block of
  /// 4 MiB is in memory.
  /// \throws onnx::error of kind `external` if a file is missing or too short
  template <class Begin>
  void copy(::onnx::ModelProto& stage, std::string const& name, Begin begin) {
    pending_file* to = nullptr;
    std::map<onnx_data_place, std::uint64_t> copied;
    std::uint64_t end = 0;
    each_onnx_tensor(stage, [&](::onnx::TensorProto& t) {
      if (t.data_location() != ::onnx::TensorProto::EXTERNAL) return;
      if (auto const fault = find_onnx_external_fault(t, "weight " + quoted(t.name()), t.name()))
        throw onnx::error(*fault);
      auto place = onnx_data_place_of(t);
      auto const& from = file(place, t);
      place.length = length_of(place, t, from);
      auto const [at, is_new] = copied.emplace(place, 0);
      if (is_new) {
        if (to == nullptr) to = &begin();
        auto const unit = alignment_of(place);
        end += (unit - end % unit) % unit;
        copy_block(from, place, *to, end);
        at->second = end;
        end += place.length;
      }
      refer(t, name, at->second, place.length);
    });
  }

 private:
  [[noreturn]] static void refuse(::onnx::TensorProto const& t, onnx_data_place const& place,
                                  std::string const& why) {
    throw onnx::error(
        onnx::fault{onnx::fault_kind::external,
                    "weight " + quoted(t.name()) + ": its file " + quoted(place.location) + " " + why,
                    {t.name()}});
  }

  stored_file const& file(onnx_data_place const& place, ::onnx::TensorProto const& t) {
    auto const at = files_.find(place.location);
    if (at != files_.end()) return at->second;
    auto const path = folder_ / place.location;
    std::error_code unknown;
    if (!std::filesystem::is_regular_file(path, unknown))  // opening a pipe would block
      refuse(t, place, "is missing; put it in the model's folder");
    return files_.emplace(place.location, stored_file(path.string())).first->second;
  }

  /// Returns the length of the data: as stated, else as its type and dimensions say, else up to the end of
  /// the file.
  static std::uint64_t length_of(onnx_data_place const& place, ::onnx::TensorProto const& t,
                                 stored_file const& from) {
    auto const size = from.size();
    auto const left = size - (std::min)(size, place.offset);
    auto const each = onnx::element_size(t.data_type());
    auto const bytes = bytes_of_dims(t.dims(), each);
    auto const length = place.length > 0 ? place.length : each > 0 && bytes ? *bytes : left;
    if (place.offset > size || length > left)
      refuse(t, place,
             "has " + std::to_string(size) + " bytes, but the weight needs " + std::to_string(length) +
                 " from byte " + std::to_string(place.offset) + " on; fetch the file again");
    return length;
  }

  /// Returns the largest power of two that divides the offset, up to 4 KiB, or 64 KiB for 1 MiB or more.
  static std::uint64_t alignment_of(onnx_data_place const& place) {
    std::uint64_t unit = 1;
    auto const most = std::uint64_t{place.length < 1 << 20 ? 4096u : 65536u};
    while (unit < most && place.offset % (2 * unit) == 0) unit *= 2;
    return unit;
  }

  void copy_block(stored_file const& from, onnx_data_place const& place, pending_file const& to,
                  std::uint64_t at) {
    block_.resize(std::size_t{4} << 20);
    for (std::uint64_t done = 0; done < place.length;) {
      auto const size =
          static_cast<std::size_t>((std::min<std::uint64_t>)(block_.size(), place.length - done));
      auto const part = std::span(block_).first(size);
      if (from.read(place.offset + done, part) < size)
        throw error(quoted(from.path()) + ": became shorter while it was read; fetch it again");
      to.write(at + done, part);
      done += size;
    }
  }

  static void refer(::onnx::TensorProto& t, std::string const& name, std::uint64_t offset,
                    std::uint64_t length) {
    auto const set = [&](char const* key, std::string const& value) {
      for (auto& entry : *t.mutable_external_data())
        if (entry.key() == key) return entry.set_value(value);
      auto& entry = *t.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    };
    set("location", name);
    set("offset", std::to_string(offset));
    set("length", std::to_string(length));
  }

  std::filesystem::path folder_;
  std::map<std::string, stored_file> files_;
  std::vector<std::byte> block_;
};

/// Gives `folder` a hard link to a file of the model's external data, unless the file is there already.
/// \throws error if another file is there, or the file system cannot link
inline void link_onnx_data(std::filesystem::path const& model_folder, std::string const& location,
                           std::filesystem::path const& folder) {
  auto const from = model_folder / location, to = folder / location;
  std::error_code why;
  if (std::filesystem::equivalent(from, to, why)) return;
  if (std::filesystem::exists(std::filesystem::symlink_status(to, why)))
    throw error(quoted(to.string()) + ": exists and is not the model's file " + quoted(from.string()) +
                "; move it away, or write elsewhere");
  auto const real = std::filesystem::canonical(from, why);
  if (why)
    throw error(quoted(from.string()) + ": " + why.message() + "; put the weights in the model's folder");
  auto const whole = std::filesystem::weakly_canonical(folder, why),
             inner = std::filesystem::weakly_canonical(to.parent_path(), why);
  if (std::ranges::mismatch(whole, inner).in1 != whole.end())
    throw error(quoted(to.string()) + ": would be outside " + quoted(folder.string()) +
                ", since a folder on its way is a link; remove that link, or write elsewhere");
  std::filesystem::create_directories(to.parent_path(), why);
  std::filesystem::create_hard_link(real, to, why);
  if (why)
    throw error(
        quoted(to.string()) + ": cannot be a hard link to " + quoted(from.string()) + ": " + why.message() +
        "; write to the file system of the weights, or copy them with weights::split (--weights split)");
}

}  // namespace cleave::detail
