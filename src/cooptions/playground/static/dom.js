// Small helpers: elements by name, numbers as text.

export function $(id) {
  return document.getElementById(id);
}

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  return filled(made, attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  return filled(made, attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

export function shown(value, digits = 2) {
  if (value === null || value === undefined) return "–";
  return value.toFixed(digits).replace("-", "−").replace(/^−(0\.?0*)$/, "$1");
}

// Calls that come faster than they are answered: the last one counts, those between are dropped.
export function latest(work) {
  let running = false;
  let waiting = null;
  return async function call(...given) {
    waiting = given;
    if (running) return;
    running = true;
    try {
      while (waiting) {
        const now = waiting;
        waiting = null;
        await work(...now);
      }
    } finally {
      running = false;
    }
  };
}
