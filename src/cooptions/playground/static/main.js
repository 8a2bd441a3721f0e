// The page: what is chosen, what is asked, what is shown.

import { Board } from "./board.js";
import { bars, drawThumbnail, lines, timeline } from "./charts.js";
import { heatCss, lineColour, onScheme } from "./colours.js";
import { $, element, latest, shown } from "./dom.js";
import { FileSource } from "./file_source.js";
import { Player } from "./player.js";
import { ServerSource } from "./source.js";

const data = $("exported");
const source = data ? new FileSource(JSON.parse(data.textContent)) : new ServerSource();
const now = { tab: "map", subject: 0, agent: 0, function: 0, option: 0, seed: 0, states: [], start: null, look: null, track: null, episode: null };
let scene = null;
let liveTimer = null;

const board = new Board($("board"), {
  moved(agent, states) {
    now.track = null;
    player.set(0);
    now.states = states;
    now.agent = agent;
    show();
    look();
  },
  chosen(agent) {
    if (agent === now.agent) return;
    now.agent = agent;
    show();
    look();
  },
});
const player = new Player(() => {
  if (now.track && now.tab === "options") now.states = now.track.steps[player.step].states;
  show();
  if (now.tab === "options") look();
});

const look = latest(async () => {
  if (!scene.found && now.tab === "team") return;
  const states = now.states, agent = now.agent, subject = now.subject;
  await attempt(async () => {
    const answer = await source.ask("look", { subject, agent, states });
    if (subject !== now.subject) return;
    now.look = { ...answer, agent };
    document.body.dataset.looks = Number(document.body.dataset.looks ?? 0) + 1;
    showLook();
  });
});

async function attempt(work) {
  try {
    await work();
    $("alert").hidden = true;
  } catch (error) {
    $("alert").textContent = error.message;
    $("alert").hidden = false;
  }
}

async function busy(button, words, work) {
  const before = button.textContent;
  button.disabled = true;
  button.textContent = words;
  document.body.setAttribute("aria-busy", "true");
  try {
    await attempt(work);
  } finally {
    button.disabled = false;
    if (button.textContent === words) button.textContent = before;
    document.body.removeAttribute("aria-busy");
  }
}

async function openSubject(index) {
  say("Loading.");
  player.pause();
  $("whole").inert = true;
  $("whole").setAttribute("aria-busy", "true");
  await attempt(async () => {
    const seed = wantedSeed();
    const [opened, start] = [await source.ask("scene", { subject: index }), await source.ask("start", { subject: index, seed })];
    scene = opened;
    Object.assign(now, { subject: index, agent: 0, function: 0, option: 0, seed, start, states: start.states, track: null, episode: null, look: null });
    player.set(0);
    board.open(scene);
    makeChoices();
    await chooseTab(scene.found ? "map" : "options");
  });
  $("whole").inert = false;
  $("whole").removeAttribute("aria-busy");
}

function wantedSeed() {
  const seed = Math.max(0, Math.min(Number($("seed").max), Math.floor(Number($("seed").value) || 0)));
  $("seed").value = seed;
  return seed;
}

async function restart() {
  const seed = wantedSeed();
  await attempt(async () => {
    now.start = await source.ask("start", { subject: now.subject, seed });
    Object.assign(now, { seed, states: now.start.states, track: null, episode: null });
    player.set(0);
    if (now.tab === "team") await loadEpisode();
    show();
    await look();
  });
}

async function loadEpisode() {
  $("episode-text").textContent = "Playing an episode …";
  now.episode = await source.ask("episode", { subject: now.subject, seed: now.seed });
  player.set(now.episode.steps.length - 1);
}

async function playOrPause() {
  if (player.playing) return player.pause();
  if (now.tab === "options" && !now.track) {
    await busy($("play"), "…", async () => {
      const fields = { subject: now.subject, option: now.option, seed: now.seed, states: now.states };
      now.track = await source.ask("play", fields);
      player.set(now.track.steps.length - 1);
    });
    if (now.track && player.count === 0) $("step-text").textContent = "ends at once";
    if (!player.count) return show();
  }
  player.play();
}

