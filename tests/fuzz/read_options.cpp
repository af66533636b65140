// SPDX-License-Identifier: MIT
// Fuzzes the words of a command line: each line is a word. They are read or rejected with an error, and what
// they say of a cut can be asked for. The file that a word names is an assignment, read as well.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../../examples/cleave/cut.hpp"
#include "../../examples/cleave/options.hpp"
#include "../../examples/cleave/plans.hpp"
#include "../../examples/cleave/rule.hpp"
#include "../../examples/cleave/schedule_file.hpp"
#include "cleave/core/expects.hpp"
#include "fuzz/unless_refused.hpp"
#include "support/scratch_folder.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::scratch_folder;
using cleave::testing::unless_refused;

namespace {

/// Returns the model of the plans: an embedding, four layers, a norm and a head.
tool::layer_chain layers() {
  return {"model.layers",
          {"model.embed", "model.layers.0", "model.layers.1", "model.layers.2", "model.layers.3",
           "model.norm", "head"},
          1,
          4,
          {0, 1, 2, 3, 4, 5, 6},
          {1, 1, 1, 1, 1, 1, 1}};
}

/// Checks that a plan is rejected, or has a stage for each module, in order.
void check_plan(tool::framework f, std::string const& text) {
  if (f == tool::framework::ort_genai) return;
  auto const chain = layers();
  auto const m = unless_refused([&] { return tool::read_plan(f, chain, text); });
  if (!m) return;
  expects(m->of.size() == chain.modules.size(), "a stage for each module");
  for (std::size_t i = 0; i < m->of.size(); ++i)
    expects(m->of[i] < m->stages && (i == 0 || m->of[i] >= m->of[i - 1]), "stages in order");
}

void check_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    words.emplace_back(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.size(), words.back().size() + 1));
  }
  tool::cut_options cut;
  cleave::onnx::type_options types;
  tool::command c{"split", "MODEL", "cuts a model", {}};
  tool::add_cut_options(c, cut);
  tool::add_rule_options(c, cut.rule);
  tool::add_plan_options(c, cut);
  tool::add_type_options(c, types);
  for (auto& o : c.options) o.file = {};  // no file that a word names is looked at
  c.operand = {};
  try {
    tool::read_options(c, words);
    tool::cost_per_byte_of(cut, 1, 1);
    auto const limits = tool::limits_of(cut, 5);
    expects(limits.memory.size() <= 1 || cut.rule.what != tool::cut_rule::kind::balance ||
                limits.memory.size() == cut.stages,
            "one limit, or one for each stage");
  } catch (tool::usage_error const&) {
  } catch (tool::help_wanted const&) {
  }
  if (cut.rule.what == tool::cut_rule::kind::plan) check_plan(cut.rule.from, cut.rule.words.front());
}

void check_assignment(std::string_view text) {
  static scratch_folder const folder(scratch_folder::in_memory());
  static auto const file = folder / "assignment";
  auto* const out = std::fopen(file.c_str(), "wb");
  expects(out != nullptr && std::fwrite(text.data(), 1, text.size(), out) == text.size(), "a file");
  std::fclose(out);
  auto const read = unless_refused([&] { return tool::read_assignment(file); });
  if (!read) return;
  expects(read->entries.size() == read->lines.size(), "a line for each entry");
  for (auto const& e : read->entries) expects(!e.node.empty() && !e.part.empty(), "a node and its part");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size > 4000) return -1;
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  check_words(text);
  check_assignment(text);
  return 0;
}
