/** Relations: named columns over rows, read on demand; after Python's `relations/relation.py`. */

import { COUNT_ALL, Scope, evaluate, isByPlace, isTrue, nameIn, needs, type Bound } from "./bound";
import { Arrays, Items, computedRows, flagsOf, isRun, gathered, rowsOf, span, take, wholes, type Column, type Mask, type Rows } from "./columns";
import { type Info } from "./functions";
import { shapeOf } from "./subscripts";

export abstract class Relation {
  readonly names: string[];

  protected constructor(
    readonly infos: Map<string, Info>,
    readonly length: number,
    /** Something that relations over one dataset share. */
    readonly origin: unknown = null,
    /** Rows of the dataset that the rows come from; null where they come from several. */
    readonly baseRows: Rows | null = null,
  ) {
    this.names = [...infos.keys()];
  }

  abstract read(name: string, places: Rows): Promise<Column>;

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

  /** Read the columns that expressions over some rows need. */
  async scope(nodes: Bound[], places: Rows): Promise<Scope> {
    const wanted = new Set<string>();
    for (const node of nodes) needs(node, wanted);
    const read = async (need: string): Promise<[string, Column]> => {
      const name = nameIn(need);
      if (need.startsWith("data")) return [need, await this.read(name, places)];
      if (need.startsWith("shape")) return [need, await this.shapes(name, places)];
      return [need, flagsOf((await this.missing(name, places)) ?? new Uint8Array(places.length))];
    };
    return new Scope(places.length, new Map(await Promise.all([...wanted].map(read))), places);
  }

  async column(node: Bound, places: Rows = span(0, this.length)): Promise<Column> {
    return evaluate(node, await this.scope([node], places));
  }

  /** Which of some rows a condition is true for. */
  async told(node: Bound, places: Rows): Promise<Uint8Array> {
    return isTrue(node, await this.scope([node], places));
  }
}

/** Expressions over another relation. */
export class Projected extends Relation {
  constructor(
    readonly base: Relation,
    readonly outputs: Map<string, Bound>,
  ) {
    super(new Map([...outputs].map(([name, node]) => [name, node.info])), base.length, base.origin, base.baseRows);
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
}

/** Rows of another relation, in any order. */
export class Picked extends Relation {
  constructor(
    readonly base: Relation,
    readonly places: Rows,
  ) {
    super(base.infos, places.length, base.origin, base.baseRows && gathered(base.baseRows, places));
  }

  read(name: string, places: Rows): Promise<Column> {
    return this.base.read(name, gathered(this.places, places));
  }

  override below(name: string, places: Rows): [Relation, string, Rows] {
    return [this.base, name, gathered(this.places, places)];
  }
}

export const groupedInfo = (info: Info, isKey = false): Info => ({
  ...info, kind: info.kind === "array" ? "array" : "json", rank: info.rank === null ? null : info.rank + 1, isGroup: true, isKey, nullsApart: false, cost: info.cost * 4,
});

/** Runs of rows of another relation. */
export class Grouped extends Relation {
  constructor(
    readonly base: Relation,
    readonly members: Rows,
    readonly ends: Float64Array,
  ) {
    super(new Map([...base.infos].map(([name, info]) => [name, groupedInfo(info)])), ends.length - 1);
  }

  async read(name: string, places: Rows): Promise<Column> {
    const sizes = Float64Array.from(places, (group) => this.ends[group + 1]! - this.ends[group]!);
    if (name === COUNT_ALL) return wholes(sizes);
    if (places.length === this.length && isRun(places) && this.members.length === this.base.length) {
      // Every row is in one group, and rows are read fastest in their own order.
      return stacked(take(await this.base.read(name, span(0, this.base.length)), this.members), sizes);
    }
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
