/** A version in one object, `.lakebed/manifest-<id>`: small files, places and checksums of chunks; or what differs from another. */

import { cut, textOf, u32s, u64s, viewOf, type Bytes } from "./bytes";
import { FormatError, check } from "./errors";
import { parseObject, type Json } from "./json";
import type { Source } from "./source";
import { xxh3 } from "./xxh3";

/** Bytes of a chunk that one checksum is of. */
export const BLOCK = 1 << 18;
const WHOLE = "LBMANIF1";
const DELTA = "LBMANIF2";
const WHAT = "the manifest";

/** Where the chunks of a tensor lie, in the order of its chunk index. */
export interface Places {
  /** Version and tensor key of each folder. */
  folders: [string, string][];
  folderOf: Uint32Array;
  /** Bytes of each file, 0 where they are not known. */
  sizes: Float64Array;
  /** Checksums of all blocks, as words, low before high. */
  sums: Uint32Array;
  /** First checksum of each chunk, and the end. */
  sumsAt: Uint32Array;
  /** Words that say where the samples of each chunk lie, and where each chunk's begin. */
  layout: { at: Uint32Array; words: Uint32Array } | null;
}

export interface Manifest {
  version: string;
  files: Map<string, Bytes>;
  places: (key: string) => Places;
  keys: Set<string>;
}

export const manifestKey = (version: string): string => `.lakebed/manifest-${version}`;

/** The manifest of a version, if it is the one with this checksum. */
export async function readManifest(source: Source, version: string, digest: string, signal?: AbortSignal): Promise<Manifest> {
  const bytes = await source.read(manifestKey(version), signal);
  const { header, payload, isDelta } = opened(bytes, digest);
  if (!isDelta) return whole(header, payload);
  const [id, sum] = list(header.base).map(String);
  const base = opened(await source.read(manifestKey(folderName(id ?? "")), signal), sum ?? "");
  if (base.isDelta) throw damaged("its base builds on another");
  return beyond(header, payload, whole(base.header, base.payload));
}

function damaged(why: string): FormatError {
  return new FormatError(`${WHAT} is damaged: ${why}`);
}

function opened(bytes: Bytes, digest: string): { header: { [key: string]: Json }; payload: Bytes; isDelta: boolean } {
  const magic = String.fromCharCode(...bytes.subarray(0, 8));
  if ((magic !== WHOLE && magic !== DELTA) || bytes.length < 20) throw new FormatError("this is no manifest of a layout that this reader knows");
  let found = "";
  for (let i = 15; i >= 8; i--) found += bytes[i]!.toString(16).padStart(2, "0");
  if (found !== digest || xxh3(bytes.subarray(16)) !== digest) throw damaged("its checksum is wrong");
  const length = viewOf(bytes).getUint32(16, true);
  const header = parseObject(textOf(cut(bytes, 20, length, WHAT), WHAT), WHAT);
  if (header.block !== BLOCK) throw new FormatError(`${WHAT} has checksums of ${String(header.block)} bytes, not ${BLOCK}`);
  return { header, payload: bytes.subarray(20 + length), isDelta: magic === DELTA };
}

function list(found: Json | undefined): Json[] {
  if (!Array.isArray(found)) throw damaged("a list is missing");
  return found;
}

function object(found: Json | undefined): { [key: string]: Json } {
  if (found === null || typeof found !== "object" || Array.isArray(found)) throw damaged("an object is missing");
  return found;
}

function count(found: Json | undefined): number {
  if (typeof found !== "number" || !Number.isSafeInteger(found) || found < 0) throw damaged("a number is missing");
  return found;
}

/** A name of one folder: no part of a path can leave the dataset. */
export function folderName(name: string): string {
  if (!/^[0-9A-Za-z_-]+$/.test(name)) throw damaged(`${JSON.stringify(name)} is no version`);
  return name;
}

export function tensorKey(key: string): string {
  if (key === "" || key.includes("\\") || key.includes("\0") || key.split("/").some((part) => part === "" || part === "." || part === ".."))
    throw new FormatError(`${JSON.stringify(key)} is no key of a tensor`);
  return key;
}

function folders(found: Json | undefined): [string, string][] {
  return list(found).map((pair) => {
    const [commit, key] = list(pair);
    return [folderName(String(commit)), tensorKey(String(key))];
  });
}

function whole(header: { [key: string]: Json }, payload: Bytes): Manifest {
  const files = new Map<string, Bytes>();
  let total = 0;
  for (const [key, place] of Object.entries(object(header.files))) {
    const [at, length] = list(place);
    const part = cut(payload, count(at), count(length), WHAT);
    files.set(key, part);
    total += part.length;
  }
  const entries = object(header.chunks);
  check("tensors", Object.keys(entries).length, WHAT);
  for (const found of Object.values(entries)) {
    const entry = object(found);
    total += 13 * count(entry.rows) + 8 * count(entry.sums);
  }
  if (total > payload.length) throw damaged("its entries overlap");
  const places = onDemand(entries, (entry) => {
    const [rows, sums, at] = [count(entry.rows), count(entry.sums), count(entry.at)];
    return placesOf(
      folders(entry.folders),
      u32s(payload, at + 8 * (rows + sums), rows, WHAT),
      u64s(payload, at, rows, WHAT),
      u32s(payload, at + 8 * rows, 2 * sums, WHAT),
      layoutOf(entry, rows, payload),
    );
  });
  return { version: String(header.version), files, places, keys: new Set(Object.keys(entries)) };
}

