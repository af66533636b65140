// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/printable.hpp"
#include "cleave/formats/json/json_reader.hpp"
#include "cleave/formats/json/json_writer.hpp"

/// The list `pipeline` of a `genai_config.json`, by which onnxruntime-genai runs the stages of a decoder:
///
///     [{"stage_0": {"filename": "stage_0.onnx", "inputs": ["input_ids"], "outputs": ["h"]}}, …]
namespace cleave::inline v0_2 {

/// A stage of a pipeline of onnxruntime-genai.
struct genai_stage {
  std::string name;                          ///< unique in the pipeline
  std::string file;                          ///< its model, relative to the folder of the configuration
  std::vector<std::string> inputs, outputs;  ///< names of values

  bool operator==(genai_stage const&) const = default;
};

/// Returns the stages as a list in JSON, for the key `pipeline` in `model`, `decoder` of a
/// `genai_config.json`.
inline std::string write_genai_pipeline(std::vector<genai_stage> const& stages) {
  json::writer w(json::writer::layout::indented);
  auto const list = [&](char const* key, std::vector<std::string> const& names) {
    w.key(key).open_array();
    for (auto const& name : names) w.value(name);
    w.close_array();
  };
  w.open_array();
  for (auto const& stage : stages) {
    w.open_object().key(stage.name).open_object().member("filename", stage.file);
    list("inputs", stage.inputs);
    list("outputs", stage.outputs);
    w.close_object().close_object();
  }
  return w.close_array().text();
}

/// Reads the stages of a pipeline from a `genai_config.json`, or from its list `pipeline` alone. Other
/// settings, of the configuration or of a stage, are skipped. O(size log size).
/// \throws json::error with line, column and path if the text has no pipeline, a stage lacks its file or its
/// values, or two stages have one name
inline std::vector<genai_stage> read_genai_pipeline(std::string text) {
  detail::json_document const document(std::move(text));
  detail::json_value const top(document);
  auto const list = top.what() == detail::json_kind::object ? top["model"]["decoder"]["pipeline"] : top;
  std::vector<genai_stage> stages;
  list.each_element([&](detail::json_value const& element) {
    element.each_member([&](std::string const& name, detail::json_value const& entry) {
      auto& stage = stages.emplace_back(genai_stage{name, entry["filename"].text(), {}, {}});
      for (auto const& [key, names] :
           {std::pair("inputs", &stage.inputs), std::pair("outputs", &stage.outputs)})
        entry[key].each_element([&](detail::json_value const& value) { names->push_back(value.text()); });
    });
  });
  if (stages.empty())
    list.fail("has no stages; expected [{\"stage_0\": {\"filename\": …, \"inputs\": …, \"outputs\": …}}]");
  std::vector<std::string> names;
  for (auto const& stage : stages) names.push_back(stage.name);
  std::ranges::sort(names);
  if (auto const twice = std::ranges::adjacent_find(names); twice != names.end())
    list.fail("has two stages with the name " + quoted(*twice) + "; give each a name of its own");
  return stages;
}

}  // namespace cleave
