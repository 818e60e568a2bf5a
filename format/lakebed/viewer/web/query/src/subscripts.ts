/** `x[...]`: parts of arrays and items of JSON values; after Python's `values/subscripts.py`. */

import { Arrays, Constant, Items, Nd, Num, byRow, gathered, isDocument, isWhole, itemOf, placesOf, product, room, roomLike, rowError, type Column, type Val } from "./columns";
import { NeedsView, QueryError } from "./errors";

export interface Slice { start: number | null; stop: number | null; step: number | null }

/** A number, a slice, `...`, a key, or a column of numbers or masks. */
export type Part = number | Slice | "..." | { key: string } | Column;
type Fixed = number | Slice;

const isColumn = (part: Part): part is Column => part instanceof Arrays || part instanceof Items || part instanceof Constant;
const isFixed = (part: Part): part is number | Slice | "..." => typeof part === "number" || part === "..." || (typeof part === "object" && "start" in part);

export function subscript(base: Column, items: Part[]): Column {
  if (base instanceof Arrays && base.error !== null) throw new NeedsView("parts of arrays of numbers that are rounded");
  if (base instanceof Arrays && items.every(isFixed)) {
    const found = parts(base, full(items, base.rank));
    if (found !== null) return found;
  } else if (base instanceof Arrays && base.shape === null && items.length === 1 && items[0] instanceof Arrays && items[0].shape === null) {
    const found = masked(base, items[0]);
    if (found !== null) return found;
  }
  const dynamic = items.filter(isColumn);
  if (dynamic.some((item) => item instanceof Arrays && item.dtype === "bool" && item.shape?.includes(0))) throw new NeedsView("a mask of nothing");
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
    return found && new Nd(value.dtype, found.shape, gathered(value.data, found.index));
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

/** Items of the first axes of an array, with all that is in them. */
function taken(value: Nd, places: ArrayLike<number>, shape: readonly number[], rest: readonly number[]): Nd {
  const size = product(rest);
  const index = Int32Array.from({ length: places.length * size }, (_, i) => places[Math.floor(i / size)]! * size + (i % size));
  return new Nd(value.dtype, [...shape, ...rest], gathered(value.data, index));
}

function ofMask(value: Nd, mask: Nd): Val {
  const rank = mask.shape.length;
  if (rank > value.shape.length || mask.shape.some((extent, axis) => extent !== value.shape[axis]))
    throw value.data.length === 0 && mask.data.length === 0 ? new NeedsView("a mask of nothing") : rowError("the mask does not fit", "shape");
  const places = placesOf(Uint8Array.from(mask.data as Uint8Array));
  return taken(value, places, [places.length], value.shape.slice(rank));
}

function ofNumbers(value: Nd, key: Nd): Val {
  const extent = value.shape[0]!;
  const places = Array.from(key.data as Float64Array, (one) => (wholeOf(one) < 0 ? wholeOf(one) + extent : wholeOf(one)));
  return places.every((place) => place >= 0 && place < extent) ? taken(value, places, key.shape, value.shape.slice(1)) : null;
}

function memberOf(value: Val, key: Key): Val {
  const name = key !== null && typeof key === "object" && "key" in key && !(key instanceof Nd) ? (key as { key: string }).key : key;
  if (typeof name === "string" && name !== "...") return isDocument(value) && Object.hasOwn(value, name) ? (value[name] as Val) : null;
  if (!(Array.isArray(value) || typeof value === "string")) return null;
  const one = key instanceof Nd && key.data.length === 1 && isWhole(key.dtype) ? Number(key.data[0]) : key instanceof Num && key.type === "int" ? Number(key.value) : key;
  const items: Val[] = typeof value === "string" ? Array.from(value) : value;
  if (typeof one === "number") return itemOf(items[one < 0 ? one + items.length : one] ?? null);
  if (one === null || typeof one !== "object" || !("start" in one)) return null;
  const found = sliced(one as Slice, items.length).map((place) => items[place]!);
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

/** Places of numbers in an array, and the shape that they make. */
interface Selected { index: number[]; shape: number[] }

/** Places that items select in an array of a shape; null behind an end. */
function selected(shape: readonly number[], items: Fixed[]): Selected | null {
  const found: Selected = { index: [0], shape: [] };
  for (const [axis, item] of items.entries()) {
    const extent = shape[axis]!;
    const places = typeof item === "number" ? [item < 0 ? item + extent : item] : sliced(item, extent);
    if (typeof item !== "number") found.shape.push(places.length);
    else if (!(places[0]! >= 0 && places[0]! < extent)) return null;
    found.index = found.index.flatMap((at) => places.map((place) => at * extent + place));
  }
  return found;
}

/** Parts of all samples; null where those of many shapes have none of one shape. */
function parts(base: Arrays, items: Fixed[]): Column | null {
  const { data, dtype, length, offsets, shape } = base;
  const extents = shape === null ? trailing(base) : shape.slice(1);
  if (extents === null || (shape === null && extents.includes(0))) return null;
  const lengths = shape === null ? lengthsOf(base) : null;
  const known = new Map<number, Selected | null>();
  const partOf = (extent: number): Selected | null => {
    let found = known.get(extent);
    if (found === undefined) known.set(extent, (found = selected(shape ?? [extent, ...extents], items)));
    return found;
  };
  const inner = shape === null ? selected(extents, items.slice(1)) : partOf(0);
  // Behind the end of all samples there is nothing.
  if (inner === null) return Arrays.scalars(dtype, room(dtype, length), new Uint8Array(length).fill(1));
  if (shape === null && typeof items[0] !== "number") return ragged(base, 1 + inner.shape.length, Array.from(lengths!, (extent) => partOf(extent)!));
  const count = inner.index.length;
  const picked = roomLike(data, length * count);
  const gone = new Uint8Array(length);
  for (let i = 0; i < length; i++) {
    const found = partOf(lengths?.[i] ?? 0);
    if (found === null) gone[i] = 1;
    else for (let j = 0; j < count; j++) picked[i * count + j] = data[offsets[i]! + found.index[j]!]!;
  }
  return Arrays.even(dtype, picked, length, inner.shape, shape !== null ? base.missing : gone.includes(1) ? gone : null).isLoose(base.loose);
}

function ragged(base: Arrays, rank: number, all: Selected[]): Arrays {
  const { data, dtype, length, offsets } = base;
  const picked = roomLike(data, all.reduce((sum, { index }) => sum + index.length, 0));
  const shapes = new Float64Array(length * rank);
  let at = 0;
  all.forEach(({ index, shape }, i) => {
    shapes.set(shape, i * rank);
    for (const place of index) picked[at++] = data[offsets[i]! + place]!;
  });
  return Arrays.ragged(dtype, picked, length, shapes, rank, base.missing).isLoose(base.loose);
}

/** The extents after the first axis if all samples with values share them, else null. */
function trailing(column: Arrays): number[] | null {
  const { rank, shapes, offsets, length } = column;
  const isSame = (i: number, other: number): boolean => {
    for (let axis = 1; axis < rank; axis++) if (shapes![i * rank + axis] !== shapes![other * rank + axis]) return false;
    return true;
  };
  if (!length) return new Array<number>(rank - 1).fill(1);
  const held = placesOf(Uint8Array.from({ length }, (_, i) => (offsets[i + 1]! > offsets[i]! ? 1 : 0)));
  const first = held[0] ?? 0;
  const isShared = held.every((i) => isSame(i, first));
  return isShared ? [...column.shapeOf(first)].slice(1) : null;
}

function lengthsOf(column: Arrays): Float64Array {
  const { rank, shapes, offsets } = column;
  const all = Float64Array.from({ length: column.length }, (_, i) => shapes![i * rank]!);
  const total = all.reduce((a, b) => a + b, 0);
  const inner = Math.floor(column.data.length / Math.max(1, total));
  if (inner && total * inner === column.data.length) return all;
  return all.map((length, i) => (offsets[i + 1]! > offsets[i]! ? length : 0));
}

function masked(base: Arrays, mask: Arrays): Column | null {
  const extents = trailing(base);
  if (mask.dtype !== "bool" || mask.rank !== 1 || extents === null || extents.includes(0)) return null;
  const lengths = lengthsOf(base);
  const size = product(extents);
  const all: Selected[] = [];
  for (let i = 0; i < base.length; i++) {
    const own = mask.data.subarray(mask.offsets[i]!, mask.offsets[i + 1]!) as Uint8Array;
    if (own.length !== lengths[i]) return null;
    const places = placesOf(own);
    all.push({ index: Array.from(places).flatMap((place) => Array.from({ length: size }, (_, j) => place * size + j)), shape: [places.length, ...extents] });
  }
  return ragged(base, base.rank, all);
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
