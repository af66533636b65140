// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"

/// Finds the device names in a module_graph and replaces them.
namespace cleave::inline v0_2 {

/// A place where a graph or a nested body names a device. This is an opaque constant of kind `device`, or a
/// string under the key `device`.
struct device_site {
  enum class kind : std::uint8_t {
    keyword,    ///< argument `key` of node `owner`
    argument,   ///< a positional argument of node `owner`
    attribute,  ///< metadata entry `key` of attribute `owner`: the device of a constant or of state
  };
  kind what;
  std::string stage;   ///< attribute of the outer graph that contains the site; empty for the outer graph
  std::string body;    ///< path of the body that contains the site, joined by dots; equals or extends `stage`
  std::string owner;   ///< name of a node, or path of an attribute within its body
  std::string key;     ///< name of the argument or of the metadata entry
  std::string device;  ///< the current device
  node_kind node = node_kind::call_function;  ///< kind of the owner, if it is a node

  bool operator==(device_site const&) const = default;
};

/// A function that chooses devices.
/// - `f(site)` returns the new device, or nothing to keep the current one.
template <class F>
concept device_choice = requires(F& f, device_site const& site) {
  { f(site) } -> std::convertible_to<std::optional<std::string>>;
};

/// A choice that puts every site on one device. With `keywords` it changes only functions that have a
/// `device=` keyword already, as torch's Pipe does.
struct to_device {
  enum class sites : std::uint8_t { all, keywords };
  std::string device;
  sites at = sites::all;

  std::optional<std::string> operator()(device_site const& s) const {
    bool const by_keyword =
        s.what == device_site::kind::keyword && s.key == "device" && s.node == node_kind::call_function;
    return at == sites::all || by_keyword ? std::optional(device) : std::nullopt;
  }
};

/// A graph with replaced devices.
struct device_assignment {
  module_graph graph;
  std::vector<device_site> changed;  ///< with their old devices, in the order of `devices_of`
  std::vector<std::string> unseen;   ///< called modules without a known body; left unchanged; sorted
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Rewrites a graph and its bodies without recursion. Helper of `with_devices`.
template <device_choice Choose>
class device_writer {
 public:
  device_writer(module_graph const& g, Choose& choose) : choose_(choose) { levels_.push_back({&g, "", ""}); }

  device_assignment run() {
    for (std::size_t at = 0; at < levels_.size(); ++at) {
      write_nodes(at);
      write_attributes(at);
    }
    for (std::size_t at = levels_.size(); at-- > 0;) put_bodies_in(levels_[at]);
    std::ranges::sort(made_.unseen);
    auto const repeated = std::ranges::unique(made_.unseen);
    made_.unseen.erase(repeated.begin(), repeated.end());
    made_.graph = std::move(levels_.front().made);
    return std::move(made_);
  }

 private:
  struct level {
    module_graph const* from;
    std::string stage, path;
    std::vector<module_attribute> attributes = {};
    std::vector<std::size_t> bodies = {};  // levels, in the order of the attributes with a body
    module_graph made = {};
  };

  static std::string inside(level const& l, std::string const& path) {
    return l.path.empty() ? path : l.path + "." + path;
  }

  void write_nodes(std::size_t at) {
    level& l = levels_[at];
    l.made.reserve(l.from->list().size());
    for (auto n : l.from->list()) {
      device_site site{device_site::kind::argument, l.stage, l.path, n.name, {}, {}, n.kind};
      for (auto& a : n.args) rewrite(a, site);
      site.what = device_site::kind::keyword;
      for (auto& k : n.kwargs) {
        site.key = k.key;
        rewrite(k.value, site);
      }
      auto const* called = n.kind == node_kind::call_module ? l.from->find_attribute(n.target) : nullptr;
      if (n.kind == node_kind::call_module && (!called || called->body.empty()))
        made_.unseen.push_back(inside(l, n.target));
      l.made.add(std::move(n));
    }
    l.made.metadata = l.from->metadata;
  }

