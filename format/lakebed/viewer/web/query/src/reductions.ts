/** Reductions of the values of a sample, all of them or along an axis; after Python's `values/reductions.py`. */

import { Arrays, Constant, Items, Nd, Num, asNd, byRow, filled, isWhole, isWide, joint, product, room, roomLike, rowError, wholes, type Column, type Data, type Dtype, type Val } from "./columns";
import { NeedsView } from "./errors";
import { compareTexts } from "./numbers";

/** Reductions whose result is missing for a sample without values; the sum of nothing is 0. */
const NEED_VALUES = new Set(["AVG", "STD", "AMIN", "AMAX", "MEDIAN", "ARG_MIN", "ARG_MAX"]);

/** Some numbers of an array: how many, from where, and how far apart. */
interface Run {
  data: Data;
  dtype: Dtype;
  /** Whether Python has all values as numbers of 64 bits: those of samples of many shapes. */
  isRagged: boolean;
  start: number;
  count: number;
  step: number;
}

/** A result, and how far that of Python may be from it. */
export type Found = [value: number | bigint, error: number];

export function reduced(name: string, column: Column, axis: number | null = null): Column {
  if (!(column instanceof Arrays)) return ofItems(name, column, axis);
  if (column.error !== null && name !== "COUNT") throw new NeedsView(`${name} of numbers that are rounded`);
  if (column.dtype === "float16" && name !== "COUNT") throw new NeedsView("numbers of 16 bits with a point");
  const { length, offsets, shape, missing } = column;
  if (axis === null) return ofRuns(name, column, length, (i) => [offsets[i]!, missing?.[i] ? 0 : offsets[i + 1]! - offsets[i]!, 1]);
  if (shape === null || missing !== null) return byRow(length, [column], (value) => ((value as Nd).data.length === 0 && missing !== null ? null : ofArray(name, value as Nd, axis)));
  const rank = shape.length;
  if (!(axis >= -rank && axis < rank)) throw rowError(`samples of ${rank} axes have no axis ${axis}`, "rank");
  const place = axis < 0 ? axis + rank : axis;
  const [count, before, after] = [shape[place]!, shape.slice(0, place), shape.slice(place + 1)];
  if (NEED_VALUES.has(name) && count === 0) return new Constant(null, length);
  const step = product(after);
  const found = ofRuns(name, column, length * product(before) * step, (i) => [Math.floor(i / step) * count * step + (i % step), count, step]);
  return Arrays.even(found.dtype, found.data, length, [...before, ...after]).withError(found.error);
}

function resultDtype(name: string, dtype: Dtype): Dtype {
  if (name === "ANY" || name === "ALL" || name === "ALL_STRICT") return "bool";
  if (name.startsWith("ARG_") || name === "COUNT") return "int64";
  if (name.endsWith("_NORM")) return "float32";
  if (name === "AMIN" || name === "AMAX") return dtype;
  if (name === "SUM" || name === "PROD") return isWhole(dtype) ? "int64" : dtype;
  return isWhole(dtype) ? "float64" : dtype;
}

/** Reduce so many runs of a column; `runOf` tells where each begins, its numbers, and how far apart they are. */
function ofRuns(name: string, { data, dtype, shape }: Arrays, length: number, runOf: (i: number) => [number, number, number]): Arrays {
  const out = resultDtype(name, dtype);
  const isExtreme = name === "AMIN" || name === "AMAX";
  const values = isExtreme && isWide(data) ? roomLike(data, length) : room(name === "AVG" ? "float64" : out, length);
  const [errors, empty] = [new Float64Array(length), new Uint8Array(length)];
  const run: Run = { data, dtype, isRagged: shape === null, start: 0, count: 0, step: 1 };
  const [needs, reduce] = [NEED_VALUES.has(name), REDUCTIONS[name]!];
  for (let i = 0; i < length; i++) {
    [run.start, run.count, run.step] = runOf(i);
    if (needs && run.count === 0) empty[i] = 1;
    else [values[i] as number | bigint, errors[i]] = reduce(run);
  }
  return Arrays.scalars(out, values, empty.includes(1) ? empty : null).withError(errors);
}

function ofArray(name: string, value: Nd, axis: number | null): Val {
  const found = reduced(name, Arrays.even(value.dtype, value.data, 1, value.shape), axis);
  if (!(found instanceof Arrays)) return null;
  if (found.error !== null) throw new NeedsView(`${name} of floats whose sum is rounded, in a list`);
  return found.row(0);
}

