/** Functions of numbers, arrays, vectors and boxes by name, and what all functions share; after Python's `functions`. */

import {
  Arrays, Constant, Items, Nd, Num, asNd, byRow, collect, either, filled, flags, flagsOf, isDocument, isWhole, isWide, kindOf, room, rowError, rowsOf, scalars, truth, unwrapped, withoutValue, wholes, type Column, type Dtype, type Mask, type Val,
} from "./columns";
import { NeedsView, QueryError } from "./errors";
import { arithmetic, compare, compareTexts, equal, extreme, isGroup, listed, logical, mapped } from "./numbers";
import { arrayOf, itemsOf, reduced, sumOf } from "./reductions";

/** Properties of a column that are known before it is read. */
export interface Info {
  kind: "array" | "text" | "json" | "any";
  dtype: Dtype | null;
  rank: number | null;
  classNames: string[] | null;
  htype: string;
  coords: string;
  unit: string;
  logical: string;
  isGroup: boolean;
  isKey: boolean;
  /** Whether missing values are recorded separately, so that IS NULL reads no values. */
  nullsApart: boolean;
  /** Relative cost of reading a row. */
  cost: number;
}

export const ANY: Info = { kind: "any", dtype: null, rank: null, classNames: null, htype: "", coords: "LTWH", unit: "", logical: "", isGroup: false, isKey: false, nullsApart: false, cost: 1 };
export const NUMBER: Info = { ...ANY, kind: "array" };
export const FLAG: Info = { ...NUMBER, dtype: "bool" };
export const TEXT: Info = { ...ANY, kind: "text" };
export const JSON_INFO: Info = { ...ANY, kind: "json" };
export const TIME: Info = { ...NUMBER, dtype: "int64", logical: "timestamp[us]" };

/** The properties that several columns share. */
export function merged(infos: Info[]): Info {
  const known = infos.filter((info) => info !== ANY);
  const [first] = known;
  if (first === undefined) return ANY;
  if (known.every((info) => info === first)) return first;
  const found = { ...ANY };
  for (const name of ["kind", "dtype", "rank", "classNames", "htype", "coords", "unit", "logical", "isGroup", "isKey"] as const)
    if (known.every((info) => JSON.stringify(info[name]) === JSON.stringify(first[name]))) Object.assign(found, { [name]: first[name] });
  return found;
}

export interface Given { columns: Column[]; count: number; infos: Info[] }

export interface Function {
  name: string;
  least: number;
  most: number;
  compute(given: Given): Column;
  info: Info | ((infos: Info[]) => Info);
  cost: number;
  /** Whether it may fail for some values of its arguments. */
  mayFail: boolean | ((operands: { info: Info }[]) => boolean);
  /** The column that ORDER BY sorts by, for values that are not single numbers. */
  key?: (column: Column) => Column;
}

export const FUNCTIONS = new Map<string, Function>();

export function define(names: string, least: number, most: number, compute: (given: Given, name: string) => Column, info: Function["info"] = NUMBER, more: Partial<Function> = {}): void {
  for (const name of names.split(" ")) FUNCTIONS.set(name, { name, least, most, compute: (given) => compute(given, name), info, cost: 0.1, mayFail: false, ...more });
}

const sameShape = (infos: Info[]): Info => ({ ...NUMBER, rank: infos[0]!.rank });
const sameMeaning = (infos: Info[]): Info => ({ ...NUMBER, logical: infos[0]!.logical });

/** An argument that must be the same for all rows. */
export function constant(given: Given, number: number, name: string): Val {
  const column = given.columns[number]!;
  if (!(column instanceof Constant)) throw new QueryError("type", `argument ${number + 1} of ${name} must be the same for all rows`);
  return column.value;
}

/** An argument that must be one whole number for all rows. */
export function wholeNumber(given: Given, number: number, name: string): number {
  const found = unwrapped(constant(given, number, name));
  if (typeof found !== "bigint" && !Number.isInteger(found)) throw new QueryError("type", `argument ${number + 1} of ${name} is one whole number`);
  return Number(found);
}

