/** Rows that a condition may be true for, by the statistics of chunks that lie beside the dataset; after Python's `statistics`. */

import type { Tensor } from "../../reader/src";
import { PIECE, statisticsOf, type Piece, type Statistics } from "../../reader/src/statistics";
import { parts, type Bound } from "./bound";
import { Num, isRun, type Val } from "./columns";
import { MIRRORED, comparing } from "./numbers";
import type { Relation } from "./relations";
import { Stored } from "./stored";

const [HAS_NAN, HAS_VALUES] = [1, 2];
const ALL = 2n ** 64n - 1n;

const known = new WeakMap<Tensor, Promise<Statistics | null>>();

/** Stretches of rows that are left: all where nothing is known. */
export async function kept(relation: Relation, conditions: Bound[], signal?: AbortSignal): Promise<[number, number][]> {
  const all: [number, number][] = [[0, relation.length]];
  if (!(relation instanceof Stored) || relation.length <= PIECE || relation.places[0] !== 0 || !isRun(relation.places)) return all;
  const names = [...new Set(conditions.flatMap(askedOf))];
  const told = new Map<string, Statistics>();
  await Promise.all(names.map(async (name) => {
    const tensor = relation.tensor(name);
    if (!known.has(tensor)) known.set(tensor, statisticsOf(tensor, signal));
    const found = await known.get(tensor)!.catch(() => null); // a cache: without it, chunks are read
    if (found !== null) told.set(name, found);
  }));
  if (!told.size) return all;
  const edges = [...new Set([...[...told.values()].flatMap(({ ends }) => ends), relation.length])].filter((end) => end <= relation.length).sort((a, b) => a - b);
  const found: [number, number][] = [];
  let start = 0;
  for (const end of edges) {
    const pieceOf = (name: string): Piece | null => {
      const own = told.get(name);
      return own === undefined ? null : (own.pieces[own.ends.findIndex((one) => one >= end)] ?? null);
    };
    const last = found[found.length - 1];
    if (conditions.every((one) => mayBe(one, pieceOf))) {
      if (last !== undefined && last[1] === start) last[1] = end;
      else found.push([start, end]);
    }
    start = end;
  }
  return found;
}

const askedOf = (node: Bound): string[] => (node.is === "logic" ? node.operands.flatMap(askedOf) : boundsOf(node)?.slice(0, 1) ?? []) as string[];

/** The column, the comparison and the constant of a condition that extremes may decide. */
function boundsOf(node: Bound): [name: string, sign: string, value: Val, isText: boolean] | null {
  if (node.is === "apply" && node.name === "ANY" && node.operands.length === 1) return boundsOf(parts(node)[0]!);
  if (node.is !== "apply" || node.operands.length !== 2) return null;
  const [left, right] = node.operands as [Bound, Bound];
  const [column, constant, sign] = left.is === "input" ? [left, right, node.name] : [right, left, MIRRORED[node.name] ?? ""];
  if (column.is !== "input" || constant.is !== "value" || !(sign in MIRRORED || (sign === "IN" && column === left))) return null;
  const { kind, dtype } = column.info;
  if (kind !== "text" && (kind !== "array" || dtype === null || dtype === "float16")) return null;
  return [column.name, sign, constant.value, kind === "text"];
}

/** Whether a condition may be true for one of some rows. */
function mayBe(node: Bound, pieceOf: (name: string) => Piece | null): boolean {
  if (node.is === "logic") return node.operator === "and" ? node.operands.every((one) => mayBe(one, pieceOf)) : node.operands.some((one) => mayBe(one, pieceOf));
  const bounds = boundsOf(node);
  const piece = bounds === null ? null : pieceOf(bounds[0]);
  if (bounds === null || piece === null) return true;
  const [, sign, value, isText] = bounds;
  const fits = isText ? textFits : numberFits;
  return sign === "IN" ? (value as Val[]).some((one) => fits("=", piece, one)) : fits(sign, piece, value);
}

function numberFits(sign: string, piece: Piece, value: Val): boolean {
  if (!(value instanceof Num)) return true;
  const isNan = (piece.flags & HAS_NAN) !== 0;
  if ((piece.flags & HAS_VALUES) === 0) return sign === "!=" && isNan;
  const { low, high } = piece;
  // A literal may be rounded to the precision of the column: both are looked at.
  const narrow = value.type === "float" ? Math.fround(value.value as number) : value.value;
  return [value.value, narrow].some((one) => {
    const is = (name: string, a: number | bigint): boolean => comparing(name)(a, one);
    if (sign === "=") return is("<=", low) && is(">=", high) && (!Number.isSafeInteger(one) || piece.bits === ALL || (piece.bits >> BigInt.asUintN(6, BigInt(one))) % 2n === 1n);
    if (sign === "!=") return is("!=", low) || is("!=", high) || isNan;
    return is(sign, sign.startsWith("<") ? low : high);
  });
}

const UTF8 = new TextEncoder();

function textFits(sign: string, piece: Piece, value: Val): boolean {
  if (typeof value !== "string") return true;
  const bytes = UTF8.encode(value);
  const first = new DataView(Uint8Array.from({ length: 8 }, (_, i) => bytes[i] ?? 0).buffer).getBigUint64(0);
  if (sign === "=") return piece.low <= first && piece.high >= first && piece.least <= bytes.length && piece.most >= bytes.length;
  return sign.startsWith("<") ? piece.low <= first : sign.startsWith(">") ? piece.high >= first : true;
}
