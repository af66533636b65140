// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"

namespace cleave::inline v0_2::detail {

/// The reason why a registry has no entry for a kind and target, or rejects one.
struct registry_fault {
  static constexpr char subject[] = "registry: ";
  enum class kind : std::uint8_t { unknown_kind, unknown_target, no_default, registered_twice };
  kind what;
  std::string of, target;
  std::vector<std::string> known;  ///< the known kinds, or the known targets of the kind

  bool operator==(registry_fault const&) const = default;
};

/// The message for a fault, in one sentence with the known names.
inline std::string describe(registry_fault const& f) {
  std::string known;
  for (auto const& name : f.known) known += (known.empty() ? "; known: " : ", ") + quoted(name);
  switch (f.what) {
    case registry_fault::kind::unknown_kind:
      return quoted(f.of) + " is not a kind of this registry" + known;
    case registry_fault::kind::unknown_target:
      return quoted(f.target) + " is not registered for " + quoted(f.of) + known;
    case registry_fault::kind::no_default:
      return quoted(f.target) + " is not registered for " + quoted(f.of) + ", which has no default" + known;
    case registry_fault::kind::registered_twice:
      return quoted(f.target) + " is registered for " + quoted(f.of) + "; each target can be registered once";
  }
  return {};
}

/// Thrown for a name that is not registered, or registered twice; the witness is the name and its kind.
using registry_error = fault_error<registry_fault>;

/// The lookup of unknown targets: fails, or returns the default entry of the kind.
enum class registry_default : std::uint8_t { unused, allowed };

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A table of entries that users register by kind and target, for instance a stage wrapper for each runtime.
/// The entry for the empty target is the default of its kind. Lookups are linear in the number of entries,
/// which is small.
template <class Entry>
class registry {
 public:
  explicit registry(std::vector<std::string> kinds) : kinds_(std::move(kinds)) {}

  /// Adds an entry. \throws registry_error for an unknown kind, or a target that already has an entry
  void add(std::string const& kind, std::string const& target, Entry e) {
    using enum detail::registry_fault::kind;
    if (std::ranges::find(kinds_, kind) == kinds_.end())
      throw detail::registry_error({unknown_kind, kind, target, kinds_});
    if (find(kind, target)) throw detail::registry_error({registered_twice, kind, target, {}});
    entries_.push_back({kind, target, std::move(e)});
  }

  /// Returns the reason why there is no entry for `target`, or nothing.
  std::optional<detail::registry_fault> find_fault(
      std::string const& kind, std::string const& target,
      detail::registry_default other = detail::registry_default::unused) const {
    using enum detail::registry_fault::kind;
    if (std::ranges::find(kinds_, kind) == kinds_.end())
      return detail::registry_fault{unknown_kind, kind, target, kinds_};
    if (find(kind, target)) return std::nullopt;
    bool const fallback = other == detail::registry_default::allowed;
    if (fallback && find(kind, "")) return std::nullopt;
    detail::registry_fault fault{fallback ? no_default : unknown_target, kind, target, {}};
    for (auto const& e : entries_)
      if (e.kind == kind) fault.known.push_back(e.target);
    return fault;
  }

  /// Returns the entry for `target`, or the default if that is allowed.
  /// \throws registry_error
  Entry const& at(std::string const& kind, std::string const& target,
                  detail::registry_default other = detail::registry_default::unused) const {
    if (auto fault = find_fault(kind, target, other)) throw detail::registry_error(*std::move(fault));
    auto const* own = find(kind, target);
    return own ? *own : *find(kind, "");
  }

 private:
  struct entry {
    std::string kind, target;
    Entry value;
  };

  Entry const* find(std::string const& kind, std::string const& target) const {
    for (auto const& e : entries_)
      if (e.kind == kind && e.target == target) return &e.value;
    return nullptr;
  }

  std::vector<std::string> kinds_;
  std::vector<entry> entries_;
};

}  // namespace cleave
