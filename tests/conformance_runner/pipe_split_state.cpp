// SPDX-License-Identifier: MIT
#include "conformance_runner/pipe_split_state.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/pipe/module_pipe.hpp"
#include "cleave/split/modules/outline.hpp"
#include "cleave/split/state/check_state.hpp"
#include "conformance_runner/read_graph.hpp"
#include "conformance_runner/stage_tree_json.hpp"

/// Compares the state of a pipe's stages. Without a defect the state is torch's: aliases next to their
/// modules, constants as saved buffers, and levels as torch.export writes them. With a defect it follows from
/// the correct stages: the state that they read, under names of the model.
namespace cleave::conformance {

using namespace detail;
namespace {

using names = std::set<std::string>;

/// Appends all paths of a tree in preorder.
void list_modules(json const& tree, std::string const& path, std::vector<std::string>& to) {
  to.push_back(path);
  if (tree.contains("children"))
    for (auto const& [name, child] : tree["children"].items())
      list_modules(child, path.empty() ? name : path + "." + name, to);
}

class state_case {
 public:
  state_case(json const& body, module_graph const& g, module_pipe const& p)
      : body_(body), g_(g), p_(p), m_(p.model), placed_(p.state) {}

  std::vector<difference> run() {
    json const better = body_.value("better", json());
    bool const right = better.is_object() && better.contains("stages");
    check_soundness();
    if (body_.contains("defect")) {
      if (right) check_better(better["stages"]);
    } else if (body_.contains("expect")) {
      check_expected(body_["expect"]);
    }
    return std::move(differences_);
  }

 private:
  model_tensor const& tensor(held_state const& h) const { return m_.tensors[h.tensor]; }
  std::string storage(model_tensor const& t) const {
    return t.storage.empty() ? "path " + t.name : t.storage;
  }

  static json as_set(json list) {
    std::sort(list.begin(), list.end());
    return list;
  }

  /// Checks that the verifier reports only names that the options leave out, and unused state.
  void check_soundness() {
    basic_snapshot_arrays<std::uint32_t> const& flat = p_.program.s;
    for (auto const& f : state_faults(flat, p_.plan.plan, m_, placed_))
      if (f.what != state_fault::kind::unused && f.what != state_fault::kind::missing)
        differences_.push_back({"the verifier", "nothing", describe(f)});
  }

  void check_expected(json const& expect) {
    json recorded = json::object(), got = json::object();
    for (std::size_t i = 0; i < expect["stages"].size(); ++i) {
      auto const& stage = expect["stages"][i];
      json few;
      for (auto const* key : {"parameters", "buffers", "state_dict", "state_nobody_reads", "modules"})
        few[key] = as_set(stage[key]);
      few["tree"] = numbered_tree(stage["tree"]);
      recorded["stages"].push_back(few);
      got["stages"].push_back(i < p_.paths.size() ? write_stage(static_cast<std::uint32_t>(i)) : json());
    }
    for (auto const* key : {"replicated_params", "parameters_still_shared", "buffers_still_shared",
                            "state_not_in_any_stage", "state_names_not_in_original"})
      recorded[key] = as_set(expect[key]);
    write_sharing(got);
    compare(recorded, got, "state", differences_);
  }

  json write_stage(std::uint32_t i) const {
    json j{{"parameters", json::array()},
           {"buffers", json::array()},
           {"state_dict", json::array()},
           {"state_nobody_reads", json::array()},
           {"modules", json::array()}};
    names read;
    for (auto const& h : placed_.stages[i])
      if (h.read) read.insert(storage(tensor(h)));
    for (auto const& h : placed_.stages[i]) {
      auto const& t = tensor(h);
      bool const saved = t.what != state_kind::unsaved_buffer;
      if (t.what == state_kind::parameter)
        j["parameters"].push_back(t.name);
      else
        j["buffers"].push_back({t.name, saved});
      if (saved) j["state_dict"].push_back(t.name);
      if (!read.contains(storage(t))) j["state_nobody_reads"].push_back(t.name);
    }
    j["tree"] = tree_of(i);
    auto const modules = modules_of(j["tree"]);
    j["modules"] = names(modules.begin() + 1, modules.end());
    for (auto& [key, list] : j.items())
      if (list.is_array()) list = as_set(list);
    return j;
  }

  json tree_of(std::uint32_t i) const {
    return write_tree(outlined(p_.stage(stage_id{i}), {.state = root_state::upstream}));
  }

  static std::vector<std::string> modules_of(json const& tree) {
    std::vector<std::string> paths;
    list_modules(tree, "", paths);
    return paths;
  }

  /// Returns the name that torch lists: the first of a stage's names for a tensor in tree order.
  std::string first_name(stage_id stage, std::string const& known) const {
    std::string of;
    for (auto const& h : placed_.stages[index(stage)])
      if (tensor(h).name == known) of = storage(tensor(h));
    for (auto const& module : modules_of(tree_of(index(stage))))
      for (auto const& h : placed_.stages[index(stage)])
        if (storage(tensor(h)) == of && owner_of(tensor(h).name) == module) return tensor(h).name;
    return known;
  }

