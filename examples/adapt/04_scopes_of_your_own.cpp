// SPDX-License-Identifier: MIT
// Keeps scopes intact across a cut: a profiler's range, a precision and a lock are state that no value shows.
// Each stage enters the scopes of its steps.
#include <cleave/cleave.hpp>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

struct step {  // an IR in which some steps only change the state of others
  std::string what;
  std::vector<step const*> reads;
};

struct step_graph {
  std::vector<step const*> steps;

  std::vector<step const*> const& nodes() const { return steps; }
  std::vector<step const*> const& operands(step const* s) const { return s->reads; }
  std::string const& name(step const* s) const { return s->what; }
};

// [kinds]
std::vector<cleave::scope_kind> const state_kinds = {
    {"range", cleave::scope_policy::replicate},  // each stage opens and closes its own
    {"precision", cleave::scope_policy::replicate},
    {"lock", cleave::scope_policy::forbid},  // must not be cut
};
// [kinds]

// [marks]
std::optional<cleave::scope_mark<step const*>> mark(step const* s) {
  using enum cleave::scope_action;
  if (s->what == "range {") return {{enter, 0}};
  if (s->what == "}") return {{leave, 0}};
  if (s->what.starts_with("precision=")) return {{set, 1}};
  if (s->what == "lock") return {{enter, 2}};
  if (s->what == "unlock") return {{leave, 2}};
  return std::nullopt;
}
// [marks]

int main() {
  step const half{"precision=half", {}}, open{"range {", {}}, load{"load", {}}, gemm{"gemm", {&load}},
      full{"precision=full", {}}, norm{"norm", {&gemm}}, close{"}", {}}, lock{"lock", {}},
      count{"count", {&norm}}, unlock{"unlock", {}};
  step_graph const g{{&half, &open, &load, &gemm, &full, &norm, &close, &lock, &count, &unlock}};

  // [cut]
  auto const part_of = [](int last_of_first) {
    return [last_of_first, at = 0](step const*) mutable { return at++ > last_of_first; };
  };
  auto const stages = cleave::split_with_scopes(g, cleave::assign(g, part_of(2)), state_kinds, mark);
  for (auto const id : stages.plan().order) {
    std::cout << "stage " << index(id) << ':';
    for (step const* s : stages[id].nodes) std::cout << "  " << s->what;
    std::cout << '\n';
  }
  // [cut]

  try {
    cleave::split_with_scopes(g, cleave::assign(g, part_of(7)), state_kinds, mark);
  } catch (cleave::scope_cut_error const& e) {
    std::cout << e.what() << '\n';
  }
}

// It prints:
//
//   stage 0:  precision=half  range {  load  }
//   stage 1:  range {  precision=half  gemm  precision=full  norm  }  lock  count  unlock
//   scope 'lock' must not be cut: node lock (#7) is in part 0, node count (#8) in part 1; put both into one part