export function textOf(given: Given, number: number, message: string, mayBeEmpty = true): string {
  const value = constant(given, number, message.split(" ")[0]!);
  if (typeof value !== "string" || (!value && !mayBeEmpty)) throw new QueryError("type", message);
  return value;
}

// -- reductions -------------------------------------------------------------------------------------------------------

const axisOf = (given: Given, name: string): number | null => (given.columns.length > 1 ? wholeNumber(given, 1, name) : null);
const REDUCED: { [name: string]: string } = { MEAN: "AVG", MIN: "AMIN", MAX: "AMAX", ARGMIN: "ARG_MIN", ARGMAX: "ARG_MAX" };
const reduction = (given: Given, name: string): Column => reduced(REDUCED[name] ?? name, given.columns[0]!, axisOf(given, name));

define("SUM PROD AVG MEAN STD MEDIAN ARG_MIN ARGMIN ARG_MAX ARGMAX", 1, 2, reduction, NUMBER, { mayFail: true });
define("MIN AMIN MAX AMAX", 1, 2, reduction, sameMeaning, { mayFail: true });
define("ANY ALL ALL_STRICT", 1, 2, reduction, FLAG, { mayFail: (operands) => operands.length > 1 });
define("L1_NORM L2_NORM LINF_NORM", 1, 1, reduction);
define("LEN LENGTH CHAR_LENGTH", 1, 1, (given) => itemsOf(given.columns[0]!));
define("VAR", 1, 2, (given) => {
  const apart = reduced("STD", given.columns[0]!, axisOf(given, "VAR"));
  return arithmetic("*", apart, apart);
}, NUMBER, { mayFail: true });

const isThere = (value: Val): boolean => value !== null && !(value instanceof Nd && value.data.length === 0);

define("COUNT", 1, 1, (given) => {
  const [column] = given.columns as [Column];
  if (given.infos[0]!.isGroup && !(column instanceof Items)) return itemsOf(column);
  if (column instanceof Items && (given.infos[0]!.isGroup || column.items.some(isGroup))) {
    return wholes(column.items.map((value) => (Array.isArray(value) ? value.filter(isThere).length : 0)));
  }
  if (column instanceof Items && column.isText) return wholes(column.items.map((item) => (item === null ? 0 : 1)));
  return column instanceof Arrays ? reduced("COUNT", column) : itemsOf(column);
});

/** Count the different values of a sample, or of a group. */
export function countDistinct(given: Given): Column {
  const [column] = given.columns as [Column];
  const different = (data: ArrayLike<number | bigint>): number => new Set(Array.from(data, (one) => (typeof one === "number" ? one + 0 : one))).size;
  if (column instanceof Arrays) {
    if (column.error !== null) throw new NeedsView("COUNT of numbers that are rounded");
    const at = column.offsets;
    return wholes(Float64Array.from({ length: column.length }, (_, i) => (column.missing?.[i] ? 0 : different(column.data.subarray(at[i]!, at[i + 1]!)))));
  }
  return wholes(rowsOf(column).map((value) => {
    if (!Array.isArray(value) || !value.every((item) => item === null || typeof item === "string")) throw new NeedsView("COUNT(DISTINCT ...) of such values");
    return new Set(value.filter((item) => item !== null)).size;
  }));
}

// -- numbers ----------------------------------------------------------------------------------------------------------

/** The dtype of a function that computes in float32 for float32, else in float64. */
const floating = (dtype: Dtype): Dtype => (dtype === "float32" ? "float32" : "float64");
const unit = (dtype: Dtype): number => (dtype === "float32" ? 2 ** -22 : 2 ** -51);

