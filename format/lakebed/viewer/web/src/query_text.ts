/** The text of a query: its words, for colours; what may come next; and the same query with one clause more. */

import type { Lake, TensorMeta } from "./types";

export type TokenKind =
  | "name" | "quoted" | "string" | "number" | "version" | "parameter" | "operator" | "comment" | "space" | "wrong";

export interface Token {
  kind: TokenKind;
  from: number;
  to: number;
  /** Whether a quotation does not end. */
  open?: true;
}

const WORDS: [TokenKind, RegExp][] = [
  ["space", /[ \t\r\n]+/y],
  ["comment", /--[^\n]*/y],
  ["string", /'(?:[^']|'')*'?/y],
  ["quoted", /"[^"\n]*"?/y],
  ["version", /@[A-Za-z0-9_~^./+-]+/y],
  ["parameter", /\$\p{L}[\p{L}\p{N}_]*/uy],
  ["name", /\p{L}[\p{L}\p{N}_]*/uy],
  ["number", /(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y],
  ["operator", /\.\.\.|==|!=|<>|<=|>=|\|\||[=<>+\-*/%^()[\],.:?;]/y],
];

/** Return words that cover the whole text; what begins no word is of kind `wrong`. */
export function tokens(text: string): Token[] {
  const found: Token[] = [];
  for (let at = 0; at < text.length; ) {
    const token = tokenAt(text, at);
    found.push(token);
    at = token.to;
  }
  return found;
}

function tokenAt(text: string, at: number): Token {
  for (const [kind, expression] of WORDS) {
    expression.lastIndex = at;
    const match = expression.exec(text);
    if (!match) continue;
    const to = at + match[0].length;
    if (kind === "quoted" && (match[0].length < 2 || !match[0].endsWith('"'))) return { kind, from: at, to, open: true };
    if (kind === "string" && (match[0].split("'").length - 1) % 2) return { kind, from: at, to, open: true };
    return { kind, from: at, to };
  }
  return { kind: "wrong", from: at, to: at + 1 };
}

/** Place in JavaScript's text of a character that Python counted, where some letters are two units here. */
export function unitAt(text: string, position: number): number {
  return Array.from(text).slice(0, position).join("").length;
}

const RESERVED = new Set(
  ("select from where group having ungroup expand order limit offset sample arrange union intersect except on using " +
    "join inner left right full outer cross natural and or not in is isnull like ilike between case when then else end " +
    "as asc desc nulls across overlap with by").split(" "),
);

/** Write a name as the language reads it: in double quotes where it is no single word. */
export function named(name: string): string {
  return /^\p{L}[\p{L}\p{N}_]*$/u.test(name) && !RESERVED.has(name.toLowerCase()) ? name : `"${name}"`;
}

export function textOf(value: string): string {
  return `'${value.replaceAll("'", "''")}'`;
}

interface Word extends Token {
  /** In lower case if it is a name. */
  text: string;
  raw: string;
  /** How many brackets are open before it. */
  depth: number;
}

function words(text: string): Word[] {
  const found: Word[] = [];
  let depth = 0;
  for (const token of tokens(text)) {
    if (token.kind === "space" || token.kind === "comment") continue;
    const word = text.slice(token.from, token.to);
    if (word === ")" || word === "]") depth -= 1;
    found.push({ ...token, text: token.kind === "name" ? word.toLowerCase() : word, raw: word, depth });
    if (word === "(" || word === "[") depth += 1;
  }
  return found;
}

const CLAUSES = ["expand", "group", "ungroup", "order", "arrange", "limit", "offset", "sample"];

/** Complete a plain condition, or clauses alone, to a query; what is one already stays as it is. */
export function asQuery(text: string): string {
  const trimmed = text.trim();
  const [first, second] = words(trimmed);
  if (!first) return "";
  if (isKept(trimmed)) return trimmed;
  const isName = first.kind === "name";
  if (isName && ["select", "with", "explain"].includes(first.text)) return trimmed;
  if (first.text === "(" && second?.kind === "name" && second.text === "select") return trimmed;
  if (isName && (first.text === "where" || (CLAUSES.includes(first.text) && isClause(first, second)))) return `select * ${trimmed}`;
  return `select * where ${trimmed}`;
}

