// SPDX-License-Identifier: MIT
#pragma once
#include <string_view>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// The script of a report. It shows the search field, lists the nodes that match its words, and opens the
/// contents of a stage when a link to it is clicked. It loads nothing and has no `<` and no `&`, so that XML
/// parsers accept the page.
inline constexpr std::string_view report_script = R"("use strict";
{
  const form = document.getElementById("search"), field = document.getElementById("find");
  const found = document.getElementById("found"), hits = document.getElementById("hits");
  const stages = Array.from(document.querySelectorAll("details.contents")).map(box => {
    const list = box.querySelector("pre"), lines = [];
    let at = 0;
    for (const text of list.textContent.split("\n")) {
      if (text) lines.push({ at, text, plain: ("stage " + box.dataset.stage + " " + text).toLowerCase() });
      at += text.length + 1;
    }
    return { box, list, lines, number: box.dataset.stage };
  });
  const most = 200;

  const open = (stage, line) => {
    stage.box.open = true;
    stage.box.scrollIntoView({ block: "start" });
    if (!line) return;
    const range = document.createRange(), text = stage.list.firstChild;
    range.setStart(text, line.at);
    range.setEnd(text, line.at + line.text.length);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    const above = range.getBoundingClientRect().top - stage.list.getBoundingClientRect().top;
    stage.list.scrollTop += above - stage.list.clientHeight / 2;
  };

  const search = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(word => word);
    hits.replaceChildren();
    found.textContent = "";
    if (words.length === 0) return;
    let count = 0;
    const where = [];
    for (const stage of stages)
      for (const line of stage.lines) {
        if (!words.every(word => line.plain.includes(word))) continue;
        if (where[where.length - 1] !== stage.number) where.push(stage.number);
        count += 1;
        if (count > most) continue;
        const item = document.createElement("li"), link = document.createElement("a");
        link.href = "#stage-" + stage.number;
        link.textContent = "stage " + stage.number;
        link.addEventListener("click", event => {
          event.preventDefault();
          event.stopPropagation();
          open(stage, line);
        });
        item.append(link, " " + line.text.trim());
        hits.append(item);
      }
    found.textContent = count === 0 ? "no node matches" :
      (count === 1 ? "1 node" : count + " nodes") + (where.length === 1 ? " in stage " : " in stages ") +
      where.join(", ") + (count > most ? "; the first " + most + " are listed" : "");
  };

  document.addEventListener("click", event => {
    const link = event.target.closest("a[href^='#stage-']");
    if (!link) return;
    event.preventDefault();
    const number = link.getAttribute("href").slice("#stage-".length);
    const stage = stages.find(stage => stage.number === number);
    if (stage) open(stage);
  });
  field.addEventListener("input", search);
  form.addEventListener("submit", event => event.preventDefault());
  form.hidden = false;
}
)";

}  // namespace cleave::detail
