/** `x[...]`: parts of arrays and items of JSON values; after Python's `values/subscripts.py`. */

import { Arrays, Constant, Items, Nd, Num, byRow, isDocument, itemOf, isWhole, product, room, rowError, type Column, type Data, type Val } from "./columns";
import { NeedsView, QueryError } from "./errors";

export interface Slice {
  start: number | null;
  stop: number | null;
  step: number | null;
}

/** A number, a slice, `...`, a key, or a column of numbers or masks. */
export type Part = number | Slice | "..." | { key: string } | Column;
type Fixed = number | Slice;

const isColumn = (part: Part): part is Column => part instanceof Arrays || part instanceof Items || part instanceof Constant;
const isFixed = (part: Part): part is number | Slice | "..." => typeof part === "number" || part === "..." || (typeof part === "object" && "start" in part);

export function subscript(base: Column, items: Part[]): Column {
  if (base instanceof Arrays && base.error !== null) throw new NeedsView("parts of arrays of numbers that are rounded");
  if (base instanceof Arrays && items.every(isFixed)) {
    if (base.shape !== null) return ofEven(base, full(items, base.shape.length));
    const found = ofUneven(base, full(items, base.rank));
    if (found !== null) return found;
  } else if (base instanceof Arrays && base.shape === null && items.length === 1 && items[0] instanceof Arrays && items[0].shape === null) {
    const found = masked(base, items[0]);
    if (found !== null) return found;
  }
  const dynamic = items.filter(isColumn);
  return byRow(base.length, [base, ...dynamic], (value, ...given) => {
    let next = 0;
    return partOf(value, items.map((item) => (isColumn(item) ? given[next++]! : item)));
  });
}

type Key = Exclude<Part, Column> | Val;

function partOf(value: Val, keys: Key[]): Val {
  if (value === null) return null;
  const isNamed = keys[0] !== null && typeof keys[0] === "object" && "key" in keys[0];
  if (!(value instanceof Nd) || isNamed || typeof keys[0] === "string" && keys[0] !== "...") {
    if (!(Array.isArray(value) || isDocument(value) || typeof value === "string" || value instanceof Nd)) return null;
    return keys.reduce((found: Val, key) => memberOf(found, key), value);
  }
  const numbered = keys.map((key) => (key instanceof Num ? Number(key.value) : key instanceof Nd && key.shape.length === 0 && key.dtype !== "bool" ? wholeOf(key.data[0]!) : key));
  const isNull = numbered.some((key) => key === null || (typeof key === "number" && Number.isNaN(key)));
  if (isNull) throw new NeedsView("an index that is missing");
  if (numbered.every((key) => typeof key === "number" || key === "..." || (typeof key === "object" && !(key instanceof Nd) && "start" in (key as object)))) {
    const given = numbered as (number | Slice | "...")[];
    const count = given.filter((key) => key !== "...").length;
    if (count > value.shape.length) {
      if (value.data.length === 0) return null;
      throw rowError(`a sample of ${value.shape.length} axes has no ${count} indices`, "rank");
    }
    const found = selected(value.shape, full(given, value.shape.length));
    return found === null ? null : gathered(value, found.index, found.shape);
  }
  const [key] = numbered;
  if (numbered.length !== 1 || !(key instanceof Nd)) throw new NeedsView("an index of several columns");
  return value.shape.length === 0 ? nothing(value) : key.dtype === "bool" ? ofMask(value, key) : ofNumbers(value, key);
}

function nothing(value: Nd): null {
  if (value.data.length === 0) return null;
  throw rowError("a sample of 0 axes has no 1 indices", "rank");
}

function wholeOf(value: number | bigint): number {
  if (!Number.isInteger(Number(value))) throw rowError("an index is a whole number", "type");
  return Number(value);
}

function gathered(value: Nd, index: Int32Array, shape: readonly number[]): Nd {
  const data = new (value.data.constructor as new (length: number) => Data)(index.length);
  for (let i = 0; i < index.length; i++) data[i] = value.data[index[i]!]!;
  return new Nd(value.dtype, shape, data);
}

function ofMask(value: Nd, mask: Nd): Val {
  const extents = value.shape.slice(0, mask.shape.length);
  if (mask.shape.length > value.shape.length || mask.shape.some((extent, axis) => extent !== extents[axis]))
    throw value.data.length === 0 && mask.data.length === 0 ? new NeedsView("a mask of nothing") : rowError("the mask does not fit", "shape");
  const rest = value.shape.slice(mask.shape.length);
  const size = product(rest);
  const index: number[] = [];
  let count = 0;
  mask.data.forEach((one: number | bigint, place: number) => {
    if (one == 0) return;
    count++;
    for (let i = 0; i < size; i++) index.push(place * size + i);
  });
  return gathered(value, Int32Array.from(index), [count, ...rest]);
}

