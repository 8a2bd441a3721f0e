// Colours of values: blue below 0, red above, the page's own ground in the middle.

const LIGHT = ["#2166ac", "#6aa7d0", "#cfe3f0", "#f6f6f4", "#fbd9c6", "#ea8a66", "#b2182b"];
const DARK = ["#7cbcf5", "#4583c4", "#2a4a70", "#20252e", "#6c3a36", "#c25b4c", "#ff9a83"];

const scheme = window.matchMedia("(prefers-color-scheme: dark)");

export function isDark() {
  return scheme.matches;
}

export function onScheme(changed) {
  scheme.addEventListener("change", changed);
}

function parsed(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

const STOPS = { light: LIGHT.map(parsed), dark: DARK.map(parsed) };

// Red, green and blue of a value between -limit and limit.
export function heat(value, limit) {
  const stops = isDark() ? STOPS.dark : STOPS.light;
  const place = (Math.max(-1, Math.min(1, value / limit)) + 1) / 2 * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  return stops[low].map((part, i) => Math.round(part + (place - low) * (stops[low + 1][i] - part)));
}

export function heatCss(value, limit) {
  return `rgb(${heat(value, limit).join(",")})`;
}

// A colour for the n-th option or line, far from its neighbours.
export function lineColour(n) {
  return `hsl(${(210 + 137.5 * n) % 360} 62% ${isDark() ? 68 : 42}%)`;
}
