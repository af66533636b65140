// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cleave/core/error.hpp>
#include <cleave/core/ids.hpp>
#include <cleave/core/nearest_names.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/genai_pipeline.hpp>
#include <cleave/formats/json/json_writer.hpp>
#include <cleave/formats/units.hpp>
#include <cleave/partition/model/partition.hpp>
#include <cleave/partition/slices/balance.hpp>
#include <cleave/schedule/text/layer_layout.hpp>
#include <cleave/schedule/text/layer_plans.hpp>
#include <cleave/split/make_plan.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layers.hpp"
#include "terminal.hpp"

namespace tool {

/// The frameworks whose plans the tool reads and writes.
enum class framework : std::uint8_t { megatron, torchtitan, deepspeed, vllm, llama_cpp, ort_genai };

/// The names of the frameworks as options and as sentences have them.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 6> framework_names = {
    {{"megatron", "Megatron-LM"},
     {"torchtitan", "torchtitan"},
     {"deepspeed", "DeepSpeed"},
     {"vllm", "vLLM"},
     {"llama.cpp", "llama.cpp"},
     {"ort-genai", "onnxruntime-genai"}}};

inline std::optional<framework> find_framework(std::string_view name) {
  for (std::size_t i = 0; i < framework_names.size(); ++i)
    if (framework_names[i].first == name) return static_cast<framework>(i);
  return std::nullopt;
}

inline std::string option_name(framework f) {
  return std::string(framework_names[static_cast<std::size_t>(f)].first);
}
inline std::string full_name(framework f) {
  return std::string(framework_names[static_cast<std::size_t>(f)].second);
}

/// The stage of each module of a chain; stages do not decrease along it.
struct module_stages {
  std::vector<std::uint32_t> of;
  std::uint32_t stages = 0;
};

/// Returns the number of the unit of each module. Modules of one unit share a stage in each plan of the
/// framework: Megatron-LM has one embedding and one loss, vLLM has the former with the first layer and the
/// latter with the last, llama.cpp the modules behind the layers as one output layer.
inline std::vector<std::uint32_t> plan_units(framework f, layer_chain const& c) {
  bool const joins_first = f == framework::vllm || f == framework::llama_cpp;
  bool const one_by_one = f == framework::torchtitan || f == framework::deepspeed;
  std::vector<std::uint32_t> unit;
  std::uint32_t next = 0;
  for (std::uint32_t i = 0; i < c.modules.size(); ++i) {
    bool const same = i > 0 && !one_by_one &&
                      ((i < c.first || i > c.behind()) || (i == c.first && joins_first) ||
                       (i == c.behind() && f == framework::vllm));
    unit.push_back(i == 0 || same ? next : ++next);
  }
  return unit;
}

/// Returns the limits of a cut into whole units: its nodes stay together, and the chain gives the order.
template <class Snapshot>
cleave::balance_options whole_units(Snapshot const& s, layer_chain const& c,
                                    std::vector<std::uint32_t> const& unit, cleave::balance_options limits) {
  limits.together.resize(unit.empty() ? 0 : unit.back() + std::size_t{1});
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    limits.rank.push_back(c.of[n]);
    if (s.replicable[n] == 0) limits.together[unit[c.of[n]]].push_back(n);
  }
  limits.orders = {cleave::unit_order::given};
  limits.random_orders = 0;
  return limits;
}

/// Returns the part of each node for stages of its module.
inline cleave::partition parts_of(layer_chain const& c, module_stages const& m) {
  cleave::partition p{{}, m.stages};
  for (auto const module : c.of) p.of.push_back(cleave::part_id{m.of[module]});
  return p;
}

/// Returns the stages of the modules in a cut. \throws cleave::error if a module is in two stages, or if the
/// stages do not follow the chain
template <class Snapshot>
module_stages stages_of_modules(Snapshot const& s, layer_chain const& c, cleave::partition const& p) {
  module_stages m{std::vector<std::uint32_t>(c.modules.size(), p.parts), p.parts};
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    if (s.replicable[n] != 0) continue;
    auto& stage = m.of[c.of[n]];
    auto const found = index(p.of[n]);
    if (stage != p.parts && stage != found)
      throw cleave::error("the module " + cleave::quoted(c.modules[c.of[n]]) + " is in the stages " +
                          std::to_string(stage) + " and " + std::to_string(found) + ", node " + s.label(n) +
                          " among others; a plan has whole modules: cut with --by balance, or at modules");
    stage = found;
  }
  for (std::size_t i = 1; i < m.of.size(); ++i)
    if (m.of[i] < m.of[i - 1])
      throw cleave::error("stage " + std::to_string(m.of[i]) + " has the module " +
                          cleave::quoted(c.modules[i]) + ", which runs after " +
                          cleave::quoted(c.modules[i - 1]) + " of stage " + std::to_string(m.of[i - 1]) +
                          "; a plan has its modules in the order in which they run");
  return m;
}