/** Whether a text is no query but names rows that the server has: a saved view's, or those that it was started with. */
export function isKept(text: string): boolean {
  return /^(view|rows):/.test(text);
}

/** A column may be called `group` or `sample` in a condition only in double quotes, but `limit` is followed by a number. */
function isClause(first: Word, second: Word | undefined): boolean {
  return ["limit", "offset"].includes(first.text) || second?.text === "by";
}

/** Where a top-level clause lies: from its word to the next clause; null where there is none. */
function clause(text: string, name: string): { from: number; body: number; to: number } | null {
  const top = words(text).filter((word) => word.kind === "name" && word.depth === 0);
  const at = top.findIndex((word) => word.text === name);
  const begin = top[at];
  if (!begin) return null;
  const next = top.slice(at + 1).find((word) => word.text === "where" || CLAUSES.includes(word.text));
  const by = top[at + 1]?.text === "by" ? top[at + 1] : undefined;
  return { from: begin.from, body: (by ?? begin).to, to: next?.from ?? text.length };
}

function isCompound(text: string): boolean {
  const top = words(text).filter((word) => word.kind === "name" && word.depth === 0);
  return top.some((word) => ["union", "intersect", "except"].includes(word.text));
}

function isGrouped(text: string): boolean {
  return clause(text, "group") !== null;
}

/** The query whose rows also meet a condition. */
export function withCondition(text: string, condition: string): string {
  if (!text.trim() || isKept(text)) return `select * where ${condition}`;
  const query = asQuery(text);
  if (isCompound(query) || isGrouped(query)) return `select * from (${query}) where ${condition}`;
  const where = clause(query, "where");
  if (where) {
    const old = query.slice(where.body, where.to).trim();
    if (old === condition || old.endsWith(` and ${condition}`)) return query;
    const kept = words(old).some((word) => word.depth === 0 && word.kind === "name" && word.text === "or") ? `(${old})` : old;
    return joined(query.slice(0, where.from), `where ${kept} and ${condition}`, query.slice(where.to));
  }
  const next = CLAUSES.map((name) => clause(query, name)?.from ?? query.length);
  const at = Math.min(...next);
  return joined(query.slice(0, at), `where ${condition}`, query.slice(at));
}

/** The query in another order; null takes the order away. */
export function withOrder(text: string, name: string, direction: "asc" | "desc" | null): string {
  const query = text.trim() && !isKept(text) ? asQuery(text) : "select *";
  const order = clause(query, "order");
  const by = direction ? `order by ${named(name)}${direction === "desc" ? " desc" : ""}` : "";
  const after = ["arrange", "limit", "offset", "sample"].map((one) => clause(query, one)?.from ?? query.length);
  const [from, to] = order ? [order.from, order.to] : [Math.min(...after), Math.min(...after)];
  const changed = joined(query.slice(0, from), by, query.slice(to));
  return changed === "select *" ? "" : changed;
}

/** The column that a query is ordered by, where it is a single one. */
export function orderOf(text: string): { name: string; descending: boolean } | null {
  const order = clause(text, "order");
  if (!order) return null;
  const [name, direction, more] = words(text.slice(order.body, order.to));
  if (!name || more || (name.kind !== "name" && name.kind !== "quoted")) return null;
  if (direction && direction.text !== "asc" && direction.text !== "desc") return null;
  return { name: name.kind === "quoted" ? name.raw.slice(1, -1) : name.raw, descending: direction?.text === "desc" };
}

function joined(...parts: string[]): string {
  return parts.map((part) => part.trim()).filter(Boolean).join(" ");
}

export interface Completion {
  from: number;
  to: number;
  items: { text: string; shown: string; note: string }[];
}

const MOST_ITEMS = 50;