  void write_attributes(std::size_t at) {
    for (auto const& a : levels_[at].from->attributes()) {
      level const& l = levels_[at];  // must be read again: the vector grows while bodies are found
      module_attribute copy{a.path, a.what, a.storage, {}, a.original, a.metadata};
      device_site site{device_site::kind::attribute, l.stage, l.path, a.path, {}, {}};
      for (auto& k : copy.metadata) {
        site.key = k.key;
        rewrite(k.value, site);
      }
      levels_[at].attributes.push_back(std::move(copy));
      for (auto const& body : a.body) {
        level inner{&body, at == 0 ? a.path : levels_[at].stage, inside(levels_[at], a.path)};
        levels_[at].bodies.push_back(levels_.size());
        levels_.push_back(std::move(inner));
      }
    }
  }

  void put_bodies_in(level& l) {
    auto body = l.bodies.begin();
    for (std::size_t i = 0; i < l.attributes.size(); ++i) {
      for (std::size_t n = l.from->attributes()[i].body.size(); n > 0; --n)
        l.attributes[i].body.push_back(std::move(levels_[*body++].made));
      l.made.add_attribute(std::move(l.attributes[i]));
    }
  }

  void rewrite(module_argument& a, device_site& site) {
    bool const text = site.key == "device" && a.size() == 1;
    for (auto& t : a) {
      auto* const name = std::get_if<std::string>(&t);
      auto* const constant = std::get_if<opaque>(&t);
      if (!(name && text) && !(constant && constant->kind == "device")) continue;
      std::string& device = name ? *name : constant->text;
      site.device = device;
      std::optional<std::string> to = choose_(std::as_const(site));
      if (!to || *to == device) continue;
      made_.changed.push_back(site);
      device = *std::move(to);
    }
  }

  Choose& choose_;
  std::vector<level> levels_;
  device_assignment made_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a copy of `g` and its nested bodies with the devices chosen by `choose`. O(tokens of all arguments
/// + u log u) for u calls of modules without a body.
/// \throws only the errors of `choose`
template <device_choice Choose>
device_assignment with_devices(module_graph const& g, Choose choose) {
  return detail::device_writer<Choose>(g, choose).run();
}

/// Returns every place where `g` names a device. A graph comes before its bodies, and nodes come before
/// attributes, each in order.
inline std::vector<device_site> devices_of(module_graph const& g) {
  std::vector<device_site> found;
  auto const note = [&](device_site const& s) {
    found.push_back(s);
    return std::optional<std::string>();
  };
  with_devices(g, note);
  return found;
}

/// A stage, by its path in the outer graph, and its device.
struct stage_device {
  std::string path;
  std::string device;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if a path is not a stage or if a stage has two devices. The witness is the path.
using stage_device_error = tagged_error<struct stage_device_tag, std::string>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns an outer graph with the listed stages on their devices. Stages that are not listed keep their
/// devices.
/// \throws stage_device_error if a path does not name a module with a body, or is listed twice
inline device_assignment with_stage_devices(module_graph const& outer,
                                            std::vector<stage_device> const& stages,
                                            to_device::sites at = to_device::sites::all) {
  std::map<std::string, to_device> choice;
  for (auto const& [path, device] : stages) {
    auto const* a = outer.find_attribute(path);
    if (!a || a->body.empty()) {
      std::vector<std::string> known;
      for (auto const& other : outer.attributes())
        if (!other.body.empty()) known.push_back(other.path);
      throw detail::stage_device_error("stage devices: " + quoted(path) + " is not a stage of this graph" +
                                           suggestion(nearest_names(path, known)),
                                       path);
    }
    if (!choice.emplace(path, to_device{device, at}).second)
      throw detail::stage_device_error(
          "stage devices: " + quoted(path) + " is listed twice; list each stage once", path);
  }
  return with_devices(outer, [&](device_site const& s) {
    auto const found = choice.find(s.stage);
    return found == choice.end() ? std::nullopt : found->second(s);
  });
}

}  // namespace cleave
