/** ORDER BY, the codes of groups and of DISTINCT, and SAMPLE BY; after Python's `values/ordering.py`, `keys.py` and `sampling.py`. */

import { Arrays, Constant, Items, Nd, isDocument, marks, rounded, rowError, rowsOf, scalars, span, unwrapped, wholes, type Column, type Rows, type Val } from "./columns";
import { NeedsView, QueryError } from "./errors";
import { compareTexts, listed } from "./numbers";

export interface Key { column: Column; isDescending: boolean; nulls: "" | "first" | "last" }

/** Numbers that ascend in the order of a key, and classes that decide before the numbers do. */
interface Ranks { values: ArrayLike<number | bigint>; classes: Int8Array | null; errors: Float64Array | null; sign: number }

/** Positions of rows in order: missing values last, NaN before them; equal keys keep the order of their rows, reversed for DESC. */
export function ordered(keys: Key[], most: number | null): Rows {
  const ranks = keys.map(ranked);
  const count = ranks[0]!.values.length;
  const isReversed = keys[keys.length - 1]!.isDescending;
  const compare = (a: number, b: number): number => {
    for (const { values, classes, sign } of ranks) {
      if (classes !== null && classes[a] !== classes[b]) return classes[a]! - classes[b]!;
      const [x, y] = [values[a]!, values[b]!];
      if (x < y) return -sign;
      if (x > y) return sign;
    }
    return isReversed ? b - a : a - b;
  };
  const only = ranks.length === 1 && most !== null && most * 8 < count && ranks[0]!.errors === null ? few(ranks[0]!, most) : null;
  const found = (only ?? span(0, count)).sort(compare);
  check(ranks, found, most ?? count);
  return most === null ? found : found.slice(0, most);
}

/** The rows that can be among the first of an order. */
function few({ values, classes, sign }: Ranks, most: number): Rows | null {
  if (classes !== null || most <= 0) return null;
  const sorted = typeof values[0] === "bigint" ? Array.from(values as bigint[]).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)) : Float64Array.from(values as number[]).sort();
  const edge = sorted[sign > 0 ? most - 1 : values.length - most]!;
  const near: number[] = [];
  for (let i = 0; i < values.length; i++) if (sign > 0 ? values[i]! <= edge : values[i]! >= edge) near.push(i);
  return Int32Array.from(near);
}

/** Refuse an order that rounding may have decided. */
function check(ranks: Ranks[], found: Rows, most: number): void {
  for (const { values, classes, errors } of ranks) {
    if (errors === null) continue;
    let largest = 0;
    for (const error of errors) if (error > largest) largest = error;
    for (let i = 1; i < found.length && i <= most; i++) {
      const [a, b] = [found[i - 1]!, found[i]!];
      if (classes !== null && classes[a] !== classes[b]) continue;
      const error = i === most ? errors[a]! + largest : errors[a]! + errors[b]!;
      if (error > 0 && !(Math.abs(Number(values[a]) - Number(values[b])) > error)) rounded();
    }
  }
}

function ranked({ column, isDescending, nulls }: Key): Ranks {
  const sign = isDescending ? -1 : 1;
  if (column instanceof Constant) return { values: new Int8Array(column.length), classes: null, errors: null, sign };
  const found = column instanceof Items ? placesIn(column.items) : scalars(column);
  if (found === null) throw new QueryError("type", "ORDER BY needs one number, text or JSON value per row, not an array");
  const { data, missing, error: errors } = found;
  const isFirst = nulls === "first" || (nulls === "" && column instanceof Items && !column.isText && !isDescending);
  const classes = Int8Array.from({ length: data.length }, (_, i) => (missing?.[i] ? (isFirst ? -1 : 2) : Number.isNaN(data[i]) ? 1 : 0));
  if (classes.every((one) => one === 0)) return { values: data, classes: null, errors, sign };
  return { values: Array.from(data as Float64Array, (one, i) => (classes[i] ? 0 : one)), classes, errors, sign };
}

