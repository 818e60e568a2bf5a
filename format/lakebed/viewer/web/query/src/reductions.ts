/** Reductions of the values of a sample, all of them or along an axis; after Python's `values/reductions.py`. */

import {
  Arrays, Constant, Items, Nd, Num, byRow, isWhole, isWide, joint, product, room, rowError, withoutValue, wholes, type Column, type Data, type Dtype, type Val,
} from "./columns";
import { NeedsView } from "./errors";
import { compareTexts } from "./numbers";

/** Reductions whose result is missing for a sample without values; the sum of nothing is 0. */
const NEED_VALUES = new Set(["AVG", "STD", "AMIN", "AMAX", "MEDIAN", "ARG_MIN", "ARG_MAX"]);

/** Some numbers of an array: how many, from where, and how far apart. */
interface Run {
  data: Data;
  dtype: Dtype;
  start: number;
  count: number;
  step: number;
  /** Whether Python has all values as numbers of 64 bits: those of samples of many shapes. */
  isRagged: boolean;
}

/** A result, and how far that of Python may be from it. */
type Found = [value: number | bigint, error: number];

export function reduced(name: string, column: Column, axis: number | null = null): Column {
  if (!(column instanceof Arrays)) return ofItems(name, column, axis);
  if (column.error !== null && name !== "COUNT") throw new NeedsView(`${name} of numbers that are rounded`);
  if (column.dtype === "float16" && name !== "COUNT") throw new NeedsView("numbers of 16 bits with a point");
  if (axis !== null) return alongAxis(name, column, axis);
  const { length, offsets, dtype, data, missing } = column;
  const out = resultDtype(name, dtype);
  const needs = NEED_VALUES.has(name);
  const [values, errors, empty] = [roomLike(name, data, out, length), new Float64Array(length), new Uint8Array(length)];
  let isSure = true;
  const run: Run = { data, dtype, start: 0, count: 0, step: 1, isRagged: column.shape === null };
  for (let i = 0; i < length; i++) {
    const isGone = missing !== null && missing[i] === 1;
    run.start = offsets[i]!;
    run.count = isGone ? 0 : offsets[i + 1]! - run.start;
    if (needs && run.count === 0) {
      empty[i] = 1;
      continue;
    }
    const [value, error] = REDUCTIONS[name]!(run);
    values[i] = value as never;
    if (error > 0) [errors[i], isSure] = [error, false];
  }
  const found = Arrays.scalars(out, values).withError(isSure ? null : errors);
  return empty.includes(1) ? withoutValue(found, empty) : found;
}

function resultDtype(name: string, dtype: Dtype): Dtype {
  if (name === "ANY" || name === "ALL" || name === "ALL_STRICT") return "bool";
  if (name.startsWith("ARG_") || name === "COUNT") return "int64";
  if (name.endsWith("_NORM")) return "float32";
  if (name === "AMIN" || name === "AMAX") return dtype;
  if (name === "SUM" || name === "PROD") return isWhole(dtype) ? "int64" : dtype;
  return isWhole(dtype) ? "float64" : dtype;
}

const roomLike = (name: string, data: Data, dtype: Dtype, length: number): Data =>
  isWide(data) && (name === "AMIN" || name === "AMAX") ? (data instanceof BigInt64Array ? new BigInt64Array(length) : new BigUint64Array(length)) : room(name === "AVG" ? "float64" : dtype, length);

function alongAxis(name: string, column: Arrays, axis: number): Column {
  if (column.shape === null || column.missing !== null)
    return byRow(column.length, [column], (value) => {
      const nd = value as Nd;
      return nd.data.length === 0 && column.missing !== null ? null : ofArray(name, nd, axis);
    });
  const { shape } = column;
  const rank = shape.length;
  if (!(axis >= -rank && axis < rank)) throw rowError(`samples of ${rank} axes have no axis ${axis}`, "rank");
  const place = axis < 0 ? axis + rank : axis;
  if (NEED_VALUES.has(name) && shape[place] === 0) return new Constant(null, column.length);
  const { values, errors } = strided(name, column.data, column.dtype, column.length * product(shape.slice(0, place)), shape[place]!, product(shape.slice(place + 1)));
  return Arrays.even(resultDtype(name, column.dtype), values, column.length, [...shape.slice(0, place), ...shape.slice(place + 1)]).withError(errors);
}

