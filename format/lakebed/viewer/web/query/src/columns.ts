/** Columns: the values of many rows, as typed arrays, as a list, or one for all; after Python's `values/columns.py`. */

import type { Json } from "../../reader/src";
import { NeedsView, QueryError } from "./errors";

export type Dtype =
  | "bool" | "int8" | "int16" | "int32" | "int64" | "uint8" | "uint16" | "uint32" | "uint64" | "float16" | "float32" | "float64";
export type Data =
  | Uint8Array | Int8Array | Uint16Array | Int16Array | Uint32Array | Int32Array | Float32Array | Float64Array | BigInt64Array | BigUint64Array;
export type Mask = Uint8Array | null;
export type Rows = Int32Array;

/** b of booleans, i and u of integers, f of floats. */
export const kindOf = (dtype: Dtype): "b" | "i" | "u" | "f" => dtype[0] as "b" | "i" | "u" | "f";
export const isWhole = (dtype: Dtype): boolean => kindOf(dtype) !== "f";

const ROOMS: { [dtype in Dtype]?: new (length: number) => Data } = {
  bool: Uint8Array, uint8: Uint8Array, int8: Int8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array,
  float16: Float32Array, float32: Float32Array,
};

/** Room for numbers of a dtype; those of 64 bits are numbers of JavaScript, as long as all of them are exact. */
export const room = (dtype: Dtype, length: number): Data => new (ROOMS[dtype] ?? Float64Array)(length);
export const roomLike = <T extends Data>(data: T, length: number): T => new (data.constructor as new (length: number) => T)(length);

/** Parts one behind the other. */
export function filled<T extends Data>(whole: T, parts: Iterable<ArrayLike<number | bigint>>): T {
  let at = 0;
  for (const part of parts) {
    whole.set(part as never, at);
    at += part.length;
  }
  return whole;
}

export function gathered<T extends Data>(data: T, index: ArrayLike<number>): T {
  const found = roomLike(data, index.length);
  for (let i = 0; i < found.length; i++) found[i] = data[index[i]!]!;
  return found;
}

export const isWide = (data: Data): data is BigInt64Array | BigUint64Array => data instanceof BigInt64Array || data instanceof BigUint64Array;

/** Numbers of 64 bits as numbers of JavaScript where these hold them exactly. */
export function narrowed(data: Data): Data {
  if (!isWide(data)) return data;
  const found = new Float64Array(data.length);
  // Words are read faster than numbers of any length.
  const words = new Uint32Array(data.buffer, data.byteOffset, data.length * 2);
  const isSigned = data instanceof BigInt64Array;
  for (let i = 0; i < data.length; i++) {
    const high = isSigned ? words[2 * i + 1]! | 0 : words[2 * i + 1]!;
    if (high >= 0x200000 || high < -0x200000) return data;
    found[i] = high * 4294967296 + words[2 * i]!;
  }
  return found;
}

/** An array of any shape in C order. */
export class Nd {
  constructor(
    readonly dtype: Dtype,
    readonly shape: readonly number[],
    readonly data: Data,
  ) {}
}

/** A number of the query's text: in comparisons it takes the dtype of the array beside it. */
export class Num {
  constructor(
    readonly value: number | bigint,
    readonly type: "bool" | "int" | "float",
  ) {}

  get dtype(): Dtype {
    if (this.type !== "int") return this.type === "bool" ? "bool" : "float64";
    return this.value > 2n ** 63n - 1n ? "uint64" : "int64";
  }
}

/** One value: numbers and booleans that are no `Num` are of JSON. */
export type Val = null | string | Num | Nd | number | bigint | boolean | Val[] | { [key: string]: Json };

/** Arrays of one shape (`shape`), or of one rank and any shapes (`shapes`, rank numbers for each row). */
export class Arrays {
  private made: Float64Array | null = null;
  /** How far each number may be from the one of Python, which adds in another order; null where all are the same. */
  error: Float64Array | null = null;
  /** Whether the numbers are of JSON, of which nothing tells whether 1 was written 1 or 1.0. */
  loose = false;

  constructor(
    readonly dtype: Dtype,
    readonly data: Data,
    readonly length: number,
    readonly shape: readonly number[] | null,
    readonly shapes: ArrayLike<number> | null,
    readonly rank: number,
    readonly missing: Mask = null,
  ) {}

  static even(dtype: Dtype, data: Data, length: number, shape: readonly number[], missing: Mask = null): Arrays {
    return new Arrays(dtype, data, length, shape, null, shape.length, missing);
  }