function makeChoices() {
  const { found, options } = scene;
  $("thumbnails").replaceChildren(...(found?.eigenvalues ?? []).map((value, k) =>
    element("button", { class: "thumbnail", "data-function": k, onclick: () => choose({ function: k }) },
      element("canvas", { "aria-hidden": "true" }), element("span", {}, element("b", {}, `e${k + 1}`), element("small", {}, `λ ${shown(value, 3)}`)))));
  $("options").replaceChildren(...options.map((option, i) =>
    element("button", { "data-option": i, onclick: () => chooseOption(i) }, element("b", {}, option.name), element("small", {}, optionWords(option)))));
  $("agents").replaceChildren(...scene.colours.map((colour, agent) => {
    const dot = element("i");
    dot.style.background = colour;
    return element("button", { "data-agent": agent, onclick: () => { choose({ agent }); look(); } }, dot, `Agent ${agent + 1}`);
  }));
  $("about").textContent = `${scene.num_agents} agents${found ? ` · ${found.representation} + ${found.laplacian}, ${found.eigenvalues.length} eigenfunctions` : ""} · ${options.length || "no"} options`;
  $("tab-map").disabled = !found;
  $("tab-options").disabled = !options.length;
  $("tab-team").disabled = !scene.learned;
}

function optionWords({ eigenfunction, sign, members }) {
  const who = members.every(Boolean) ? "" : ` · agents ${members.flatMap((in_, i) => (in_ ? [i + 1] : [])).join(", ")}`;
  if (!eigenfunction) return `by hand${who}`;
  return `${sign > 0 ? "raises" : "lowers"} e${eigenfunction}${who}`;
}

function choose(fields) {
  Object.assign(now, fields);
  show();
  showLook();
}

function chooseOption(option) {
  if (now.track) now.states = now.track.steps[0].states;
  now.track = null;
  player.set(0);
  const k = scene.options[option].eigenfunction;
  choose({ option, ...(k && scene.found ? { function: k - 1 } : {}) });
  look();
}

async function chooseTab(tab) {
  now.tab = tab;
  now.track = null;
  player.set(0);
  for (const button of document.querySelectorAll("[role=tab]")) {
    const chosen = button.dataset.tab === tab;
    button.setAttribute("aria-selected", chosen);
    button.tabIndex = chosen ? 0 : -1;
  }
  $("panel").setAttribute("aria-labelledby", `tab-${tab}`);
  for (const card of document.querySelectorAll("[data-in]")) card.hidden = !card.dataset.in.split(" ").includes(tab);
  $("transport").hidden = tab === "map";
  board.locked = tab === "team";
  $("hint").textContent = board.locked ? "Step through the episode, or click the timeline." : source.hint(tab);
  if (tab === "options") chooseOption(now.option);
  if (tab === "team") {
    if (now.episode) player.set(now.episode.steps.length - 1);
    else await attempt(loadEpisode);
  }
  $("agents").hidden = tab === "team";
  $("team-title").textContent = tab === "team" ? "Start" : "Team";
  show();
  showLook();
  if (tab !== "team") await look();
}

function recorded() {
  return now.tab === "team" ? now.episode : now.tab === "options" ? now.track : null;
}

function show() {
  const track = recorded();
  const step = track?.steps[player.step];
  const states = step?.states ?? (now.tab === "team" ? now.start.states : now.states);
  board.showScenery(track?.scenery ?? now.start.scenery, track ? player.step : 0);
  board.showTeam(states, now.tab === "team" ? -1 : now.agent);
  board.showActions(step?.actions, step?.votes);
  for (const button of document.querySelectorAll("[data-option]")) button.setAttribute("aria-pressed", Number(button.dataset.option) === now.option);
  for (const button of document.querySelectorAll("#agents button")) button.setAttribute("aria-pressed", Number(button.dataset.agent) === now.agent);
  showFeatures();
  if (now.tab === "team") showEpisode(step);
  if (now.tab === "options") showTrack(track);
  sayLater();
}