/** The places of values of JSON among all of them: texts are before numbers. */
function placesIn(items: Val[]): Arrays {
  const keys = items.map((value): string | number | bigint | null => {
    const one = unwrapped(value);
    if (one !== null && !["string", "number", "bigint", "boolean"].includes(typeof one)) throw new QueryError("type", "ORDER BY needs one number, text or JSON value per row, not a list");
    if (Number.isNaN(one)) throw new NeedsView("ORDER BY of JSON values with NaN");
    return typeof one === "boolean" ? Number(one) : (one as string | number | bigint | null);
  });
  const known = [...new Set(keys)].filter((key) => key !== null).sort((a, b) => {
    if (typeof a === "string" || typeof b === "string") return typeof a !== typeof b ? (typeof a === "string" ? -1 : 1) : compareTexts(a as string, b as string);
    return a < b ? -1 : a > b ? 1 : 0;
  });
  const places = new Map(known.map((key, i) => [key, i]));
  return wholes(keys.map((key) => (key === null ? 0 : places.get(key)!)), marks(keys, (key) => key === null));
}

// -- codes ------------------------------------------------------------------------------------------------------------

/** Numbers of keys, from 0 on, in the order in which they come. */
function numbering(): (key: unknown) => number {
  const known = new Map<unknown, number>();
  return (key) => {
    let found = known.get(key);
    if (found === undefined) known.set(key, (found = known.size));
    return found;
  };
}

/** A number for each row, equal where the values are, -1 for missing ones. */
export function codes(column: Column, refuseArrays: boolean): Int32Array {
  if (column instanceof Constant) return new Int32Array(column.length);
  const numbered = numbering();
  const found = scalars(column);
  if (found !== null) {
    if (found.error !== null) throw new NeedsView("groups of numbers that are rounded");
    const { data, missing } = found;
    return Int32Array.from({ length: column.length }, (_, i) => (missing?.[i] ? -1 : numbered(typeof data[i] === "bigint" ? data[i] : (data[i] as number) + 0)));
  }
  if (column instanceof Arrays && refuseArrays) throw new QueryError("type", "a key is one number, text or JSON value per row, not an array");
  return Int32Array.from(rowsOf(column), (value) => (value === null ? -1 : numbered(hashable(value))));
}

/** A key of a map that is equal for equal values. */
export function hashable(value: Val): unknown {
  const one = unwrapped(value);
  if (one instanceof Nd) return `${one.dtype} ${one.shape.join()} ${one.data.join()}`;
  if (typeof one === "boolean" || typeof one === "number") return Number(one) + 0;
  if (typeof one === "string") return `'${one}`;
  return Array.isArray(one) || isDocument(one) ? `[${canonical(one)}` : one;
}

/** JSON with the keys in order, as Python writes it, but for numbers: 1 and 1.0 cannot be told apart here. */
function canonical(value: Val): string {
  if (value instanceof Nd) return canonical(value.data.length === 1 && value.shape.length === 0 ? value.data[0]! : listed(value));
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (isDocument(value)) return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key] as Val)}`).join()}}`;
  if (typeof value === "number" && !Number.isInteger(value)) return String(value);
  return typeof value === "bigint" ? String(value) : JSON.stringify(value);
}

export function joined(parts: Int32Array[]): Int32Array {
  const numbered = numbering();
  return parts.length === 1 ? parts[0]! : Int32Array.from(parts[0]!, (_, i) => numbered(parts.map((part) => part[i]).join()));
}

/** Rows of all groups, ordered by the first row of each, and where each group begins. */
export function groups(keys: Int32Array): { members: Rows; ends: Float64Array } {
  const lists = new Map<number, number[]>();
  keys.forEach((key, row) => {
    const own = lists.get(key);
    if (own === undefined) lists.set(key, [row]);
    else own.push(row);
  });
  const members = new Int32Array(keys.length);
  const ends = new Float64Array(lists.size + 1);
  let [at, number] = [0, 0];
  for (const own of lists.values()) {
    for (const row of own) members[at++] = row;
    ends[++number] = at;
  }
  return { members, ends };
}

/** The first row of each key, in order. */
export function firsts(keys: Int32Array): Rows {
  const seen = new Set<number>();
  return Int32Array.from(span(0, keys.length).filter((row) => !seen.has(keys[row]!) && seen.add(keys[row]!)));
}