function ofNumbers(value: Nd, key: Nd): Val {
  const extent = value.shape[0]!;
  const rest = value.shape.slice(1);
  const size = product(rest);
  const index: number[] = [];
  for (const one of key.data) {
    const place = wholeOf(one) < 0 ? wholeOf(one) + extent : wholeOf(one);
    if (!(place >= 0 && place < extent)) return null;
    for (let i = 0; i < size; i++) index.push(place * size + i);
  }
  return gathered(value, Int32Array.from(index), [...key.shape, ...rest]);
}

function memberOf(value: Val, key: Key): Val {
  if (key !== null && typeof key === "object" && "key" in key && !(key instanceof Nd)) {
    const name = (key as { key: string }).key;
    return isDocument(value) && Object.hasOwn(value, name) ? (value[name] as Val) : null;
  }
  if (typeof key === "string" && key !== "...") return isDocument(value) && Object.hasOwn(value, key) ? (value[key] as Val) : null;
  const one = key instanceof Nd && key.data.length === 1 && isWhole(key.dtype) ? Number(key.data[0]) : key instanceof Num && key.type === "int" ? Number(key.value) : key;
  if (!(Array.isArray(value) || typeof value === "string")) return null;
  const items: Val[] = typeof value === "string" ? Array.from(value) : value;
  if (typeof one === "number") {
    return itemOf(items[one < 0 ? one + items.length : one] ?? null);
  }
  if (one === null || one === "..." || typeof one !== "object" || !("start" in one)) return null;
  const places = sliced(one as Slice, items.length);
  const found = places.map((place) => items[place]!);
  return typeof value === "string" ? found.join("") : found;
}

/** The places that a slice selects, as Python cuts them. */
export function sliced({ start, stop, step }: Slice, length: number): number[] {
  const by = step ?? 1;
  const cut = (end: number | null, otherwise: number): number => {
    if (end === null) return otherwise;
    const place = end < 0 ? end + length : end;
    return by > 0 ? Math.min(Math.max(place, 0), length) : Math.min(Math.max(place, -1), length - 1);
  };
  const [from, to] = [cut(start, by > 0 ? 0 : length - 1), cut(stop, by > 0 ? length : -1)];
  const found: number[] = [];
  for (let place = from; by > 0 ? place < to : place > to; place += by) found.push(place);
  return found;
}

/** Replace `...` by full slices. */
export function full(items: (number | Slice | "...")[], rank: number): Fixed[] {
  const count = items.filter((item) => item !== "...").length;
  if (count > rank) throw new QueryError("rank", `${count} indices for samples of ${rank} axes`);
  const whole = { start: null, stop: null, step: null };
  const found = items.flatMap((item) => (item === "..." ? new Array<Slice>(rank - count).fill(whole) : [item]));
  return [...found, ...new Array<Slice>(rank - found.length).fill(whole)];
}

/** Places of the selected numbers in an array of a shape, and the shape that they make; null behind an end. */
function selected(shape: readonly number[], items: Fixed[]): { index: Int32Array; shape: number[] } | null {
  let index = [0];
  const found: number[] = [];
  for (const [axis, item] of items.entries()) {
    const extent = shape[axis]!;
    let places: number[];
    if (typeof item === "number") {
      const place = item < 0 ? item + extent : item;
      if (!(place >= 0 && place < extent)) return null;
      places = [place];
    } else {
      places = sliced(item, extent);
      found.push(places.length);
    }
    index = index.flatMap((at) => places.map((place) => at * extent + place));
  }
  return { index: Int32Array.from(index), shape: found };
}

function ofEven(base: Arrays, items: Fixed[]): Column {
  const { data, length, dtype } = base;
  const found = selected(base.shape!, items);
  // Behind the end of all samples there is nothing.
  if (found === null) return Arrays.scalars(dtype, room(dtype, length), new Uint8Array(length).fill(1));
  const [size, count] = [base.size, found.index.length];
  const picked = new (data.constructor as new (length: number) => Data)(length * count);
  for (let i = 0; i < length; i++) for (let j = 0; j < count; j++) picked[i * count + j] = data[i * size + found.index[j]!]!;
  return Arrays.even(dtype, picked, length, found.shape, base.missing).isLoose(base.loose);
}

/** The extents after the first axis if all samples with values share them, else null. */
function trailing(column: Arrays): number[] | null {
  const { rank, shapes, offsets } = column;
  const rest = (i: number): number[] => Array.from({ length: rank - 1 }, (_, axis) => shapes![i * rank + axis + 1]!);
  let [all, held]: [number[] | null, number[] | null] = [null, null];
  let [isAll, isHeld] = [true, true];
  for (let i = 0; i < column.length; i++) {
    const own = rest(i);
    all ??= own;
    isAll &&= own.join() === all.join();
    if (offsets[i + 1]! > offsets[i]!) {
      held ??= own;
      isHeld &&= own.join() === held.join();
    }
  }
  if (all === null) return new Array<number>(rank - 1).fill(1);
  if (isAll) return all;
  return held === null ? all : isHeld ? held : null;
}