/** Functions that libraries round in their own ways: a few units of the last place apart. */
function estimated(name: string, compute: (value: number) => number): void {
  define(name, 1, 1, (given) => {
    const [column] = given.columns as [Column];
    const dtype = floating(column instanceof Arrays ? column.dtype : "float64");
    const isSure = (value: number): boolean => value === 0 || !Number.isFinite(value);
    return mapped(column, name, floating, (value, own) => (own === "float32" ? Math.fround(compute(value)) : compute(value)), (value, error) => {
      if (error > 0) throw new NeedsView(`${name} of numbers that are rounded`);
      return isSure(value) ? 0 : Math.abs(value) * 8 * unit(dtype) + 1e-300;
    });
  }, sameShape);
}

for (const [name, compute] of Object.entries({
  EXP: Math.exp, LN: Math.log, LOG2: Math.log2, LOG10: Math.log10, ASIN: Math.asin, ACOS: Math.acos, ATAN: Math.atan,
  DEGREES: (value: number) => (value * 180) / Math.PI, RADIANS: (value: number) => (value * Math.PI) / 180,
})) estimated(name, compute);
for (const [name, compute] of Object.entries({ SIN: Math.sin, COS: Math.cos, TAN: Math.tan }))
  estimated(name, (value) => {
    // Libraries that are a few units off near 1 may be far off where the argument is large.
    if (Math.abs(value) > 1e4) throw new NeedsView(`${name} of large numbers`);
    return compute(value);
  });
define("LOG", 1, 2, (given) => {
  if (given.columns.length === 1) return FUNCTIONS.get("LOG10")!.compute(given);
  const [base, value] = given.columns.map((column) => FUNCTIONS.get("LN")!.compute({ columns: [column], count: given.count, infos: [NUMBER] }));
  return arithmetic("/", value!, base!);
});
define("SQRT", 1, 1, (given) => mapped(given.columns[0]!, "SQRT", floating, (value) => Math.sqrt(value), (value, error) => (error === 0 ? 0 : error / Math.max(value, Math.sqrt(error)))), sameShape);

const absolute = (dtype: Dtype): Dtype => (kindOf(dtype) === "i" ? "int64" : dtype);
define("ABS", 1, 1, (given) => mapped(given.columns[0]!, "ABS", absolute, Math.abs, (_, error) => error), sameShape);

/** To the nearest whole number, the even one of two. */
export function even(value: number): number {
  const found = Math.round(value);
  return Math.abs(value % 1) === 0.5 && found % 2 !== 0 ? found - 1 : Object.is(value, -0) || (value < 0 && found === 0) ? -0 : found;
}

/** A function that grows with its argument: of rounded numbers it is known where both ends have one value. */
function stepped(column: Column, name: string, compute: (value: number, dtype: Dtype) => number): Column {
  const errors = column instanceof Arrays ? column.error : null;
  let at = 0;
  return mapped(column instanceof Arrays && errors !== null ? column.like(column.dtype, column.data) : column, name, (dtype) => {
    if (dtype === "bool") throw new NeedsView(`${name} of true and false`);
    return dtype;
  }, (value, dtype) => {
    const error = errors?.[at++] ?? 0;
    const [low, high] = [value - error, value + error].map((one) => (isWhole(dtype) ? one : compute(one, dtype))) as [number, number];
    if (low !== high && !Number.isNaN(low)) throw new NeedsView(`${name} of numbers that are rounded`);
    return low;
  });
}

for (const [name, compute] of Object.entries({ FLOOR: Math.floor, CEIL: Math.ceil, CEILING: Math.ceil, TRUNC: Math.trunc }))
  define(name, 1, 1, (given) => stepped(given.columns[0]!, name, compute), sameShape);
