/** The version history, `version_control_info.json` (format.md 9), of which the end is read first where lakebed wrote it. */

import { textOf, type Bytes } from "./bytes";
import { FormatError } from "./errors";
import { parseObject, type Json } from "./json";
import type { Source } from "./source";
import { xxh3 } from "./xxh3";

export const FIRST = "firstdbf9474d461a19e9333c2fd19b46115348f";
const KEY = "version_control_info.json";
const TAIL = 16_384;
const OPENING = new TextEncoder().encode('{"commits": {');
const TRAILER = /"nodes": (\d{1,9}), "begins": "(\d{16})", "rest": "([0-9a-f]{16})", "sum": "([0-9a-f]{16})"\}\}$/;
const TRAILER_BYTES = 160;
const SHORTEST_PREFIX = 7;

export interface Commit {
  id: string;
  branch: string;
  parent: string | null;
  message: string | null;
  author: string | null;
  /** Seconds since 1970; null for a head that can still change. */
  time: number | null;
  /** Checksum of the manifest that holds the version, if there is one to be trusted. */
  digest: string | null;
}

export class Tree {
  private constructor(
    private nodes: Map<string, Commit>,
    readonly branches: Map<string, string>,
    private rest: (() => Promise<Map<string, Commit>>) | null,
  ) {}

  static async open(source: Source, signal?: AbortSignal): Promise<Tree> {
    const { bytes, size } = await source.tail(KEY, TAIL, signal);
    const found = size === null ? null : TRAILER.exec(latin(bytes.subarray(-TRAILER_BYTES)));
    if (found === null || size === null) return Tree.whole(size === bytes.length ? bytes : await source.read(KEY, signal));
    if (size === bytes.length) return Tree.whole(bytes);
    const begins = Number(found[2]);
    if (begins >= size) throw new FormatError(`${KEY} begins its end behind it`);
    const start = begins - (size - bytes.length);
    const end = start >= 0 ? bytes.subarray(start) : (await source.range(KEY, begins, size, signal)).bytes;
    const [nodes, branches] = parsed(checkedEnd(end, found[4]!));
    const rest = async (): Promise<Map<string, Commit>> => (await Tree.whole(await source.read(KEY, signal))).nodes;
    return new Tree(nodes, branches, rest);
  }

  private static whole(bytes: Bytes): Tree {
    const found = TRAILER.exec(latin(bytes.subarray(-TRAILER_BYTES)));
    if (found !== null) {
      const begins = Number(found[2]);
      checkedEnd(bytes.subarray(begins), found[4]!);
      if (xxh3(bytes.subarray(0, begins)) !== found[3]) throw new FormatError(`${KEY} is not as it was written: its checksum is wrong`);
    }
    const [nodes, branches] = parsed(bytes);
    return new Tree(nodes, branches, null);
  }

  /** The id of a version: a branch, an id, or the first digits of one. */
  async resolve(ref: string | null): Promise<string> {
    const branch = this.branches.get(ref ?? "main");
    if (branch !== undefined) return branch;
    if (ref === null) return [...this.branches.values()][0] ?? FIRST;
    if (this.nodes.has(ref)) return ref;
    const all = [...(await this.all()).keys()];
    const near = all.filter((id) => id === ref || (ref.length >= SHORTEST_PREFIX && id.startsWith(ref)));
    if (near.length === 1) return near[0]!;
    throw new FormatError(`there is no branch or commit ${JSON.stringify(ref)}${near.length > 1 ? ": several begin so" : ""}`);
  }

  async commit(id: string): Promise<Commit> {
    const found = this.nodes.get(id) ?? (await this.all()).get(id);
    if (found === undefined) throw new FormatError(`${KEY} lacks version ${id}`);
    return found;
  }

  async all(): Promise<Map<string, Commit>> {
    if (this.rest !== null) {
      // Heads and their parents stay those that were read first; commits never change.
      this.nodes = new Map([...(await this.rest()), ...this.nodes]);
      this.rest = null;
    }
    return this.nodes;
  }

  /** A version and those before it, the root not among them. */
  async ancestors(id: string): Promise<string[]> {
    const found: string[] = [];
    const seen = new Set<string>();
    for (let at: string | null = id; at !== null && at !== FIRST; at = (await this.commit(at)).parent) {
      if (seen.has(at)) throw new FormatError(`${KEY}: versions run in a circle`);
      seen.add(at);
      found.push(at);
    }
    return found;
  }
}

function latin(bytes: Bytes): string {
  return String.fromCharCode(...bytes);
}

/** The end of a file as a document of its own, once its checksum is found right. */
function checkedEnd(end: Bytes, sum: string): Bytes {
  const zeroed = end.slice();
  zeroed.fill(0x30, end.length - 19, end.length - 3);
  if (end.length < 19 || xxh3(zeroed) !== sum) throw new FormatError(`${KEY} is not as it was written: its checksum is wrong`);
  const whole = new Uint8Array(OPENING.length + end.length);
  whole.set(OPENING);
  whole.set(end, OPENING.length);
  return whole;
}

function parsed(bytes: Bytes): [Map<string, Commit>, Map<string, string>] {
  const document = parseObject(textOf(bytes, KEY), KEY);
  const nodes = new Map(Object.entries(object(document.commits, "commits")).map(([id, node]) => [id, commitOf(id, node)]));
  const branches = new Map<string, string>();
  for (const [name, id] of Object.entries(object(document.branches, "branches"))) {
    if (typeof id !== "string") throw new FormatError(`${KEY}: branch ${name} leads nowhere`);
    branches.set(name, id);
  }
  return [nodes, branches];
}

function object(found: Json | undefined, what: string): { [key: string]: Json } {
  if (found === null || typeof found !== "object" || Array.isArray(found)) throw new FormatError(`${KEY} has no ${what}`);
  return found;
}

function commitOf(id: string, found: Json): Commit {
  const node = object(found, `version ${id}`);
  if (!/^[0-9A-Za-z_-]+$/.test(id)) throw new FormatError(`${KEY}: ${JSON.stringify(id)} is no id of a version`);
  const text = (key: string): string | null => (typeof node[key] === "string" ? node[key] : null);
  const time = node.commit_time ?? null;
  if (time !== null && typeof time !== "number") throw new FormatError(`${KEY}: commit_time of ${id} is no number`);
  const message = node.commit_message ?? null;
  return {
    id,
    branch: text("branch") ?? "",
    parent: text("parent"),
    message: message === null ? null : String(message),
    author: text("commit_user_name"),
    time,
    digest: text("lakebed_seal"),
  };
}
