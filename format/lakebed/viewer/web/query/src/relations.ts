/** Relations: named columns over rows, read on demand; after Python's `relations/relation.py`. */

import { COUNT_ALL, Scope, evaluate, isByPlace, isTrue, needs, type Bound } from "./bound";
import { Arrays, Items, Nd, collect, computedRows, either, inPlaces, itemOf, rowsOf, span, take, wholes, type Column, type Mask, type Rows, type Val } from "./columns";
import { NUMBER, merged, type Info } from "./functions";
import { shapeOf } from "./subscripts";

export abstract class Relation {
  abstract readonly infos: Map<string, Info>;
  abstract readonly length: number;
  abstract read(name: string, places: Rows): Promise<Column>;

  get names(): string[] {
    return [...this.infos.keys()];
  }

  /** The relation, column and rows that rows of a column are copied from; null where they are computed. */
  below(_name: string, _places: Rows): [Relation, string, Rows] | null {
    return null;
  }

  async shapes(name: string, places: Rows): Promise<Column> {
    const below = this.below(name, places);
    return below === null ? shapeOf(await this.read(name, places)) : below[0].shapes(below[1], below[2]);
  }

  async missing(name: string, places: Rows): Promise<Mask> {
    return (await this.read(name, places)).missing;
  }

  select(places: Rows): Relation {
    return new Picked(this, places);
  }

  /** Something that relations over one dataset share. */
  get origin(): unknown {
    return null;
  }

  /** Rows of the dataset that the rows come from; null where they come from several. */
  get baseRows(): Rows | null {
    return null;
  }

  /** Columns, shapes and marks that expressions need, of some rows. */
  async scope(nodes: Bound[], places: Rows): Promise<Scope> {
    const wanted = new Map<string, Set<string>>();
    for (const node of nodes) needs(node, wanted as never);
    const found = new Scope(places.length, new Map(), new Map(), new Map(), places);
    await Promise.all([...wanted].map(async ([name, kinds]) => {
      if (kinds.has("data")) found.columns.set(name, await this.read(name, places));
      if (kinds.has("shape")) found.shapes.set(name, await this.shapes(name, places));
      if (kinds.has("missing")) found.missing.set(name, await this.missing(name, places));
    }));
    return found;
  }

  async column(node: Bound, places: Rows = span(0, this.length)): Promise<Column> {
    return evaluate(node, await this.scope([node], places));
  }

  /** Which of some rows a condition is true for. */
  async told(node: Bound, places: Rows): Promise<Uint8Array> {
    return isTrue(node, await this.scope([node], places));
  }
}

const at = (places: Rows, wanted: Rows): Rows => Int32Array.from(wanted, (row) => places[row]!);

/** Expressions over another relation. */
export class Projected extends Relation {
  readonly infos: Map<string, Info>;

  constructor(
    readonly base: Relation,
    readonly outputs: Map<string, Bound>,
  ) {
    super();
    this.infos = new Map([...outputs].map(([name, node]) => [name, node.info]));
  }

  get length(): number {
    return this.base.length;
  }

  read(name: string, places: Rows): Promise<Column> {
    return this.base.column(this.outputs.get(name)!, places);
  }

  override below(name: string, places: Rows): [Relation, string, Rows] | null {
    const node = this.outputs.get(name)!;
    return node.is === "input" ? [this.base, node.name, places] : null;
  }

  override select(places: Rows): Relation {
    return [...this.outputs.values()].some(isByPlace) ? new Picked(this, places) : new Projected(this.base.select(places), this.outputs);
  }

  override get origin(): unknown {
    return this.base.origin;
  }

  override get baseRows(): Rows | null {
    return this.base.baseRows;
  }
}

/** Rows of another relation, in any order. */
export class Picked extends Relation {
  constructor(
    readonly base: Relation,
    readonly places: Rows,
  ) {
    super();
  }

  get infos(): Map<string, Info> {
    return this.base.infos;
  }

  get length(): number {
    return this.places.length;
  }

  read(name: string, places: Rows): Promise<Column> {
    return this.base.read(name, at(this.places, places));
  }

  override below(name: string, places: Rows): [Relation, string, Rows] {
    return [this.base, name, at(this.places, places)];
  }

  override select(places: Rows): Relation {
    return new Picked(this.base, at(this.places, places));
  }

  override get origin(): unknown {
    return this.base.origin;
  }

  override get baseRows(): Rows | null {
    const rows = this.base.baseRows;
    return rows === null ? null : at(rows, this.places);
  }
}

/** Rows of several relations side by side, as a join pairs them; -1 is no row. */
export class Combined extends Relation {
  readonly infos: Map<string, Info>;

  constructor(
    readonly sides: [Relation, Rows][],
    readonly columns: Map<string, [number, string]>,
  ) {
    super();
    this.infos = new Map([...columns].map(([name, [side, inner]]) => [name, { ...sides[side]![0].infos.get(inner)!, nullsApart: false }]));
  }

  get length(): number {
    return this.sides[0]![1].length;
  }

