// Damages files of datasets and reads them: node fuzz.mjs READER COUNT SEED FOLDER...
//
// Where a manifest has checksums, most damage is sealed: sums, digests and the version tree are made to fit it, so that
// it reaches what lies behind. The reader may refuse what it finds by errors of its own; anything else, more than 10 s,
// and an allocation beyond the limits end this with status 1.
import { readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { pathToFileURL } from "node:url";

const [library, count, seed, ...folders] = process.argv.slice(2);

const MOST = 20e6;
let most = 0; // bytes of the largest allocation
const sized = (kind, width) =>
  new Proxy(kind, {
    construct(target, given, made) {
      if (typeof given[0] === "number") most = Math.max(most, given[0] * width);
      return Reflect.construct(target, given, made);
    },
  });
for (const name of ["Uint8Array", "Uint32Array", "Float64Array", "BigUint64Array"]) globalThis[name] = sized(globalThis[name], globalThis[name].BYTES_PER_ELEMENT);
globalThis.Array = sized(Array, 8);
const { from } = Array;
Array.from = function (given, ...rest) {
  most = Math.max(most, 8 * (given.length ?? 0));
  return from.call(this, given, ...rest);
};

const { open, xxh3, LIMITS, FormatError, LimitError, MissingError, SourceError, UnsupportedError } = await import(pathToFileURL(library).href);
Object.assign(LIMITS, { objectBytes: MOST, sampleBytes: MOST, chunkBytes: MOST, tiles: 10_000 });
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

// -- seals ------------------------------------------------------------------------------------------------------------

const BLOCK = 1 << 18;
const TREE = "version_control_info.json";
const text = (bytes) => Buffer.from(bytes).toString("latin1");
const bytesOf = (written) => new Uint8Array(Buffer.from(written, "latin1"));
const little = (hex) => bytesOf(Buffer.from(hex, "hex").reverse().toString("latin1"));

function opened(manifest) {
  const length = new DataView(manifest.buffer, manifest.byteOffset).getUint32(16, true);
  return { header: JSON.parse(text(manifest.subarray(20, 20 + length))), payload: manifest.slice(20 + length) };
}

/** The version tree, whose end has a sum of what lies before it, and one of itself. */
function sealedTree(written) {
  const found = /"begins": "(\d{16})", "rest": "([0-9a-f]{16})", "sum": "([0-9a-f]{16})"\}\}$/.exec(written);
  if (!found) return bytesOf(written);
  const begins = Number(found[1]);
  const before = written.slice(0, begins);
  const end = written.slice(begins).replace(found[2], xxh3(bytesOf(before)));
  const blank = end.replace(found[3], "0".repeat(16));
  return bytesOf(before + blank.replace('"sum": "' + "0".repeat(16), `"sum": "${xxh3(bytesOf(blank))}`));
}

/** Store a manifest with the digest that its content has, and tell that to whatever names it. */
function seal(files, key, header, payload) {
  const before = text(files.get(key).slice(8, 16).reverse()).split("").map((one) => one.charCodeAt(0).toString(16).padStart(2, "0")).join("");
  const written = bytesOf(JSON.stringify(header));
  const made = new Uint8Array(20 + written.length + payload.length);
  made.set(files.get(key).subarray(0, 8));
  new DataView(made.buffer).setUint32(16, written.length, true);
  made.set(written, 20);
  made.set(payload, 20 + written.length);
  const digest = xxh3(made.subarray(16));
  made.set(little(digest), 8);
  files.set(key, made);
  for (const [name, bytes] of files) {
    if (name === TREE) files.set(name, sealedTree(text(bytes).replaceAll(before, digest)));
    else if (name.endsWith("dataset_lock.lock")) files.set(name, bytesOf(text(bytes).replaceAll(before, digest)));
    else if (name.includes(".lakebed/manifest-") && name !== key && text(bytes).includes(before)) {
      const other = opened(bytes);
      other.header.base[1] = digest;
      seal(files, name, other.header, other.payload);
    }
  }
}

/** Make the sums of a chunk fit what it has become, in all manifests that know it. */
function resum(files, old, now) {
  const blocks = (bytes) => Array.from({ length: Math.ceil(bytes.length / BLOCK) }, (_, i) => xxh3(bytes.subarray(i * BLOCK, (i + 1) * BLOCK)));
  const [first] = blocks(old);
  for (const key of [...files.keys()].filter((name) => name.includes(".lakebed/manifest-"))) {
    const { header, payload } = opened(files.get(key));
    const view = new DataView(payload.buffer);
    let isFound = false;
    for (const { rows, sums, at, layouts } of Object.values(header.chunks)) {
      for (let row = 0, sum = at + 8 * rows; row < rows && sum < at + 8 * (rows + sums); row++) {
        const size = Number(view.getBigUint64(at + 8 * row, true));
        if (size === old.length && view.getBigUint64(sum, true) === BigInt(`0x${first}`) && blocks(now).length === blocks(old).length) {
          isFound = true;
          view.setBigUint64(at + 8 * row, BigInt(now.length), true);
          blocks(now).forEach((one, i) => view.setBigUint64(sum + 8 * i, BigInt(`0x${one}`), true));
          if (layouts) resumSamples(view, layouts[0], rows, row, now);
        }
        sum += 8 * Math.ceil(size / BLOCK);
      }
    }
    if (isFound) seal(files, key, header, payload);
  }
}