/// Returns the numbers of layers in each stage.
inline std::vector<std::uint32_t> layers_of_stages(layer_chain const& c, module_stages const& m) {
  std::vector<std::uint32_t> counts(m.stages);
  for (auto i = c.first; i < c.behind(); ++i) ++counts[m.of[i]];
  return counts;
}

/// Returns the plan in the words of a framework. \throws cleave::error if it cannot say so
inline std::string plan_text(framework f, layer_chain const& c, module_stages const& m) {
  auto const unit = plan_units(f, c);
  for (std::size_t i = 1; i < unit.size(); ++i)
    if (unit[i] == unit[i - 1] && m.of[i] != m.of[i - 1])
      throw cleave::error(full_name(f) + " has the modules " + cleave::quoted(c.modules[i - 1]) + " and " +
                          cleave::quoted(c.modules[i]) + " in one stage, here they are in the stages " +
                          std::to_string(m.of[i - 1]) + " and " + std::to_string(m.of[i]) +
                          "; leave out --by to cut for it");
  auto counts = layers_of_stages(c, m);
  auto const last = m.stages - 1;
  bool const has_behind = c.behind() < c.modules.size();
  switch (f) {
    case framework::megatron: {
      cleave::layer_layout layout(m.stages);
      layout[c.first > 0 ? m.of[0] : 0].push_back(cleave::layer_kind::embedding);
      for (std::uint32_t s = 0; s < m.stages; ++s)
        layout[s].insert(layout[s].end(), counts[s], cleave::layer_kind::decoder);
      layout[has_behind ? m.of[c.behind()] : last].push_back(cleave::layer_kind::loss);
      return cleave::short_layer_layout_text(layout);
    }
    case framework::torchtitan: {
      std::vector<std::vector<std::string>> names(m.stages);
      for (std::size_t i = 0; i < m.of.size(); ++i) names[m.of[i]].push_back(c.modules[i]);
      return cleave::module_lists_text(names);
    }
    case framework::deepspeed: {
      std::vector<std::uint32_t> bounds{0};
      for (std::uint32_t s = 0; s < m.stages; ++s)
        bounds.push_back(bounds.back() + static_cast<std::uint32_t>(std::ranges::count(m.of, s)));
      return cleave::deepspeed_parts_text(bounds);
    }
    case framework::llama_cpp:
      ++counts[has_behind ? m.of[c.behind()] : last];
      [[fallthrough]];
    default:
      return cleave::layer_counts_text(counts);
  }
}

/// Returns what a user types or sets for a plan.
inline std::string plan_setting(framework f, layer_chain const& c, std::string const& text) {
  switch (f) {
    case framework::megatron:
      return "--pipeline-model-parallel-layout '" + text + "'";
    case framework::torchtitan:
      return "module_fqns_per_model_part = " + text;
    case framework::deepspeed:
      return "parts = " + text;
    case framework::vllm:
      return "VLLM_PP_LAYER_PARTITION=" + text;
    case framework::llama_cpp:
      return "--n-gpu-layers " + std::to_string(c.layers + 1) + " --split-mode layer --tensor-split " + text;
    default:
      return text;
  }
}

/// Reads a plan of a framework for a chain.
/// \throws cleave::error with the place of a fault in the text, or with what does not fit the chain
class plan_reader {
 public:
  plan_reader(framework f, layer_chain const& c, std::string const& text)
      : c_(c), text_(text), by_("--by " + option_name(f)) {
    try {
      if (f == framework::megatron)
        read_layout();
      else if (f == framework::torchtitan)
        read_names();
      else if (f == framework::deepspeed)
        read_bounds();
      else if (f == framework::llama_cpp)
        place(cleave::layers_by_tensor_split(cleave::read_tensor_split(text), c.layers + 1), true);
      else
        place(cleave::read_layer_counts(text), false);
    } catch (cleave::error const& e) {
      throw cleave::error(by_ + ": " + e.what());
    }
  }
  module_stages take() { return std::move(m_); }

