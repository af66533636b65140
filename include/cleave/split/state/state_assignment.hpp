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

/// Where the parameters and buffers of a model go when its graph is cut, as plain data.
namespace cleave {

/// What a model registers a tensor as. Parameters and buffers are what is saved of a model; a constant is no
/// state: each stage that reads one has it.
enum class state_kind : std::uint8_t { parameter, buffer, unsaved_buffer, constant };

/// A tensor of a model under one of its names.
struct model_tensor {
  std::string name;     ///< qualified, from the root
  std::string storage;  ///< equal where memory is shared; empty: of its own
  state_kind what = state_kind::parameter;

  bool operator==(model_tensor const&) const = default;
};

/// What whoever places state must know of a model beside its graph, in positions of the snapshot.
template <std::unsigned_integral Index>
struct basic_model_state {
  std::vector<model_tensor> tensors;  ///< every tensor under every name, in the order of registration
  std::vector<Index> tensor;          ///< of a value: under which name it is read; none: no tensor is
  std::vector<std::string> modules;   ///< paths
  detail::csr<Index> inside;          ///< of a node: modules that it is inside, outermost first; may be empty
  detail::csr<Index>
      reads;  ///< of a node: tensors that it reads inside, of a module that it calls; may be empty
  detail::csr<Index>
      writes;  ///< of a node: tensors that it writes, where the graph does not tell; may be empty
};

/// What becomes of a tensor that several stages read: each has a copy, whose gradients must be summed; or one
/// of them has it and sends it, and its gradient comes back; or that is an error.
enum class shared_state : std::uint8_t { replicate, transmit, refuse };

/// Which names beside those that it reads a stage gives a tensor: where the owner of a name is in the stage,
/// that name; and in the first stage that has the tensor also the names which no stage has else.
enum class alias_policy : std::uint8_t { every, beside_modules };

/// Who has what several stages read, and under which names.
struct state_options {
  shared_state shared = shared_state::replicate;
  std::vector<std::pair<std::string, shared_state>> by_name = {};  ///< for single tensors, by any name
  alias_policy names = alias_policy::every;
};

/// A tensor that one stage sends to others for each microbatch.
struct sent_state {
  std::uint32_t tensor;  ///< under the name by which its owner reads it first
  stage_id owner;
  std::vector<stage_id> to;  ///< in the order of the plan; `the_caller`: the graph returns it

  bool operator==(sent_state const&) const = default;
};

/// A tensor in a stage, under one name.
struct held_state {
  std::uint32_t tensor;  ///< which of the model's
  bool read;             ///< by a node of the stage, or by who reads what the stage sends or gives
  bool operator==(held_state const&) const = default;
};

/// Which stage holds which tensors of a model, under which names. Numbers are those of the model's tensors.
struct state_assignment {
  std::vector<std::vector<held_state>> stages;  ///< of a stage: by first use, then the second names
  std::vector<tie> replicas;     ///< tensors in several stages: the first name in each, in the plan's order
  std::vector<sent_state> sent;  ///< in the order of registration
  std::vector<std::uint32_t> unused;  ///< every name of what no stage reads and the graph does not return

  bool operator==(state_assignment const&) const = default;
};

/// What is wrong with the state of a cut, and where.
struct state_fault {
  static constexpr char subject[] = "state: ";
  enum class kind : std::uint8_t {
    shared,             ///< `stage` and `other` read it, which the options refuse
    written_twice,      ///< `stage` and `other` write it
    written_elsewhere,  ///< `stage` writes what `other` reads from its own copy
    unknown_name,       ///< an option names it, and the model does not; `nearest` are names it has
    two_choices,        ///< options say two things of it, the second as `other_name`
    untied,             ///< `stage` and `other` hold it, and no tie says so
    absent,             ///< `stage` reads it, and neither holds it nor is sent it
    unread,             ///< `stage` holds it for nothing
    repeated,           ///< `stage` holds it twice under one name
    missing,            ///< a name of what stages hold that no stage has
    unsendable,         ///< it is to be sent, and a module that `stage` or `other` calls has it inside
    unused,             ///< no stage reads it, and the graph does not return it
  };
  kind what;
  std::string name, other_name = {};
  stage_id stage = the_caller, other = the_caller;
  std::vector<std::string> nearest = {};

  bool operator==(state_fault const&) const = default;
};

/// A text for programs, which stays as it is from version to version.
constexpr std::string_view code_of(state_fault::kind what) {
  constexpr std::string_view codes[] = {
      "state-shared",       "state-written-twice", "state-written-elsewhere",
      "state-unknown-name", "state-two-choices",   "state-untied",
      "state-absent",       "state-unread",        "state-repeated",
      "state-missing",      "state-unsendable",    "state-unused"};
  return codes[static_cast<std::size_t>(what)];
}

/// What, where and how to mend it.
inline std::string describe(state_fault const& f) {
  using enum state_fault::kind;
  auto const called =
      f.other_name.empty() || f.other_name == f.name ? "" : " (as " + quoted(f.other_name) + ")";
  switch (f.what) {
    case shared:
      return quoted(f.name) + " is read in " + stage_text(f.stage) + " and in " + stage_text(f.other) +
             called + "; let it be replicated or transmitted, or cut elsewhere";
    case written_twice:
      return quoted(f.name) + " is written in " + stage_text(f.stage) + " and in " + stage_text(f.other) +
             called + "; cut so that one stage has all that writes it";
    case written_elsewhere:
      return quoted(f.name) + " is written in " + stage_text(f.stage) + " and read in " +
             stage_text(f.other) + called +
             ", whose copy would miss the writes; cut so that one stage has both, or let what was "
             "written travel as a value";
    case unknown_name:
      return quoted(f.name) + " is no parameter or buffer of the model" + suggestion(f.nearest);
    case two_choices:
      return quoted(f.name) + called + " is one tensor, for which the options say two things";
    case untied:
      return quoted(f.name) + " is in " + stage_text(f.stage) + " and in " + stage_text(f.other) + called +
             ", and no tie keeps the copies equal";
    case absent:
      return stage_text(f.stage) + " reads " + quoted(f.name) + ", and neither holds it nor is sent it";
    case unread:
      return stage_text(f.stage) + " holds " + quoted(f.name) + ", which nothing in it reads";
    case repeated:
      return stage_text(f.stage) + " holds " + quoted(f.name) + " twice";
    case missing:
      return quoted(f.name) + " is a name of what stages hold, and no stage has it";
    case unsendable:
      return quoted(f.name) + " is to be transmitted, and a module that is called in " + stage_text(f.stage) +
             " or in " + stage_text(f.other) + called + " reads it inside; let it be replicated";
    case unused:
      return quoted(f.name) + " is in no stage, because none reads it";
  }
  return {};
}

/// State that cannot be placed as the options say. The witness: the first fault.
using state_error = fault_error<state_fault>;

}  // namespace cleave
