// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/real.hpp"
#include "cleave/formats/timed_schedule.hpp"
#include "cleave/formats/units.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::inline v0_2::detail {

/// Draws a part of a schedule that the reader chooses: by scrolling, with the buttons, with Ctrl and the
/// wheel, or by a click on the picture of the whole step. It reads the texts of `schedule_bars_text`. It
/// loads nothing and has no `<` and no `&`, so that XML parsers accept the page.
inline constexpr std::string_view schedule_script = R"("use strict";
{
  const data = JSON.parse(document.getElementById("bars").textContent);
  const written = /^([^@+~\/!]+)(?:@([^+]+))?\+([^~\/!]+)(?:\/(\d+)\/(\d+))?(~?)(!?)$/;
  const ranks = data.ranks.map(row => {
    let at = 0;
    return row.split(" ").filter(text => text).map(text => {
      const [, name, begin, time, lane, lanes, beside, critical] = written.exec(text);
      if (begin) at = Number(begin);
      const [, stage, kind, microbatch] = /^(\d*)([A-Z_]*)(\d*)/.exec(name);
      const hue = "FBIW".includes(kind) ? kind : "X";
      const bar = { name, begin: at, end: at + Number(time), lane: Number(lane || 0), lanes: Number(lanes || 1),
        beside: beside !== "", critical: critical !== "", microbatch,
        style: hue + (data.tints[stage] || 0) % 4 };
      at = bar.end;
      return bar;
    });
  });
  const left = 64, top = 8, row = data.row, gap = 4, length = data.length;
  const byId = id => document.getElementById(id);
  const scroll = byId("zoom-scroll"), space = byId("zoom-space"), picture = byId("zoom-picture");
  const about = byId("zoom-bar"), whole = byId("schedule-whole").querySelector("svg");
  const text = time => String(Number(time.toPrecision(5)));
  const withUnit = time => text(time) + (data.unit ? "\u00a0" + data.unit : "");
  const room = () => (Math.max)(100, scroll.clientWidth - left - 12);
  const fit = () => room() / length;
  let scale = (Math.max)(fit(), data.scale);
  const closest = 400 * data.scale;

  const put = (name, attributes, parent, content) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (content !== undefined) made.textContent = content;
    parent.append(made);
    return made;
  };
  const frame = put("rect", { class: "frame-of-view", y: 24, height: whole.viewBox.baseVal.height - 24 }, whole);
  const size = x => Math.round(x * 10) / 10;
  const height = top + ranks.length * (row + gap) + 24;
  const y = (rank, bar) => top + rank * (row + gap) +
    (bar.beside ? row - 4 : row / bar.lanes * bar.lane);
  const tall = bar => bar.beside ? 4 : row / bar.lanes;
  const shown = () => {
    const from = scroll.scrollLeft / scale;
    return [from, (Math.min)(length, from + room() / scale)];
  };

  let marked = null;
  const draw = () => {
    const [from, to] = shown(), wide = scroll.clientWidth, x = time => left + (time - from) * scale;
    picture.style.width = wide + "px";
    picture.style.height = height + "px";
    picture.replaceChildren();
    marked = null;
    const paths = {}, labels = [];
    let critical = "";
    ranks.forEach((bars, rank) => {
      put("rect", { class: "track", x: left, y: top + rank * (row + gap), height: row,
        width: size((to - from) * scale) }, picture);
      put("text", { class: "name", x: left - 8, y: top + rank * (row + gap) + row / 2 + 4, "text-anchor": "end" },
        picture, "rank\u00a0" + rank);
      for (const bar of bars) {
        if (from >= bar.end || bar.begin >= to) continue;
        const begin = (Math.max)(left, x(bar.begin)), end = (Math.min)(x(to), x(bar.end));
        const at = y(rank, bar), high = tall(bar), width = size(end - begin);
        paths[bar.style] = (paths[bar.style] || "") + "M" + size(begin) + " " + size(at) + "h" + width + "v" +
          size(high) + "h-" + width + "z";
        if (bar.critical) critical += "M" + size(begin) + " " + size(at + high) + "h" + width;
        if (bar.microbatch === "" || 10 > high || 1 + 6.6 * bar.microbatch.length > end - begin) continue;
        labels.push([(begin + end) / 2, at + high / 2 + 4, bar.microbatch]);
      }
    });
    for (const style in paths) put("path", { class: "bar " + style, d: paths[style] }, picture);
    for (const [at, under, number] of labels)
      put("text", { class: "number", x: size(at), y: size(under) }, picture, number);
    if (critical) put("path", { class: "critical", d: critical }, picture);
    const least = 90 / scale, power = Math.pow(10, Math.floor(Math.log10(least)));
    const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= least * 0.999);
    for (let i = Math.ceil(from / step); to >= i * step; i += 1) {
      put("line", { class: "grid", x1: size(x(i * step)), x2: size(x(i * step)), y1: height - 24, y2: height - 19 },
        picture);
      put("text", { class: "tick", x: size(x(i * step)), y: height - 7, "text-anchor": "middle" }, picture,
        text(i * step));
    }
    put("text", { class: "tick", x: left - 8, y: height - 7, "text-anchor": "end" }, picture, data.unit);
    const pixels = data.width / length;
    frame.setAttribute("x", data.left + from * pixels);
    frame.setAttribute("width", (Math.max)(2, (to - from) * pixels));
    byId("zoom-place").textContent = "from " + withUnit(from) + " to " + withUnit(to) + " of " + withUnit(length);
  };

  let waiting = false;
  const redraw = () => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => { waiting = false; draw(); }, 16);
  };
  const zoom = (to, kept) => {
    const [from, until] = shown();
    const middle = kept === undefined ? (from + until) / 2 : kept, share = (middle - from) / (until - from);
    scale = (Math.min)(closest, (Math.max)(fit(), to));
    space.style.width = left + length * scale + 12 + "px";
    scroll.scrollLeft = middle * scale - share * room();
    redraw();
  };
  const at = event => (event.clientX - picture.getBoundingClientRect().left - left) / scale + shown()[0];

  byId("zoom-in").addEventListener("click", () => zoom(scale * 1.6));
  byId("zoom-out").addEventListener("click", () => zoom(scale / 1.6));
  byId("zoom-all").addEventListener("click", () => zoom(0));
  byId("zoom-numbers").addEventListener("click", () => zoom(data.scale));
  scroll.addEventListener("scroll", redraw);
  addEventListener("resize", () => zoom(scale));
  scroll.addEventListener("wheel", event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(scale * (event.deltaY > 0 ? 0.8 : 1.25), at(event));
  }, { passive: false });
  whole.addEventListener("click", event => {
    const box = whole.getBoundingClientRect();
    const place = (event.clientX - box.left) / box.width * whole.viewBox.baseVal.width;
    scroll.scrollLeft = (place - data.left) / data.width * length * scale - room() / 2;
  });
  picture.addEventListener("mousemove", event => {
    const rank = Math.floor((event.clientY - picture.getBoundingClientRect().top - top) / (row + gap));
    const time = at(event), down = event.clientY - picture.getBoundingClientRect().top;
    const bar = (ranks[rank] || []).find(bar => time >= bar.begin ? bar.end > time ?
      down >= y(rank, bar) ? y(rank, bar) + tall(bar) > down : false : false : false);
    if (marked) marked.remove();
    marked = null;
    about.textContent = bar ? "rank " + rank + ": " + bar.name + ", " + withUnit(bar.end - bar.begin) + ", from " +
      withUnit(bar.begin) + " to " + withUnit(bar.end) : "";
    if (!bar) return;
    const [from, to] = shown(), begin = (Math.max)(from, bar.begin);
    marked = put("rect", { class: "marked", x: left + (begin - from) * scale, y: y(rank, bar), height: tall(bar),
      width: ((Math.min)(to, bar.end) - begin) * scale }, picture);
  });
  byId("zoom").hidden = false;
  zoom(scale);
  draw();
}
)";

