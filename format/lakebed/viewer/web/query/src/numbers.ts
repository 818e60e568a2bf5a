/** Arithmetic and comparisons, value by value; values of one row broadcast as in NumPy. After Python's `values/elementwise.py`. */

import {
  Arrays, Constant, Items, Nd, Num, asNd, asRagged, byRow, either, flagsOf, isDocument, isWhole, isWide, joint, product, room, rounded,
  rowError, scalar, unwrapped, type Column, type Data, type Dtype, type Mask, type Val,
} from "./columns";
import { NeedsView, QueryError } from "./errors";

const SAFE = Number.MAX_SAFE_INTEGER;

/** An operation on numbers: the dtype of its results, and how two numbers make one. */
export interface Operation {
  name: string;
  dtype(a: Dtype, b: Dtype): Dtype;
  of(a: number, b: number, dtype: Dtype): number;
  /** What rounding of the operands does to the result: how far it may be off, null where that is not known. */
  error?(a: number, ea: number, b: number, eb: number, result: number): number;
  isComparison?: boolean;
}

// -- arithmetic -------------------------------------------------------------------------------------------------------

/** The dtype of sums, differences and products: integers have 64 bits. */
const wide = (a: Dtype, b: Dtype): Dtype => (isWhole(a) && isWhole(b) ? "int64" : joint([a, b]));
const rounding = (result: number, dtype: Dtype): number => Math.abs(result) * (dtype === "float32" ? 2 ** -23 : 2 ** -52);

function exact(value: number, dtype: Dtype): number {
  if (dtype === "int64" && !(Math.abs(value) <= SAFE)) throw new NeedsView("integers beyond 2^53");
  return value;
}

function modulo(a: number, b: number, dtype: Dtype): number {
  if (isWhole(dtype)) {
    if (b === 0) throw rowError("division of an integer by zero with %");
    const found = a % b;
    return (found !== 0 && found < 0 !== b < 0 ? found + b : found) + 0;
  }
  if (b === 0) return NaN;
  const found = a % b;
  if (found !== 0) return found < 0 !== b < 0 ? found + b : found;
  return Number.isNaN(found) ? found : b < 0 || Object.is(b, -0) ? -0 : 0;
}

/** A power that all libraries round alike, because no factor of it is rounded. */
function power(a: number, b: number): number {
  if (b === 0) return 1;
  if (Number.isInteger(b) && b > 0 && b <= 64 && Number.isFinite(a)) {
    let found = a;
    for (let i = 1; i < b && (found = times(found, a)) === found; i++);
    if (found === found) return found;
  }
  throw new NeedsView("^ of numbers whose power is rounded");
}

/** A product if it is exact, else NaN. */
function times(a: number, b: number): number {
  const found = a * b;
  const [ah, bh] = [a * 134217729 - (a * 134217729 - a), b * 134217729 - (b * 134217729 - b)];
  const [al, bl] = [a - ah, b - bh];
  return Number.isFinite(found) && al * bl - (found - ah * bh - al * bh - ah * bl) === 0 ? found : NaN;
}

const ARITHMETIC: { [sign: string]: Operation } = {
  "+": { name: "+", dtype: wide, of: (a, b, dtype) => exact(a + b, dtype), error: (_a, ea, _b, eb) => ea + eb },
  "-": { name: "-", dtype: wide, of: (a, b, dtype) => exact(a - b, dtype), error: (_a, ea, _b, eb) => ea + eb },
  "*": {
    name: "*", dtype: wide, of: (a, b, dtype) => (dtype === "int64" ? exact(a * b, dtype) + 0 : a * b),
    error: (a, ea, b, eb) => Math.abs(a) * eb + Math.abs(b) * ea + ea * eb,
  },
  "/": {
    name: "/", dtype: () => "float64", of: (a, b) => a / b,
    error: (a, ea, b, eb) => (Math.abs(b) > 2 * eb ? (ea + Math.abs(a / b) * eb) / (Math.abs(b) - eb) : eb + ea > 0 ? Infinity : 0),
  },
  "%": { name: "%", dtype: (a, b) => joint([a, b]), of: modulo },
  "^": { name: "^", dtype: () => "float64", of: power },
};

