// SPDX-License-Identifier: MIT
#pragma once
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/stubs/logging.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/detail/external_data.hpp"
#include "cleave/adapt/onnx/stages.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/formats/files/durable_file.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the file name of a stage: `stage_4.onnx`.
inline std::string onnx_stage_name(std::size_t i) { return "stage_" + std::to_string(i) + ".onnx"; }

/// Returns the file name of a stage's own weights: `stage_4.weights`.
inline std::string onnx_stage_data_name(std::size_t i) { return "stage_" + std::to_string(i) + ".weights"; }

}  // namespace cleave::detail

namespace cleave::inline v0_2::onnx {

/// Returns true for `stage_<number>.onnx`, gzipped or not, and for `stage_<number>.weights`.
inline bool is_stage_name(std::string_view name) {
  if (!name.starts_with("stage_")) return false;
  name.remove_prefix(6);
  auto const digits = (std::min)(name.find_first_not_of("0123456789"), name.size());
  auto const rest = name.substr(digits);
  return digits > 0 && (rest == ".onnx" || rest == ".onnx.gz" || rest == ".weights");
}

}  // namespace cleave::onnx

namespace cleave::inline v0_2::detail {

/// Returns the mark of the model that a stage file belongs to, as `onnx_model_mark` computes it. Returns an
/// empty text if the stage has no mark, and nothing if the file is not a stage written by this library.
inline std::optional<std::string> find_onnx_stage_mark(std::filesystem::path const& file) {
  google::protobuf::LogSilencer const quiet;
  if (!std::filesystem::is_regular_file(file)) return std::nullopt;  // reading a pipe would block
  std::ifstream in(file, std::ios::binary);
  ::onnx::ModelProto m;
  if (!m.ParseFromIstream(&in)) return std::nullopt;
  auto const find = [&](char const* key) {
    return std::ranges::find(m.metadata_props(), key, [](auto const& p) { return p.key(); });
  };
  auto const none = m.metadata_props().end();
  if (find(onnx_stage_key) == none) return std::nullopt;
  auto const mark = find(onnx_model_key);
  return mark == none ? "" : mark->value();
}

}  // namespace cleave::detail

namespace cleave::inline v0_2::onnx {

/// The existing stages that new ones may replace.
enum class replace : std::uint8_t { of_this_model, of_any_model };

/// The treatment of weights that a model keeps in files of their own (external data).
enum class weights : std::uint8_t {
  reference,  ///< stages refer to the model's files, which must be next to the stages when they run
  split,      ///< each stage gets a file of its own, `stage_0.weights`, with the weights that it reads
  link,       ///< as `reference`, and the folder of the stages gets hard links to the model's files
};

/// Options of `onnx::write_stages`.
struct write_options {
  onnx::replace replace = onnx::replace::of_this_model;
  onnx::weights weights = onnx::weights::reference;
  std::filesystem::path model_folder{};  ///< folder of the model's file, for `split` and `link`
};

}  // namespace cleave::onnx

namespace cleave::inline v0_2::detail {

/// Files that get their final names together or not at all, replacing all stages in the folder.
class onnx_files {
 public:
  /// Opens a folder. `mark` is the result of `onnx_model_mark`.
  /// \throws error if a stage in the folder may not be replaced
  onnx_files(std::filesystem::path folder, std::string const& mark,
             onnx::replace replace = onnx::replace::of_this_model)
      : folder_(std::move(folder)), files_(folder_.string()) {
    std::error_code why;
    std::filesystem::create_directories(folder_, why);
    if (why) throw error(quoted(folder_.string()) + ": cannot be created: " + why.message());
    for (auto const& entry : std::filesystem::directory_iterator(folder_)) {
      auto const name = entry.path().filename().string();
      if (!onnx::is_stage_name(name)) continue;
      if (name.ends_with(".weights")) {
        data_.push_back(name);
        continue;
      }
      auto const refuse = [&](char const* what) {
        throw error(quoted(entry.path().string()) + ": is " + what + "; move it away, or write elsewhere");
      };
      auto const found =
          entry.is_regular_file() && entry.file_size() == 0 ? mark : find_onnx_stage_mark(entry.path());
      if (!found) refuse("not a stage written by cleave");
      if (replace == onnx::replace::of_this_model && *found != mark) refuse("a stage of another model");
      stale_.push_back(name);
    }
    for (auto const& name : data_) {
      if (!is_own_data(name))
        throw error(quoted((folder_ / name).string()) +
                    ": is not the weights of a stage written by cleave; move it away, or write elsewhere");
      stale_.push_back(name);
    }
  }