define("ROUND", 1, 2, (given) => {
  const digits = axisOf(given, "ROUND") ?? 0;
  const scale = 10 ** Math.abs(digits);
  if (Math.abs(digits) > 15 || (digits < 0 && !(given.columns[0] instanceof Arrays && !isWhole(given.columns[0].dtype)))) throw new NeedsView("ROUND to so many digits");
  return stepped(given.columns[0]!, "ROUND", (value, dtype) => {
    const narrow = dtype === "float32" ? Math.fround : (one: number): number => one;
    if (digits === 0 || !Number.isFinite(value)) return even(value);
    return digits > 0 ? narrow(even(narrow(value * scale)) / scale) : narrow(even(narrow(value / scale)) * scale);
  });
}, sameShape);
define("SIGN", 1, 1, (given) => mapped(given.columns[0]!, "SIGN", (dtype) => (dtype === "bool" ? "uint8" : dtype), Math.sign), sameShape);
define("ISNAN ISINF", 1, 1, (given, name) => mapped(given.columns[0]!, name, () => "bool", (value) => Number(name === "ISNAN" ? Number.isNaN(value) : Math.abs(value) === Infinity)), sameShape);
define("POWER POW", 2, 2, (given) => arithmetic("^", given.columns[0]!, given.columns[1]!), NUMBER, { mayFail: true });
define("MOD", 2, 2, (given) => arithmetic("%", given.columns[0]!, given.columns[1]!), NUMBER, { mayFail: true });
define("LOGICAL_AND LOGICAL_OR", 2, 2, (given, name) => logical(name === "LOGICAL_AND" ? "and" : "or", flags(given.columns[0]!), flags(given.columns[1]!)), FLAG, { mayFail: true });
define("GREATEST LEAST", 2, Infinity, (given, name) => given.columns.reduce((a, b) => extreme(name as "LEAST", a, b)), (infos) => (new Set(infos.map((info) => info.logical)).size === 1 ? sameMeaning(infos) : NUMBER), { mayFail: true });
define("CLIP", 3, 3, (given) => {
  const [column] = given.columns as [Column];
  const dtype = column instanceof Arrays ? column.dtype : "float64";
  const edges = [1, 2].map((at) => {
    const one = constant(given, at, "CLIP");
    if (!(one instanceof Num) || typeof one.value === "bigint") throw new NeedsView("CLIP to other than two numbers");
    const [edge] = filled(room(dtype, 1), [[one.value]]);
    if (isWhole(dtype) && !(one.type === "int" && edge === one.value)) throw new NeedsView("CLIP of integers to such numbers");
    return edge as number;
  }) as [number, number];
  return mapped(column, "CLIP", (own) => own, (value) => Math.min(Math.max(value, edges[0]), edges[1]));
}, sameShape);

// -- arrays -----------------------------------------------------------------------------------------------------------

const flat = (value: Val): Nd => {
  const found = arrayOf(value);
  if (!(found instanceof Nd)) throw new NeedsView("a function of lists of texts");
  return new Nd(found.dtype, [found.data.length], found.data);
};
const ofRows = (given: Given, compute: (value: Val) => Val, keepsMissing: boolean): Column => withoutValue(byRow(given.count, given.columns, compute), keepsMissing ? given.columns[0]!.missing : null);

define("NONZERO", 1, 1, (given) => ofRows(given, (value) => {
  const places: number[] = [];
  flat(value).data.forEach((one: number | bigint, i: number) => one != 0 && places.push(i));
  return new Nd("int64", [places.length], Float64Array.from(places));
}, false), NUMBER, { cost: 1 });
define("FLATTEN", 1, 1, (given) => {
  const [column] = given.columns as [Column];
  if (column instanceof Arrays && column.shape !== null && column.missing === null) return Arrays.even(column.dtype, column.data, column.length, [column.size]);
  return ofRows(given, flat, true);
}, NUMBER, { cost: 0.5 });
const ascending = (a: number, b: number): number => (Number.isNaN(a) ? (Number.isNaN(b) ? 0 : 1) : Number.isNaN(b) ? -1 : a - b);
function sortedList(value: Val[]): Val[] {
  const isText = value.every((item) => typeof item === "string");
  if (!isText && !value.every((item) => typeof item === "number" && !Number.isNaN(item))) throw new NeedsView("SORT of such lists");
  return [...value].sort(isText ? (compareTexts as never) : (ascending as never));
}
define("SORT", 1, 1, (given) => ofRows(given, (value) => {
  if (Array.isArray(value)) return sortedList(value);
  const found = flat(value);
  if (!(value instanceof Nd && value.shape.length)) throw rowError("SORT: axis -1 is out of bounds for array of dimension 0");
  if (isWide(found.data) || value.shape.length > 1) throw new NeedsView("SORT of large integers, or of arrays of several axes");
  return new Nd(found.dtype, value.shape, found.data.slice().sort(ascending as never));
}, false), sameShape, { cost: 1, mayFail: true });
define("UNIQUE", 1, 1, (given) => ofRows(given, (value) => {
  if (Array.isArray(value)) return sortedList([...new Set(value)]);
  const found = flat(value);
  const data = [...new Set(Array.from(found.data as Float64Array, (one) => one + 0))].sort(ascending);
  return new Nd(found.dtype, [data.length], filled(room(found.dtype, data.length), [data]));
}, true), NUMBER, { cost: 1 });