  static ragged(dtype: Dtype, data: Data, length: number, shapes: ArrayLike<number>, rank: number, missing: Mask = null): Arrays {
    return new Arrays(dtype, data, length, null, shapes, rank, missing);
  }

  /** One number or flag for each row. */
  static scalars(dtype: Dtype, data: Data, missing: Mask = null): Arrays {
    return new Arrays(dtype, data, data.length, [], null, 0, missing);
  }

  /** The same places with other numbers. */
  like(dtype: Dtype, data: Data, missing: Mask = this.missing): Arrays {
    const found = new Arrays(dtype, data, this.length, this.shape, this.shapes, this.rank, missing);
    found.made = this.made;
    return found.isLoose(this.loose);
  }

  withError(error: Float64Array | null): this {
    this.error = error?.some((one) => one > 0) ? error : null;
    return this;
  }

  isLoose(loose: boolean): this {
    this.loose = loose;
    return this;
  }

  /** Numbers of each sample of one shape. */
  get size(): number {
    return product(this.shape!);
  }

  /** Where each row begins in the data, and the end of the last. */
  get offsets(): Float64Array {
    if (this.made !== null) return this.made;
    const found = (this.made = new Float64Array(this.length + 1));
    const { rank, shapes } = this;
    const size = this.shape === null ? 1 : this.size;
    for (let i = 0; i < this.length; i++) {
      let own = size;
      if (shapes !== null) for (let axis = 0; axis < rank; axis++) own *= shapes[i * rank + axis]!;
      found[i + 1] = found[i]! + own;
    }
    return found;
  }

  shapeOf(row: number): readonly number[] {
    return this.shape ?? Array.from({ length: this.rank }, (_, axis) => this.shapes![row * this.rank + axis]!);
  }

  row(i: number): Nd | null {
    return this.missing?.[i] ? null : new Nd(this.dtype, this.shapeOf(i), this.data.subarray(this.offsets[i]!, this.offsets[i + 1]!));
  }
}

/** Texts, JSON values, lists, and arrays of several ranks; `isText` where all are texts. */
export class Items {
  constructor(
    readonly items: Val[],
    readonly isText: boolean = false,
  ) {}

  get length(): number {
    return this.items.length;
  }

  get missing(): Mask {
    return marks(this.items, (item) => item === null);
  }
}

/** One value for all rows. */
export class Constant {
  constructor(
    readonly value: Val,
    readonly length: number,
  ) {}

  get missing(): Mask {
    return this.value === null ? new Uint8Array(this.length).fill(1) : null;
  }
}

/** A mask of the values that a test is true for; null where there is none. */
export function marks<T>(values: ArrayLike<T>, test: (value: T) => boolean): Mask {
  const found = Uint8Array.from(values as ArrayLike<never>, (value) => (test(value) ? 1 : 0));
  return found.includes(1) ? found : null;
}

export type Column = Arrays | Items | Constant;

export const product = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);
export const flagsOf = (data: Uint8Array): Arrays => Arrays.scalars("bool", data);
export const wholes = (numbers: ArrayLike<number>, missing: Mask = null): Arrays => Arrays.scalars("int64", Float64Array.from(numbers), missing);
export const texts = (items: (string | null)[]): Items => new Items(items, true);
export const scalar = (dtype: Dtype, value: number): Nd => new Nd(dtype, [], Float64Array.of(value));
export const isDocument = (value: Val): value is { [key: string]: Json } =>
  value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Nd) && !(value instanceof Num);

/** The values of all rows, null for missing ones. */
export function rowsOf(column: Column): Val[] {
  if (column instanceof Items) return column.items;
  if (column instanceof Constant) return new Array<Val>(column.length).fill(column.value);
  if (column.error !== null) throw new NeedsView("a function of numbers that are rounded");
  // A number of JSON is the value that it was.
  const isBare = column.loose && column.rank === 0;
  const valueAt = (i: number): Val => (column.dtype === "bool" ? column.data[i] === 1 : column.data[i]!);
  return Array.from({ length: column.length }, (_, i) => (isBare && !column.missing?.[i] ? valueAt(i) : column.row(i)));
}

/** The values of all rows as functions take them: missing ones are empty arrays or texts. */
export function computedRows(column: Column): Val[] {
  const found = rowsOf(column);
  if (column instanceof Items) return column.isText ? found.map((text) => text ?? "") : found;
  if (column instanceof Constant || column.missing === null) return found;
  const empty = nothingOf(column.dtype);
  return found.map((value) => value ?? empty);
}