  async read(name: string, places: Rows): Promise<Column> {
    const [side, inner] = this.columns.get(name)!;
    const [relation, rows] = this.sides[side]!;
    const wanted = at(rows, places);
    const gone = Uint8Array.from(wanted, (row) => (row < 0 ? 1 : 0));
    if (!gone.includes(1)) return relation.read(inner, wanted);
    if (!gone.includes(0)) return new Items(new Array<Val>(wanted.length).fill(null));
    let last = -1;
    const repeated = Int32Array.from(wanted, (row) => Math.max(0, row < 0 ? last : ++last));
    const found = take(await relation.read(inner, wanted.filter((row) => row >= 0)), repeated);
    if (found instanceof Arrays && found.shape !== null) return found.like(found.dtype, found.data, either(found.missing, gone));
    const values = rowsOf(found).map((value, i) => (gone[i] ? null : value));
    return found instanceof Arrays || (found instanceof Items && found.isText) ? collect(values) : new Items(values);
  }
}

/** The rows of several relations, one behind the other. */
export class Chained extends Relation {
  readonly infos: Map<string, Info>;

  constructor(readonly parts: Relation[]) {
    super();
    this.infos = new Map(parts[0]!.names.map((name) => [name, merged(parts.map((part) => part.infos.get(name)!))]));
  }

  get length(): number {
    return this.parts.reduce((sum, part) => sum + part.length, 0);
  }

  async read(name: string, places: Rows): Promise<Column> {
    const [found, order]: [Column[], Rows[]] = [[], []];
    let start = 0;
    for (const part of this.parts) {
      const [from, end] = [start, start + part.length];
      const mine = span(0, places.length).filter((i) => places[i]! >= from && places[i]! < end);
      if (mine.length) {
        found.push(await part.read(name, Int32Array.from(mine, (i) => places[i]! - from)));
        order.push(mine);
      }
      start = end;
    }
    return found.length ? inPlaces(found, order) : this.parts[0]!.read(name, places);
  }
}

export const groupedInfo = (info: Info, isKey = false): Info => ({
  ...info, kind: info.kind === "array" ? "array" : "json", rank: info.rank === null ? null : info.rank + 1, isGroup: true, isKey, nullsApart: false, cost: info.cost * 4,
});

/** Runs of rows of another relation. */
export class Grouped extends Relation {
  readonly infos: Map<string, Info>;

  constructor(
    readonly base: Relation,
    readonly members: Rows,
    readonly ends: Float64Array,
  ) {
    super();
    this.infos = new Map([...base.infos].map(([name, info]) => [name, groupedInfo(info)]));
  }

  get length(): number {
    return this.ends.length - 1;
  }

  async read(name: string, places: Rows): Promise<Column> {
    const sizes = Float64Array.from(places, (group) => this.ends[group + 1]! - this.ends[group]!);
    if (name === COUNT_ALL) return wholes(sizes);
    const rows = new Int32Array(sizes.reduce((a, b) => a + b, 0));
    let place = 0;
    for (const group of places) for (let member = this.ends[group]!; member < this.ends[group + 1]!; member++) rows[place++] = this.members[member]!;
    return stacked(await this.base.read(name, rows), sizes);
  }
}

/** Runs of samples as one value each: an array with one more axis, or a list. */
function stacked(column: Column, sizes: Float64Array): Column {
  if (column instanceof Arrays && column.shape !== null && column.missing === null) {
    const rank = column.shape.length + 1;
    const shapes = new Float64Array(sizes.length * rank);
    sizes.forEach((size, i) => shapes.set([size, ...column.shape!], i * rank));
    return Arrays.ragged(column.dtype, column.data, sizes.length, shapes, rank).withError(column.error);
  }
  const values = column instanceof Arrays ? computedRows(column) : rowsOf(column);
  let end = 0;
  return new Items(Array.from(sizes, (size) => values.slice(end, (end += size))));
}

/** Items of the values of another relation. */
export class Unpacked extends Relation {
  readonly infos: Map<string, Info>;

  constructor(
    readonly base: Relation,
    readonly owners: Rows,
    readonly items: Rows,
    readonly split: Set<string>,
    readonly numbered: string | null,
  ) {
    super();
    this.infos = new Map([...base.infos].map(([name, info]) => {
      if (!split.has(name)) return [name, info];
      return [name, { ...NUMBER, kind: info.kind === "array" ? "array" : "any", dtype: info.dtype, classNames: info.classNames, logical: info.logical }];
    }));
    if (numbered !== null) this.infos.set(numbered, NUMBER);
  }

  get length(): number {
    return this.owners.length;
  }

  async read(name: string, places: Rows): Promise<Column> {
    if (name === this.numbered) return wholes(at(this.items, places));
    const owners = at(this.owners, places);
    const known = Int32Array.from(new Set(owners)).sort();
    const inverse = new Map(Array.from(known, (owner, i) => [owner, i]));
    const column = await this.base.read(name, known);
    const mine = Int32Array.from(owners, (owner) => inverse.get(owner)!);
    if (!this.split.has(name)) return take(column, mine);
    const values = rowsOf(column);
    return collect(Array.from(mine, (row, i) => itemAt(values[row]!, this.items[places[i]!]!)));
  }
}

function itemAt(value: Val, item: number): Val {
  if (value === null) return null;
  if (Array.isArray(value)) return itemOf(value[item]!);
  const column = value as Nd;
  const size = column.data.length / Math.max(1, column.shape[0]!);
  return Arrays.even(column.dtype, column.data.subarray(item * size, (item + 1) * size), 1, column.shape.slice(1)).row(0);
}