function ofItems(name: string, column: Items | Constant, axis: number | null): Column {
  const one = (value: Val): Val => {
    if (value === null && axis !== null) return null;
    const array = arrayOf(value);
    if (array instanceof Nd) return ofArray(name, array, axis);
    if (axis !== null || name.startsWith("ARG_")) throw new NeedsView(`${name} of lists of texts`);
    if (name === "AMIN" || name === "AMAX") return array.reduce((a, b) => (compareTexts(a, b) < 0 === (name === "AMIN") ? a : b));
    if (resultDtype(name, "bool") === "bool") return true;
    throw rowError("numbers are needed here, not text", "type");
  };
  return column instanceof Constant ? new Constant(one(column.value), column.length) : byRow(column.length, [column], one);
}

/** A value as an array of numbers; a list of texts as it is. */
export function arrayOf(value: Val): Nd | string[] {
  if (value === null) return new Nd("float64", [0], new Float64Array(0));
  if (value instanceof Nd) return value;
  if (typeof value === "bigint") throw new NeedsView("a function of integers beyond 2^53");
  if (value instanceof Num || typeof value === "number" || typeof value === "boolean") return asNd(value);
  if (!Array.isArray(value)) throw rowError("numbers are needed here, not text", "type");
  const items = value.filter((item) => item !== null);
  if (items.length && items.every((item) => typeof item === "string")) return items as string[];
  if (!items.every((item) => item instanceof Nd || typeof item === "number") && !items.every((item) => typeof item === "boolean")) throw new NeedsView("a function of lists of several kinds");
  if (items.some((item) => item instanceof Nd) && !items.every((item) => item instanceof Nd)) throw new NeedsView("a function of lists of several kinds");
  const arrays = items.map((item) => asNd(item as Nd));
  if (arrays.some((one) => isWide(one.data))) throw new NeedsView("a function of integers beyond 2^53 in a list");
  const dtype = items.length ? joint(arrays.map((one) => one.dtype)) : "float64";
  const data = filled(room(dtype, arrays.reduce((sum, one) => sum + one.data.length, 0)), arrays.map((one) => one.data));
  return new Nd(dtype, [data.length], data);
}

// -- one run of numbers -----------------------------------------------------------------------------------------------

function numbers({ data, start, count, step }: Run): Exclude<Data, BigInt64Array | BigUint64Array> {
  if (isWide(data)) throw new NeedsView("a function of integers beyond 2^53");
  return step === 1 ? data.subarray(start, start + count) : Float64Array.from({ length: count }, (_, i) => data[start + i * step]!);
}

const bitsOf = (dtype: Dtype): number => (dtype === "float32" ? 24 : 53);

/** A sum; no error where its parts are whole multiples of a power of two that stay small, in floats of so many bits. */
export function sumOf(count: number, bits: number, part: (i: number) => number): [number, number] {
  let [sum, most] = [0, 0];
  for (let i = 0; i < count; i++) {
    const value = part(i);
    sum += value;
    most += Math.abs(value);
  }
  if (most === 0 || !Number.isFinite(most)) return [sum, 0];
  const scale = 2 ** (bits - 1 - Math.floor(Math.log2(most)));
  let isExact = most * scale <= 2 ** bits;
  for (let i = 0; isExact && i < count; i++) isExact = Number.isInteger(part(i) * scale);
  return [sum, isExact ? 0 : 2 * (count + 2) * 2 ** -bits * most];
}

/** The sum of a function of some numbers. */
function summed(run: Run, bits: number, of: (value: number) => number = (value) => value): [number, number] {
  const data = numbers(run);
  const [sum, error] = sumOf(data.length, bits, (i) => of(data[i]!));
  if (isWhole(run.dtype) && (error > 0 || !Number.isFinite(sum))) throw new NeedsView("integers beyond 2^53");
  if (bits === 24 && error > 0 && Math.abs(sum) + error > 3e38) throw new NeedsView("sums beyond the largest float32");
  return [sum, error];
}

/** A number as a float32, and whether that is sure. */
function narrow([value, error]: [number, number]): Found {
  const found = Math.fround(value);
  return [found, Math.fround(value - error) === Math.fround(value + error) ? 0 : Math.abs(found) * 2 ** -22 + error];
}

function average(run: Run): Found {
  const isNarrow = run.dtype === "float32" && !run.isRagged;
  const [sum, error] = summed(run, isNarrow ? 24 : 53);
  const value = isNarrow ? Math.fround(sum / run.count) : sum / run.count;
  return [value, error && error / run.count + Math.abs(value) * (run.dtype === "float32" ? 2 ** -23 : 2 ** -52)];
}

function deviation(run: Run): Found {
  const data = numbers(run) as Float64Array;
  const mean = data.reduce((a, b) => a + b, 0) / data.length;
  const most = data.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  const found = Math.sqrt(data.reduce((sum, value) => sum + (value - mean) ** 2, 0) / data.length);
  return [found, data.length === 1 || Number.isNaN(found) ? 0 : 16 * (data.length + 8) * 2 ** -bitsOf(run.dtype) * most];
}