export function arithmetic(sign: string, left: Column, given: Column): Column {
  let right = given;
  if (sign === "%" && right instanceof Arrays && right.shape !== null && right.missing !== null) {
    const data = right.data.slice();
    for (let i = 0; i < data.length; i++) if (right.missing[Math.floor(i / right.size)]) data[i] = isWide(data) ? (1n as never) : 1;
    right = right.like(right.dtype, data);
  }
  if (sign === "%" && [left, right].some((side) => side instanceof Arrays && side.loose) && hasZero(right)) throw new NeedsView("% by zero of a number of JSON");
  if (sign === "%" && !left.length && left instanceof Arrays && isWhole(left.dtype) && right instanceof Constant && right.value instanceof Num && right.value.type === "int" && hasZero(right)) modulo(0, 0, "int64");
  return elementwise(left, right, ARITHMETIC[sign]!);
}

const hasZero = (column: Column): boolean => (column instanceof Arrays ? column.data.some((one: number | bigint) => one == 0) : column instanceof Constant && !(column.value instanceof Num && column.value.value != 0));

/** Change each number; integers of a narrow dtype stay what they are unless the dtype says otherwise. */
export function mapped(column: Column, name: string, dtypeOf: (dtype: Dtype) => Dtype, compute: (value: number, dtype: Dtype) => number, errorOf?: (value: number, error: number) => number): Column {
  const one = (item: Val): Nd | null => {
    const found = mapped(onlyRow(numeric(item, name)), name, dtypeOf, compute, errorOf) as Arrays;
    if (found.error !== null) throw new NeedsView(`${name} of such a value`);
    return found.row(0);
  };
  if (column instanceof Constant && typeof column.value !== "string") return new Constant(column.value && one(column.value), column.length);
  if (column instanceof Items && !column.isText) return byRow(column.length, [column], (value) => (isGroup(value) ? value.map(one) : value && one(value)));
  if (!(column instanceof Arrays)) throw new QueryError("type", `${name} needs numbers, not text`);
  if (isWide(column.data)) throw new NeedsView(`${name} of integers beyond 2^53`);
  if (column.dtype === "float16") throw new NeedsView("numbers of 16 bits with a point");
  if (column.error !== null && errorOf === undefined) throw new NeedsView(`${name} of numbers that are rounded`);
  const dtype = dtypeOf(column.dtype);
  const data = room(dtype, column.data.length);
  for (let i = 0; i < data.length; i++) data[i] = compute(column.data[i] as number, column.dtype);
  return column.like(dtype, data).withError(errorOf ? Float64Array.from(data as Float64Array, (value, i) => errorOf(value, column.error?.[i] ?? 0)) : null);
}

const onlyRow = (value: Nd): Arrays => Arrays.even(value.dtype, value.data, 1, value.shape);

export const negative = (column: Column): Column => mapped(column, "-", (dtype) => (isWhole(dtype) ? "int64" : dtype), (value, dtype) => (isWhole(dtype) ? 0 - value : -value), (_, error) => error);

function numeric(value: Val, name: string): Nd {
  if (value instanceof Nd || value instanceof Num || typeof value === "number" || typeof value === "boolean") return asNd(value);
  if (typeof value === "bigint") throw new NeedsView(`${name} of integers beyond 2^53`);
  if (Array.isArray(value)) throw new NeedsView(`${name} of lists`);
  throw rowError("arithmetic needs numbers", "type");
}

/** Whether a value is a list of arrays: the samples of a group. */
export const isGroup = (value: Val): value is Nd[] => Array.isArray(value) && value.length > 0 && value.every((item) => item instanceof Nd);

// -- comparisons ------------------------------------------------------------------------------------------------------

export const SIGNS = ["=", "!=", "<", "<=", ">", ">="];
export const MIRRORED: { [sign: string]: string } = { "=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<=" };

/** Comparisons of numbers; those of JavaScript round neither integers beside floats nor large ones. */
const OF: { [sign: string]: (a: never, b: never) => boolean } = {
  "=": (a, b) => a == b, "!=": (a, b) => a != b, "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b,
};
export const comparing = (sign: string): ((a: number | bigint | boolean, b: number | bigint | boolean) => boolean) => OF[sign] as never;