  /// Begins a file of weights. It gets its name after the stage that is added next, and is removed before
  /// that stage: weights without their stage would not be recognised as written by cleave.
  pending_file& begin_data(std::string const& name) { return files_.add(name); }

  void add(std::string const& name, ::onnx::ModelProto const& m) {
    if (m.ByteSizeLong() > 0x7fffffff)
      throw error(
          quoted(name) + ": would have " + std::to_string(m.ByteSizeLong()) +
          " bytes, more than ONNX's limit of 2 GiB; cut into more stages, or keep weights as external data");
    auto& file = files_.add(name);
    paths_.push_back(folder_ / name);
    google::protobuf::io::FileOutputStream out(file.handle().number());
    if (!m.SerializeToZeroCopyStream(&out) || !out.Flush()) {
      errno = out.GetErrno();
      file.handle().fail("written");
    }
    file.finish();
  }

  /// Gives the files their names, and removes the remaining stages of an earlier run.
  std::vector<std::filesystem::path> commit() {
    files_.keep(stale_);
    return std::move(paths_);
  }

 private:
  /// Returns true if the stage of a file of weights was written by cleave and refers to that file.
  bool is_own_data(std::string const& name) const {
    auto const stage = name.substr(0, name.size() - std::string_view("weights").size()) + "onnx";
    if (std::ranges::find(stale_, stage) == stale_.end()) return false;
    google::protobuf::LogSilencer const quiet;
    std::ifstream in(folder_ / stage, std::ios::binary);
    ::onnx::ModelProto m;
    if (!m.ParseFromIstream(&in)) return false;
    bool refers = false;
    each_onnx_tensor(m, [&](::onnx::TensorProto const& t) {
      refers |= t.data_location() == ::onnx::TensorProto::EXTERNAL && onnx_data_place_of(t).location == name;
    });
    return refers;
  }

  std::filesystem::path folder_;
  pending_files files_;
  std::vector<std::string> stale_, data_;
  std::vector<std::filesystem::path> paths_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2::onnx {

/// Writes the live stages as `stage_0.onnx`, `stage_1.onnx`, … in the order in which they run; returns their
/// paths. Replaces the stages of an earlier run of the same model. Only one stage at a time is in memory;
/// weights in files of their own are copied block by block.
/// \throws onnx::error if a value between stages has no type, or a file of weights is missing or too short
/// \throws error if a file cannot be written or linked, or one of these names belongs to a file that may not
///   be replaced or has weights that the new stages refer to; the folder then has the stages that it had
///   before
inline std::vector<std::filesystem::path> write_stages(onnx::staged const& stages, onnx::types const& types,
                                                       std::filesystem::path const& folder,
                                                       onnx::write_options const& options) {
  if (auto const fault = detail::find_untyped_onnx_boundary(stages, types)) throw error(*fault);
  detail::onnx_emission all(stages.graph(), types);
  auto const live = live_stages(stages);
  detail::onnx_files files(folder, all.mark, options.replace);
  detail::onnx_data_copier data(options.model_folder);
  std::set<std::string> referred;
  for (std::size_t i = 0; i < live.size(); ++i) {
    auto stage = detail::onnx_stage(stages, all, live[i], i, live.size());
    if (options.weights == onnx::weights::split) {
      auto const name = detail::onnx_stage_data_name(i);
      data.copy(stage, name, [&]() -> pending_file& { return files.begin_data(name); });
    } else {
      detail::each_onnx_tensor(stage, [&](::onnx::TensorProto const& t) {
        if (t.data_location() == ::onnx::TensorProto::EXTERNAL)
          referred.insert(detail::onnx_data_place_of(t).location);
      });
    }
    files.add(detail::onnx_stage_name(i), stage);
  }
  bool const links = options.weights == onnx::weights::link;
  for (auto const& location : referred) {
    auto const name = std::filesystem::path(location).lexically_normal();
    if (is_stage_name(name.string()) && (links || std::filesystem::exists(folder / name)))
      throw cleave::error("the model's weights are in " + quoted(location) +
                          ", the name of a stage; rename that file, or copy the weights with weights::split "
                          "(--weights split)");
    if (links) detail::link_onnx_data(options.model_folder, location, folder);
  }
  return files.commit();
}

/// Writes the live stages; weights in files of their own stay there.
inline std::vector<std::filesystem::path> write_stages(onnx::staged const& stages, onnx::types const& types,
                                                       std::filesystem::path const& folder,
                                                       onnx::replace replace = onnx::replace::of_this_model) {
  return write_stages(stages, types, folder, onnx::write_options{.replace = replace});
}

}  // namespace cleave::onnx