function strided(name: string, data: Data, dtype: Dtype, outer: number, count: number, inner: number): { values: Data; errors: Float64Array | null } {
  const values = roomLike(name, data, resultDtype(name, dtype), outer * inner);
  const errors = new Float64Array(values.length);
  for (let i = 0; i < outer; i++)
    for (let j = 0; j < inner; j++) {
      const [value, error] = REDUCTIONS[name]!({ data, dtype, start: i * count * inner + j, count, step: inner, isRagged: false });
      values[i * inner + j] = value as never;
      errors[i * inner + j] = error;
    }
  return { values, errors: errors.some((error) => error > 0) ? errors : null };
}

function ofArray(name: string, value: Nd, axis: number | null): Val {
  const rank = value.shape.length;
  if (axis !== null && !(axis >= -rank && axis < rank)) throw rowError(`a sample of ${rank} axes has no axis ${axis}`, "rank");
  const place = axis === null ? 0 : axis < 0 ? axis + rank : axis;
  const [before, count, after] = axis === null ? [1, value.data.length, 1] : [product(value.shape.slice(0, place)), value.shape[place]!, product(value.shape.slice(place + 1))];
  if (NEED_VALUES.has(name) && (axis === null ? value.shape.includes(0) : count === 0)) return null;
  const { values, errors } = strided(name, value.data, value.dtype, before, count, after);
  if (errors !== null) throw new NeedsView(`${name} of floats whose sum is rounded, in a list`);
  return new Nd(resultDtype(name, value.dtype), axis === null ? [] : [...value.shape.slice(0, place), ...value.shape.slice(place + 1)], values);
}

function ofItems(name: string, column: Items | Constant, axis: number | null): Column {
  const one = (value: Val): Val => {
    if (value === null && axis !== null) return null;
    const array = arrayOf(value);
    if (!(array instanceof Nd)) {
      if (axis !== null || name.startsWith("ARG_")) throw new NeedsView(`${name} of lists of texts`);
      if (name === "AMIN" || name === "AMAX") return array.reduce((a, b) => (compareTexts(a, b) < 0 === (name === "AMIN") ? a : b));
      if (name === "ANY" || name === "ALL" || name === "ALL_STRICT") return true;
      throw rowError("numbers are needed here, not text", "type");
    }
    return ofArray(name, array, axis);
  };
  if (column instanceof Constant) return new Constant(one(column.value), column.length);
  return byRow(column.length, [column], one);
}

/** A value as an array of numbers; a list of texts as it is. */
export function arrayOf(value: Val): Nd | string[] {
  if (value === null) return new Nd("float64", [0], new Float64Array(0));
  if (value instanceof Nd) return value;
  if (value instanceof Num) return new Nd(value.dtype, [], Float64Array.of(Number(value.value)));
  if (Array.isArray(value)) {
    const items = value.filter((item) => item !== null);
    if (items.length && items.every((item) => typeof item === "string")) return items as string[];
    if (items.length && items.every((item) => item instanceof Nd)) {
      const arrays = items as Nd[];
      const dtype = joint(arrays.map((one) => one.dtype));
      if (arrays.some((one) => isWide(one.data))) throw new NeedsView("a function of integers beyond 2^53 in a list");
      const data = room(dtype, arrays.reduce((sum, one) => sum + one.data.length, 0));
      let at = 0;
      for (const one of arrays) {
        data.set(one.data as never, at);
        at += one.data.length;
      }
      return new Nd(dtype, [data.length], data);
    }
    if (items.every((item) => typeof item === "number")) return new Nd(items.length && items.every(Number.isInteger) ? "int64" : "float64", [items.length], Float64Array.from(items as number[]));
    if (items.every((item) => typeof item === "boolean")) return new Nd("bool", [items.length], Uint8Array.from(items, Number));
    throw new NeedsView("a function of lists of several kinds");
  }
  if (typeof value === "number") return new Nd(Number.isInteger(value) ? "int64" : "float64", [], Float64Array.of(value));
  if (typeof value === "boolean") return new Nd("bool", [], Uint8Array.of(Number(value)));
  if (typeof value === "bigint") throw new NeedsView("a function of integers beyond 2^53");
  throw rowError("numbers are needed here, not text", "type");
}