const COMPARISONS: { [sign: string]: Operation } = Object.fromEntries(
  SIGNS.map((sign) => {
    const compare = comparing(sign);
    const error = (a: number, ea: number, b: number, eb: number): number => (Math.abs(a - b) > ea + eb ? 0 : rounded());
    return [sign, { name: sign, dtype: () => "bool", of: (a, b) => Number(compare(a, b)), error, isComparison: true } satisfies Operation];
  }),
);

/** Order of texts: that of their letters, which is also that of their bytes in UTF-8. */
export function compareTexts(a: string, b: string): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const [one, other] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (one === other) continue;
    // Letters beyond 2^16 are pairs of units from 0xd800 on, before other units up to 0xffff.
    const isPair = one >= 0xd800 && one < 0xe000;
    if (isPair !== (other >= 0xd800 && other < 0xe000) && one >= 0xd800 && other >= 0xd800) return isPair ? 1 : -1;
    return one - other;
  }
  return a.length - b.length;
}

const compareText = (sign: string, a: string, b: string): boolean => (sign === "=" ? a === b : sign === "!=" ? a !== b : comparing(sign)(compareTexts(a, b), 0));

/** Values of different shape or kind are unequal, missing ones compare as false. */
export function compare(sign: string, left: Column, right: Column): Column {
  if (left instanceof Constant && !(right instanceof Constant)) return compare(MIRRORED[sign]!, right, left);
  const isText = (column: Column): boolean => (column instanceof Items && column.isText) || (column instanceof Constant && typeof column.value === "string");
  if (left instanceof Items && left.isText && isText(right)) {
    const others = right instanceof Items ? right.items : null;
    const fixed = right instanceof Constant ? (right.value as string) : null;
    return flagsOf(Uint8Array.from(left.items, (item, i) => {
      const other = fixed ?? others![i];
      return item !== null && other !== null && compareText(sign, item as string, other as string) ? 1 : 0;
    }));
  }
  const isPlain = (column: Column): boolean => column instanceof Arrays || (column instanceof Constant && (column.value instanceof Num || column.value instanceof Nd));
  if (!isPlain(left) || !isPlain(right)) return byRow(left.length, [left, right], (a, b) => documents(sign, a, b));
  return elementwise(left, right, COMPARISONS[sign]!);
}

/** Compare two values of JSON: lists value by value, values of different kinds as unequal, null as false. */
export function documents(sign: string, left: Val, right: Val): Val {
  const [a, b] = [plain(left), plain(right)];
  if (a === null || b === null) return false;
  if (Array.isArray(a) && !Array.isArray(b)) return told(a.map((item) => (isEmpty(item) ? NOTHING : documents(sign, item, b))));
  if (Array.isArray(b) && !Array.isArray(a)) return told(b.map((item) => (isEmpty(item) ? NOTHING : documents(sign, a, item))));
  if (Array.isArray(a) && Array.isArray(b)) {
    if (a.length !== b.length) return sign === "!=";
    return new Nd("bool", [a.length], Uint8Array.from(a, (item, i) => (allTrue(documents(sign, item, b[i]!)) ? 1 : 0)));
  }
  if ((typeof a === "string") !== (typeof b === "string") || isDocument(a) !== isDocument(b)) return sign === "!=";
  if (typeof a === "string") return compareText(sign, a, b as string);
  if (isDocument(a)) return sign === "=" ? equal(a, b) : sign === "!=" && !equal(a, b);
  return comparing(sign)(bare(a, b), bare(b, a));
}

const NOTHING = new Nd("bool", [0], new Uint8Array(0));
const isEmpty = (value: Val): boolean => value instanceof Nd && value.data.length === 0;
const allTrue = (value: Val): boolean => (value instanceof Nd ? value.data.every((one: number | bigint) => one != 0) : Array.isArray(value) ? value.every(allTrue) : Boolean(value));
/** A number, which takes the precision of the float of 32 bits beside it. */
function bare(value: Val, beside: Val): number | bigint | boolean {
  if (value instanceof Nd) return value.data[0]!;
  if (value instanceof Num) return value.type === "float" && beside instanceof Nd && beside.dtype === "float32" ? Math.fround(value.value as number) : value.value;
  return value as number;
}

