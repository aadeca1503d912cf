"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
const make = (tag, attributes = {}, ...children) => {
  const svg = ["svg", "g", "line", "circle", "rect", "text", "title"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  for (const child of children) node.append(child);
  return node;
};
const figure = (value, digits = 3) => (value === null || value === undefined ? "" : Number.isFinite(value) ? (value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(digits - 1) : Number(value.toPrecision(digits)).toString()) : String(value));
const section = (title, ...children) => main.append(make("h2", {}, title), ...children);
const table = (head, rows) => {
  const body = make("tbody");
  for (const row of rows) body.append(make("tr", {}, ...row.map((cell, k) => make("td", head[k].n ? { class: "n" } : {}, cell instanceof Node ? cell : String(cell)))));
  return make("div", { class: "wide" }, make("table", {}, make("thead", {}, make("tr", {}, ...head.map((h) => make("th", h.n ? { class: "n" } : {}, h.t)))), body));
};
