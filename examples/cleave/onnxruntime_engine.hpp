// SPDX-License-Identifier: MIT
#pragma once
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <stdio.h>
#include <sys/wait.h>

#include <cleave/core/error.hpp>
#include <cleave/formats/json/json_writer.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "engine.hpp"
#include "support/scratch_folder.hpp"

namespace tool {

/// Quotes `text` as one word of a shell.
inline std::string shell_word(std::string const& text) {
  std::string word = "'";
  for (char const c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

/// Describes the inputs of each microbatch, in the JSON format of the model corpus.
inline std::string inputs_json(job const& j) {
  cleave::json::writer json;
  json.open_array();
  for (std::size_t m = 0; m < j.microbatches; ++m) {
    json.open_array();
    for (std::size_t i = 0; i < j.fills.size(); ++i) {
      auto const& f = j.fills[i];
      json.open_object().member("name", f.name).key("dtype");
      for (auto const& e : cleave::onnx::element_table)
        if (e.type == f.type) json.value(e.name);
      json.key("shape").open_array();
      for (auto const d : f.shape) json.value(d);
      json.close_array().key("fill").open_object();
      if (f.how == input_fill::kind::ones) json.member("kind", "constant").member("value", 1);
      if (f.how == input_fill::kind::floats) json.member("kind", "lcg_float").member("seed", seed_of(m, i));
      if (f.how == input_fill::kind::rows)
        json.member("kind", "lcg_int").member("lo", 0).member("hi", f.most).member("seed", seed_of(m, i));
      json.close_object().close_object();
    }
    json.close_array();
  }
  return json.close_array().text();
}

/// Runs a job in onnxruntime through tests/support/run_onnx.py, with the Python that the environment names.
/// \throws cleave::error with the reason if that fails.
inline cleave::report_run run_in_onnxruntime(job const& j) {
  char const* const python = std::getenv("CLEAVE_PYTHON");
  if (python == nullptr) throw cleave::error("only ./dev demo runs it: it downloads onnxruntime from PyPI");
  auto const folder = j.files.front().parent_path();
  cleave::testing::scratch_folder const scratch;
  fs::path const inputs = scratch / "inputs.json", outcome = scratch / "run.json";
  write_file({inputs}, inputs_json(j));
  std::string command = python;
  for (auto const& word :
       {std::string(CLEAVE_SOURCE_DIR "/tests/support/run_onnx.py"), j.whole.path.string(), folder.string(),
        std::string("--inputs"), inputs.string(), std::string("--repeats"), std::to_string(attempts),
        std::string("--out"), outcome.string()})
    command += " " + shell_word(word);

  std::string said;
  FILE* const out = popen((command + " 2>&1").c_str(), "r");
  if (out == nullptr) throw cleave::error("cannot start Python");
  for (int c = fgetc(out); c != EOF; c = fgetc(out)) said += static_cast<char>(c);
  int const status = pclose(out);
  if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
    while (said.ends_with('\n')) said.pop_back();
    throw cleave::error(cleave::printable(said.substr(said.rfind('\n') + 1), 200));
  }
  google::protobuf::Struct result;
  if (!google::protobuf::util::JsonStringToMessage(cleave::onnx::read_file(outcome), &result).ok())
    throw cleave::error(outcome.string() + " cannot be read");

  auto const number = [](google::protobuf::Struct const& from, char const* key) {
    return from.fields().at(key).number_value();
  };
  auto const nanoseconds = [&](google::protobuf::Struct const& from, char const* key) {
    return std::llround(1e9 * number(from, key));
  };
  auto const id = [&](google::protobuf::Struct const& from, char const* key) {
    return static_cast<std::uint32_t>(number(from, key));
  };
  cleave::report_run r;
  r.microbatches = j.microbatches;
  r.engine = result.fields().at("engine").string_value() + ", one thread per stage, optimisations off";
  r.machine = machine_text();
  r.whole_ns = nanoseconds(result, "whole_seconds");
  r.largest_difference = number(result, "largest_difference");
  for (auto const& item : result.fields().at("bars").list_value().values()) {
    auto const& bar = item.struct_value();
    r.timeline.push_back({cleave::stage_id{id(bar, "stage")}, cleave::microbatch_id{id(bar, "microbatch")},
                          cleave::activity::forward, nanoseconds(bar, "begin"), nanoseconds(bar, "end")});
  }
  for (auto const& seconds : result.fields().at("stage_seconds").list_value().values())
    r.stage_ns.push_back(std::llround(1e9 * seconds.number_value()));
  return r;
}

}  // namespace tool
