// Where answers come from in an exported page: tables in the page itself.

export class FileSource {
  constructor(data) {
    this.data = data;
    this.leftOut = data.left_out;
    this.lastSeed = data.starts.length - 1;
  }

  hint() {
    return "";
  }

  async ask(question) {
    throw new Error(`this file cannot answer: ${question}`);
  }
}