function lengthsOf(column: Arrays): Float64Array {
  const { rank, shapes, offsets } = column;
  const all = Float64Array.from({ length: column.length }, (_, i) => shapes![i * rank]!);
  const total = all.reduce((a, b) => a + b, 0);
  const inner = Math.floor(column.data.length / Math.max(1, total));
  if (inner && total * inner === column.data.length) return all;
  return all.map((length, i) => (offsets[i + 1]! > offsets[i]! ? length : 0));
}

function ofUneven(base: Arrays, items: Fixed[]): Column | null {
  const extents = trailing(base);
  if (extents === null || extents.includes(0)) return null;
  const inner = selected(extents, items.slice(1));
  const { data, dtype, length, offsets } = base;
  if (inner === null) return Arrays.scalars(dtype, room(dtype, length), new Uint8Array(length).fill(1));
  const [size, count] = [product(extents), inner.index.length];
  const lengths = lengthsOf(base);
  const make = data.constructor as new (length: number) => Data;
  const [item] = items;
  if (typeof item === "number") {
    const [picked, gone] = [new make(length * count), new Uint8Array(length)];
    for (let i = 0; i < length; i++) {
      const place = item < 0 ? item + lengths[i]! : item;
      if (!(place >= 0 && place < lengths[i]!)) gone[i] = 1;
      else for (let j = 0; j < count; j++) picked[i * count + j] = data[offsets[i]! + place * size + inner.index[j]!]!;
    }
    return Arrays.even(dtype, picked, length, inner.shape, gone.includes(1) ? gone : null).isLoose(base.loose);
  }
  const known = new Map<number, number[]>();
  const chosen = Array.from(lengths, (own) => {
    let found = known.get(own);
    if (found === undefined) known.set(own, (found = sliced(item!, own)));
    return found;
  });
  const picked = new make(chosen.reduce((sum, places) => sum + places.length, 0) * count);
  const rank = 1 + inner.shape.length;
  const shapes = new Float64Array(length * rank);
  let at = 0;
  for (let i = 0; i < length; i++) {
    shapes[i * rank] = chosen[i]!.length;
    for (let axis = 1; axis < rank; axis++) shapes[i * rank + axis] = inner.shape[axis - 1]!;
    for (const place of chosen[i]!) for (let j = 0; j < count; j++) picked[at++] = data[offsets[i]! + place * size + inner.index[j]!]!;
  }
  return Arrays.ragged(dtype, picked, length, shapes, rank, base.missing).isLoose(base.loose);
}

function masked(base: Arrays, mask: Arrays): Column | null {
  const extents = trailing(base);
  if (mask.dtype !== "bool" || mask.rank !== 1 || extents === null || extents.includes(0)) return null;
  const lengths = lengthsOf(base);
  const { rank, offsets, data } = base;
  const size = product(extents);
  const shapes = new Float64Array(base.length * rank);
  let total = 0;
  for (let i = 0; i < base.length; i++) {
    const [from, to] = [mask.offsets[i]!, mask.offsets[i + 1]!];
    if (to - from !== lengths[i]) return null;
    for (let j = from; j < to; j++) shapes[i * rank]! += mask.data[j] as number;
    for (let axis = 1; axis < rank; axis++) shapes[i * rank + axis] = extents[axis - 1]!;
    total += shapes[i * rank]! * size;
  }
  const picked = new (data.constructor as new (length: number) => Data)(total);
  let at = 0;
  for (let i = 0; i < base.length; i++)
    for (let j = 0; j < lengths[i]!; j++)
      if (mask.data[mask.offsets[i]! + j] === 1) for (let k = 0; k < size; k++) picked[at++] = data[offsets[i]! + j * size + k]!;
  return Arrays.ragged(base.dtype, picked, base.length, shapes, rank, base.missing);
}

/** The shape of each sample; (1,) for texts and JSON values. */
export function shapeOf(column: Column): Column {
  if (column instanceof Arrays) {
    const { rank, length } = column;
    const data = new Uint32Array(length * rank);
    for (let i = 0; i < length; i++) if (!(column.shape !== null && column.missing?.[i])) data.set(column.shapeOf(i), i * rank);
    return Arrays.even("uint32", data, length, [rank]);
  }
  const one = (value: Val): Nd => {
    let shape: readonly number[] = value instanceof Nd ? value.shape : [1];
    if (Array.isArray(value)) {
      if (value.some(Array.isArray)) throw new NeedsView("SHAPE of lists of lists");
      shape = value.length && value.every((item) => item instanceof Nd) ? sharedShape(value as Nd[]) : [value.length];
    }
    return new Nd("uint32", [shape.length], Uint32Array.from(shape));
  };
  if (column instanceof Constant) return new Constant(one(column.value), column.length);
  if (column.isText) return Arrays.even("uint32", new Uint32Array(column.length).fill(1), column.length, [1]);
  return byRow(column.length, [column], one);
}

function sharedShape(items: Nd[]): number[] {
  const first = items[0]!.shape;
  return items.every((item) => item.shape.join() === first.join()) ? [items.length, ...first] : [items.length];
}