function told(found: Val[]): Val {
  if (found.every((item) => typeof item === "boolean")) return new Nd("bool", [found.length], Uint8Array.from(found, Number));
  return found.map((item) => (typeof item === "boolean" ? new Nd("bool", [1], Uint8Array.of(Number(item))) : item));
}

/** An array as a value of JSON. */
function plain(value: Val): Val {
  if (!(value instanceof Nd)) return value;
  if (value.data.length === 0) return null;
  if (value.data.length === 1) return value.dtype === "bool" ? value.data[0] === 1 : value.data[0]!;
  return listed(value);
}

/** An array as nested lists. */
export function listed(value: Nd): Val {
  let at = 0;
  const build = (axis: number): Val => {
    if (axis === value.shape.length) return value.dtype === "bool" ? value.data[at++] === 1 : value.data[at++]!;
    return Array.from({ length: value.shape[axis]! }, () => build(axis + 1));
  };
  return build(0);
}

/** Whether two values are equal in Python: 1, 1.0 and true are. */
export function equal(a: Val, b: Val): boolean {
  if (a === null || b === null) return a === b;
  if (typeof a === "string" || typeof b === "string") return a === b;
  if (Array.isArray(a) || Array.isArray(b)) return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, i) => equal(item, b[i]!));
  if (isDocument(a) || isDocument(b)) {
    if (!isDocument(a) || !isDocument(b)) return false;
    const keys = Object.keys(a);
    return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && equal(a[key] as Val, b[key] as Val));
  }
  const [one, other] = [unwrapped(a), unwrapped(b)];
  if (one instanceof Nd || other instanceof Nd) throw new NeedsView("a comparison of arrays in lists");
  return one == other;
}

// -- two operands -----------------------------------------------------------------------------------------------------

/** Numbers of one operand, and the place of each number of the result among them. */
interface Side { dtype: Dtype; data: Data; error: Float64Array | null; isLiteral: boolean; place: (i: number) => number }

const own = (i: number): number => i;
const first = (): number => 0;

function sideOf(value: Arrays | Nd | Num, place: (i: number) => number): Side {
  if (!(value instanceof Num)) return { dtype: value.dtype, data: value.data, error: value instanceof Arrays ? value.error : null, isLiteral: false, place };
  const one = value.value;
  const data = typeof one === "number" ? Float64Array.of(one) : one < 0n ? BigInt64Array.of(one) : BigUint64Array.of(one);
  return { dtype: value.dtype, data, error: null, isLiteral: value.type === "float", place };
}

interface Made { dtype: Dtype; data: Data; error: Float64Array | null }

function applied(operation: Operation, a: Side, b: Side, count: number): Made {
  if (a.dtype === "float16" || b.dtype === "float16") throw new NeedsView("numbers of 16 bits with a point");
  if (!operation.isComparison && (isWide(a.data) || isWide(b.data))) throw new NeedsView(`${operation.name} of integers beyond 2^53`);
  const dtype = operation.dtype(a.dtype, b.dtype);
  const data = room(dtype, count);
  // A literal beside floats of 32 bits is one of them.
  const narrow = (one: Side, other: Side): Data => (operation.isComparison && one.isLiteral && other.dtype === "float32" ? Float64Array.of(Math.fround(one.data[0] as number)) : one.data);
  const [left, right] = [narrow(a, b), narrow(b, a)];
  for (let i = 0; i < count; i++) data[i] = operation.of(left[a.place(i)] as number, right[b.place(i)] as number, dtype);
  if (a.error === null && b.error === null) return { dtype, data, error: null };
  if (operation.error === undefined) throw new NeedsView(`${operation.name} of numbers that are rounded`);
  const error = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    const [at, to] = [a.place(i), b.place(i)];
    const [ea, eb] = [a.error?.[at] ?? 0, b.error?.[to] ?? 0];
    if (ea + eb > 0) error[i] = operation.error(Number(left[at]), ea, Number(right[to]), eb, data[i] as number) * 1.01 + 2 * rounding(data[i] as number, dtype);
  }
  return { dtype, data, error: operation.isComparison ? null : error };
}