/** The place of the best of some numbers, which is that of the first NaN. */
function extreme({ data, start, count, step }: Run, isBetter: (a: number, b: number) => boolean): number {
  let best = 0;
  for (let i = 0; i < count; i++) {
    const value = data[start + i * step] as number;
    if (Number.isNaN(value)) return i;
    if (i > 0 && isBetter(value, data[start + best * step] as number)) best = i;
  }
  return best;
}

function middle(run: Run): Found {
  const sorted = Float64Array.from(numbers(run)).sort();
  const half = sorted.length >> 1;
  if (Number.isNaN(sorted[sorted.length - 1]) || sorted.length % 2) return [Number.isNaN(sorted[sorted.length - 1]) ? NaN : sorted[half]!, 0];
  const sum = sorted[half - 1]! + sorted[half]!;
  return [run.dtype === "float32" ? Math.fround(Math.fround(sum) / 2) : sum / 2, 0];
}

function multiplied(run: Run): Found {
  const data = numbers(run);
  const isFloat = !isWhole(run.dtype);
  let [found, isExact] = [1, true];
  for (const value of data) {
    const next = found * value;
    isExact &&= run.dtype === "float32" ? Math.fround(next) === next || Number.isNaN(next) : Math.abs(next) <= Number.MAX_SAFE_INTEGER && Number.isInteger(value) && Number.isInteger(found);
    found = next;
  }
  if (isExact || data.length <= 1) return [found, 0];
  if (!isFloat) throw new NeedsView("integers beyond 2^53");
  return [found, 2 * data.length * 2 ** -bitsOf(run.dtype) * Math.abs(found)];
}

function has({ data, start, count, step }: Run, whether: boolean): boolean {
  for (let i = 0; i < count; i++) if ((data[start + i * step]! != 0) === whether) return true;
  return false;
}

const [less, more] = [(a: number, b: number): boolean => a < b, (a: number, b: number): boolean => a > b];
const at = (run: Run, place: number): Found => [run.data[run.start + run.step * place]!, 0];

const REDUCTIONS: { [name: string]: (run: Run) => Found } = {
  SUM: (run) => summed(run, bitsOf(run.dtype)),
  PROD: multiplied,
  AVG: average,
  STD: deviation,
  MEDIAN: middle,
  AMIN: (run) => at(run, extreme(run, less)),
  AMAX: (run) => at(run, extreme(run, more)),
  ARG_MIN: (run) => [extreme(run, less), 0],
  ARG_MAX: (run) => [extreme(run, more), 0],
  ANY: (run) => [Number(has(run, true)), 0],
  ALL: (run) => [Number(!has(run, false)), 0],
  ALL_STRICT: (run) => [Number(run.count > 0 && !has(run, false)), 0],
  COUNT: (run) => [run.count, 0],
  L1_NORM: (run) => narrow(summed(run, 53, Math.abs)),
  L2_NORM: (run) => {
    // Squares of samples of one shape are rounded to the precision of the numbers.
    const isNarrow = run.dtype === "float32" && !run.isRagged;
    const [sum, error] = summed(run, 53, (value) => (isNarrow ? Math.fround(value * value) : value * value));
    const found = Math.sqrt(sum);
    return narrow([found, error && error / Math.max(found, Math.sqrt(error)) + found * 2 ** -52]);
  },
  LINF_NORM: (run) => [Math.fround((numbers(run) as Float64Array).reduce((a, b) => (a >= Math.abs(b) || Number.isNaN(a) ? a : Math.abs(b)), 0)), 0],
};

// -- items ------------------------------------------------------------------------------------------------------------

/** Items of each sample: along its first axis, of a list or document, or the letters of a text. */
export function itemsOf(column: Column): Column {
  if (column instanceof Arrays) {
    const { length, shape, shapes, rank } = column;
    return wholes(Float64Array.from({ length }, (_, i) => (shape !== null ? (shape[0] ?? 1) : shapes![i * rank]!)), column.missing);
  }
  const one = (value: Val): Val => {
    if (value === null) return null;
    const count = typeof value === "string" ? lettersOf(value) : Array.isArray(value) ? value.length : value instanceof Nd ? (value.shape[0] ?? 1) : typeof value === "object" && !(value instanceof Num) ? Object.keys(value).length : 1;
    return new Nd("int64", [], Float64Array.of(count));
  };
  if (column instanceof Constant) return new Constant(one(column.value), column.length);
  if (column.isText) return wholes(column.items.map((item) => (item === null ? 0 : lettersOf(item as string))), column.missing);
  return byRow(column.length, [column], one);
}

/** Letters of a text, each of which is one or two units. */
export function lettersOf(text: string): number {
  let count = text.length;
  for (let i = 0; i < text.length; i++) if ((text.charCodeAt(i) & 0xfc00) === 0xd800) count--;
  return count;
}

