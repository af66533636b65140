// SPDX-License-Identifier: MIT
#pragma once
#include <string_view>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// The looks of a drawn schedule, alone or within a report: light or dark as the reader's system is. A kind
/// of pass is a hue, the stages of a rank are its tints.
inline constexpr std::string_view schedule_style = R"(
.schedule { font: 11.5px system-ui, -apple-system, Roboto, Arial, sans-serif; }
.schedule .ground { fill: #ffffff; }
.schedule text { fill: #17202a; }
.schedule .name { font-weight: 600; }
.schedule .tick, .schedule .detail { fill: #566573; }
.schedule .grid { stroke: #dde3e9; stroke-width: 1px; }
.schedule .track { fill: #eef1f4; }
.schedule .hatch { stroke: #c3ccd5; stroke-width: 1.5px; }
.schedule .bar { stroke: #ffffff; stroke-width: 0.6px; }
.schedule .critical { fill: none; stroke: #d0402f; stroke-width: 2.5px; }
.schedule .number { fill: #17202a; text-anchor: middle; pointer-events: none; }
.schedule .work:hover .bar { stroke: #17202a; stroke-width: 1.5px; }
.schedule .kept { fill: #9fb7cf; }
.schedule .strip { fill: #f5f7f9; }
.schedule .F0 { fill: #a3cbee; } .schedule .F1 { fill: #6ea8d8; }
.schedule .F2 { fill: #c9e1f6; } .schedule .F3 { fill: #8fb9de; }
.schedule .B0 { fill: #a6d9bc; } .schedule .B1 { fill: #6fbd92; }
.schedule .B2 { fill: #cdebd9; } .schedule .B3 { fill: #8fcfab; }
.schedule .I0 { fill: #f6c993; } .schedule .I1 { fill: #e8a65e; }
.schedule .I2 { fill: #fbe0bd; } .schedule .I3 { fill: #efb87b; }
.schedule .W0 { fill: #d6c5ea; } .schedule .W1 { fill: #b598d8; }
.schedule .W2 { fill: #e9dff5; } .schedule .W3 { fill: #c7b0e2; }
.schedule .X0, .schedule .X1, .schedule .X2, .schedule .X3 { fill: #c9cdd2; }
@media (prefers-color-scheme: dark) {
  .schedule .ground { fill: #11161c; }
  .schedule text { fill: #e7edf3; }
  .schedule .tick, .schedule .detail { fill: #9fb0c0; }
  .schedule .grid { stroke: #2c3742; }
  .schedule .track { fill: #19212a; }
  .schedule .hatch { stroke: #3a4652; }
  .schedule .bar { stroke: #11161c; }
  .schedule .number { fill: #17202a; }
  .schedule .work:hover .bar { stroke: #ffffff; }
  .schedule .kept { fill: #587189; }
  .schedule .strip { fill: #19212a; }
}
)";

}  // namespace cleave::detail