// -- chance -----------------------------------------------------------------------------------------------------------

const WORD = 0xffffffff;
const [M64, M128] = [(1n << 64n) - 1n, (1n << 128n) - 1n];

const mixed = (found: number): number => (found ^ (found >>> 16)) >>> 0;

/** A hash whose constant changes with each value. */
function hashing(start: number, factor: number): (value: number) => number {
  let constant = start;
  return (value) => {
    const found = value ^ constant;
    constant = Math.imul(constant, factor);
    return mixed(Math.imul(found, constant) >>> 0);
  };
}

/** Words from a seed, as NumPy's SeedSequence mixes them. */
function seeded(seed: bigint, count: number): number[] {
  const entropy: number[] = [];
  for (let left = seed; left > 0n || entropy.length === 0; left >>= 32n) entropy.push(Number(left & BigInt(WORD)));
  const [hash, last] = [hashing(0x43b0d7e5, 0x931e8875), hashing(0x8b51f9dd, 0x58f38ded)];
  const mix = (x: number, y: number): number => mixed((Math.imul(0xca01f9dd, x) - Math.imul(0x4973f715, y)) >>> 0);
  const pool = Array.from({ length: 4 }, (_, i) => hash(entropy[i] ?? 0));
  for (let from = 0; from < 4; from++) for (let to = 0; to < 4; to++) if (from !== to) pool[to] = mix(pool[to]!, hash(pool[from]!));
  for (let from = 4; from < entropy.length; from++) for (let to = 0; to < 4; to++) pool[to] = mix(pool[to]!, hash(entropy[from]!));
  return Array.from({ length: count }, (_, i) => last(pool[i % 4]!));
}

/** Numbers from 0 to before 1, those of NumPy's `Generator(PCG64(seed)).random()`. */
export function* chances(seed: bigint | null): Generator<number> {
  if (seed === null) for (;;) yield Math.random();
  const words = seeded(seed!, 8);
  const number = (at: number): bigint => BigInt(words[at]!) | (BigInt(words[at + 1]!) << 32n);
  const multiplier = (2549297995355413924n << 64n) | 4865540595714422341n;
  const increment = ((((number(4) << 64n) | number(6)) << 1n) | 1n) & M128;
  const step = (state: bigint): bigint => (state * multiplier + increment) & M128;
  let state = step((increment + ((number(0) << 64n) | number(2))) & M128);
  for (;;) {
    state = step(state);
    const [mixed, turn] = [(state >> 64n) ^ (state & M64), state >> 122n];
    const found = ((mixed >> turn) | (mixed << (64n - turn))) & M64;
    yield Number(found >> 11n) / 2 ** 53;
  }
}

/** Positions of rows drawn with probabilities in proportion to their weights. */
export function drawn(weights: Float64Array, count: number, replace: boolean, seed: bigint | null): Rows {
  if (!weights.every(Number.isFinite)) throw rowError("SAMPLE BY: a weight is no finite number");
  if (!weights.length || count <= 0) return new Int32Array(0);
  const positive = weights.map((weight) => Math.max(weight, 0));
  if (!positive.some((weight) => weight > 0)) throw rowError("SAMPLE BY: no row has a weight above zero");
  const chance = chances(seed);
  const next = (): number => chance.next().value as number;
  if (replace) {
    let [total, last] = [0, 0];
    const ends = positive.map((weight, i) => {
      if (weight > 0) last = i;
      return (total += weight);
    });
    return Int32Array.from({ length: count }, () => {
      const wanted = next() * total;
      let [low, high] = [0, ends.length];
      while (low < high) {
        const middle = (low + high) >>> 1;
        if (ends[middle]! <= wanted) low = middle + 1;
        else high = middle;
      }
      return Math.min(low, last);
    });
  }
  const keys = positive.map((weight) => {
    const value = -Math.log1p(-next());
    return weight > 0 ? value / weight : Infinity;
  });
  const column = Arrays.scalars("float64", keys).withError(keys.map((key) => (Number.isFinite(key) ? Math.abs(key) * 2 ** -49 : 0)));
  return ordered([{ column, isDescending: false, nulls: "" }], Math.min(count, weights.length));
}