export function elementwise(left: Column, right: Column, operation: Operation): Column {
  const count = left.length;
  const sides = [left, right];
  if (sides.some((side) => side instanceof Items && side.isText)) throw new QueryError("type", `${operation.name} needs numbers, not text`);
  if (left instanceof Constant && right instanceof Constant) return new Constant(left.value === null || right.value === null ? null : onRow(left.value, right.value, operation), count);
  if (left instanceof Items || right instanceof Items) return byRow(count, sides, (a, b) => onDocuments(a, b, operation));
  for (const side of sides) {
    if (!(side instanceof Constant) || side.value instanceof Num || side.value instanceof Nd) continue;
    if (side.value === null) return new Items(new Array<Val>(count).fill(null));
    if (typeof side.value === "string") throw new QueryError("type", "arithmetic needs numbers");
    throw new NeedsView(`${operation.name} of a list`);
  }
  const found = even(left, right, operation) ?? uneven(left, right, operation) ?? byRow(count, sides, (a, b) => onRow(a, b, operation));
  return found instanceof Arrays ? found.isLoose(!operation.isComparison && sides.some((side) => side instanceof Arrays && side.loose)) : found;
}

function onDocuments(left: Val, right: Val, operation: Operation): Val {
  if (left === null || right === null) return null;
  const one = (a: Val, b: Val): Val => onRow(numeric(a, operation.name), numeric(b, operation.name), operation);
  if (!isGroup(left)) return isGroup(right) ? right.map((item, i) => one(ofMember(left, right, i), item)) : one(left, right);
  if (!isGroup(right)) return left.map((item, i) => one(item, ofMember(right, left, i)));
  if (left.length !== right.length) throw rowError(`groups of ${left.length} and ${right.length} samples`, "shape");
  return left.map((item, i) => one(item, right[i]!));
}

/** The operand of a sample of a group: an array with one more axis than the samples has one for each. */
function ofMember(value: Val, group: readonly Nd[], i: number): Val {
  if (!(value instanceof Nd) || value.shape.length <= Math.max(...group.map((item) => item.shape.length))) return value;
  const [count, ...shape] = value.shape as [number, ...number[]];
  if (count !== 1 && count !== group.length) throw rowError(`groups of ${group.length} and ${count} samples`, "shape");
  const [size, at] = [product(shape), count === 1 ? 0 : i];
  return new Nd(value.dtype, shape, value.data.slice(at * size, (at + 1) * size) as Data);
}

/** Two values of one row, broadcast; comparisons of shapes that do not fit are false. */
function onRow(left: Val, right: Val, operation: Operation): Nd {
  const [a, b] = [left, right].map((value) => (value instanceof Num ? value : numeric(value, operation.name))) as [Nd | Num, Nd | Num];
  const shapes = [a, b].map((side) => (side instanceof Nd ? side.shape : [])) as [readonly number[], readonly number[]];
  const shape = broadcast(...shapes);
  if (shape === null && operation.isComparison) return scalar("bool", 0);
  if (shape === null) throw rowError(`${operation.name}: shapes (${shapes[0].join(", ")}) and (${shapes[1].join(", ")}) do not broadcast`, "shape");
  const { dtype, data } = applied(operation, sideOf(a, walker(shapes[0], shape)), sideOf(b, walker(shapes[1], shape)), product(shape));
  return new Nd(dtype, shape, data);
}

function broadcast(a: readonly number[], b: readonly number[]): number[] | null {
  const rank = Math.max(a.length, b.length);
  const found: number[] = [];
  for (let axis = 0; axis < rank; axis++) {
    const [x, y] = [a[axis - rank + a.length] ?? 1, b[axis - rank + b.length] ?? 1];
    if (x !== y && x !== 1 && y !== 1) return null;
    found.push(x === 1 ? y : x);
  }
  return found;
}

/** The place in an array of one shape of a place in a larger one that it is broadcast to. */
function walker(from: readonly number[], shape: readonly number[]): (i: number) => number {
  if (product(from) === product(shape)) return own;
  if (product(from) === 1) return first;
  const places = Int32Array.from({ length: product(shape) }, (_, i) => {
    let [left, at, stride] = [i, 0, 1];
    for (let axis = shape.length - 1, mine = from.length - 1; mine >= 0; axis--, mine--) {
      if (from[mine] !== 1) at += (left % shape[axis]!) * stride;
      stride *= from[mine]!;
      left = Math.floor(left / shape[axis]!);
    }
    return at;
  });
  return (i) => places[i]!;
}

