// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <string_view>

#include "cleave/core/language.hpp"

/// The words for what is in a module_graph, wherever it is written out: by the number of a `node_kind` and of
/// a `module_attribute::kind`.
namespace cleave::detail {

inline constexpr std::array<std::string_view, 6> node_kind_names = {
    "placeholder", "get_attr", "call_function", "call_method", "call_module", "output"};
inline constexpr std::array<std::string_view, 4> attribute_kind_names = {"tensor", "parameter", "buffer",
                                                                         "module"};

}  // namespace cleave::detail