/// The style of the part that `schedule_script` draws.
inline constexpr std::string_view schedule_zoom_style = R"(
#zoom-scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
#zoom-space { overflow: visible; }
#zoom-picture { position: sticky; left: 0; display: block; margin: 0; max-width: none; }
#zoom-tools { display: flex; flex-wrap: wrap; gap: 0.4rem; align-items: center; margin: 1rem 0 0.5rem; }
#zoom-tools button { padding: 0.2rem 0.7rem; font: inherit; color: var(--ink); background: var(--panel);
  border: 1px solid var(--frame); border-radius: 6px; cursor: pointer; }
#zoom-place { margin-left: 0.6rem; color: var(--soft); font-size: 0.875rem; }
#zoom-bar { display: block; min-height: 1.5em; color: var(--soft); font-size: 0.875rem; }
#schedule-whole svg { cursor: pointer; }
.schedule .frame-of-view { fill: var(--accent); fill-opacity: 0.12; stroke: var(--accent); pointer-events: none; }
.schedule .marked { fill: none; stroke: var(--ink); stroke-width: 1.5px; pointer-events: none; }
)";

/// Returns the bars of a rank as a text. `0F3@12+1` is action 0F3 from time 12 on, which
/// takes 1. A bar without `@` begins where the one before it ends. `/1/2` is lane 1 of 2, `~` a bar beside
/// others, and `!` an action of the critical path. Times are multiplied by `scale` and have so many decimals.
/// `next` is the first bar of the rank, and afterwards that of the next rank. Precondition: there is one.
inline std::string schedule_bars_text(std::vector<schedule_bar> const& bars, std::size_t& next,
                                      std::set<std::size_t> const& critical, double scale, int decimals) {
  std::string text;
  auto const rank = bars[next].rank;
  double const one = power_of_ten(decimals);
  double at = 0;  // where the reader is, in the last decimal
  for (; next < bars.size() && bars[next].rank == rank; ++next) {
    auto const& b = bars[next];
    auto const begin = static_cast<double>(rounded(b.begin * scale * one)),
               time = static_cast<double>(rounded((b.end - b.begin) * scale * one));
    if (!text.empty()) text += ' ';
    text += action_text(b.what);
    if (magnitude(begin - at) > 2) text += '@' + decimal_text((at = begin) / one, decimals);
    text += '+' + decimal_text(time / one, decimals);
    at += time;
    if (b.lanes > 1) text += '/' + std::to_string(b.lane) + '/' + std::to_string(b.lanes);
    if (b.is_beside) text += '~';
    if (critical.contains(b.position)) text += '!';
  }
  return text;
}

}  // namespace cleave::detail