// -- any values -------------------------------------------------------------------------------------------------------

/** Values as a column; single numbers take the shape of the arrays among them. */
function collected(values: Val[]): Column {
  const arrays = values.filter((value) => value instanceof Nd);
  const isBare = (value: Val): value is Num | number | boolean => value instanceof Num || typeof value === "number" || typeof value === "boolean";
  if (arrays.length && values.some(isBare) && values.some((value) => value !== null && !(value instanceof Nd) && !isBare(value))) throw new NeedsView("numbers and texts in one column");
  if (arrays.length && arrays.every((one) => one.data.length === 1) && values.some(isBare))
    return collect(values.map((value) => (value instanceof Nd || isBare(value) ? new Nd(asNd(value).dtype, arrays[0]!.shape, asNd(value).data) : value)));
  return collect(values);
}

define("COALESCE", 1, Infinity, coalesced, merged);
define("IFNULL", 2, 2, coalesced, merged);
function coalesced(given: Given): Column {
  let [found, ...others] = given.columns as [Column, ...Column[]];
  if (found instanceof Constant) found = collected(rowsOf(found));
  for (const column of others) {
    const own = found;
    const empty: Mask = own instanceof Arrays && own.shape === null ? Uint8Array.from({ length: own.length }, (_, i) => (own.offsets[i + 1] === own.offsets[i] ? 1 : 0)) : null;
    const gone = either(own.missing, empty);
    if (gone === null || !gone.includes(1)) return own;
    const [first, second] = [rowsOf(own), rowsOf(column)];
    found = collected(first.map((value, i) => (gone[i] ? second[i]! : value)));
  }
  return found;
}
define("NULLIF", 2, 2, (given) => {
  const alike = truth(compare("=", given.columns[0]!, given.columns[1]!));
  return collected(rowsOf(given.columns[0]!).map((value, i) => (alike[i] ? null : value)));
}, (infos) => infos[0]!);

/** One number per row, 0 for missing ones. */
export function weightsOf(column: Column): Float64Array {
  const single = column instanceof Constant && (column.value instanceof Num || column.value instanceof Nd) ? asNd(column.value) : null;
  if (single?.data.length === 1) return new Float64Array(column.length).fill(Number(single.data[0]));
  if (column instanceof Items && !column.isText) return Float64Array.from(column.items, (value) => (["number", "boolean", "bigint"].includes(typeof value) ? Number(value) : 0));
  const found = scalars(column);
  if (found === null) throw new QueryError("type", "one number per row is needed here, not text or an array");
  if (found.error !== null) throw new NeedsView("weights that are rounded");
  return Float64Array.from({ length: column.length }, (_, i) => (found.missing?.[i] ? 0 : Number(found.data[i])));
}

/** The sum or the largest of the weights whose conditions are true; columns are conditions and weights in turn. */
export function weighed(given: Given, isSum: boolean): Column {
  const found = new Float64Array(given.count).fill(isSum ? 0 : -Infinity);
  for (let pair = 0; pair < given.columns.length; pair += 2) {
    const [told, weights] = [truth(given.columns[pair]!), weightsOf(given.columns[pair + 1]!)];
    for (let i = 0; i < given.count; i++) if (told[i]) found[i] = isSum ? found[i]! + weights[i]! : Math.max(found[i]!, weights[i]!);
  }
  return Arrays.scalars("float64", found.map((value) => (value === -Infinity ? 0 : value)));
}

