// Playback of recorded steps: play, pause, one step either way.

import { $ } from "./dom.js";

const PACE = 320;

export class Player {
  constructor(show) {
    this.show = show;
    this.timer = null;
    this.set(0, 0);
    $("first").addEventListener("click", () => this.go(0));
    $("last").addEventListener("click", () => this.go(this.count));
    $("back").addEventListener("click", () => this.go(this.step - 1));
    $("forward").addEventListener("click", () => this.go(this.step + 1));
    $("step").addEventListener("input", (event) => this.go(Number(event.target.value)));
  }

  get playing() {
    return this.timer !== null;
  }

  set(count, step = 0) {
    this.pause();
    this.count = count;
    this.step = step;
    this.#write();
  }

  go(step) {
    this.pause();
    this.#to(step);
  }

  play() {
    if (this.step >= this.count) this.#to(0);
    this.pause();
    this.timer = setInterval(() => {
      this.#to(this.step + 1);
      if (this.step >= this.count) this.pause();
    }, this.count > 100 ? PACE / 3 : PACE);
    this.#write();
  }

  pause() {
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
    this.#write();
  }

  #to(step) {
    this.step = Math.max(0, Math.min(this.count, step));
    this.#write();
    this.show(this.step);
  }

  #write() {
    const slider = $("step");
    slider.max = this.count ?? 0;
    slider.value = this.step ?? 0;
    slider.setAttribute("aria-valuetext", `step ${this.step} of ${this.count}`);
    slider.disabled = !this.count;
    $("step-text").textContent = this.count ? `${this.step} / ${this.count}` : "";
    const button = $("play");
    button.textContent = this.playing ? "Pause" : "Play";
    for (const id of ["first", "back"]) $(id).disabled = !this.count || this.step === 0;
    for (const id of ["forward", "last"]) $(id).disabled = !this.count || this.step >= this.count;
  }
}