/** What may stand at the cursor: classes within quotes behind a label, else tensors, functions and keywords. */
export function completions(
  text: string,
  cursor: number,
  tensors: TensorMeta[],
  language: Lake["language"],
  isAsked = false,
): Completion | null {
  const all = tokens(text);
  const token = all.find((one) => one.from < cursor && cursor <= one.to);
  if (token?.kind === "string" && (token.open || cursor < token.to)) {
    const column = labelledBy(words(text.slice(0, token.from)));
    const tensor = tensors.find((one) => one.name === column);
    const prefix = text.slice(token.from + 1, cursor).replaceAll("''", "'");
    const names = matching(tensor?.class_names ?? [], prefix);
    const items = names.map((name) => ({ text: textOf(name), shown: name, note: "class" }));
    const from = token.from;
    return items.length ? { from, to: token.open ? cursor : token.to, items } : null;
  }
  const isName = token?.kind === "name" || (token?.kind === "quoted" && token.open);
  if (!isName && (!isAsked || (token && token.kind !== "space" && token.kind !== "operator"))) return null;
  const from = isName ? token.from : cursor;
  const prefix = text.slice(from, cursor).replace(/^"/, "");
  const ofTensors = matching(tensors.map((one) => one.name), prefix).map((name) => {
    const note = tensors.find((one) => one.name === name)?.htype ?? "";
    return { text: named(name), shown: name, note };
  });
  const items = [...ofTensors];
  if (token?.kind !== "quoted") {
    items.push(...matching(language.functions, prefix, true).map((name) => ({ text: `${name.toLowerCase()}(`, shown: `${name.toLowerCase()}( )`, note: "function" })));
    items.push(...matching(language.keywords, prefix, true).map((name) => ({ text: name.toLowerCase(), shown: name.toLowerCase(), note: "keyword" })));
  }
  const isWhole = items.some((item) => item.text === text.slice(from, isName ? token.to : cursor));
  return items.length && !(isWhole && !isAsked) ? { from, to: cursor, items: items.slice(0, MOST_ITEMS) } : null;
}

/** The label that a text is compared with, of the words before it. */
function labelledBy(before: Word[]): string | null {
  let at = before.length - 1;
  const last = before[at];
  if (last?.text === "(" || last?.text === ",") {
    while (at >= 0 && before[at]?.text !== "(") at -= 1; // IN ('a', 'b or contains(label, 'b
    const opener = before[at - 1];
    if (opener?.text === "contains") at += 2;
    else if (opener?.text === "in") at -= 1;
    else return null;
  } else if (!last || !["==", "=", "!=", "<>", "in"].includes(last.text)) return null;
  at -= 1;
  if (before[at]?.text === "not") at -= 1;
  while (at >= 0 && before[at]?.text === "]") {
    const depth = before[at]?.depth;
    at -= 1;
    while (at >= 0 && !(before[at]?.text === "[" && before[at]?.depth === depth)) at -= 1;
    at -= 1;
  }
  const word = before[at];
  if (word?.kind === "quoted") return word.text.slice(1, -1);
  return word?.kind === "name" ? word.raw : null;
}

/** Names that begin with a prefix, then those that hold it. */
function matching(names: string[], prefix: string, fromStart = false): string[] {
  const wanted = prefix.toLowerCase();
  const first: string[] = [];
  const second: string[] = [];
  for (const name of names) {
    const at = name.toLowerCase().indexOf(wanted);
    if (at === 0) first.push(name);
    else if (at > 0 && !fromStart) second.push(name);
    if (first.length >= MOST_ITEMS) break;
  }
  return [...first, ...second].slice(0, MOST_ITEMS);
}

const LONGEST = 60_000; // letters of a query

/** Return a query for some rows; null where it would be too long. */
export function rowsQuery(rows: number[]): string | null {
  const parts: string[] = [];
  const sorted = [...rows].sort((a, b) => a - b);
  const single: number[] = [];
  for (let at = 0; at < sorted.length; ) {
    let end = at;
    while (sorted[end + 1] === sorted[end]! + 1) end += 1;
    if (end - at >= 3) parts.push(`ROW_NUMBER() BETWEEN ${sorted[at]} AND ${sorted[end]}`);
    else single.push(...sorted.slice(at, end + 1));
    at = end + 1;
  }
  if (single.length) parts.push(`ROW_NUMBER() IN (${single.join(", ")})`);
  const text = `SELECT * WHERE ${parts.join(" OR ")}`;
  return parts.length && text.length <= LONGEST ? text : null;
}
