// The board: floor, heat, things, agents. Agents are dragged by pointer or arrow keys.

import { heatCss } from "./colours.js";
import { svg } from "./dom.js";

const CELL = 40;
const HELD = { onion: "#ecbe4c", plate: "#ffffff", dish: "#d66c26" };
const TURNS = { up: -90, right: 0, down: 90, left: 180 };

export class Board {
  // `moved(agent, states)` is called when an agent is put elsewhere, `chosen(agent)` when it is focused.
  constructor(parent, { moved, chosen }) {
    this.parent = parent;
    this.moved = moved;
    this.chosen = chosen;
    this.locked = false;
  }

  open(scene) {
    this.scene = scene;
    this.walls = scene.board.walls;
    this.rows = this.walls.length;
    this.columns = this.walls[0].length;
    const box = `-2 -2 ${this.columns * CELL + 4} ${this.rows * CELL + 4}`;
    this.root = svg("svg", { viewBox: box, class: "board", role: "group", "aria-label": "Board with the team" });
    this.layers = {};
    for (const name of ["ground", "heat", "walls", "things", "arrows", "agents", "fermat"]) {
      this.layers[name] = svg("g", { class: name });
      this.root.append(this.layers[name]);
    }
    this.root.prepend(this.#patterns());
    this.#drawGround();
    this.agents = Array.from({ length: scene.num_agents }, (_, agent) => this.#makeAgent(agent));
    this.layers.agents.append(...this.agents.map((agent) => agent.group));
    this.root.addEventListener("pointermove", (event) => this.#drag(event));
    this.root.addEventListener("pointerup", () => this.#drop());
    this.root.addEventListener("pointercancel", () => this.#drop());
    this.root.addEventListener("click", (event) => this.#click(event));
    this.parent.replaceChildren(this.root);
    this.parent.style.setProperty("--ratio", this.columns / this.rows);
  }

  // Row and column of an agent's state; the middle of the first cell is (0, 0).
  place(state) {
    const found = this.scene.board.axes.map((feature, axis) => {
      const [low, high] = this.scene.board.limits[feature];
      const size = axis === 0 ? this.rows : this.columns;
      return (state[feature] - low) / (high - low) * size - 0.5;
    });
    return found.length > 1 ? found : [found[0], 0];
  }

  // The states with one agent in the middle of a cell.
  put(states, agent, row, column) {
    const moved = states.map((state) => [...state]);
    this.scene.board.axes.forEach((feature, axis) => {
      if (!this.scene.board.agent_features[agent][feature]) return;
      const [low, high] = this.scene.board.limits[feature];
      const [cell, size] = axis === 0 ? [row, this.rows] : [column, this.columns];
      moved[agent][feature] = low + (cell + 0.5) * (high - low) / size;
    });
    return moved;
  }

  showTeam(states, selected) {
    this.states = states;
    this.selected = selected;
    const places = states.map((state) => this.place(state));
    places.forEach(([row, column], agent) => {
      const same = places.map((other, i) => [other, i]).filter(([other]) => other[0] === row && other[1] === column);
      const rank = same.findIndex(([, i]) => i === agent);
      const angle = 2 * Math.PI * (rank + 0.125) / same.length;
      const off = same.length > 1 ? 0.2 * CELL : 0;
      const x = (column + 0.5) * CELL + off * Math.cos(angle);
      const y = (row + 0.5) * CELL + off * Math.sin(angle);
      const size = same.length > 1 ? 0.62 : 1;
      this.agents[agent].group.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${size})`);
      this.#dress(agent, states[agent], agent === selected);
    });
  }

  // One map of values, walls null; none where `values` is null.
  showHeat(values, limit) {
    this.layers.heat.toggleAttribute("hidden", !values);
    if (!values) return;
    for (const [row, column, rect] of this.heatCells) {
      const value = values[row][column];
      rect.setAttribute("fill", value === null ? "none" : heatCss(value, limit));
    }
  }

  showFermat(fermat) {
    this.layers.fermat.replaceChildren();
    if (!fermat) return;
    const told = this.scene.board.axes.map((feature) => fermat[feature]);
    if (told.every((value) => value === null)) return;
    const [row, column] = this.place(fermat.map((value) => value ?? 0));
    const width = this.columns * CELL, height = this.rows * CELL, x = (column + 0.5) * CELL, y = (row + 0.5) * CELL;
    if (told[0] === null) this.layers.fermat.append(svg("line", { x1: x, x2: x, y1: 0, y2: height }));
    else if (told[1] === null) this.layers.fermat.append(svg("line", { x1: 0, x2: width, y1: y, y2: y }));
    else for (const under of [true, false]) this.layers.fermat.append(svg("path", { d: `M${x} ${y - 19}L${x + 19} ${y}L${x} ${y + 19}L${x - 19} ${y}Z`, class: under && "under" }));
  }

  // What stands around at one step of `scenery`.
  showScenery(scenery, step) {
    this.scenery = scenery;
    this.step = step;
    const { things } = this.layers;
    things.replaceChildren();
    if (scenery.pictures) this.ground?.setAttribute("href", scenery.pictures[scenery.picture[step]]);
    for (const apple of scenery.apples?.[step] ?? []) things.append(this.#apple(apple));
    scenery.levels?.forEach((level, agent) => { this.agents[agent].level.textContent = `L${level}`; });
  }

  // Where agents go next, and who votes to terminate, or for what.
  showActions(actions, votes) {
    this.layers.arrows.replaceChildren();
    this.agents.forEach((agent, i) => {
      const vote = votes?.[i] ?? false;
      agent.vote.toggleAttribute("hidden", !vote);
      agent.voteText.textContent = vote === true ? "end" : vote || "";
      const arrow = this.#arrow(actions?.[i], this.states[i], i);
      if (arrow) this.layers.arrows.append(arrow);
    });
  }

  #patterns() {
    const line = svg("rect", { width: 5, height: 10, fill: "#fff", opacity: 0.55 });
    const stripes = svg("pattern", { id: "stripes", width: 10, height: 10, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, line);
    const head = svg("marker", { id: "head", viewBox: "0 0 10 10", refX: 6, refY: 5, markerWidth: 4, markerHeight: 4, orient: "auto-start-reverse" }, svg("path", { d: "M0 0L10 5L0 10Z", fill: "context-stroke" }));
    return svg("defs", {}, stripes, head);
  }

  #drawGround() {
    const { ground, heat, walls } = this.layers;
    const whole = { x: 0, y: 0, width: this.columns * CELL, height: this.rows * CELL };
    ground.append(svg("rect", { ...whole, class: "floor" }));
    if (this.scene.floor) {
      this.ground = svg("image", { ...whole, href: this.scene.floor, preserveAspectRatio: "none" });
      ground.append(this.ground);
    }
    this.heatCells = [];
    this.walls.forEach((line, row) => line.forEach((wall, column) => {
      const box = { x: column * CELL, y: row * CELL, width: CELL, height: CELL };
      if (wall && !this.scene.floor) walls.append(svg("rect", { ...box, class: "wall" }));
      if (wall) return;
      if (!this.scene.floor) ground.append(svg("rect", { ...box, class: "cell" }));
      const rect = svg("rect", { ...box, class: "hot" });
      heat.append(rect);
      this.heatCells.push([row, column, rect]);
    }));
    walls.append(svg("rect", { ...whole, class: "frame" }));
  }

  #makeAgent(agent) {
    const colour = this.scene.colours[agent];
    const nose = svg("path", { d: "M9 -9L19.5 0L9 9Z", fill: colour, stroke: "#fff", "stroke-width": 2, "stroke-linejoin": "round", hidden: true });
    const disc = svg("circle", { r: 14.5, fill: colour, class: "disc" });
    const has = this.scene.board.agent_features[agent].every(Boolean);
    const stripes = svg("circle", { r: 14.5, fill: "url(#stripes)", hidden: has });
    const name = svg("text", { class: "name", y: 1 }, String(agent + 1));
    const level = svg("text", { class: "level", x: 11, y: 15 });
    const held = svg("circle", { class: "held", cx: 11, cy: -11, r: 6, hidden: true });
    const voteText = svg("text", { y: -21.5 });
    const vote = svg("g", { class: "vote", hidden: true }, svg("rect", { x: -16, y: -31, width: 32, height: 16, rx: 8 }), voteText);
    const ring = svg("circle", { r: 18.5, class: "ring" });
    const group = svg("g", { class: "agent", tabindex: 0, role: "button", "data-agent": agent, "aria-roledescription": "agent on the board" }, ring, nose, disc, stripes, name, level, held, vote);
    group.addEventListener("pointerdown", (event) => this.#take(agent, event));
    group.addEventListener("focus", () => this.chosen(agent));
    group.addEventListener("keydown", (event) => this.#key(agent, event));
    return { group, nose, held, level, vote, voteText };
  }

  #dress(agent, state, selected) {
    const { group, nose, held } = this.agents[agent];
    const words = [];
    this.scene.features.forEach((feature, i) => {
      if (!this.scene.board.agent_features[agent][i]) return;
      const name = feature.names?.[state[i]];
      words.push(`${feature.name} ${name ?? Number(state[i].toFixed(2))}`);
      if (feature.name === "orientation" && name in TURNS) {
        nose.removeAttribute("hidden");
        nose.setAttribute("transform", `rotate(${TURNS[name]})`);
      }
      if (feature.name === "inventory") {
        held.toggleAttribute("hidden", !(name in HELD));
        held.setAttribute("fill", HELD[name] ?? "none");
      }
    });
    group.classList.toggle("selected", selected);
    group.setAttribute("aria-pressed", selected);
    group.setAttribute("aria-label", `Agent ${agent + 1}, ${words.join(", ")}${this.locked ? "" : ". Arrow keys move it."}`);
  }

  #apple({ row, column, level }) {
    const apple = svg("g", { class: "apple", transform: `translate(${(column + 0.5) * CELL} ${(row + 0.5) * CELL})` });
    apple.append(
      svg("path", { d: "M0 -6C1 -12 3 -14 5 -15", class: "stem" }),
      svg("path", { d: "M3 -11C6 -17 12 -17 14 -15C12 -10 7 -9 3 -11Z", class: "leaf" }),
      svg("path", { d: "M0 -7C-6 -12 -15 -9 -15 1C-15 10 -8 16 -4 16C-2 16 -1 15 0 15C1 15 2 16 4 16C8 16 15 10 15 1C15 -9 6 -12 0 -7Z", class: "body" }),
      svg("text", { y: 4.5 }, String(level)),
    );
    return apple;
  }

  #arrow(action, state, agent) {
    const found = /^(\w+)([+-])1$/.exec(action ?? "");
    if (!found) return null;
    const axis = this.scene.board.axes.findIndex((feature) => this.scene.features[feature].name === found[1]);
    if (axis < 0) return null;
    const step = found[2] === "+" ? 1 : -1;
    const [row, column] = this.place(state);
    const [x, y] = [(column + 0.5) * CELL, (row + 0.5) * CELL];
    const [dx, dy] = axis === 0 ? [0, step] : [step, 0];
    return svg("line", { x1: x + 15 * dx, y1: y + 15 * dy, x2: x + 34 * dx, y2: y + 34 * dy, stroke: this.scene.colours[agent], "marker-end": "url(#head)" });
  }

  #free(agent, row, column) {
    if (row < 0 || column < 0 || row >= this.rows || column >= this.columns || this.walls[row][column]) return false;
    if (this.scene.shares_cells) return true;
    const onApple = (this.scenery?.apples?.[this.step] ?? []).some((apple) => apple.row === row && apple.column === column);
    const places = this.states.map((state) => this.place(state));
    return !onApple && !places.some(([r, c], other) => other !== agent && Math.round(r) === row && Math.round(c) === column);
  }

  #moveTo(agent, row, column) {
    if (this.locked || !this.#free(agent, row, column)) return false;
    const [nowRow, nowColumn] = this.place(this.states[agent]);
    if (Math.round(nowRow) === row && Math.round(nowColumn) === column) return false;
    this.moved(agent, this.put(this.states, agent, row, column));
    return true;
  }

  #cellAt(event) {
    const matrix = this.root.getScreenCTM();
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    return [Math.floor(point.y / CELL), Math.floor(point.x / CELL)];
  }

  #take(agent, event) {
    if (event.button !== 0) return;
    this.chosen(agent);
    if (this.locked) return;
    this.dragged = agent;
    this.root.setPointerCapture(event.pointerId);
    this.agents[agent].group.classList.add("dragged");
    event.preventDefault();
    this.agents[agent].group.focus({ preventScroll: true });
  }

  #drag(event) {
    if (this.dragged !== undefined) this.#moveTo(this.dragged, ...this.#cellAt(event));
  }

  #drop() {
    if (this.dragged === undefined) return;
    this.agents[this.dragged].group.classList.remove("dragged");
    this.dragged = undefined;
    this.justDropped = performance.now();
  }

  #click(event) {
    if (event.target.closest(".agent") || performance.now() - (this.justDropped ?? -1e9) < 300) return;
    this.#moveTo(this.selected, ...this.#cellAt(event));
  }

  #key(agent, event) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    let [row, column] = this.place(this.states[agent]).map(Math.round);
    // Over walls and others to the next free cell in that direction.
    do {
      row += step[0];
      column += step[1];
    } while (row >= 0 && column >= 0 && row < this.rows && column < this.columns && !this.#free(agent, row, column));
    this.#moveTo(agent, row, column);
  }
}
