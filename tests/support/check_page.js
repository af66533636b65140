// SPDX-License-Identifier: MIT
// Appended to a page by check_page.sh: replaces the page by a list of what does not fit or does not work.
{
  const faults = [];
  const fault = (what, element) => {
    const text = element ? ": " + element.tagName + "." + (element.getAttribute("class") || "") + " '" +
      element.textContent.trim().slice(0, 60) + "'" : "";
    if (faults.length < 20) faults.push(what + text);
  };

  const fits = state => {
    if (document.documentElement.scrollWidth > innerWidth) fault(state + "the page is wider than the window");
    for (const element of document.querySelectorAll("td, th, dd, dt, li, p, h1, h2, summary, button, label, .wide"))
      if (element.clientWidth > 0 && element.scrollWidth > element.clientWidth + 1)
        fault(state + "wider than its box", element);
    for (const svg of document.querySelectorAll("svg")) {
      const all = svg.viewBox.baseVal, outer = svg.getBoundingClientRect();
      if (outer.width === 0) continue;
      const width = all && all.width > 0 ? all.width : outer.width;
      const height = all && all.height > 0 ? all.height : outer.height;
      const texts = Array.from(svg.querySelectorAll("text"));
      const boxes = texts.map(text => text.getBBox());
      texts.forEach((text, i) => {
        const box = boxes[i];
        if (box.width === 0) return;
        if (box.x < -0.5 || box.x + box.width > width + 0.5 || box.y < -2 || box.y + box.height > height + 2)
          fault(state + "leaves the picture", text);
        const around = text.closest("g") &&
          text.closest("g").querySelector(":scope > .frame, :scope > .bar, :scope > .cell");
        if (!around) return;
        const frame = around.getBBox();
        if (box.x < frame.x - 0.5 || box.x + box.width > frame.x + frame.width + 0.5)
          fault(state + "wider than its box by " + (box.width - frame.width).toFixed(1), text);
      });
      for (let i = 0; i < texts.length && texts.length < 2000; ++i)
        for (let j = i + 1; j < texts.length; ++j) {
          const a = boxes[i], b = boxes[j];
          const across = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
          const down = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
          if (across > 1 && down > 6) fault(state + "on top of '" + texts[i].textContent + "'", texts[j]);
        }
    }
  };

  const searches = () => {
    const field = document.getElementById("find"), stage = document.querySelector("details.contents");
    if (!field) return;
    for (const box of document.querySelectorAll("details.contents")) {
      const lines = box.querySelector("pre").textContent.split("\n").filter(line => line).length;
      const nodes = box.querySelector("summary span").textContent.replace(/\s/g, "").match(/^\d+/)[0];
      if (lines !== Number(nodes)) fault(lines + " lines for " + nodes + " nodes");
    }
    const line = stage.querySelector("pre").textContent.split("\n")[0].trim(), name = line.split(/\s+/).pop();
    field.value = name;
    field.dispatchEvent(new Event("input"));
    const hits = Array.from(document.querySelectorAll("#hits li"));
    const hit = hits.find(hit => hit.textContent.includes(name));
    if (!hit) return fault("the search does not find '" + name + "'");
    hit.querySelector("a").click();
    if (!document.querySelector("details.contents[open]")) fault("a hit does not open its stage");
    if (!getSelection().toString().includes(name)) fault("a hit does not select its node");
    for (const other of document.querySelectorAll("details.contents")) other.open = false;
    const box = document.querySelector("svg a[href^='#stage-']");
    if (box) box.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
    if (box && !document.querySelector("details.contents[open]")) fault("a box does not open its stage");
    fits("with a stage open, ");
  };

  const zooms = () => {
    const picture = document.getElementById("zoom-picture"), scroll = document.getElementById("zoom-scroll");
    if (!picture) return;
    const place = () => document.getElementById("zoom-place").textContent;
    const bars = () => Array.from(picture.querySelectorAll(".bar")).map(bar => bar.getAttribute("d")).join("");
    const steps = [["zoom-numbers"], ["zoom-in", "zoom-in"], ["zoom-all"], ["zoom-numbers"]];
    const frame = f => new Promise(done => setTimeout(() => done(f()), 100));  // no frames are drawn here
    return (async () => {
      const seen = new Set();
      for (const step of steps) {
        for (const id of step) document.getElementById(id).click();
        await frame(() => {
          if (!bars()) fault("no passes are drawn after " + step);
          if (step[0] === "zoom-numbers" && !picture.querySelector(".number")) fault("no numbers after " + step);
          seen.add(place());
          fits("after " + step + ", ");
        });
      }
      if (seen.size < 3) fault("the buttons do not change the picture: " + Array.from(seen));
      const before = place();
      scroll.scrollLeft += 300;
      scroll.dispatchEvent(new Event("scroll"));
      await frame(() => {
        if (place() === before) fault("scrolling does not move the picture");
        const at = picture.getBoundingClientRect();
        picture.dispatchEvent(new MouseEvent("mousemove", { clientX: at.left + 500, clientY: at.top + 15, bubbles: true }));
        if (!document.getElementById("zoom-bar").textContent.startsWith("rank 0: "))
          fault("pointing at a pass does not tell its time");
      });
    })();
  };

  addEventListener("error", event => fault("script error: " + event.message));
  addEventListener("load", async () => {
    fits("");
    searches();
    await zooms();
    const list = document.createElement("pre");
    list.textContent = "FAU" + "LTS\n" + faults.join("\n") + "\nE" + "ND";
    document.documentElement.replaceChildren(list);
  });
}