  /// Writes the state shared by stages. Copies of a parameter are listed separately; copies of untrained
  /// state are torch's shared ones.
  void write_sharing(json& got) const {
    for (auto const* key : {"replicated_params", "parameters_still_shared", "buffers_still_shared",
                            "state_not_in_any_stage", "state_names_not_in_original"})
      got[key] = json::array();
    names held;
    std::map<std::string, json> shared;
    for (std::uint32_t i = 0; i < placed_.stages.size(); ++i)
      for (auto const& h : placed_.stages[i]) {
        auto const& t = tensor(h);
        held.insert(t.name);
        if (t.what != state_kind::parameter && h.read) shared[storage(t)].push_back({i, t.name});
        if (t.what == state_kind::constant) got["state_names_not_in_original"].push_back(t.name);
      }
    for (auto const& [storage, list] : shared)
      if (list.size() > 1) got["buffers_still_shared"].push_back(list);
    for (auto const& copies : placed_.replicas) {
      json list = json::array();
      for (auto const& c : copies.members)
        list.push_back({p_.paths[index(c.stage)], first_name(c.stage, c.name)});
      auto const* a = g_.find_attribute(copies.members.front().name);
      if (a->what == module_attribute::kind::parameter) got["replicated_params"].push_back(list);
    }
    for (auto const& t : m_.tensors)
      if ((t.what == state_kind::parameter || t.what == state_kind::buffer) && !held.contains(t.name))
        got["state_not_in_any_stage"].push_back(t.name);
    for (auto& [key, list] : got.items())
      if (key != "stages") list = as_set(list);
  }

  /// Checks the state that follows from the nodes and reads of the correct stages.
  void check_better(json const& stages) {
    json expected = json::array(), got = json::array();
    names somewhere;
    for (auto const& stage : stages) {
      expected.push_back(names_of(stage));
      for (auto const& name : expected.back()) somewhere.insert(name.get<std::string>());
    }
    for (auto const& t : m_.tensors)  // names in no stage go to the stage that reads the tensor first
      if (!somewhere.contains(t.name))
        for (std::size_t i = 0; i < stages.size(); ++i)
          if (storages_of(stages[i]["state_reads"]).contains(storage(t))) {
            expected[i].push_back(t.name);
            break;
          }
    for (auto& list : expected) list = as_set(list);
    std::map<std::string, std::set<std::uint32_t>> holders, tied;
    for (std::uint32_t i = 0; i < placed_.stages.size(); ++i) {
      json list = json::array();
      for (auto const& h : placed_.stages[i]) {
        list.push_back(tensor(h).name);
        if (tensor(h).what != state_kind::constant) holders[storage(tensor(h))].insert(i);
      }
      got.push_back(as_set(list));
      check_saved(i);
    }
    compare(expected, got, "held names", differences_);
    std::erase_if(holders, [](auto const& h) { return h.second.size() < 2; });
    for (auto const& copies : placed_.replicas)
      for (auto const& c : copies.members) {
        auto const* a = g_.find_attribute(c.name);
        tied[a->storage.empty() ? "path " + c.name : a->storage].insert(index(c.stage));
      }
    if (holders != tied) differences_.push_back({"ties", "those of the stages", "others"});
  }

  names storages_of(json const& reads) const {
    names storages;
    for (auto const& t : m_.tensors)
      if (std::ranges::find(reads, json(t.name)) != reads.end()) storages.insert(storage(t));
    return storages;
  }

  /// Returns the names that a stage reads and further aliases of the same tensors. An alias counts if its
  /// owner is the root, a module of a node in the stage, the owner of a name that is read, or an ancestor of
  /// these.
  json names_of(json const& stage) const {
    names modules = {""};
    auto const enter = [&](std::string path) {
      for (; !path.empty(); path = std::string(owner_of(path))) modules.insert(path);
    };
    for (auto const& n : g_.list())
      if (std::ranges::find(stage["nodes"], json(n.name)) != stage["nodes"].end())
        for (auto const& [key, value] : n.metadata)
          for (auto const& t : value)
            if (auto const* call = std::get_if<std::string>(&t); call && key == "scope")
              enter(call->substr(0, call->find('@')));
    for (auto const& name : stage["state_reads"]) enter(std::string(owner_of(name.get<std::string>())));
    auto const storages = storages_of(stage["state_reads"]);
    json list = json::array();
    for (auto const& t : m_.tensors) {
      bool const read = std::ranges::find(stage["state_reads"], json(t.name)) != stage["state_reads"].end();
      if (read || (storages.contains(storage(t)) && modules.contains(std::string(owner_of(t.name)))))
        list.push_back(t.name);
    }
    return list;
  }

  /// Checks that the tree of stage i registers exactly the names that the stage holds, each with its kind in
  /// the model.
  void check_saved(std::uint32_t i) {
    auto const& stage = p_.stage(stage_id{i});
    names held, registered;
    for (auto const& h : placed_.stages[i]) {
      held.insert(tensor(h).name);
      auto const* a = stage.find_attribute(tensor(h).name);
      if (!a || state_kind_of(*a) != tensor(h).what)
        differences_.push_back({tensor(h).name, "saved as in the model", "otherwise"});
    }
    for (auto const& a : stage.attributes())
      if (a.what != module_attribute::kind::module) registered.insert(a.path);
    if (registered != held) differences_.push_back({p_.paths[i], "the names that it holds", "others"});
  }

  json const& body_;
  module_graph const& g_;
  module_pipe const& p_;
  basic_model_state<std::uint32_t> const& m_;
  state_assignment const& placed_;
  std::vector<difference> differences_;
};

}  // namespace

std::vector<difference> compare_state(json const& body, module_graph const& g, module_pipe const& p) {
  return state_case(body, g, p).run();
}

}  // namespace cleave::conformance