// -- IN and CONTAINS --------------------------------------------------------------------------------------------------

export function isIn(given: Given): Column {
  const [column] = given.columns as [Column];
  const wanted = constant(given, 1, "IN") as Val[];
  if (column instanceof Items && column.isText) {
    const known = new Set(wanted.filter((value) => typeof value === "string"));
    return flagsOf(Uint8Array.from(column.items, (item) => (item !== null && known.has(item as string) ? 1 : 0)));
  }
  if (column instanceof Arrays) {
    if (column.error !== null) throw new NeedsView("IN of numbers that are rounded");
    if (column.dtype === "float16") throw new NeedsView("numbers of 16 bits with a point");
    const isLarge = isWide(column.data);
    const known = new Set<number | bigint>();
    for (const value of wanted) {
      if (value === null || typeof value === "string" || Array.isArray(value) || isDocument(value) || (value instanceof Nd && value.data.length !== 1)) continue;
      const one = unwrapped(value) as number | bigint | boolean;
      const isLiteral = column.dtype === "float32" && value instanceof Num && value.type === "float";
      if (isLarge) known.add(Number.isInteger(Number(one)) ? BigInt(one) : Number(one));
      else known.add(isLiteral ? Math.fround(Number(one)) + 0 : Number(one) + 0);
    }
    const { data } = column;
    const found = new Uint8Array(data.length);
    for (let i = 0; i < data.length; i++) found[i] = known.has(data[i]!) && !Number.isNaN(data[i]) ? 1 : 0;
    return column.like("bool", found).isLoose(false);
  }
  const kept = wanted.filter((value) => value !== null);
  return byRow(given.count, [column], (value) => {
    const isOne = (item: Val): boolean => kept.some((other) => equal(item, other));
    if (Array.isArray(value)) return new Nd("bool", [value.length], Uint8Array.from(value, (item) => (isOne(item) ? 1 : 0)));
    if (value instanceof Nd) return new Nd("bool", value.shape, Uint8Array.from(value.data as Float64Array, (item) => (isOne(item) ? 1 : 0)));
    return value !== null && isOne(value);
  });
}

function isInside(value: Val, wanted: Val): boolean {
  const one = unwrapped(wanted);
  if (value === null || one === null) return false;
  if (typeof value === "string") return typeof one === "string" && value.includes(one);
  if (isDocument(value)) return typeof one === "string" && Object.hasOwn(value, one);
  if (one instanceof Nd && value instanceof Nd) throw new NeedsView("CONTAINS of arrays in arrays");
  const items = value instanceof Nd ? (listed(new Nd(value.dtype, [value.data.length], value.data)) as Val[]) : Array.isArray(value) ? value : [value];
  return items.some((item) => equal(item, one));
}

define("CONTAINS", 2, 2, (given) => {
  const [column, wanted] = given.columns as [Column, Column];
  if (column instanceof Items && column.isText && wanted instanceof Constant) {
    const { value } = wanted;
    if (typeof value !== "string") throw new QueryError("type", "a text contains text");
    return flagsOf(Uint8Array.from(column.items, (item) => (item !== null && (item as string).includes(value) ? 1 : 0)));
  }
  if (column instanceof Arrays && wanted instanceof Constant) return reduced("ANY", compare("=", column, wanted));
  const found = byRow(given.count, [column, wanted], isInside);
  const gone = [column, wanted].map((side) => (side instanceof Items && side.isText ? side.missing : null)).reduce(either);
  return gone === null ? found : flagsOf(truth(found).map((one, i) => one & (1 - gone[i]!)));
}, FLAG, { cost: 3, mayFail: ([column, wanted]) => column!.info.kind === "text" && wanted!.info.kind !== "text" });