 private:
  /// Places layers by their number in each stage. Those before them are in the first stage, and
  /// those behind in the last one, or where the output is that is counted as one more layer.
  void place(std::vector<std::uint32_t> const& counts, bool counts_output) {
    m_.stages = static_cast<std::uint32_t>(counts.size());
    std::uint64_t sum = 0;
    for (auto const n : counts) sum += n;
    if (sum != c_.layers + std::uint64_t{counts_output}) refuse_count(sum);
    std::vector<std::uint32_t> stage;
    for (std::uint32_t s = 0; s < m_.stages; ++s) stage.insert(stage.end(), counts[s], s);
    m_.of.assign(c_.first, counts_output ? stage.front() : 0);
    m_.of.insert(m_.of.end(), stage.begin(), stage.begin() + c_.layers);
    m_.of.resize(c_.modules.size(), counts_output ? stage.back() : m_.stages - 1);
  }
  [[noreturn]] void refuse_count(std::uint64_t got) const {
    throw cleave::error(cleave::quoted(text_) + " has " + plural(got, "layer") + ", the model has " +
                        std::to_string(c_.layers) + " in " + cleave::quoted(c_.list) +
                        "; make the numbers add up to that, or name another list with --layers");
  }

  void read_layout() {
    auto const layout = cleave::read_layer_layout(text_);
    std::uint64_t decoders = 0;
    for (auto const n : cleave::layers_of_stages(layout)) decoders += n;
    for (auto const n : cleave::layers_of_stages(layout, cleave::layer_kind::multi_token))
      if (n > 0)
        throw cleave::error("layout " + cleave::quoted(text_) +
                            " has layers m, which no module of a graph is known to be; write them as t, or "
                            "leave them out");
    if (decoders != c_.layers) refuse_count(decoders);
    if (auto const fault = cleave::detail::find_layer_layout_fault(layout, 1, c_.layers))
      throw cleave::detail::layer_layout_error("layout " + cleave::quoted(text_), *fault);
    m_.stages = static_cast<std::uint32_t>(layout.size());
    std::vector<std::uint32_t> stage;
    std::uint32_t embedding = 0, loss = 0;
    for (std::uint32_t s = 0; s < layout.size(); ++s)
      for (auto const kind : layout[s]) {
        if (kind == cleave::layer_kind::embedding) embedding = s;
        if (kind == cleave::layer_kind::decoder) stage.push_back(s);
        if (kind == cleave::layer_kind::loss) loss = s;
      }
    for (std::uint32_t i = 0; i < c_.modules.size(); ++i)
      m_.of.push_back(i < c_.first ? embedding : i < c_.behind() ? stage[i - c_.first] : loss);
  }

  void read_bounds() {
    auto const bounds = cleave::read_deepspeed_parts(text_);
    if (bounds.back() != c_.modules.size())
      throw cleave::error("parts " + cleave::quoted(text_) + " end at " + std::to_string(bounds.back()) +
                          ", the model has " + plural(c_.modules.size(), "module") + ": " +
                          first_of(c_.modules, 4, [](auto const& name) { return cleave::quoted(name); }) +
                          "; end at that number");
    m_.stages = static_cast<std::uint32_t>(bounds.size() - 1);
    for (std::uint32_t s = 0; s < m_.stages; ++s) m_.of.insert(m_.of.end(), bounds[s + 1] - bounds[s], s);
  }

  void read_names() {
    auto const lists = cleave::read_module_lists(text_);
    m_.stages = static_cast<std::uint32_t>(lists.size());
    std::map<std::string_view, std::uint32_t> place;
    for (std::uint32_t i = 0; i < c_.modules.size(); ++i) place.emplace(c_.modules[i], i);
    m_.of.assign(c_.modules.size(), m_.stages);
    for (std::uint32_t s = 0; s < m_.stages; ++s)
      for (auto const& name : lists[s]) {
        auto const known = place.find(name);
        if (known == place.end())
          throw cleave::error("the model has no module " + cleave::quoted(name) + " beside its layers" +
                              cleave::suggestion(cleave::near_names(name, c_.modules)));
        m_.of[known->second] = s;
      }
    for (std::uint32_t i = 0; i < c_.modules.size(); ++i) {
      if (m_.of[i] == m_.stages)
        throw cleave::error("the module " + cleave::quoted(c_.modules[i]) +
                            " is in no stage; add it to one of the lists");
      if (i > 0 && m_.of[i] < m_.of[i - 1])
        throw cleave::error("stage " + std::to_string(m_.of[i]) + " has " + cleave::quoted(c_.modules[i]) +
                            ", which runs after " + cleave::quoted(c_.modules[i - 1]) + " of stage " +
                            std::to_string(m_.of[i - 1]) +
                            "; write the modules in the order in which they run");
    }
  }

  layer_chain const& c_;
  std::string const& text_;
  std::string by_;
  module_stages m_;
};

inline module_stages read_plan(framework f, layer_chain const& c, std::string const& text) {
  return plan_reader(f, c, text).take();
}