// -- one run of numbers -----------------------------------------------------------------------------------------------

function numbers({ data }: Run): Exclude<Data, BigInt64Array | BigUint64Array> {
  if (isWide(data)) throw new NeedsView("a function of integers beyond 2^53");
  return data;
}

const bitsOf = (dtype: Dtype): number => (dtype === "float32" ? 24 : dtype === "float16" ? 11 : 53);

/** The sum of a function of some numbers; no error where it is the same in any order, in floats of so many bits. */
export function summed(run: Run, bits: number, of: (value: number) => number = (value) => value): Found {
  const data = numbers(run);
  const { start, count, step } = run;
  let [sum, most] = [0, 0];
  for (let i = 0; i < count; i++) {
    const value = of(data[start + i * step]!);
    sum += value;
    most += Math.abs(value);
  }
  if (!Number.isFinite(most)) {
    if (isWhole(run.dtype)) throw new NeedsView("integers beyond 2^53");
    return [sum, 0];
  }
  if (most === 0) return [0, 0];
  const scale = 2 ** (bits - 1 - Math.floor(Math.log2(most)));
  let isExact = most * scale <= 2 ** bits;
  for (let i = 0; isExact && i < count; i++) isExact = Number.isInteger(of(data[start + i * step]!) * scale);
  if (isExact) return [sum, 0];
  if (isWhole(run.dtype)) throw new NeedsView("integers beyond 2^53");
  if (bits === 24 && most > 3e38) throw new NeedsView("sums beyond the largest float32");
  return [sum, 2 * count * 2 ** -bits * most];
}

/** A number as a float32, and whether that is sure. */
function narrow([value, error]: Found): Found {
  const found = Math.fround(value as number);
  return [found, Math.fround((value as number) - error) === Math.fround((value as number) + error) ? 0 : Math.abs(found) * 2 ** -22 + error];
}

function average(run: Run): Found {
  const isNarrow = run.dtype === "float32" && !run.isRagged;
  const [sum, error] = summed(run, isNarrow ? 24 : 53) as [number, number];
  const value = sum / run.count;
  if (run.dtype !== "float32") return [value, error === 0 ? 0 : error / run.count + Math.abs(value) * 2 ** -52];
  const found = isNarrow ? Math.fround(value) : value;
  return [found, error === 0 ? 0 : error / run.count + Math.abs(value) * 2 ** -23];
}

function deviation(run: Run): Found {
  const data = numbers(run);
  const { start, count, step } = run;
  let [mean, most] = [0, 0];
  for (let i = 0; i < count; i++) {
    const value = data[start + i * step]!;
    mean += value / count;
    most = Math.max(most, Math.abs(value));
  }
  let sum = 0;
  for (let i = 0; i < count; i++) sum += (data[start + i * step]! - mean) ** 2;
  const found = Math.sqrt(sum / count);
  return [found, count === 1 || Number.isNaN(found) ? 0 : 16 * (count + 8) * 2 ** -bitsOf(run.dtype) * most];
}

function extreme(run: Run, isBetter: (a: number, b: number) => boolean): number {
  const { data, start, count, step } = run;
  let best = 0;
  for (let i = 0; i < count; i++) {
    const value = data[start + i * step] as number;
    if (Number.isNaN(value)) return i;
    if (i > 0 && isBetter(value, data[start + best * step] as number)) best = i;
  }
  return best;
}

