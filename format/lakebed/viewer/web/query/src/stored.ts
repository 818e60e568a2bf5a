/** Columns of a dataset, straight from the bytes of its chunks where samples are stored as they are; after Python's `relations/stored.py`. */

import type { Dataset, Run, Tensor, Value } from "../../reader/src";
import { parseJson } from "../../reader/src/json";
import { numbersOf, stretches, textsOf } from "../../reader/src/runs";
import { Arrays, Items, Nd, collect, concatenated, filled, gathered, isRun, isWide, narrowed, product, room, roomLike, take, texts, type Column, type Data, type Dtype, type Mask, type Rows, type Val } from "./columns";
import { NeedsView } from "./errors";
import { ANY, type Info } from "./functions";
import { Relation } from "./relations";
import { shapeOf } from "./subscripts";

/** Rows of which one in so many is asked for are read as a whole. */
const DENSE = 4;
const DTYPES = new Set(["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]);

/** Rows of a dataset. */
export class Stored extends Relation {
  constructor(
    readonly dataset: Dataset,
    readonly places: Rows,
    readonly shown: string[] = [...dataset.tensors.keys()],
    infos: Map<string, Info> = new Map(shown.map((name) => [name, infoOf(dataset.tensor(name))])),
  ) {
    super(infos, places.length, dataset, places);
  }

  tensor(name: string): Tensor {
    return this.dataset.tensor(name);
  }

  read(name: string, places: Rows): Promise<Column> {
    return readRows(this.tensor(name), this.rows(places));
  }

  override async shapes(name: string, places: Rows): Promise<Column> {
    const tensor = this.tensor(name);
    const rows = this.rows(places);
    const kind = kindOf(tensor);
    if (kind === "polygon" || tensor.isSequence || kind === "list") return shapeOf(await this.read(name, places));
    if (kind !== "array") return Arrays.even("uint32", new Uint32Array(rows.length).fill(1), rows.length, [1]);
    if (isFixed(tensor)) {
      const shape = tensor.maxShape;
      const data = filled(new Uint32Array(rows.length * shape.length), Array.from(rows, () => shape));
      return Arrays.even("uint32", data, rows.length, [shape.length]);
    }
    const companion = this.dataset.companion(name, "shape");
    if (companion !== undefined && isFixed(companion) && !tensor.isLink && rows.every((row) => row < companion.length)) {
      const found = await readRows(companion, rows);
      if (found instanceof Arrays && found.shape !== null) return Arrays.even("uint32", Uint32Array.from(found.data as Float64Array, Number), rows.length, found.shape);
    }
    const rank = tensor.maxShape.length;
    const data = new Uint32Array(rows.length * rank);
    for (const [first, last] of stretches(rows)) {
      const found = await tensor.shapes(rows[first]!, rows[last]! + 1);
      found.forEach((one, i) => one !== null && data.set(one.shape, (first + i) * rank));
    }
    return Arrays.even("uint32", data, rows.length, [rank]);
  }

  override async missing(name: string, places: Rows): Promise<Mask> {
    const tensor = this.tensor(name);
    if (!this.infos.get(name)!.nullsApart) return super.missing(name, places);
    if (!tensor.hasMarks || !places.length) return null;
    const rows = this.rows(places);
    const whole = await tensor.nullMask(0, tensor.length);
    return whole && Uint8Array.from(rows, (row) => whole[row]!);
  }

  private rows(places: Rows): Rows {
    return gathered(this.places, places);
  }

  override select(places: Rows): Relation {
    return new Stored(this.dataset, this.rows(places), this.shown, this.infos);
  }

  only(names: string[]): Relation {
    return new Stored(this.dataset, this.places, names, new Map(names.map((name) => [name, this.infos.get(name)!])));
  }
}

function kindOf({ htype }: Tensor): "text" | "json" | "list" | "polygon" | "array" {
  if (htype === "tag") return "list";
  return htype === "text" || htype === "json" || htype === "list" || htype === "polygon" ? htype : "array";
}

export function isFixed(tensor: Tensor): boolean {
  const { minShape, maxShape } = tensor;
  return minShape.length > 0 && minShape.join() === maxShape.join() && tensor.length > 0 && tensor.dtype !== null && kindOf(tensor) === "array" && !tensor.isSequence;
}

function infoOf(tensor: Tensor): Info {
  const kind = kindOf(tensor);
  const names = tensor.htype === "class_label" ? tensor.classNames : [];
  const { coords } = tensor.info;
  const isObject = coords !== null && typeof coords === "object" && !Array.isArray(coords);
  const mode = isObject ? String(coords.mode ?? "").toUpperCase() : "";
  const own = kind === "list" ? "json" : kind === "polygon" ? "any" : kind;
  const isFile = (one: string | null): boolean => one !== null && one !== "lz4";
  const size = kind === "array" ? product(tensor.maxShape) : 64;
  return {
    ...ANY,
    kind: tensor.isSequence && own !== "array" ? "any" : own,
    dtype: kind === "array" && DTYPES.has(tensor.dtype ?? "") ? (tensor.dtype as Dtype) : null,
    rank: tensor.maxShape.length ? tensor.maxShape.length + (tensor.isSequence ? 1 : 0) : null,
    classNames: names.length ? names : null,
    htype: tensor.htype,
    coords: mode || "LTWH",
    unit: isObject ? String(coords.type ?? "").toLowerCase() : "",
    logical: typeof tensor.info.logical_type === "string" ? tensor.info.logical_type : "",
    nullsApart: !tensor.isNullable && kind !== "json" && kind !== "list",
    cost: tensor.isLink ? 1e5 : isFile(tensor.sampleCompression) || isFile(tensor.chunkCompression) ? 100 + size : kind === "json" || kind === "list" ? 200 : kind === "text" ? 10 : Math.max(1, size),
  };
}

/** Rows of a tensor, each chunk fetched once. */
async function readRows(tensor: Tensor, rows: Rows): Promise<Column> {
  const kind = kindOf(tensor);
  if (tensor.isLink) throw new NeedsView(`the values of ${tensor.name}, which are links`);
  if (kind === "polygon") throw new NeedsView(`the values of ${tensor.name}, which are polygons`);
  if (kind === "array" && tensor.dtype !== null && !DTYPES.has(tensor.dtype)) throw new NeedsView(`the values of ${tensor.name}, of dtype ${tensor.dtype}`);
  if (!rows.length) return nothing(tensor);
  if (!tensor.isPlain) return slow(tensor, rows);
  if (isRun(rows)) return readRun(tensor, rows[0]!, rows[0]! + rows.length);
  let [least, most] = [rows[0]!, rows[0]!];
  for (const row of rows) [least, most] = [Math.min(least, row), Math.max(most, row)];
  if (rows.length * DENSE > most - least) return evened(take(await readRun(tensor, least, most + 1), rows.map((row) => row - least)), kind);
  const ordered = Int32Array.from(new Set(rows)).sort();
  const parts = await Promise.all(tensor.stretches(ordered).map(async ([start, stop]) => {
    const mine = ordered.filter((row) => row >= start && row < stop);
    return take(await readRun(tensor, start, stop), Int32Array.from(mine, (row) => row - start));
  }));
  const whole = evened(concatenated(parts), kind);
  if (ordered.length === rows.length && ordered.every((row, i) => row === rows[i])) return whole;
  const places = new Map(Array.from(ordered, (row, i) => [row, i]));
  return take(whole, Int32Array.from(rows, (row) => places.get(row)!));
}

/** Rows that are picked are arrays of one shape if theirs are equal, as in Python, whatever the other rows have. */
function evened(column: Column, kind: string): Column {
  if (kind !== "array" || !(column instanceof Arrays) || column.shape !== null) return column;
  return collect(Array.from({ length: column.length }, (_, i) => column.row(i)));
}

function nothing(tensor: Tensor): Column {
  const kind = kindOf(tensor);
  if (kind === "text") return texts([]);
  if (kind !== "array" || tensor.dtype === null || !DTYPES.has(tensor.dtype)) return new Items([]);
  const dtype = tensor.dtype as Dtype;
  if (isFixed(tensor)) return Arrays.even(dtype, room(dtype, 0), 0, tensor.maxShape);
  return Arrays.ragged(dtype, room(dtype, 0), 0, [], Math.max(1, tensor.maxShape.length));
}

async function readRun(tensor: Tensor, start: number, stop: number): Promise<Column> {
  const kind = kindOf(tensor);
  const rank = Math.max(1, tensor.maxShape.length);
  const count = stop - start;
  const nulls = await tensor.nullMask(start, stop);
  if (kind === "array" && tensor.dtype === null) return Arrays.ragged("float64", new Float64Array(0), count, new Float64Array(count * rank), rank, nulls);
  const runs = await tensor.runs(start, stop);
  if (kind === "text") {
    const found = textsOf(runs);
    return texts(nulls === null ? found : found.map((text, i) => (nulls[i] ? null : text)));
  }
  if (kind !== "array") return collect(textsOf(runs).map((text, i) => (nulls?.[i] ? null : checked(text ? parseJson(text, `${tensor.name}[${start + i}]`) : kind === "list" ? [] : {}) as Val)));
  const dtype = tensor.dtype as Dtype;
  const data = narrowed(numbersOf(runs, dtype));
  if (isFixed(tensor) && !(tensor.hasMarks && tensor.maxShape.includes(0))) {
    if (data.length !== count * product(tensor.maxShape)) throw new NeedsView(`${tensor.name}, whose samples do not have the shape that it tells`);
    return Arrays.even(dtype, data, count, tensor.maxShape, nulls);
  }
  if (tensor.isNullable) return nullable(runs, data, dtype, count, nulls);
  const shapes = new Float64Array(count * rank);
  for (const run of runs) if (run.axes !== null) shapes.set(run.shapes, (run.row - start) * rank);
  const found = Arrays.ragged(dtype, data, count, shapes, rank, nulls);
  if (found.offsets[count] !== data.length) throw new NeedsView(`${tensor.name}, whose bytes do not fill its shapes`);
  return found;
}

/** Single numbers, of which some are missing: those are stored as empty samples. */
function nullable(runs: Run[], data: Data, dtype: Dtype, count: number, nulls: Mask): Column {
  const missing = Uint8Array.from({ length: count }, (_, i) => nulls?.[i] ?? 0);
  const found = roomLike(isWide(data) ? data : room(dtype, 0), count);
  let [row, at] = [0, 0];
  for (const { ends, count: own } of runs)
    for (let i = 0; i < own; i++, row++) {
      if (ends[i + 1]! > ends[i]!) found[row] = data[at++]!;
      else missing[row] = 1;
    }
  return Arrays.even(dtype, found, count, [1], missing.includes(1) ? missing : null);
}

/** A value of JSON; arrays and bytes in it are not read here. */
function checked<T>(value: T): T {
  if (value !== null && typeof value === "object" && "_hub_custom_type" in value) throw new NeedsView("arrays in JSON values");
  return value;
}

/** Rows whose values are made one by one. */
async function slow(tensor: Tensor, rows: Rows): Promise<Column> {
  const isFile = [tensor.sampleCompression, tensor.chunkCompression].some((one) => one !== null && one !== "lz4");
  if (isFile) throw new NeedsView(`the values of ${tensor.name}, which are files`);
  const found: Val[] = [];
  for (const [first, last] of stretches(rows)) for (const value of await tensor.rows(rows[first]!, rows[last]! + 1)) found.push(valueOf(value, tensor));
  return collect(found);
}

function valueOf(value: Value, tensor: Tensor): Val {
  if (value === null) return null;
  if (value.kind === "text") return value.text;
  if (value.kind === "json") return checked(value.value as Val);
  if (value.kind === "list") return value.items as Val[];
  if (value.kind === "array") return new Nd(value.dtype as Dtype, value.shape, narrowed(value.data));
  if (value.kind !== "sequence") throw new NeedsView(`the values of ${tensor.name}`);
  const items = value.items.map((item) => valueOf(item, tensor));
  const nds = items.filter((item) => item instanceof Nd);
  const [first] = nds;
  if (first === undefined || nds.length < items.length || nds.some((one) => one.shape.join() !== first.shape.join() || isWide(one.data))) return items;
  const data = filled(room(first.dtype, nds.length * first.data.length), nds.map((one) => one.data));
  return new Nd(first.dtype, [nds.length, ...first.shape], data);
}