function showLook() {
  const { found } = scene;
  const maps = now.tab !== "team" && now.look?.maps;
  const limit = found?.scales.values[now.function];
  board.showHeat(maps ? maps[now.function] : null, limit);
  board.showFermat(now.tab === "team" ? null : now.look?.fermat);
  $("legend").hidden = !maps;
  $("legend-low").textContent = shown(-(limit ?? 0), 1);
  $("legend-high").textContent = shown(limit ?? 0, 1);
  document.documentElement.style.setProperty("--scale", [-1, -0.5, 0, 0.5, 1].map((value) => heatCss(value, 1)).join(","));
  $("board-title").textContent = title(maps);
  if (!now.look) return;
  for (const button of document.querySelectorAll(".thumbnail")) {
    const k = Number(button.dataset.function);
    if (now.look.maps) drawThumbnail(button.querySelector("canvas"), now.look.maps[k], found.scales.values[k]);
    button.setAttribute("aria-pressed", k === now.function);
    button.setAttribute("aria-label", `Eigenfunction ${k + 1}, value ${shown(now.look.values[k])}`);
    button.querySelector("small").textContent = shown(now.look.values[k]);
    button.title = `eigenvalue ${shown(found.eigenvalues[k], 3)}`;
  }
  showBars();
  sayLater();
}

function title(maps) {
  if (now.tab === "team") return "The learned team";
  return maps ? `e${now.function + 1} as agent ${now.agent + 1} moves` : "The team";
}

function showBars() {
  const { look: answer } = now;
  if (now.tab === "team") return $("bars").replaceChildren();
  if (!scene.found) {
    const rows = scene.features.map((feature, i) => ({ name: feature.name, value: answer.spreads[i], scale: scene.spread_scale[i] }));
    return bars($("bars"), "Spread of each feature", rows);
  }
  const rows = scene.found.z_names.map((name, i) => {
    const feature = scene.features.findIndex((each) => each.name === name);
    const meet = answer.fermat?.[feature];
    const word = meet === null || meet === undefined ? "" : `at ${scene.features[feature].names?.[meet] ?? Number(meet.toFixed(2))}`;
    return { name, value: answer.z[i], scale: scene.found.scales.z[i], note: word };
  });
  bars($("bars"), scene.found.finds_fermat ? "n-distances, and the Fermat state (◇)" : "The representation z", rows);
}

// Selects for what the board does not show: orientation, inventory.
function showFeatures() {
  const shownFeatures = scene.features.map((feature, i) => [feature, i]).filter(([, i]) => !scene.board.axes.includes(i));
  $("features").hidden = now.tab === "team" || !shownFeatures.length;
  $("features").replaceChildren(...shownFeatures.map(([feature, i]) => {
    const value = now.states[now.agent][i];
    const change = (event) => {
      const states = now.states.map((state) => [...state]);
      states[now.agent][i] = Number(event.target.value);
      board.moved(now.agent, states);
    };
    const input = feature.kind === "continuous"
      ? element("input", { type: "range", min: feature.low, max: feature.high, step: "any", value, oninput: change })
      : element("select", { onchange: change }, ...Array.from({ length: feature.size }, (_, v) => element("option", { value: v, selected: v === value }, feature.names?.[v] ?? String(v))));
    return element("label", { class: "field" }, element("span", {}, `${feature.name} of agent ${now.agent + 1}`), input);
  }));
}