const NOTHING = new Map<Dtype, Nd>();

/** The array that stands for a missing sample: identity tells it from one that is stored as empty. */
export function nothingOf(dtype: Dtype): Nd {
  let found = NOTHING.get(dtype);
  if (found === undefined) NOTHING.set(dtype, (found = new Nd(dtype, [0], room(dtype, 0))));
  return found;
}

/** An item of a list, null for a missing sample of a group. */
export const itemOf = (value: Val): Val => (value instanceof Nd && value === nothingOf(value.dtype) ? null : value);

/** The rows that numbers select. */
export function take(column: Column, rows: Rows): Column {
  if (column instanceof Constant) return new Constant(column.value, rows.length);
  if (column instanceof Items) return new Items(Array.from(rows, (row) => column.items[row]!), column.isText);
  const { dtype, data, shape, shapes, rank, error } = column;
  const missing = column.missing && gathered(column.missing, rows);
  const index = shape !== null && column.size === 1 ? rows : insides(column.offsets, rows);
  const picked = shapes && Float64Array.from({ length: rows.length * rank }, (_, i) => shapes[rows[Math.floor(i / rank)]! * rank + (i % rank)]!);
  return new Arrays(dtype, gathered(data, index), rows.length, shape, picked, rank, missing).withError(error && gathered(error, index)).isLoose(column.loose);
}

/** The places of all numbers of some rows. */
function insides(at: Float64Array, rows: Rows): Int32Array {
  const found = new Int32Array(rows.reduce((sum, row) => sum + at[row + 1]! - at[row]!, 0));
  let place = 0;
  for (const row of rows) for (let from = at[row]!; from < at[row + 1]!; from++) found[place++] = from;
  return found;
}

export function placesOf(mask: Uint8Array): Rows {
  let count = 0;
  for (let i = 0; i < mask.length; i++) count += mask[i]!;
  const found = new Int32Array(count);
  for (let i = 0, at = 0; i < mask.length; i++) if (mask[i]) found[at++] = i;
  return found;
}

export function span(start: number, stop: number): Rows {
  const found = new Int32Array(stop - start);
  for (let i = 0; i < found.length; i++) found[i] = start + i;
  return found;
}

/** Whether rows follow each other. */
export function isRun(rows: Rows): boolean {
  for (let i = 1; i < rows.length; i++) if (rows[i] !== rows[i - 1]! + 1) return false;
  return true;
}

/** The column that holds values; null is missing. */
export function collect(values: Val[]): Column {
  const has = (test: (value: Val) => boolean): boolean => values.some((value) => value !== null && test(value));
  const isLarge = has((value) => typeof value === "bigint");
  const hasText = has((value) => typeof value === "string");
  const isLoose = has((value) => typeof value === "number");
  const isOther = has((value) => Array.isArray(value) || isDocument(value));
  // Among other numbers they may be rounded to floats.
  if (isLarge && !isOther && !hasText) throw new NeedsView("integers of JSON beyond 2^53");
  const hasNumber = isLoose || has((value) => value instanceof Nd || value instanceof Num || typeof value === "boolean");
  if (isOther || isLarge || hasText === hasNumber) return new Items(values);
  return hasText ? texts(values as string[]) : (numbersOf(values)?.isLoose(isLoose) ?? new Items(values));
}

/** A single number as it is in JavaScript; other values as they are. */
export function unwrapped(value: Val): Val {
  if (value instanceof Num) return value.value;
  return value instanceof Nd && value.data.length === 1 ? value.data[0]! : value;
}

/** A number as an array. */
export function asNd(value: Nd | Num | number | boolean): Nd {
  if (value instanceof Nd) return value;
  if (value instanceof Num) {
    if (typeof value.value === "bigint") throw new NeedsView("arithmetic beyond 2^53");
    return scalar(value.dtype, value.value);
  }
  return typeof value === "boolean" ? scalar("bool", Number(value)) : scalar(Number.isInteger(value) ? "int64" : "float64", value);
}

