// Pictures beside the board: thumbnails of maps, bars, lines over time, the timeline of an episode.

import { heat, lineColour } from "./colours.js";
import { element, shown, svg } from "./dom.js";

// A map, one pixel a cell, on a canvas.
export function drawThumbnail(canvas, values, limit) {
  const rows = values.length, columns = values[0].length;
  canvas.width = columns;
  canvas.height = rows;
  const pixels = new ImageData(columns, rows);
  values.flat().forEach((value, i) => {
    if (value === null) return;
    pixels.data.set([...heat(value, limit), 255], 4 * i);
  });
  canvas.getContext("2d").putImageData(pixels, 0, 0);
}

// One bar for each name: a value between 0 and its scale, and a note.
export function bars(parent, title, rows) {
  const list = element("dl", { class: "bars", "aria-label": title });
  for (const { name, value, scale, note } of rows) {
    const share = Math.max(0, Math.min(1, (value ?? 0) / scale));
    const bar = element("i");
    bar.style.width = `${100 * share}%`;
    list.append(element("dt", {}, name), element("dd", {}, element("span", { class: "bar", "aria-hidden": "true" }, bar), element("b", {}, shown(value)), element("small", {}, note ?? "")));
  }
  parent.replaceChildren(element("h3", {}, title), list);
}

// Lines over the steps of a roll-out, with a mark at one step.
export function lines(title, series, step, choose) {
  const count = Math.max(...series.map(({ values }) => values.length));
  const all = series.flatMap(({ values }) => values).filter((value) => value !== null);
  const low = Math.min(0, ...all), high = Math.max(low + 1e-6, ...all);
  const x = (at) => 8 + at / Math.max(count - 1, 1) * 284;
  const y = (value) => 74 - (value - low) / (high - low) * 64;
  const picture = svg("svg", { viewBox: "0 0 300 84", class: "lines", role: "img", "aria-label": `${title} over ${count} steps` });
  picture.append(svg("line", { x1: 8, x2: 292, y1: y(0), y2: y(0), class: "zero" }));
  picture.append(svg("line", { x1: x(step), x2: x(step), y1: 6, y2: 78, class: "now" }));
  for (const { values, colour } of series) {
    const points = values.map((value, at) => `${x(at).toFixed(1)},${y(value ?? 0).toFixed(1)}`).join(" ");
    picture.append(svg("polyline", { points, stroke: colour }), svg("circle", { cx: x(step), cy: y(values[step] ?? 0), r: 3.2, fill: colour }));
  }
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width * 300 - 8) / 284 * (count - 1);
    choose(Math.max(0, Math.min(count - 1, Math.round(at))));
  });
  const key = element("div", { class: "key" });
  for (const { name, colour, values } of series) {
    const dot = element("i");
    dot.style.background = colour;
    key.append(element("span", {}, dot, `${name} `, element("b", {}, shown(values[step]))));
  }
  return element("figure", {}, element("figcaption", {}, title), picture, key);
}

// Votes of each agent, the options that lead it and the rewards of an episode, step by step.
export function timeline(steps, colours, now, width, choose) {
  const count = Math.max(steps.length - 1, 1), left = 62, lane = 20;
  const rewards = colours.length; // the lane after the agents'
  const height = (rewards + 1) * lane + 18;
  const unit = (width - left - 4) / count;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "timeline", role: "img", "aria-label": timelineWords(steps) });
  const names = [...new Set(steps.flatMap((step) => [...(step.options ?? []), ...(step.votes ?? [])]).filter(Boolean))].sort();
  const label = (text, row) => svg("text", { x: 0, y: row * lane + 14 }, text);
  colours.forEach((colour, agent) => picture.append(svg("circle", { cx: 5, cy: agent * lane + 10, r: 4, fill: colour }), svg("text", { x: 14, y: agent * lane + 14 }, `agent ${agent + 1}`)));
  picture.append(label("reward", rewards));
  const most = Math.max(1e-9, ...steps.map((step) => Math.abs(step.reward ?? 0)));
  for (let row = 0; row <= rewards; row++) picture.append(svg("rect", { x: left, y: row * lane + 3, width: width - left - 4, height: lane - 5, class: "lane" }));
  steps.slice(0, -1).forEach((step, at) => {
    const box = (agent, name, top, height) => svg("rect", { x: (left + at * unit).toFixed(2), y: agent * lane + top, width: Math.max(unit, 0.8).toFixed(2), height, fill: lineColour(names.indexOf(name)) });
    // The vote is the upper part of an agent's lane, the option that leads it the lower one.
    step.votes.forEach((vote, agent) => { if (vote) picture.append(box(agent, vote, 3, 5)); });
    step.options.forEach((option, agent) => { if (option) picture.append(box(agent, option, 8, lane - 10)); });
    if (step.reward) {
      const tall = Math.max(2, Math.abs(step.reward) / most * (lane - 6));
      picture.append(svg("rect", { x: left + at * unit, y: (rewards + 1) * lane - 2 - tall, width: Math.max(unit, 2), height: tall, class: step.reward > 0 ? "gain" : "loss" }));
    }
  });
  picture.append(svg("line", { x1: left + now * unit, x2: left + now * unit, y1: 0, y2: height - 16, class: "now" }));
  picture.append(svg("text", { x: left, y: height - 2, class: "tick" }, "0"), svg("text", { x: width - 4, y: height - 2, class: "tick", "text-anchor": "end" }, String(count)));
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width * width - left) / unit;
    choose(Math.max(0, Math.min(count, Math.round(at))));
  });
  const key = element("div", { class: "key" });
  names.forEach((name, n) => {
    const dot = element("i");
    dot.style.background = lineColour(n);
    key.append(element("span", {}, dot, name));
  });
  return [picture, key];
}

function timelineWords(steps) {
  const led = steps.filter((step) => step.options?.some(Boolean)).length;
  const total = steps.reduce((sum, step) => sum + (step.reward ?? 0), 0);
  return `Timeline of ${steps.length - 1} steps: options led ${led} of them, the reward adds up to ${shown(total)}`;
}
