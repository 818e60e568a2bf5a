/** A dataset at one version: opened by its manifest where that can be trusted, else by the format's own files. */

import { textOf, type Bytes } from "./bytes";
import { FormatError, MissingError, check } from "./errors";
import { parseObject, type Json } from "./json";
import { folderName, readManifest, tensorKey, type Manifest } from "./manifest";
import type { Source } from "./source";
import { Tensor } from "./tensor";
import { FIRST, Tree, type Commit } from "./tree";

export type Info = { [key: string]: Json };

/** Files of one version by their keys, without its folder. */
export interface Version {
  id: string;
  source: Source;
  tree: Tree;
  manifest: Manifest | null;
  file(key: string, signal?: AbortSignal): Promise<Bytes | null>;
}

export const folderOf = (version: string): string => (version === FIRST ? "" : `versions/${version}/`);

export class Dataset {
  private constructor(
    private readonly version: Version,
    private readonly commit: Commit,
    readonly branch: string | null,
    readonly info: Info,
    /** Visible tensors by name, in the order in which they were made. */
    readonly tensors: Map<string, Tensor>,
    /** Tensors of the format's own by name, such as the shapes of another's samples. */
    private readonly hidden: Map<string, Tensor>,
    readonly groups: string[],
  ) {}

  /** Open a version: a branch, a commit or the first digits of its id; the main branch if none is named. */
  static async open(source: Source, ref: string | null = null, signal?: AbortSignal): Promise<Dataset> {
    return Dataset.at(await Tree.open(source, signal), source, ref, signal);
  }

  private static async at(tree: Tree, source: Source, ref: string | null, signal?: AbortSignal): Promise<Dataset> {
    const id = folderName(await tree.resolve(ref));
    const commit = await tree.commit(id);
    const manifest = await trusted(source, commit, signal);
    const version: Version = { id, source, tree, manifest, file: fileReader(source, id, manifest) };
    const meta = await document(version, "dataset_meta.json", signal);
    if (meta === null) throw new FormatError(`version ${id} of ${source.place} has no dataset_meta.json`);
    const info = (await document(version, "dataset_info.json", signal)) ?? {};
    const names = namesOf(meta);
    check("tensors", names.size, "dataset_meta.json");
    const hidden = new Set(Array.isArray(meta.hidden_tensors) ? meta.hidden_tensors.map(String) : []);
    const keys = new Map([...names].map(([name, key]) => [name, tensorKey(key)]));
    const opened = await Promise.all(
      [...keys].map(async ([name, key]): Promise<[string, Tensor]> => {
        const nulls = keys.get(nullsOf(name));
        return [name, await Tensor.open(version, name, key, nulls ?? null, hidden.has(key), signal)];
      }),
    );
    const [visible, behind] = [false, true].map((isHidden) => new Map(opened.filter(([, tensor]) => tensor.hidden === isHidden)));
    const groups = Array.isArray(meta.groups) ? meta.groups.map(String) : [];
    const head = [...tree.branches].find(([, version]) => version === id)?.[0] ?? null;
    return new Dataset(version, commit, head, info, visible!, behind!, groups);
  }

  get place(): string {
    return this.version.source.place;
  }

  /** Id of the version; it changes with each publish of a head. */
  get id(): string {
    return this.version.id;
  }

  /** Whether the version can no longer change. */
  get isCommitted(): boolean {
    return this.commit.time !== null;
  }

  /** Rows that every tensor has. */
  get length(): number {
    const lengths = [...this.tensors.values()].map((tensor) => tensor.length);
    return lengths.length === 0 ? 0 : Math.min(...lengths);
  }

  /** Rows of the longest tensor. */
  get longest(): number {
    return Math.max(0, ...[...this.tensors.values()].map((tensor) => tensor.length));
  }

  get branches(): string[] {
    return [...this.version.tree.branches.keys()];
  }

  /** Commits that this version descends from, itself included, the newest first. */
  async commits(): Promise<Commit[]> {
    const { tree, id } = this.version;
    const all = await Promise.all((await tree.ancestors(id)).map((version) => tree.commit(version)));
    return all.filter((commit) => commit.time !== null);
  }

  /** The same dataset at another version. */
  at(ref: string, signal?: AbortSignal): Promise<Dataset> {
    return Dataset.at(this.version.tree, this.version.source, ref, signal);
  }

  /** The hidden tensor that tells something of each sample of another, such as its `id` or `shape`. */
  companion(name: string, what: string): Tensor | undefined {
    const { key } = this.tensor(name);
    const at = key.lastIndexOf("/") + 1;
    return [...this.hidden.values()].find((tensor) => tensor.key === `${key.slice(0, at)}_${key.slice(at)}_${what}`);
  }