function numbersOf(values: Val[]): Arrays | null {
  const arrays = values.map((value) => (value === null ? null : asNd(value as Nd)));
  const known = arrays.filter((one) => one !== null);
  const missing = marks(arrays, (one) => one === null);
  const dtype = joint(known.map((one) => one.dtype));
  const { shape } = known[0]!;
  const isEven = known.every((one) => one.shape.length === shape.length && one.shape.every((extent, axis) => extent === shape[axis]));
  const rank = isEven ? shape.length : known.reduce((most, one) => Math.max(most, one.shape.length), 1);
  const isOdd = (one: Nd): boolean => !isEven && Math.max(1, one.shape.length) !== rank;
  if (known.some((one) => isOdd(one) && one.data.length > 0)) return null;
  const size = product(shape);
  const shapes = isEven ? null : new Float64Array(arrays.length * rank);
  const data = roomFor(dtype, known, isEven ? size * arrays.length : known.reduce((sum, one) => sum + one.data.length, 0));
  let at = 0;
  arrays.forEach((one, i) => {
    if (one !== null) {
      if (!isOdd(one)) shapes?.set(one.shape.length ? one.shape : [1], i * rank);
      data.set(one.data as never, at);
    }
    at += isEven ? size : (one?.data.length ?? 0);
  });
  return new Arrays(dtype, data, arrays.length, isEven ? shape : null, shapes, rank, missing);
}

function roomFor(dtype: Dtype, parts: { data: Data }[], length: number): Data {
  const wide = parts.filter(({ data }) => isWide(data));
  if (!wide.length) return room(dtype, length);
  if (wide.length < parts.length) throw new NeedsView("integers beyond 2^53 beside others");
  return dtype === "uint64" ? new BigUint64Array(length) : new BigInt64Array(length);
}

const ORDER: Dtype[] = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"];

/** The dtype that holds numbers of several, as NumPy finds it; integers of both signs are int64. */
export function joint(dtypes: Dtype[]): Dtype {
  return dtypes.reduce((a, b) => {
    if (a === b) return a;
    if (isWhole(a) && isWhole(b)) {
      const wider = ORDER.indexOf(a) > ORDER.indexOf(b) ? a : b;
      const isMixed = kindOf(a) !== kindOf(b) && kindOf(a) !== "b" && kindOf(b) !== "b";
      return isMixed ? "int64" : wider;
    }
    const bits = (one: Dtype): number => Number(/\d+/.exec(one)?.[0] ?? 1);
    const need = (one: Dtype): number => (isWhole(one) ? (bits(one) <= 8 ? 16 : bits(one) <= 16 ? 32 : 64) : bits(one));
    return `float${Math.max(need(a), need(b))}` as Dtype;
  });
}

/** Columns one behind the other. */
export function concatenated(given: Column[]): Column {
  const parts = given.some((part) => part.length) ? given.filter((part) => part.length) : given.slice(0, 1);
  if (parts.length === 1) return parts[0]!;
  if (parts.every((part) => part instanceof Items && part.isText)) return texts(parts.flatMap((part) => (part as Items).items as string[]));
  if (!parts.every((part) => part instanceof Arrays)) return collect(parts.flatMap(rowsOf));
  const arrays = parts as Arrays[];
  const first = arrays[0]!;
  const isEven = arrays.every((part) => part.shape !== null && part.shape.join() === first.shape?.join());
  const ragged = isEven ? arrays : arrays.map(asRagged);
  if (!isEven && !ragged.every((part) => part.rank === ragged[0]!.rank)) return collect(parts.flatMap(rowsOf));
  const count = (of: (part: Arrays) => number): number => ragged.reduce((sum, part) => sum + of(part), 0);
  const [length, total] = [count((part) => part.length), count((part) => part.data.length)];
  const dtype = joint(ragged.map((part) => part.dtype));
  const data = filled(roomFor(dtype, ragged, total), ragged.map((part) => part.data));
  const missing = ragged.some((part) => part.missing !== null) ? filled(new Uint8Array(length), ragged.map((part) => part.missing ?? new Uint8Array(part.length))) : null;
  const error = ragged.some((part) => part.error !== null) ? filled(new Float64Array(total), ragged.map((part) => part.error ?? new Float64Array(part.data.length))) : null;
  const { rank } = ragged[0]!;
  const shapes = isEven ? null : filled(new Float64Array(length * rank), ragged.map((part) => part.shapes!));
  return new Arrays(dtype, data, length, isEven ? first.shape : null, shapes, rank, missing).withError(error).isLoose(arrays.some((part) => part.loose));
}

/** Arrays of one shape as a ragged column; single numbers become arrays of one. */
export function asRagged(column: Arrays): Arrays {
  if (column.shape === null) return column;
  const { length, missing } = column;
  const shape = column.shape.length ? column.shape : [1];
  const shapes = new Float64Array(length * shape.length);
  for (let i = 0; i < length; i++) if (!missing?.[i]) shapes.set(shape, i * shape.length);
  const { data, error } = missing === null ? column : (take(column, placesOf(missing.map((gone) => 1 - gone))) as Arrays);
  return Arrays.ragged(column.dtype, data, length, shapes, shape.length, missing).withError(error).isLoose(column.loose);
}

