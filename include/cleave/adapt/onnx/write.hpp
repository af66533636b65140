// SPDX-License-Identifier: MIT
#pragma once
#include <google/protobuf/stubs/logging.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/stages.hpp"
#include "cleave/core/error.hpp"

namespace cleave {

/// `stage_4.onnx`
inline std::string onnx_stage_name(std::size_t i) { return "stage_" + std::to_string(i) + ".onnx"; }

/// Whether `name` is `stage_<number>.onnx`, zipped or not.
inline bool is_onnx_stage_name(std::string_view name) {
  if (!name.starts_with("stage_")) return false;
  name.remove_prefix(6);
  auto const digits = (std::min)(name.find_first_not_of("0123456789"), name.size());
  auto const rest = name.substr(digits);
  return digits > 0 && (rest == ".onnx" || rest == ".onnx.gz");
}

/// Whether a file is a stage that this library wrote.
inline bool is_onnx_stage_file(std::filesystem::path const& file) {
  google::protobuf::LogSilencer const quiet;
  std::ifstream in(file, std::ios::binary);
  onnx::ModelProto m;
  return m.ParseFromIstream(&in) &&
         std::ranges::any_of(m.metadata_props(), [](auto const& p) { return p.key() == "cleave.stage"; });
}

/// Files that are written under other names first and take their own all together, or not at all.
class onnx_files {
 public:
  explicit onnx_files(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::error_code why;
    std::filesystem::create_directories(folder_, why);
    if (why) throw error(quoted(folder_.string()) + ": cannot be made: " + why.message());
    for (auto const& entry : std::filesystem::directory_iterator(folder_)) {
      if (!is_onnx_stage_name(entry.path().filename().string())) continue;
      if (!is_onnx_stage_file(entry.path()))
        throw error(quoted(entry.path().string()) +
                    ": is no stage that cleave wrote; move it away, or write elsewhere");
      stale_.push_back(entry.path());
    }
  }
  onnx_files(onnx_files const&) = delete;
  onnx_files& operator=(onnx_files const&) = delete;

  ~onnx_files() {
    std::error_code ignored;
    for (auto const& p : written_) std::filesystem::remove(temporary(p), ignored);
  }

  void add(std::string const& name, onnx::ModelProto const& m) {
    if (m.ByteSizeLong() > 0x7fffffff)
      throw error(
          quoted(name) + ": would have " + std::to_string(m.ByteSizeLong()) +
          " bytes, more than ONNX's limit of 2 GiB; cut into more stages, or keep weights as external data");
    auto const path = folder_ / name;
    written_.push_back(path);
    std::ofstream out(temporary(path), std::ios::binary | std::ios::trunc);
    if (!m.SerializeToOstream(&out) || !out.flush())
      throw error(quoted(temporary(path).string()) + ": cannot be written; is the disk full?");
  }

  /// Removes the stages of an earlier run and gives the new ones their names.
  std::vector<std::filesystem::path> commit() {
    for (auto const& p : stale_) std::filesystem::remove(p);
    for (auto const& p : written_) std::filesystem::rename(temporary(p), p);
    return std::exchange(written_, {});
  }

 private:
  static std::filesystem::path temporary(std::filesystem::path path) { return path += ".part"; }

  std::filesystem::path folder_;
  std::vector<std::filesystem::path> stale_, written_;
};

/// Writes the live stages as `stage_0.onnx`, `stage_1.onnx`, … in the order in which they run, in place of
/// those of an earlier run. One stage at a time is in memory. Returns their paths.
/// \throws onnx_error if a value between stages has no type, error if a file cannot be written, or one of
/// these names belongs to a file that is no stage of an earlier run; the folder is then as it was.
inline std::vector<std::filesystem::path> write_onnx_stages(onnx_staged const& stages,
                                                            onnx_types const& types,
                                                            std::filesystem::path const& folder) {
  if (auto const fault = find_untyped_onnx_boundary(stages, types)) throw onnx_error(*fault);
  onnx_emission all(stages.graph(), types);
  auto const live = live_onnx_stages(stages);
  onnx_files files(folder);
  for (std::size_t i = 0; i < live.size(); ++i)
    files.add(onnx_stage_name(i), onnx_stage(stages, all, live[i], i, live.size()));
  return files.commit();
}

}  // namespace cleave