type Plain = Arrays | Constant;
const isRagged = (side: Plain): boolean => side instanceof Arrays && side.shape === null;
const missingOf = (left: Plain, right: Plain): Mask => either(left instanceof Arrays ? left.missing : null, right instanceof Arrays ? right.missing : null);

/** Samples of one shape on both sides. */
function even(left: Plain, right: Plain, operation: Operation): Arrays | null {
  if (isRagged(left) || isRagged(right)) return null;
  const shapes = [left, right].map((side) => (side instanceof Arrays ? side.shape! : side.value instanceof Nd ? side.value.shape : [])) as [readonly number[], readonly number[]];
  const shape = broadcast(...shapes);
  if (shape === null) return null;
  const missing = missingOf(left, right);
  const size = product(shape);
  const [a, b] = [left, right].map((side, at) => {
    const step = product(shapes[at]!);
    const inside = walker(shapes[at]!, shape);
    if (side instanceof Arrays) return sideOf(side, step === size ? own : (i) => Math.floor(i / size) * step + inside(i % size));
    return sideOf(side.value as Nd | Num, step === 1 ? first : (i) => inside(i % size));
  }) as [Side, Side];
  try {
    const { dtype, data, error } = applied(operation, a, b, left.length * size);
    return Arrays.even(dtype, data, left.length, shape, missing).withError(error);
  } catch (error) {
    if (missing === null || !(error instanceof QueryError || error instanceof NeedsView)) throw error;
    throw new NeedsView(`${operation.name} of columns in which values are missing`);
  }
}

/** Samples of many shapes, and what fits each of them. */
function uneven(left: Plain, right: Plain, operation: Operation): Arrays | null {
  const base = (isRagged(left) ? left : right) as Arrays;
  if (!isRagged(base)) return null;
  const [a, b] = [fitting(base, left, operation.name), fitting(base, right, operation.name)];
  if (a === null || b === null) return null;
  const { dtype, data, error } = applied(operation, a, b, base.data.length);
  return base.like(dtype, data, missingOf(left, right)).withError(error);
}

function fitting(base: Arrays, side: Plain, name: string): Side | null {
  const { rank, shapes, length, offsets: at } = base;
  if (side instanceof Constant) {
    const shape = side.value instanceof Nd ? side.value.shape : [];
    if (shape.length === 0) return sideOf(side.value as Nd | Num, first);
    const last = shape[0]!;
    for (let i = 1; i <= length; i++) if (shapes![i * rank - 1] !== last) return null;
    return shape.length === 1 && rank > 1 ? sideOf(side.value as Nd, (i) => i % last) : null;
  }
  if (side.shape !== null && side.size === 1 && side.rank <= rank) {
    if (side.missing !== null) throw new NeedsView(`${name} of arrays and numbers that may be missing`);
    const rows = new Int32Array(base.data.length);
    for (let i = 0; i < length; i++) rows.fill(i, at[i], at[i + 1]);
    return sideOf(side, (i) => rows[i]!);
  }
  const other = asRagged(side);
  if (other.rank !== rank) return null;
  for (let i = 0; i < length * rank; i++) if (shapes![i] !== other.shapes![i]) return null;
  return sideOf(other, own);
}

/** AND or OR, value by value. */
export const logical = (name: "and" | "or", left: Column, right: Column): Column =>
  elementwise(left, right, { name: name.toUpperCase(), dtype: () => "bool", of: name === "and" ? (a, b) => Number(a != 0 && b != 0) : (a, b) => Number(a != 0 || b != 0) });

/** The greater or the lesser of two numbers; NaN of a pair with one. */
export const extreme = (name: "GREATEST" | "LEAST", left: Column, right: Column): Column =>
  elementwise(left, right, { name, dtype: (a, b) => (a === "bool" && b === "bool" ? "int64" : joint([a, b])), of: name === "GREATEST" ? (a, b) => Math.max(a, b) : (a, b) => Math.min(a, b) });