/** Columns one behind the other, with their rows in the given places, which are all from 0 on. */
export function inPlaces(parts: Column[], places: Rows[]): Column {
  const whole = concatenated(parts);
  const inverse = new Int32Array(whole.length);
  let row = 0;
  for (const some of places) for (const place of some) inverse[place] = row++;
  return take(whole, inverse);
}

/** A column of one number for each row, which may be missing; null where rows hold several. */
export function scalars(column: Column): Arrays | null {
  if (!(column instanceof Arrays)) return null;
  const { length, dtype, data, missing, error, offsets: at } = column;
  if (column.shape !== null) return length && column.size !== 1 ? null : Arrays.scalars(dtype, data, missing).withError(error);
  for (let i = 0; i < length; i++) if (at[i + 1]! - at[i]! > 1) return null;
  const index = data.length ? at.subarray(0, length).map((start) => Math.min(start, data.length - 1)) : [];
  const gone = Uint8Array.from({ length }, (_, i) => (at[i + 1] === at[i] ? 1 : 0));
  return Arrays.scalars(dtype, data.length ? gathered(data, index) : room(dtype, length), gone).withError(error && data.length ? gathered(error, index) : null);
}

export function either(first: Mask, second: Mask): Mask {
  if (first === null || second === null) return first ?? second;
  return first.map((one, i) => one | second[i]!);
}

/** Mark more rows as missing. */
export function withoutValue(column: Column, missing: Mask): Column {
  if (missing === null || !missing.includes(1)) return column;
  if (column instanceof Arrays && column.shape !== null) return column.like(column.dtype, column.data, either(column.missing, missing)).withError(column.error);
  if (column instanceof Constant && !missing.includes(0)) return new Constant(null, column.length);
  return new Items(rowsOf(column).map((value, i) => (missing[i] ? null : value)), column instanceof Items && column.isText);
}

// -- truth values -----------------------------------------------------------------------------------------------------

/** Whether each row has a value, and all of its values are true. */
export function truth(column: Column): Uint8Array {
  if (column instanceof Constant) return new Uint8Array(column.length).fill(isTrue(column.value) ? 1 : 0);
  if (column instanceof Items) return Uint8Array.from(column.items, (item) => (isTrue(item) ? 1 : 0));
  const { data, missing } = column;
  if (column.error !== null) column.error.forEach((error, i) => error > 0 && Math.abs(Number(data[i])) <= error && rounded());
  const at = column.offsets;
  const found = new Uint8Array(column.length);
  for (let i = 0; i < found.length; i++) {
    let is = at[i + 1]! > at[i]! && !missing?.[i];
    for (let j = at[i]!; is && j < at[i + 1]!; j++) is = data[j] != 0;
    found[i] = is ? 1 : 0;
  }
  return found;
}

export function rounded(): never {
  throw new NeedsView("a comparison of numbers that differ by less than rounding");
}

export function isTrue(value: Val): boolean {
  if (value === null) return false;
  if (value instanceof Num) return value.value != 0;
  if (value instanceof Nd) return value.data.length > 0 && value.data.every((one: number | bigint) => one != 0);
  if (Array.isArray(value)) return value.length > 0 && value.every(isTrue);
  if (typeof value === "object") return Object.keys(value).length > 0;
  return typeof value === "number" ? value !== 0 : Boolean(value);
}

/** The operand of AND, OR and NOT: arrays as they are, the truth values of texts and constants. */
export function flags(column: Column): Column {
  if (column instanceof Items) return column.isText ? flagsOf(truth(column)) : column;
  if (column instanceof Constant && column.value !== null && !(column.value instanceof Nd)) return new Constant(new Num(isTrue(column.value) ? 1 : 0, "bool"), column.length);
  return column;
}

/** Call a function for each row, where no faster way is known. */
export function byRow(count: number, columns: Column[], compute: (...values: Val[]) => Val): Column {
  const lists = columns.map(computedRows);
  const found: Val[] = [];
  for (let i = 0; i < count; i++) found.push(compute(...lists.map((values) => values[i]!)));
  return collect(found);
}

/** An error of single rows: Python may not come to them, where conditions before leave few, or LIMIT ends early. */
export const rowError = (message: string, kind = "runtime"): QueryError => new QueryError(kind, message);
