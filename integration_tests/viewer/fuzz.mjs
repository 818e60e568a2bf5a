// Damages files of datasets and reads them: node fuzz.mjs READER FOLDER COUNT SEED
// The reader may refuse what it finds by errors of its own; anything else, and more than 10 s, ends this with status 1.
import { readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { pathToFileURL } from "node:url";

const [library, folder, count, seed] = process.argv.slice(2);
const { open, LIMITS, FormatError, LimitError, MissingError, SourceError, UnsupportedError } = await import(pathToFileURL(library).href);
Object.assign(LIMITS, { objectBytes: 20e6, sampleBytes: 20e6, chunkBytes: 20e6, tiles: 10_000 });
const OWN = [FormatError, LimitError, MissingError, SourceError, UnsupportedError];

let state = Number(seed) || 1;
/** Marsaglia's xorshift, so that a seed says everything. */
function random(below) {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % below;
}

function filesOf(root) {
  const files = new Map();
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) {
      const path = join(entry.parentPath ?? entry.path, entry.name);
      files.set(relative(root, path), new Uint8Array(readFileSync(path)));
    }
  return files;
}

const VALUES = [0, 1, 2, 0x7f, 0x80, 0xff, 0x7fffffff, 0x80000000, 0xffffffff, 65536];

function damaged(bytes) {
  const made = bytes.slice();
  if (made.length === 0) return new Uint8Array(random(64)).map(() => random(256));
  for (let times = 1 + random(3); times > 0; times--) {
    const at = random(made.length);
    const way = random(5);
    if (way === 0) made[at] ^= 1 << random(8);
    else if (way === 1) made[at] = random(256);
    else if (way === 2) return made.slice(0, at);
    else if (way === 3 && at + 4 <= made.length) new DataView(made.buffer).setUint32(at, VALUES[random(VALUES.length)], true);
    else made.copyWithin(at, random(made.length), Math.min(made.length, random(made.length) + 8));
  }
  return made;
}

class Memory {
  constructor(files, place) {
    Object.assign(this, { files, place });
  }
  async read(key) {
    const found = this.files.get(key);
    if (found === undefined) throw new MissingError(key, this.place, 404);
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

const sets = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map((entry) => filesOf(join(folder, entry.name))).filter((files) => files.has("version_control_info.json"));
const refused = {};
let read = 0;
for (let run = 0; run < Number(count); run++) {
  const files = new Map(sets[random(sets.length)]);
  const keys = [...files.keys()].filter((key) => !key.endsWith("commit_diff") && !key.endsWith(".json") || random(8) === 0);
  const key = keys.length ? keys[random(keys.length)] : [...files.keys()][0];
  const before = state;
  files.set(key, damaged(files.get(key)));
  const began = performance.now();
  try {
    const ds = await open(new Memory(files, `memory ${run}`));
    const names = [...ds.tensors.keys()];
    const near = names.filter((name) => key.includes(`${ds.tensors.get(name).key}/`));
    for (const name of near.length ? near : names.slice(0, 2)) {
      const tensor = ds.tensor(name);
      if (tensor.length > 0) {
        await tensor.rows(0, Math.min(tensor.length, 20));
        await tensor.shapes(0, Math.min(tensor.length, 20));
      }
    }
    read++;
  } catch (error) {
    if (!OWN.some((type) => error instanceof type)) {
      console.error(`run ${run}, state ${before}, ${key}:`, error);
      process.exit(1);
    }
    refused[error.name] = (refused[error.name] ?? 0) + 1;
  }
  if (performance.now() - began > 10_000) {
    console.error(`run ${run}, state ${before}, ${key}: ${performance.now() - began} ms`);
    process.exit(1);
  }
}
console.log(JSON.stringify({ runs: Number(count), read, refused }));