  /** The ids of a tensor's samples, which stay theirs in other versions; null where it has none. */
  async ids(name: string, signal?: AbortSignal): Promise<BigUint64Array | null> {
    const { length, isSequence } = this.tensor(name);
    const ids = this.companion(name, "id");
    if (isSequence || ids?.length !== length) return null;
    const { data } = await ids.column(0, length, signal);
    return data instanceof BigUint64Array ? data : null;
  }

  tensor(name: string): Tensor {
    const found = this.tensors.get(name);
    if (found === undefined) throw new FormatError(`there is no tensor ${JSON.stringify(name)} in ${this.place}`);
    return found;
  }
}

/** The hidden tensor that marks the nulls of another. */
function nullsOf(name: string): string {
  const at = name.lastIndexOf("/") + 1;
  return `${name.slice(0, at)}_${name.slice(at)}_null`;
}

function namesOf(meta: Info): Map<string, string> {
  const keys = Array.isArray(meta.tensors) ? meta.tensors.map(String) : null;
  const named = meta.tensor_names;
  const names = named !== null && typeof named === "object" && !Array.isArray(named) ? Object.entries(named).map(([name, key]) => [name, String(key)] as const) : [];
  if (keys === null) return new Map(names);
  const byKey = new Map(names.map(([name, key]) => [key, name]));
  return new Map(keys.map((key) => [byKey.get(key) ?? key, key]));
}

export async function document(version: Version, key: string, signal?: AbortSignal): Promise<Info | null> {
  const bytes = await version.file(key, signal);
  return bytes === null ? null : parseObject(textOf(bytes, key), key);
}

function fileReader(source: Source, id: string, manifest: Manifest | null): Version["file"] {
  const folder = folderOf(id);
  return async (key, signal) => {
    if (manifest !== null) return manifest.files.get(key) ?? null;
    try {
      return await source.read(folder + key, signal);
    } catch (error) {
      // Buckets refuse what is not there to those who may not list them.
      if (error instanceof MissingError) return null;
      throw error;
    }
  };
}

/** The manifest of a version, where nothing has changed the version since it was written. */
async function trusted(source: Source, commit: Commit, signal?: AbortSignal): Promise<Manifest | null> {
  if (commit.digest === null) return null;
  try {
    const manifest = readManifest(source, commit.id, commit.digest, signal);
    if (commit.time !== null) return await manifest;
    // Deep Lake 3.9.52 changes heads in place. On stores the lock file that lakebed leaves confirms the manifest.
    const lock = missing(source.read(`${folderOf(commit.id)}dataset_lock.lock`, signal));
    const [found, confirmation] = await Promise.all([manifest, lock]);
    if (found.version !== commit.id) return null;
    if (confirmation !== null) return new TextDecoder().decode(confirmation.subarray(18)) === `lakebed:${commit.digest}` ? found : null;
    return (await isUntouched(source, commit.id, found, signal)) ? found : null;
  } catch (error) {
    if (error instanceof MissingError || error instanceof FormatError) return null;
    throw error;
  }
}

/**
 * Whether 3.9.52 has not opened a head for writing since its manifest was made. It begins with the tile indexes that are
 * missing, of all tensors; of one that it clears or deletes later, the metadata is another then.
 */
async function isUntouched(source: Source, id: string, manifest: Manifest, signal?: AbortSignal): Promise<boolean> {
  const key = [...manifest.keys].find((name) => !manifest.files.has(`${name}/tiles_index/unsharded`) && !isEmpty(manifest, name));
  if (key === undefined) return false;
  const folder = folderOf(id);
  const [tiles, meta] = await Promise.all([
    missing(source.read(`${folder}${key}/tiles_index/unsharded`, signal)),
    missing(source.read(`${folder}${key}/tensor_meta.json`, signal)),
  ]);
  const expected = manifest.files.get(`${key}/tensor_meta.json`)!;
  return tiles === null && meta !== null && meta.length === expected.length && meta.every((byte, i) => byte === expected[i]);
}

function isEmpty(manifest: Manifest, key: string): boolean {
  const bytes = manifest.files.get(`${key}/tensor_meta.json`);
  return bytes === undefined || !(Number(parseObject(textOf(bytes, key), key).length) > 0);
}

async function missing(read: Promise<Bytes>): Promise<Bytes | null> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof MissingError) return null;
    throw error;
  }
}
