/** Answers queries beside the page: it opens the datasets by itself, and keeps the last answers. */

import { NeedsView, QueryError, query, type Answer, type Open } from "../query/src";
import { FormatError, LimitError, MissingError, SourceError, open as opened, traffic, type Dataset } from "../reader/src";
import type { Column, Found, Request, Told, Where } from "./asking";
import type { Json } from "./types";

const MOST_ANSWERS = 16;
const MOST_GROUPS = 10_000;
const MOST_LETTERS = 200;

const answers = new Map<string, Answer>();
const datasets = new Map<string, Promise<Dataset>>();
const stops = new Map<number, AbortController>();

function dataset(address: string, ref: string): Promise<Dataset> {
  const key = `${ref} ${address}`;
  let found = datasets.get(key);
  if (found === undefined) {
    found = opened(address, ref ? { ref } : {});
    datasets.set(key, found);
    found.catch(() => datasets.delete(key));
  }
  return found;
}

function source({ address, ref, others }: Where): Open {
  return (path, version) => {
    if (path === null) return dataset(address, ref);
    const found = others.find(({ name }) => name === path);
    if (found === undefined) return Promise.reject(new Error("it is not on this page"));
    return dataset(found.address, version ?? "");
  };
}

async function found(where: Where, q: string, text: string, signal: AbortSignal): Promise<Found> {
  const started = performance.now();
  const open = source(where);
  const answer = await query(text, open, signal);
  answers.set(q, answer);
  for (const [oldest] of answers) if (answers.size > MOST_ANSWERS) answers.delete(oldest);
  const { rows } = answer;
  const groups = await groupsOf(answer);
  return {
    told: { q, rows: answer.length, groups, ms: performance.now() - started },
    columns: answer.names.map((name) => columnOf(answer, name)),
    rows: rows === null ? null : Int32Array.from(rows),
    isHere: answer.origin === (await open(null, null)),
  };
}

function columnOf(answer: Answer, name: string): Column {
  const { kind, dtype, htype, rank, coords, classNames, logical, isGroup } = answer.info(name);
  return { name, source: answer.source(name), kind, dtype: dtype ?? "", htype, rank, coords, classNames: classNames ?? [], logical, isGroup };
}

/** The groups of ARRANGE BY: rows beside each other whose keys are equal. */
async function groupsOf(answer: Answer): Promise<Found["told"]["groups"]> {
  const { arranged, length, names } = answer;
  if (!arranged.length || arranged.some((name) => !names.includes(name))) return null;
  const keys = await Promise.all(arranged.map((name) => answer.values(name, 0, length)));
  const told = (row: number): string => keys.map((values) => JSON.stringify(values[row], (_, value) => (typeof value === "bigint" ? String(value) : value))).join();
  const groups: NonNullable<Found["told"]["groups"]> = [];
  let before: string | null = null;
  for (let row = 0; row < length; row++) {
    const key = told(row);
    if (key !== before && groups.length < MOST_GROUPS) groups.push({ label: arranged.map((name, i) => word(keys[i]![row], answer.info(name).classNames)).join(", "), start: row, rows: 0 });
    if (groups.length) groups[groups.length - 1]!.rows = row + 1 - groups[groups.length - 1]!.start;
    before = key;
  }
  return groups;
}

function word(value: unknown, names: string[] | null): string {
  if (value === null || value === undefined) return "missing";
  if (Array.isArray(value)) return value.slice(0, 8).map((item) => word(item, names)).join(", ");
  return (names?.[Number(value)] ?? String(value)).slice(0, MOST_LETTERS);
}

const KINDS: [new (...of: never[]) => Error, string][] = [[MissingError, "missing"], [SourceError, "storage"], [LimitError, "limit"], [FormatError, "damaged"], [NeedsView, "static"]];

function told(error: unknown): NonNullable<Told["error"]> {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof QueryError) return { kind: error.kind, message, position: error.position };
  return { kind: KINDS.find(([type]) => error instanceof type)?.[1] ?? "invalid", message, position: null };
}

async function answered(id: number, request: Request): Promise<Told> {
  const stop = new AbortController();
  stops.set(id, stop);
  try {
    if (request.is === "query") return { id, found: await found(request.where, request.q, request.text, stop.signal) };
    const answer = answers.get(request.q);
    if (answer === undefined) return { id, error: { kind: "missing", message: "the answer of this query is not kept any more: run the query again", position: null } };
    return { id, found: (await answer.values(request.name, request.start, request.stop)) as Json[] };
  } catch (error) {
    return { id, error: told(error) };
  } finally {
    stops.delete(id);
  }
}

onmessage = async ({ data }: MessageEvent<{ id: number; request: Request | null }>) => {
  const { id, request } = data;
  if (request === null) stops.get(id)?.abort();
  else postMessage({ ...(await answered(id, request)), traffic: { ...traffic } });
};