// -- vectors ----------------------------------------------------------------------------------------------------------

/** The measure of two vectors, in floats of so many bits, and how far that of Python may be from it. */
type Measure = (a: ArrayLike<number>, b: ArrayLike<number>, bits: number) => [number, number];

const narrowing = (bits: number): ((value: number) => number) => (bits === 24 ? Math.fround : (value) => value);
const dot: Measure = (a, b, bits) => sumOf(a.length, bits, (i) => a[i]! * b[i]!);

const MEASURES: { [name: string]: Measure } = {
  DOT: dot,
  COSINE_SIMILARITY: (a, b, bits) => {
    const round = narrowing(bits);
    const [[product, ep], [own, eo], [other, eq]] = [dot(a, b, bits), dot(a, a, bits), dot(b, b, bits)];
    const [x, y] = [round(Math.sqrt(own)), round(Math.sqrt(other))];
    const found = round(product / round(x * y));
    if (ep + eo + eq === 0) return [found, 0];
    return [found, (ep + Math.abs(product) * (eo / own + eq / other + 8 * 2 ** -bits)) / (x * y)];
  },
  L1_DISTANCE: (a, b, bits) => {
    const round = narrowing(bits);
    return sumOf(a.length, bits, (i) => Math.abs(round(a[i]! - b[i]!)));
  },
  L2_DISTANCE: (a, b, bits) => {
    const round = narrowing(bits);
    const [sum, error] = sumOf(a.length, bits, (i) => round(a[i]! - b[i]!) ** 2);
    const found = Math.sqrt(sum);
    return [round(found), error === 0 ? 0 : error / Math.max(found, Math.sqrt(error)) + found * 2 ** (1 - bits)];
  },
  LINF_DISTANCE: (a, b, bits) => {
    const round = narrowing(bits);
    let most = 0;
    for (let i = 0; i < a.length; i++) most = Math.max(most, Math.abs(round(a[i]! - b[i]!)));
    return [most, 0];
  },
  HAMMING_DISTANCE: (a, b) => {
    let found = 0;
    for (let i = 0; i < a.length; i++) if (a[i] != b[i]) found++;
    return [found, 0];
  },
};

/** The vector of each row; null where it is missing. */
function vectorsOf(column: Column, name: string): (i: number) => Nd | null {
  if (column instanceof Arrays) {
    if (column.error !== null) throw new NeedsView(`${name} of numbers that are rounded`);
    return (i) => column.row(i);
  }
  if (column instanceof Constant && !(column.value === null || column.value instanceof Nd || column.value instanceof Num)) throw new QueryError("type", "a vector is an array of numbers");
  const rows = rowsOf(column).map((value) => {
    if (value === null || value instanceof Nd || value instanceof Num) return value && asNd(value);
    throw new NeedsView("a vector that is no array of numbers");
  });
  return (i) => rows[i]!;
}

function vectors({ count, columns }: Given, name: string): Column {
  const isMatrix = (column: Column): column is Arrays => column instanceof Arrays && column.shape !== null;
  const [left, right] = (columns[0] instanceof Constant && isMatrix(columns[1]!) ? [...columns].reverse() : columns) as [Column, Column];
  const besides = isMatrix(left) && isMatrix(right) ? right.dtype : null;
  const [first, second] = [vectorsOf(left, name), vectorsOf(right, name)];
  const isHamming = name === "HAMMING_DISTANCE";
  const dtype: Dtype = isHamming ? "int64" : "float32";
  const [data, errors, gone] = [room(dtype, count), new Float64Array(count), new Uint8Array(count)];
  for (let i = 0; i < count; i++) {
    const [a, b] = [first(i), second(i)];
    if (a === null || b === null || a.data.length === 0 || b.data.length === 0) {
      gone[i] = 1;
      continue;
    }
    if (a.data.length !== b.data.length) throw rowError(`${name} of vectors of ${a.data.length} and ${b.data.length} numbers`, "shape");
    if (isWide(a.data) || isWide(b.data) || a.dtype === "float16" || b.dtype === "float16") throw new NeedsView(`${name} of such numbers`);
    const bits = !isHamming && (a.dtype === "float64" || besides === "float64") ? 53 : 24;
    if (bits === 53 && besides !== null && besides !== a.dtype) throw new NeedsView(`${name} of vectors of two precisions`);
    const exact = (one: Nd): ArrayLike<number> => (isHamming || bits === 53 || one.dtype === "float32" ? (one.data as Float32Array) : Float32Array.from(one.data as Float64Array));
    const [value, error] = MEASURES[name]!(exact(a), exact(b), bits);
    [data[i], errors[i]] = [value, error && error + Math.abs(value) * 2 ** -23];
  }
  return Arrays.scalars(dtype, data, gone.includes(1) ? gone : null).withError(errors);
}

