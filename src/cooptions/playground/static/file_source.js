// Where answers come from in an exported page: tables in the page itself.

const STEPS = 254;

function bytesOf(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

export class FileSource {
  constructor(held) {
    this.held = held;
    this.leftOut = held.left_out;
    this.lastSeed = held.starts.length - 1;
    const { answers } = held;
    if (!answers) return;
    this.values = bytesOf(answers.values);
    if (answers.kind === "sums") this.distances = new Uint16Array(bytesOf(answers.distances).buffer);
    else this.z = bytesOf(answers.z);
  }

  hint(tab) {
    if (tab === "options") return "Options play from the start of each seed.";
    return "Drag an agent, click a cell, or focus an agent and press the arrow keys.";
  }

  async ask(question, fields = {}) {
    const { held } = this;
    if (question === "subjects") return [held.subject];
    if (question === "scene") return held.scene;
    if (question === "start") return held.starts[fields.seed];
    if (question === "play") return held.plays[fields.seed][fields.option];
    if (question === "look") return this.#look(fields.states, fields.agent);
    const episode = held.episodes[fields.seed];
    if (!episode) throw new Error(`This page holds ${held.episodes.length} episodes: seeds 0 to ${held.episodes.length - 1}.`);
    return episode;
  }

  #look(states, agent) {
    const { answers, scene } = this.held;
    if (!answers) return { spreads: scene.features.map(() => null) };
    const told = this.#tell(states);
    const { board } = scene;
    const maps = told.values.map(() => board.walls.map((row) => row.map(() => null)));
    board.walls.forEach((line, row) => line.forEach((wall, column) => {
      if (wall) return;
      const moved = states.map((state) => [...state]);
      board.axes.forEach((feature, axis) => {
        if (board.agent_features[agent][feature]) moved[agent][feature] = [row, column][axis];
      });
      this.#tell(moved).values.forEach((value, k) => { maps[k][row][column] = value; });
    }));
    return { ...told, maps };
  }

  #tell(states) {
    return this.held.answers.kind === "sums" ? this.#fromSums(states) : this.#fromJoint(states);
  }

  // z as the least sum of distances over the values of each feature, then the eigenfunctions at z.
  #fromSums(states) {
    const { sizes, types, unit, high } = this.held.answers;
    const width = sizes.reduce((sum, size) => sum + size, 0);
    const count = sizes.reduce((product, size) => product * size, 1);
    const totals = new Float64Array(width);
    states.forEach((state, agent) => {
      const row = state.reduce((at, value, i) => at * sizes[i] + Math.round(value), 0);
      const from = (types[agent] * count + row) * width;
      for (let v = 0; v < width; v++) totals[v] += this.distances[from + v] * unit;
    });
    let at = 0;
    const z = [], fermat = [];
    for (const size of sizes) {
      const part = totals.subarray(at, at + size);
      const best = part.indexOf(Math.min(...part));
      z.push(part[best]);
      fermat.push(best);
      at += size;
    }
    const values = this.#interpolated(z.map((value, i) => value / high[i]));
    return { values, z, ...(this.held.scene.found.finds_fermat ? { fermat } : {}) };
  }

  // Straight lines between the points of the grid of z, in every direction.
  #interpolated(shares) {
    const { points, values_limits: limits } = this.held.answers;
    const places = shares.map((share) => Math.max(0, Math.min(1, share)) * (points - 1));
    const low = places.map((place) => Math.min(Math.floor(place), points - 2));
    const values = limits.map(() => 0);
    for (let corner = 0; corner < 2 ** places.length; corner++) {
      let weight = 1, row = 0;
      places.forEach((place, i) => {
        const up = (corner >> i) & 1;
        weight *= up ? place - low[i] : 1 - (place - low[i]);
        row = row * points + low[i] + up;
      });
      if (weight > 0) limits.forEach((limit, k) => { values[k] += weight * this.#number(this.values[row * limits.length + k], limit); });
    }
    return values;
  }

  #fromJoint(states) {
    const { answers, scene } = this.held;
    this.numbers ??= new Map(answers.cells.map(([row, column], i) => [`${row},${column}`, i]));
    const { axes, limits, walls } = scene.board;
    const row = states.reduce((at, state) => {
      const place = axes.map((feature, axis) => {
        const [low, high] = limits[feature];
        return Math.round((state[feature] - low) / (high - low) * (axis === 0 ? walls.length : walls[0].length) - 0.5);
      });
      return at * answers.cells.length + this.numbers.get(`${place[0]},${place[1] ?? 0}`);
    }, 0);
    const read = (bytes, most) => most.map((limit, k) => this.#number(bytes[row * most.length + k], limit));
    return { values: read(this.values, answers.values_limits), z: read(this.z, answers.z_limits) };
  }

  #number(byte, limit) {
    return (byte / STEPS * 2 - 1) * limit;
  }
}