/// Returns the parts of the nodes in a pipeline of onnxruntime-genai. A stage has what its outputs depend on,
/// up to its inputs and the nodes of earlier stages. `name` returns the name of a value.
/// \throws cleave::error if a stage has an output that the graph has not, or if a node is in no stage
template <class Snapshot, class Name>
cleave::partition parts_of_pipeline(Snapshot const& s, std::vector<cleave::genai_stage> const& stages,
                                    Name name) {
  auto const count = static_cast<std::uint32_t>(stages.size());
  std::map<std::string, std::uint32_t> value;
  std::vector<std::string> names;
  for (std::uint32_t v = 0; v < s.values(); ++v) {
    names.push_back(name(s.value[v]));
    value.insert_or_assign(names.back(), v);
  }
  std::vector<std::uint32_t> part(s.nodes(), count);
  for (std::uint32_t i = 0; i < count; ++i) {
    auto inputs = stages[i].inputs;
    std::ranges::sort(inputs);
    std::vector<std::uint32_t> open;
    auto const reach = [&](std::uint32_t v) {
      auto const n = s.producer[v];
      if (n >= s.nodes() || part[n] != count || s.replicable[n] != 0) return;
      part[n] = i;
      open.push_back(n);
    };
    for (auto const& output : stages[i].outputs) {
      auto const v = value.find(output);
      if (v == value.end())
        throw cleave::error("stage " + cleave::quoted(stages[i].name) + " has the output " +
                            cleave::quoted(output) + ", which is no value of the model" +
                            cleave::suggestion(cleave::near_names(output, names)));
      reach(v->second);
    }
    while (!open.empty()) {
      auto const n = open.back();
      open.pop_back();
      for (auto const v : s.operands[n])
        if (!std::ranges::binary_search(inputs, names[v])) reach(v);
    }
  }
  cleave::partition p{{}, count};
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    if (part[n] == count && s.replicable[n] == 0)
      throw cleave::error("node " + s.label(n) +
                          " is in no stage of the pipeline; its results must be among "
                          "the outputs of a stage, or be needed for one");
    p.of.push_back(cleave::part_id{part[n] == count ? 0 : part[n]});
  }
  return p;
}

/// A plan and what it costs.
struct priced_plan {
  std::string text;        ///< in the framework's words
  double largest = 0;      ///< largest load of a stage
  std::uint64_t sent = 0;  ///< bytes between stages
};

/// A plan for a framework, and a better one if the user gave a plan.
struct framework_plan {
  framework what = framework::megatron;
  layer_chain chain{};  ///< empty for onnxruntime-genai
  module_stages stages{};
  priced_plan own{};
  std::optional<priced_plan> best{};  ///< the best plan of the framework with as many stages
  std::vector<std::string> remarks{};

  /// Returns the share of the largest load that the best plan saves.
  double gain() const { return best && own.largest > 0 ? std::max(0.0, 1 - best->largest / own.largest) : 0; }
};

/// Returns the bytes of all transfers of a cut.
template <class Snapshot>
std::uint64_t sent_bytes(Snapshot const& s, cleave::partition const& p) {
  std::uint64_t sum = 0;
  for (auto const& t : cleave::make_plan(s, p).transfers) sum += cleave::bytes_of(s, t.value);
  return sum;
}

/// Returns lines about a plan. Costs are in `unit`.
inline std::string lines_of(framework_plan const& p, std::string const& unit) {
  auto const numbers = [&](priced_plan const& x) {
    return "largest load " + cleave::amount_text(x.largest, unit) + ", " + cleave::bytes_text(x.sent) +
           " sent";
  };
  std::string text;
  if (p.best) {
    text += "  the plan given: " + numbers(p.own) + "\n  the best one:   " + numbers(*p.best) +
            (p.gain() < 1e-9 ? ", no gain" : ", " + cleave::percent_text(p.gain()) + " less load") + "\n";
  }
  for (auto const& line : p.remarks) text += "  note: " + line + "\n";
  auto const& shown = p.best ? *p.best : p.own;
  if (shown.text.empty()) return text;
  bool const several_lines = shown.text.find('\n') != shown.text.npos;
  return text + "  for " + full_name(p.what) + ":" + (several_lines ? "\n" : " ") +
         plan_setting(p.what, p.chain, shown.text) + "\n";
}

/// Writes `plan`.
inline void add_plan(cleave::json::writer& json, framework_plan const& p) {
  auto const numbers = [&](priced_plan const& x) {
    json.member("text", x.text).member("largest_load", x.largest).member("sent_bytes", x.sent);
  };
  json.key("plan").open_object().member("for", option_name(p.what));
  numbers(p.own);
  json.key("modules").open_array();
  for (std::size_t i = 0; i < p.chain.modules.size(); ++i)
    json.open_object().member("name", p.chain.modules[i]).member("stage", p.stages.of[i]).close_object();
  json.close_array().key("best");
  if (p.best) {
    json.open_object();
    numbers(*p.best);
    json.member("gain", p.gain()).close_object();
  } else {
    json.null();
  }
  json.close_object();
}

}  // namespace tool
