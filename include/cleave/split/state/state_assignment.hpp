// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/tie.hpp"
#include "cleave/graph/csr.hpp"

/// The assignment of a model's parameters and buffers to the stages of its cut graph, as plain data.
namespace cleave::inline v0_2 {

/// The kind of a registered tensor. Parameters and buffers are saved with the model, except for unsaved
/// buffers. A constant is not state: each stage that reads one has it.
enum class state_kind : std::uint8_t { parameter, buffer, unsaved_buffer, constant };

/// A tensor of a model under one of its names.
struct model_tensor {
  std::string name;     ///< qualified, from the root
  std::string storage;  ///< equal for tensors that share memory; empty: memory of its own
  state_kind what = state_kind::parameter;

  bool operator==(model_tensor const&) const = default;
};

/// The facts about a model, besides its graph, that the assignment of state needs. Nodes and values are
/// positions in the snapshot; tensors and modules are positions in these lists.
template <std::unsigned_integral Index>
struct basic_model_state {
  std::vector<model_tensor> tensors;  ///< every tensor under every name, in the order of registration
  std::vector<Index> tensor;  ///< by value: the tensor, under the name by which it is read; none if the value
                              ///< is no tensor of the model
  std::vector<std::string> modules;  ///< paths of modules
  detail::csr<Index> inside;         ///< by node: the modules around it, outermost first; may be empty
  detail::csr<Index> reads;          ///< by node: tensors that a module it calls reads inside; may be empty
  detail::csr<Index> writes;  ///< by node: tensors that it writes without the graph showing it; may be empty
};

/// The treatment of a tensor that several stages read.
/// - `replicate`: each stage has a copy, and the gradients of the copies must be summed
/// - `transmit`: one stage owns the tensor and sends it, and its gradient comes back
/// - `refuse`: an error is thrown
enum class shared_state : std::uint8_t { replicate, transmit, refuse };

/// The names that a stage registers for a tensor, in addition to those that it reads.
/// - `beside_modules`: names whose owning module is in the stage
/// - `every`: these, and in the first stage with the tensor also the names that no stage would have
enum class alias_policy : std::uint8_t { every, beside_modules };

/// The options for state that several stages read: its owners and its names.
struct state_options {
  shared_state shared = shared_state::replicate;
  std::vector<std::pair<std::string, shared_state>> by_name = {};  ///< exceptions, by any name of a tensor
  alias_policy names = alias_policy::every;
};

/// A tensor that one stage sends to others for each microbatch.
struct sent_state {
  std::uint32_t tensor;  ///< under the name by which its owner reads it first
  stage_id owner;
  std::vector<stage_id> to;  ///< in the order of the plan; `the_caller` if the graph returns it

  bool operator==(sent_state const&) const = default;
};

/// A tensor in a stage, under one name.
struct held_state {
  std::uint32_t tensor;  ///< position among the model's tensors
  bool read;             ///< read by this name in the stage, or by a receiver of what the stage sends
  bool operator==(held_state const&) const = default;
};

/// The tensors that each stage holds, and their names. Numbers are positions among the model's tensors.
struct state_assignment {
  std::vector<std::vector<held_state>> stages;  ///< by stage: names by first use, then aliases
  std::vector<tie> replicas;     ///< tensors in several stages: the first name in each, in the plan's order
  std::vector<sent_state> sent;  ///< in the order of registration
  std::vector<std::uint32_t> unused;  ///< all names of tensors that are neither read nor returned

  bool operator==(state_assignment const&) const = default;
};

/// A fault in the state of a cut: its kind, the tensor `name`, and the stages concerned.
struct state_fault {
  static constexpr char subject[] = "state: ";
  enum class kind : std::uint8_t {
    shared,             ///< `stage` and `other` read the tensor, which the options refuse
    written_twice,      ///< `stage` and `other` both write the tensor
    written_elsewhere,  ///< `stage` writes the tensor, and `other` reads its own copy
    unknown_name,       ///< an option names a tensor that the model lacks; `nearest` has similar names
    two_choices,        ///< two options contradict each other; the second calls the tensor `other_name`
    untied,             ///< `stage` and `other` hold copies of the tensor that no tie keeps equal
    absent,             ///< `stage` reads the tensor but neither holds nor receives it
    unread,             ///< `stage` holds the tensor but does not read it
    repeated,           ///< `stage` holds the tensor twice under one name
    missing,            ///< no stage has this name of a tensor that stages hold
    unsendable,  ///< the tensor is to be sent, but a module that `stage` or `other` calls reads it inside
    unused,      ///< no stage reads the tensor, and the graph does not return it
  };
  kind what;
  std::string name, other_name = {};
  stage_id stage = the_caller, other = the_caller;
  std::vector<std::string> nearest = {};

  bool operator==(state_fault const&) const = default;
};

/// Returns the code of a fault for programs. Codes stay the same from version to version.
constexpr std::string_view code_of(state_fault::kind what) {
  constexpr std::string_view codes[] = {
      "state-shared",       "state-written-twice", "state-written-elsewhere",
      "state-unknown-name", "state-two-choices",   "state-untied",
      "state-absent",       "state-unread",        "state-repeated",
      "state-missing",      "state-unsendable",    "state-unused"};
  return codes[static_cast<std::size_t>(what)];
}

/// Returns a sentence that says what is wrong, where, and how to fix it.
inline std::string describe(state_fault const& f) {
  using enum state_fault::kind;
  auto const called =
      f.other_name.empty() || f.other_name == f.name ? "" : " (as " + quoted(f.other_name) + ")";
  switch (f.what) {
    case shared:
      return quoted(f.name) + " is read in " + stage_text(f.stage) + " and in " + stage_text(f.other) +
             called + "; choose replicate or transmit for it, or cut elsewhere";
    case written_twice:
      return quoted(f.name) + " is written in " + stage_text(f.stage) + " and in " + stage_text(f.other) +
             called + "; cut so that all nodes that write it are in one stage";
    case written_elsewhere:
      return quoted(f.name) + " is written in " + stage_text(f.stage) + " and read in " +
             stage_text(f.other) + called +
             ", whose copy would miss the writes; cut so that one stage has both, or pass the written tensor "
             "as a value";
    case unknown_name:
      return quoted(f.name) + " is not a parameter or buffer of the model" + suggestion(f.nearest);
    case two_choices:
      return quoted(f.name) + called + " is one tensor, for which two options contradict each other";
    case untied:
      return quoted(f.name) + " is in " + stage_text(f.stage) + " and in " + stage_text(f.other) + called +
             ", but no tie keeps the copies equal";
    case absent:
      return stage_text(f.stage) + " reads " + quoted(f.name) + " but neither holds nor receives it";
    case unread:
      return stage_text(f.stage) + " holds " + quoted(f.name) + ", which nothing in it reads";
    case repeated:
      return stage_text(f.stage) + " holds " + quoted(f.name) + " twice";
    case missing:
      return quoted(f.name) + " is a name of a tensor that stages hold, but no stage has this name";
    case unsendable:
      return quoted(f.name) + " is to be transmitted, but a module that is called in " + stage_text(f.stage) +
             " or in " + stage_text(f.other) + called + " reads it inside; choose replicate for it";
    case unused:
      return quoted(f.name) + " is in no stage, because no stage reads it";
  }
  return {};
}

/// Thrown if state cannot be assigned as the options say. The witness is the first fault.
using state_error = fault_error<state_fault>;

}  // namespace cleave
