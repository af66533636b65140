// SPDX-License-Identifier: MIT
#pragma once
#include <string_view>

#include "cleave/core/language.hpp"

namespace cleave {

/// The looks of a report: light or dark as the reader's system is, narrow screens scroll wide parts in place,
/// paper gets black on white. Nothing is loaded from elsewhere.
inline constexpr std::string_view report_style = R"(
:root {
  color-scheme: light dark;
  --page: #ffffff; --panel: #f5f7f9; --line: #dde3e9; --ink: #17202a; --soft: #566573;
  --accent: #20639b; --fill: #cfe1f2; --frame: #7f95aa; --link: #6a8299; --warm: #f3dcc0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #11161c; --panel: #19212a; --line: #2c3742; --ink: #e7edf3; --soft: #9fb0c0;
    --accent: #7db8ea; --fill: #234866; --frame: #587189; --link: #7f98b0; --warm: #4a3a26;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 2.5rem 1.5rem 3rem; max-width: 1120px; background: var(--page);
  color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%; text-size-adjust: 100%;
}
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; font-weight: 650; letter-spacing: -0.015em;
  overflow-wrap: anywhere; }
h2 { margin: 2.75rem 0 0.35rem; font-size: 1.2rem; font-weight: 650; letter-spacing: -0.005em; }
p { margin: 0.35rem 0 1rem; max-width: 46rem; }
.lead { margin-top: 0.5rem; font-size: 1.05rem; color: var(--soft); }
.soft, figcaption { color: var(--soft); font-size: 0.875rem; }
dl { display: flex; flex-wrap: wrap; gap: 1px; margin: 1.5rem 0 0; background: var(--line);
  border: 1px solid var(--line); border-radius: 8px; overflow: hidden; }
dl div { flex: 1 1 8.5rem; padding: 0.7rem 0.95rem; background: var(--page); }
dt { color: var(--soft); font-size: 0.8rem; }
dd { margin: 0.1rem 0 0; font-weight: 600; overflow-wrap: anywhere; }
dl.totals div { background: var(--panel); }
dl.totals dd { font-size: 1.45rem; line-height: 1.3; letter-spacing: -0.01em; }
.wide { overflow-x: auto; }
.wide:focus-visible { outline: 2px solid var(--accent); outline-offset: 3px; }
table { width: 100%; border-collapse: collapse; font-size: 0.9rem; white-space: nowrap; }
th, td { padding: 0.5rem 0.75rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
tr > :first-child { padding-left: 0; position: sticky; left: 0; background: var(--page); }
tr > :last-child { padding-right: 0; }
thead th { color: var(--soft); font-weight: 500; font-size: 0.8rem; vertical-align: bottom;
  border-bottom-color: var(--frame); }
tbody th { font-weight: 600; }
tfoot th, tfoot td { border-bottom: 0; color: var(--soft); font-weight: 500; }
.share { display: inline-block; position: relative; width: 5.5rem; height: 0.5rem;
  background: var(--panel); border-radius: 2px; }
.share span { display: block; height: 100%; background: var(--accent); border-radius: 2px; }
.share::after { content: ""; position: absolute; left: 50%; top: -3px; bottom: -3px;
  border-left: 1px solid var(--ink); }
.share-of-even { display: inline-block; min-width: 4.6rem; }
figure { margin: 1rem 0 0; }
figcaption { margin-top: 0.6rem; max-width: 46rem; }
svg { display: block; max-width: 100%; height: auto; margin: 0 auto; font-size: 11.5px; }
svg text { fill: var(--ink); }
.graph .ground { fill: var(--panel); }
.graph .fill { fill: var(--fill); }
.graph .frame { fill: none; stroke: var(--frame); }
.graph .even { stroke: var(--ink); stroke-opacity: 0.55; stroke-dasharray: 3 3; }
.graph .name { font-size: 19px; font-weight: 650; }
.graph .line, .graph .halo { fill: none; }
.graph .line { stroke: var(--link); }
.graph .halo { stroke: var(--page); }
.graph .arrow { fill: var(--link); }
.graph .unknown .line { stroke-dasharray: 4 3; }
.graph .size { fill: var(--soft); font-size: 11px; paint-order: stroke; stroke: var(--page);
  stroke-width: 3px; }
.graph .link:hover .line { stroke: var(--accent); }
.graph .link:hover .arrow { fill: var(--accent); }
.timeline .track { fill: var(--panel); }
.timeline .grid { stroke: var(--line); }
.timeline .tick, .timeline .detail { fill: var(--soft); }
.timeline .name { font-weight: 600; }
.timeline .wait { fill: none; pointer-events: all; }
.timeline .send { fill: var(--warm); }
.timeline .bar { stroke: var(--page); stroke-width: 0.5px; }
.timeline .number { fill: #17202a; font-weight: 600; pointer-events: none; }
.timeline .work:hover .bar { stroke: var(--ink); stroke-width: 1.5px; }
.hue0 { fill: #8db8dd; } .hue1 { fill: #f0ba85; } .hue2 { fill: #98cbb0; } .hue3 { fill: #d7a6c8; }
.hue4 { fill: #e0cf7d; } .hue5 { fill: #86c4ca; } .hue6 { fill: #e39f97; } .hue7 { fill: #b2afe0; }
footer { margin-top: 3rem; padding-top: 0.9rem; border-top: 1px solid var(--line); }
@media screen and (max-width: 700px) {
  body { padding: 1.5rem 1rem 2rem; }
  h1 { font-size: 1.55rem; }
  .wide svg { max-width: none; margin: 0; }
  .wide svg.timeline { width: 820px; }
}
@media print {
  :root {
    --page: #ffffff; --panel: #f5f7f9; --line: #c8d0d8; --ink: #000000; --soft: #444444;
    --accent: #20639b; --fill: #cfe1f2; --frame: #7f95aa; --link: #6a8299; --warm: #f3dcc0;
  }
  html { font-size: 11px; }
  body { max-width: none; padding: 0; font-size: 1rem; }
  .wide { overflow: visible; }
  th, td { padding: 0.35rem 0.5rem; }
  .share { display: none; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  figure, table, dl { break-inside: avoid; }
  h2 { break-after: avoid; }
  @page { margin: 14mm; }
}
)";
}  // namespace cleave
