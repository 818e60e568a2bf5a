/** The rows in which two versions differ, found where they lie: what is not in the same place of the same chunk is compared. */

import type { Dataset, Tensor } from "../reader/src";
import { joined } from "./pairs";
import type { Diff, TensorDiff } from "./types";

const MOST_ROWS = 10_000;
const WINDOW = 256; // rows whose values are compared together

export async function diffOf(a: Dataset, b: Dataset, signal?: AbortSignal): Promise<Diff> {
  const [before, after] = [a, b].map((ds) => new Map([...ds.tensors.values()].map((one) => [one.key, one]))) as [Map<string, Tensor>, Map<string, Tensor>];
  const [tensors, schema]: [TensorDiff[], string[]] = [[], []];
  for (const key of new Set([...after.keys(), ...before.keys()])) {
    const [old, now] = [before.get(key), after.get(key)];
    if (!now) schema.push(`tensor '${old!.name}' was removed`);
    else if (!old) schema.push(`tensor '${now.name}' was made`);
    else if (old.name !== now.name) schema.push(`tensor '${old.name}' was renamed to '${now.name}'`);
    if (old && now && old.htype !== now.htype) schema.push(`tensor '${now.name}' was ${old.htype} and is ${now.htype}`);
    const [added, updated, removed] = await changed(a, old, b, now, signal);
    const listed = (rows: number[]) => ({ count: rows.length, rows: rows.slice(0, MOST_ROWS) });
    if (added.length + updated.length + removed.length) tensors.push({ name: (now ?? old)!.name, added: listed(added), updated: listed(updated), removed: listed(removed) });
  }
  for (const name of b.groups.filter((one) => !a.groups.includes(one)).sort()) schema.push(`group '${name}' was made`);
  for (const name of a.groups.filter((one) => !b.groups.includes(one)).sort()) schema.push(`group '${name}' was removed`);
  return { a: a.id, b: b.id, tensors, schema };
}

/** Return the rows of b that were added, those that have another value, and the rows of a that were removed. */
async function changed(a: Dataset, old: Tensor | undefined, b: Dataset, now: Tensor | undefined, signal?: AbortSignal): Promise<[number[], number[], number[]]> {
  const all = (tensor: Tensor | undefined) => Array.from({ length: tensor?.length ?? 0 }, (_, row) => row);
  if (!old || !now) return [all(now), [], all(old)];
  const [mine, theirs] = await Promise.all([a.ids(old.name, signal), b.ids(now.name, signal)]);
  const byId = mine && theirs && joined(theirs, mine);
  const rowsBefore = byId ?? Int32Array.from(all(now), (row) => (row < old.length ? row : -1));
  const kept = new Set(rowsBefore);
  const [placeBefore, placeNow] = await Promise.all([old.locations(signal), now.locations(signal)]);
  const asked = all(now).filter((row) => rowsBefore[row]! >= 0 && placeBefore(rowsBefore[row]!) !== placeNow(row));
  const updated: number[] = [];
  for (let from = 0; from < asked.length; from += WINDOW) {
    const some = asked.slice(from, from + WINDOW);
    const values = (tensor: Tensor, rows: number[]) => Promise.all(rows.map((row) => tensor.at(row, signal)));
    const [was, is] = await Promise.all([values(old, some.map((row) => rowsBefore[row]!)), values(now, some)]);
    some.forEach((row, at) => same(was[at], is[at]) || updated.push(row));
  }
  return [all(now).filter((row) => rowsBefore[row]! < 0), updated, all(old).filter((row) => !kept.has(row))];
}

/** Whether two values are equal, part by part. */
function same(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (ArrayBuffer.isView(a) && ArrayBuffer.isView(b)) {
    const [one, other] = [a, b].map((view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength)) as [Uint8Array, Uint8Array];
    return one.length === other.length && one.every((byte, at) => byte === other[at]);
  }
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => same((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key]));
}