function showTrack(track) {
  const steps = track?.steps ?? [];
  const option = scene.options[now.option];
  $("votes").replaceChildren(...(steps.length ? scene.colours.map((colour, agent) => {
    const dot = element("i");
    dot.style.background = colour;
    const vote = steps[player.step].votes[agent];
    return element("span", { class: vote ? "vote-on" : "" }, dot, vote ? "votes to terminate" : steps[player.step].actions[agent] || "–");
  }) : []));
  if (!steps.length) return $("charts").replaceChildren(element("p", { class: "hint" }, `Press Play to follow ${option.name} from where the team stands.`));
  const charts = [];
  const k = option.eigenfunction - 1;
  if (scene.found && k >= 0) charts.push(lines(`Eigenfunction e${k + 1}`, [{ name: `e${k + 1}`, colour: lineColour(0), values: steps.map((step) => step.values[k]) }], player.step, (at) => player.go(at)));
  const names = scene.found && scene.found.finds_fermat ? scene.found.z_names : scene.features.map((feature) => feature.name);
  const values = (step) => (scene.found && scene.found.finds_fermat ? step.z : step.spreads);
  charts.push(lines(scene.found?.finds_fermat ? "n-distances" : "Spreads", names.map((name, i) => ({ name, colour: lineColour(i + 1), values: steps.map((step) => values(step)[i]) })), player.step, (at) => player.go(at)));
  charts.push(element("p", { class: "hint" }, `${steps.length - 1} steps; ended by ${track.ended}.`));
  $("charts").replaceChildren(...charts);
}

function showEpisode(step) {
  const { episode } = now;
  if (!episode) return;
  $("timeline").replaceChildren(...timeline(episode.steps, scene.colours, player.step, Math.max($("timeline").clientWidth, 240), (at) => player.go(at)));
  const total = episode.steps.slice(0, player.step).reduce((sum, each) => sum + (each.reward ?? 0), 0);
  $("episode-text").textContent = `Reward so far ${shown(total)}. ${ledBy(step)}`;
}

// Which option leads which agents at a step.
function ledBy(step) {
  const names = [...new Set((step?.options ?? []).filter(Boolean))];
  if (!names.length) return "No option leads.";
  return names.map((name) => {
    const agents = step.options.flatMap((option, i) => (option === name ? [i + 1] : []));
    return `Option ${name} leads ${agents.length === step.options.length ? "all agents" : `agents ${agents.join(", ")}`}.`;
  }).join(" ");
}

function sayLater() {
  clearTimeout(liveTimer);
  liveTimer = setTimeout(() => say(summary()), 500);
}

function summary() {
  if (!scene) return "";
  const track = recorded();
  const step = track?.steps[player.step];
  const votes = (step?.votes ?? []).flatMap((vote, i) => (vote ? [`agent ${i + 1} votes${vote === true ? " to terminate" : ` for ${vote}`}`] : []));
  if (now.tab === "team") return [`Step ${player.step} of ${player.count}`, ...votes, $("episode-text").textContent].join(", ");
  const value = now.look?.values ? `e${now.function + 1} is ${shown(now.look.values[now.function])}` : "";
  const place = $("board").querySelector(`[data-agent="${now.agent}"]`)?.getAttribute("aria-label")?.replace(" Arrow keys move it.", "");
  return [track ? `Step ${player.step} of ${player.count}` : place, value, ...votes].filter(Boolean).join(", ");
}

function say(words) {
  if ($("live").textContent !== words) $("live").textContent = words;
}

function wire() {
  $("play").addEventListener("click", playOrPause);
  $("restart").addEventListener("click", restart);
  $("seed").addEventListener("keydown", (event) => { if (event.key === "Enter") restart(); });
  $("subject").addEventListener("change", (event) => openSubject(Number(event.target.value)));
  const tabs = [...document.querySelectorAll("[role=tab]")];
  tabs.forEach((tab) => tab.addEventListener("click", () => chooseTab(tab.dataset.tab)));
  document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const open = tabs.filter((tab) => !tab.disabled);
    const next = open[(open.indexOf(document.activeElement) + step + open.length) % open.length];
    next.focus();
    chooseTab(next.dataset.tab);
  });
  onScheme(() => { show(); showLook(); });
}

async function begin() {
  wire();
  await attempt(async () => {
    const subjects = await source.ask("subjects");
    $("subject").replaceChildren(...subjects.map((each, i) => {
      const seed = each.seed === null ? "" : ` · seed ${each.seed}`;
      return element("option", { value: i }, `${each.name} · ${each.scenario} · ${each.method}${seed}`);
    }));
    $("seed").max = source.lastSeed;
    $("left-out").textContent = source.leftOut;
    $("left-out").hidden = !source.leftOut;
    await openSubject(0);
    document.body.dataset.ready = "true";
  });
}

begin();