function beyond(header: { [key: string]: Json }, payload: Bytes, base: Manifest): Manifest {
  const gone = new Set(list(header.gone).map(String));
  const goneChunks = new Set(list(header.gone_chunks).map(String));
  const files = new Map([...base.files].filter(([key]) => isInherited(key) && !gone.has(key)));
  for (const [key, place] of Object.entries(object(header.files))) {
    const [at, length, kept] = list(place);
    const old = base.files.get(key) ?? new Uint8Array(0);
    const added = cut(payload, count(at), count(length), WHAT);
    const first = cut(old, 0, count(kept), WHAT);
    const joined = new Uint8Array(first.length + added.length);
    joined.set(first);
    joined.set(added, first.length);
    files.set(key, joined);
  }
  const entries = object(header.chunks);
  const added = onDemand(entries, (entry, key) => {
    const [rows, sums, at, kept, known] = [entry.rows, entry.sums, entry.at, entry.kept, entry.known].map(count) as [number, number, number, number, number];
    const folderOf = u32s(payload, at + 8 * (rows + sums), rows, WHAT);
    const sizes = u64s(payload, at, rows, WHAT);
    const words = u32s(payload, at + 8 * rows, 2 * sums, WHAT);
    const layout = layoutOf(entry, rows, payload);
    if (kept === 0) return placesOf(folders(entry.folders), folderOf, sizes, words, layout);
    if (!base.keys.has(key)) throw damaged(`its base has no ${key}`);
    const old = base.places(key);
    if (kept > old.sizes.length) throw damaged(`its base has no ${kept} chunks of ${key}`);
    return placesOf(
      [...old.folders.slice(0, known), ...folders(entry.folders)],
      concat(old.folderOf.subarray(0, kept), folderOf),
      Float64Array.from([...old.sizes.subarray(0, kept), ...sizes]),
      concat(old.sums.subarray(0, 2 * old.sumsAt[kept]!), words),
      joinedLayouts(old, kept, layout, rows),
    );
  });
  const keys = new Set([...base.keys].filter((key) => !goneChunks.has(key)));
  for (const key of Object.keys(entries)) keys.add(key);
  check("tensors", keys.size, WHAT);
  return { version: String(header.version), files, places: (key) => (Object.hasOwn(entries, key) ? added(key) : base.places(key)), keys };
}

/** Files that tell what one version changed are of that version alone. */
function isInherited(key: string): boolean {
  return !["/commit_diff", "/chunk_set", "dataset_diff"].some((name) => key.endsWith(name));
}

function onDemand(entries: { [key: string]: Json }, read: (entry: { [key: string]: Json }, key: string) => Places): (key: string) => Places {
  const known = new Map<string, Places>();
  return (key) => {
    let found = known.get(key);
    if (found === undefined) {
      if (!Object.hasOwn(entries, key)) throw damaged(`it lacks the chunks of ${key}`);
      found = read(object(entries[key]), key);
      known.set(key, found);
    }
    return found;
  };
}

function placesOf(names: [string, string][], folderOf: Uint32Array, sizes: Float64Array, sums: Uint32Array, layout: Places["layout"]): Places {
  const sumsAt = new Uint32Array(sizes.length + 1);
  for (let i = 0; i < sizes.length; i++) {
    sumsAt[i + 1] = sumsAt[i]! + Math.ceil(sizes[i]! / BLOCK);
    if (folderOf[i]! >= names.length) throw damaged("a chunk lies in no folder");
  }
  if (2 * sumsAt[sizes.length]! !== sums.length) throw damaged("its sizes and checksums contradict each other");
  return { folders: names, folderOf, sizes, sums, sumsAt, layout };
}

function layoutOf(entry: { [key: string]: Json }, rows: number, payload: Bytes): Places["layout"] {
  if (entry.layouts === undefined || entry.layouts === null) return null;
  const [at, length] = list(entry.layouts).map(count) as [number, number];
  const counts = u32s(payload, at, rows, WHAT);
  return starts(counts, u32s(payload, at + 4 * rows, length, WHAT));
}

function starts(counts: Uint32Array, words: Uint32Array): Places["layout"] {
  const at = new Uint32Array(counts.length + 1);
  for (let i = 0; i < counts.length; i++) at[i + 1] = at[i]! + counts[i]!;
  if (at[counts.length] !== words.length) throw damaged("its layouts of chunks contradict each other");
  return { at, words };
}

function joinedLayouts(old: Places, kept: number, added: Places["layout"], rows: number): Places["layout"] {
  if (old.layout === null && added === null) return null;
  const counts = new Uint32Array(kept + rows);
  for (const [layout, first, length] of [[old.layout, 0, kept], [added, kept, rows]] as const)
    for (let i = 0; layout !== null && i < length; i++) counts[first + i] = layout.at[i + 1]! - layout.at[i]!;
  const before = old.layout === null ? new Uint32Array(0) : old.layout.words.subarray(0, old.layout.at[kept]);
  return starts(counts, concat(before, added === null ? new Uint32Array(0) : added.words));
}

function concat(a: Uint32Array, b: Uint32Array): Uint32Array {
  const joined = new Uint32Array(a.length + b.length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}
