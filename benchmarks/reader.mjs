// Times the reader in node: node reader.mjs READER decode FOLDER, or READER open ADDRESS; prints JSON.
import { readFileSync } from "node:fs";
import { join } from "node:path";

const [library, work, where] = process.argv.slice(2);
const { open, traffic, MissingError } = await import(library);
const TIMES = 7;
const PIECE = 1 << 22;

/** Files of a folder, in memory once they were read: what is timed is decoding. */
class Files {
  static kept = new Map();
  constructor(number) {
    this.place = `${where} ${number}`; // so that nothing is cached from one time to the next
  }
  async read(key) {
    const path = join(where, key);
    if (!Files.kept.has(path)) {
      let bytes = null;
      try {
        bytes = new Uint8Array(readFileSync(path));
      } catch (error) {
        if (error.code !== "ENOENT") throw error;
      }
      Files.kept.set(path, bytes);
    }
    const found = Files.kept.get(path);
    if (found === null) throw new MissingError(key, this.place, 404);
    return found;
  }
  async range(key, start, stop) {
    const found = await this.read(key);
    return { bytes: found.subarray(start, stop), size: found.length };
  }
  async tail(key, length) {
    const found = await this.read(key);
    return { bytes: found.subarray(Math.max(0, found.length - length)), size: found.length };
  }
}

if (work === "decode") {
  const seconds = [];
  for (let time = 0; time < TIMES; time++) {
    const tensor = (await open(new Files(time))).tensor("x");
    const row = (await tensor.column(0, 1)).data.byteLength;
    const step = Math.max(1, Math.floor(PIECE / row));
    const room = new Uint8Array(step * row);
    const began = process.cpuUsage();
    for (let at = 0; at < tensor.length; at += step) {
      const stop = Math.min(tensor.length, at + step);
      await tensor.column(at, stop, undefined, room.subarray(0, (stop - at) * row));
    }
    const { user, system } = process.cpuUsage(began);
    seconds.push((user + system) / 1e6);
  }
  console.log(JSON.stringify({ seconds: Math.min(...seconds) }));
} else {
  await fetch(where).catch(() => null); // node's own first request, and a connection
  const began = performance.now();
  const before = traffic.requests;
  const ds = await open(where);
  console.log(JSON.stringify({ rows: ds.longest, requests: traffic.requests - before, seconds: (performance.now() - began) / 1e3 }));
}
