// Where answers come from: the server that serves this page.

export class ServerSource {
  leftOut = "";
  lastSeed = 2147483647;

  hint(tab) {
    const more = tab === "options" ? " Then press Play." : "";
    return `Drag an agent, click a cell, or focus an agent and press the arrow keys.${more}`;
  }

  async ask(question, fields = {}) {
    const request = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(fields) };
    let response;
    try {
      response = await fetch(`api/${question}`, request);
    } catch {
      throw new Error("The server does not answer. Is `cooptions play` still running?");
    }
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error);
    return answer;
  }
}