function middle(run: Run): Found {
  const data = numbers(run);
  const { start, count, step } = run;
  const sorted = Float64Array.from({ length: count }, (_, i) => data[start + i * step]!).sort();
  if (Number.isNaN(sorted[count - 1])) return [NaN, 0];
  const half = count >> 1;
  if (count % 2) return [sorted[half]!, 0];
  const sum = sorted[half - 1]! + sorted[half]!;
  return [run.dtype === "float32" ? Math.fround(Math.fround(sum) / 2) : sum / 2, 0];
}

function multiplied(run: Run): Found {
  const data = numbers(run);
  const { start, count, step, dtype } = run;
  let found = 1;
  let isExact = true;
  for (let i = 0; i < count; i++) {
    const value = data[start + i * step]!;
    const next = found * value;
    isExact &&= dtype === "float32" ? Math.fround(next) === next || Number.isNaN(next) : Math.abs(next) <= Number.MAX_SAFE_INTEGER && Number.isInteger(value) && Number.isInteger(found);
    found = next;
  }
  if (isExact || count <= 1) return [found, 0];
  if (isWhole(dtype)) throw new NeedsView("integers beyond 2^53");
  return [found, 2 * count * 2 ** -bitsOf(dtype) * Math.abs(found)];
}

function tested(run: Run, whether: boolean): boolean {
  const { data, start, count, step } = run;
  for (let i = 0; i < count; i++) if ((data[start + i * step]! != 0) === whether) return true;
  return false;
}

/** Squares: those of samples of one shape are rounded to the precision of the numbers. */
const square = (run: Run): ((value: number) => number) => (run.dtype === "float32" && !run.isRagged ? (value) => Math.fround(value * value) : (value) => value * value);

const REDUCTIONS: { [name: string]: (run: Run) => Found } = {
  SUM: (run) => summed(run, run.dtype === "float32" ? 24 : 53),
  PROD: multiplied,
  AVG: average,
  STD: deviation,
  MEDIAN: middle,
  AMIN: (run) => [run.data[run.start + run.step * extreme(run, (a, b) => a < b)]!, 0],
  AMAX: (run) => [run.data[run.start + run.step * extreme(run, (a, b) => a > b)]!, 0],
  ARG_MIN: (run) => [extreme(run, (a, b) => a < b), 0],
  ARG_MAX: (run) => [extreme(run, (a, b) => a > b), 0],
  ANY: (run) => [Number(tested(run, true)), 0],
  ALL: (run) => [Number(!tested(run, false)), 0],
  ALL_STRICT: (run) => [Number(run.count > 0 && !tested(run, false)), 0],
  COUNT: (run) => [run.count, 0],
  L1_NORM: (run) => narrow(summed(run, 53, Math.abs)),
  L2_NORM: (run) => {
    const [sum, error] = summed(run, 53, square(run)) as [number, number];
    const found = Math.sqrt(sum);
    return narrow([found, error === 0 ? 0 : error / Math.max(found, Math.sqrt(error)) + found * 2 ** -52]);
  },
  LINF_NORM: (run) => {
    const data = numbers(run);
    let most = 0;
    for (let i = 0; i < run.count; i++) {
      const value = Math.abs(data[run.start + i * run.step]!);
      if (!(value <= most)) most = value;
      if (Number.isNaN(most)) break;
    }
    return [Math.fround(most), 0];
  },
};

// -- items ------------------------------------------------------------------------------------------------------------

/** Items of each sample: along its first axis, of a list or document, or the letters of a text. */
export function itemsOf(column: Column): Column {
  if (column instanceof Arrays) {
    if (column.shape !== null) return wholes(new Float64Array(column.length).fill(column.shape[0] ?? 1), column.missing);
    return wholes(Float64Array.from({ length: column.length }, (_, i) => column.shapes![i * column.rank]!), column.missing);
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

