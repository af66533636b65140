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
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/stages.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/formats/files/durable_file.hpp"

namespace cleave::detail {

/// Returns the file name of a stage: `stage_4.onnx`.
inline std::string onnx_stage_name(std::size_t i) { return "stage_" + std::to_string(i) + ".onnx"; }

}  // namespace cleave::detail

namespace cleave::onnx {

/// Returns true for `stage_<number>.onnx`, gzipped or not.
inline bool is_stage_name(std::string_view name) {
  if (!name.starts_with("stage_")) return false;
  name.remove_prefix(6);
  auto const digits = (std::min)(name.find_first_not_of("0123456789"), name.size());
  auto const rest = name.substr(digits);
  return digits > 0 && (rest == ".onnx" || rest == ".onnx.gz");
}

}  // namespace cleave::onnx

namespace cleave::detail {

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

namespace cleave::onnx {

/// The existing stages that new ones may replace.
enum class replace : std::uint8_t { of_this_model, of_any_model };

}  // namespace cleave::onnx

namespace cleave::detail {

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
      auto const refuse = [&](char const* what) {
        throw error(quoted(entry.path().string()) + ": is " + what + "; move it away, or write elsewhere");
      };
      auto const found =
          entry.is_regular_file() && entry.file_size() == 0 ? mark : find_onnx_stage_mark(entry.path());
      if (!found) refuse("not a stage written by cleave");
      if (replace == onnx::replace::of_this_model && *found != mark) refuse("a stage of another model");
      stale_.push_back(name);
    }
  }

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
  std::filesystem::path folder_;
  pending_files files_;
  std::vector<std::string> stale_;
  std::vector<std::filesystem::path> paths_;
};

}  // namespace cleave::detail

namespace cleave::onnx {

/// Writes the live stages as `stage_0.onnx`, `stage_1.onnx`, … in the order in which they run; returns their
/// paths. Replaces the stages of an earlier run of the same model. Only one stage at a time is in memory.
/// \throws onnx::error if a value between stages has no type
/// \throws error if a file cannot be written, or one of these names belongs to a file that may not be
///   replaced; the folder is then unchanged
inline std::vector<std::filesystem::path> write_stages(onnx::staged const& stages, onnx::types const& types,
                                                       std::filesystem::path const& folder,
                                                       onnx::replace replace = onnx::replace::of_this_model) {
  if (auto const fault = detail::find_untyped_onnx_boundary(stages, types)) throw error(*fault);
  detail::onnx_emission all(stages.graph(), types);
  auto const live = live_stages(stages);
  detail::onnx_files files(folder, all.mark, replace);
  for (std::size_t i = 0; i < live.size(); ++i)
    files.add(detail::onnx_stage_name(i), detail::onnx_stage(stages, all, live[i], i, live.size()));
  return files.commit();
}

}  // namespace cleave::onnx