/** Sums of the samples of a chunk, where its layout has them (see `known` in chunk.ts). */
function resumSamples(view, at, rows, row, now) {
  let words = at + 4 * rows;
  for (let i = 0; i < row; i++) words += 4 * view.getUint32(at + 4 * i, true);
  const count = view.getUint32(at + 4 * row, true);
  const form = count ? view.getUint32(words, true) : 0;
  if (!(form & 0x40000000)) return;
  const [width, isAlike] = [1 + (form & 0x3fffffff), form & 0x80000000];
  const samples = isAlike ? count - 1 - width : (count - 1) / (width + 1);
  const sizes = Array.from({ length: samples }, (_, i) => view.getUint32(words + 4 * (1 + (isAlike ? 0 : i * width)), true));
  let start = now.length - sizes.reduce((a, b) => a + b, 0);
  sizes.forEach((size, i) => {
    const sum = parseInt(xxh3(now.subarray(Math.max(0, start), Math.max(0, start + size))).slice(8), 16);
    view.setUint32(words + 4 * (1 + (isAlike ? 1 : samples) * width + i), sum, true);
    start += size;
  });
}

/** Numbers of a header, each with what sets it. */
function numbersIn(found) {
  return Object.entries(found).flatMap(([key, value]) => (typeof value === "number" ? [(next) => (found[key] = next)] : value && typeof value === "object" ? numbersIn(value) : []));
}

/** Damage a manifest or a chunk, and seal it; the key of what was damaged. */
function damageSealed(files, keys) {
  const manifests = keys.filter((key) => key.includes(".lakebed/manifest-"));
  const chunks = keys.filter((key) => key.includes("/chunks/"));
  if (random(2) && chunks.length) {
    const key = chunks[random(chunks.length)];
    const old = files.get(key);
    files.set(key, damaged(old));
    resum(files, old, files.get(key));
    return key;
  }
  const key = manifests[random(manifests.length)];
  const { header, payload } = opened(files.get(key));
  const setters = numbersIn(header);
  if (random(3) === 0) setters[random(setters.length)](random(2) ? VALUES[random(VALUES.length)] : random(1000));
  seal(files, key, header, random(4) ? damaged(payload) : payload);
  return key;
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

const sets = folders
  .flatMap((folder) => readdirSync(folder, { withFileTypes: true }).map((entry) => [folder, entry]))
  .flatMap(([folder, entry]) => (entry.isDirectory() ? [filesOf(join(folder, entry.name))] : []))
  .filter((files) => files.has(TREE));
const refused = {};
let [read, sealed, sums] = [0, 0, 0];
for (let run = 0; run < Number(count); run++) {
  const files = new Map(sets[random(sets.length)]);
  const keys = [...files.keys()].filter((key) => !key.endsWith("commit_diff") && !key.endsWith(".json") || random(8) === 0);
  const before = state;
  const isSealed = keys.some((one) => one.includes(".lakebed/manifest-")) && random(8) > 0;
  const key = isSealed ? damageSealed(files, keys) : keys.length ? keys[random(keys.length)] : [...files.keys()][0];
  sealed += isSealed;
  if (!isSealed) files.set(key, damaged(files.get(key)));
  most = 0;
  const began = performance.now();
  try {
    const ds = await open(new Memory(files, `memory ${run}`));
    const names = [...ds.tensors.keys()];
    const near = names.filter((name) => key.includes(`${ds.tensors.get(name).key}/`));
    for (const name of near.length ? near : names.slice(0, 2)) {
      const tensor = ds.tensor(name);
      if (tensor.length > 0) {
        await tensor.rows(0, Math.min(tensor.length, 20));
        await tensor.at(random(tensor.length));
        await tensor.shapes(0, Math.min(tensor.length, 20));
        if (tensor.htype === "generic" && !tensor.isSequence && `${tensor.minShape}` === `${tensor.maxShape}`) await tensor.column(0, Math.min(tensor.length, 1000));
      }
    }
    read++;
  } catch (error) {
    if (!OWN.some((type) => error instanceof type)) {
      console.error(`run ${run}, state ${before}, ${key}:`, error);
      process.exit(1);
    }
    sums += isSealed && /checksum is wrong|checksum of a sample/.test(error.message);
    refused[error.name] = (refused[error.name] ?? 0) + 1;
  }
  if (performance.now() - began > 10_000 || most > 2 * MOST) {
    console.error(`run ${run}, state ${before}, ${key}: ${performance.now() - began} ms, ${most} bytes at once`);
    process.exit(1);
  }
}
console.log(JSON.stringify({ runs: Number(count), read, sealed, sums, refused }));