define(Object.keys(MEASURES).join(" "), 2, 2, vectors, NUMBER, { cost: 1, mayFail: true });

// -- boxes ------------------------------------------------------------------------------------------------------------

function boxesOf(value: Val): Nd {
  const found = arrayOf(value);
  if (!(found instanceof Nd) || isWide(found.data)) throw rowError("a box is four numbers", "type");
  if (found.data.length === 0) return new Nd("float64", [0, 4], new Float64Array(0));
  const last = found.shape[found.shape.length - 1];
  if (last !== 4) throw rowError(`a box is four numbers, not ${last ?? 1}`, "shape");
  return new Nd("float64", found.shape, Float64Array.from(found.data as Float64Array));
}

/** Boxes as left, top, right, bottom. */
function corners(value: Val, mode: string): Float64Array {
  const found = boxesOf(value).data as Float64Array;
  if (found.length && !["LTWH", "CCWH", "LTRB", "TLBR"].includes(mode)) throw new QueryError("unsupported", `boxes have an unknown mode '${mode}'`);
  for (let at = 0; at < found.length; at += 4)
    for (let axis = 0; axis < 2; axis++) {
      if (mode === "CCWH") found[at + axis]! -= found[at + axis + 2]! / 2;
      if (mode === "CCWH" || mode === "LTWH") found[at + axis + 2]! += found[at + axis]!;
    }
  return found;
}

/** Overlaps of each box with each other: areas are products of two lengths, one subtraction each, as in Python. */
function overlaps(a: Float64Array, b: Float64Array): Nd {
  const [rows, columns] = [a.length / 4, b.length / 4];
  const data = new Float64Array(rows * columns);
  const area = (box: Float64Array, at: number): number => (box[at + 2]! - box[at]!) * (box[at + 3]! - box[at + 1]!);
  const least = (x: number, y: number): number => (x < y || Number.isNaN(x) ? x : y);
  const most = (x: number, y: number): number => (x > y || Number.isNaN(x) ? x : y);
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < columns; j++) {
      const side = (axis: number): number => most(least(a[4 * i + 2 + axis]!, b[4 * j + 2 + axis]!) - most(a[4 * i + axis]!, b[4 * j + axis]!), 0);
      const common = side(0) * side(1);
      const union = area(a, 4 * i) + area(b, 4 * j) - common;
      data[i * columns + j] = union > 0 ? common / union : 0;
    }
  return new Nd("float64", [rows, columns], data);
}

define("IOU", 2, 2, (given) => {
  const [one, other] = given.infos.map((info) => info.coords) as [string, string];
  const units = given.infos.map((info) => info.unit);
  if (units.includes("pixel") && units.includes("fractional")) throw new QueryError("unsupported", "IOU cannot compare boxes in pixels with boxes in fractions of the image: convert the first with NORMALIZE(boxes, ARRAY[0, 0, width, height])");
  return byRow(given.count, given.columns, (a, b) => overlaps(corners(a, one), corners(b, other)));
}, NUMBER, {
  cost: 20,
  mayFail: true,
  // The mean of the best overlaps of the first boxes.
  key: (column) => reduced("AVG", reduced("AMAX", column, 1)),
});
