/** Execution of queries: sources, conditions, groups, order and results, each a relation made of another; after Python's `engine`. */

import { Binder, Names, bare, type Found, type Prepared } from "./binding";
import { COUNT_ALL, and, cost, inputs, mayFail, rowNumber, type Apply, type Bound } from "./bound";
import { Arrays, Nd, Num, filled, gathered, placesOf, rowsOf, span, truth, type Column, type Rows, type Val } from "./columns";
import { NeedsView, QueryError, errorAt, placed } from "./errors";
import { NUMBER, even, weightsOf, type Given } from "./functions";
import { codes, drawn, firsts, groups, joined, ordered, type Key } from "./ordering";
import { kept } from "./pruning";
import { Grouped, Projected, groupedInfo, type Relation } from "./relations";
import { Stored } from "./stored";
import { columnsOf, countsRows, parts, type Body, type Combined as Sets, type Expression, type Order, type Output, type Query, type Select, type Source } from "./syntax";

/** A source of FROM, and the columns that can be named. */
interface From { relation: Relation; names: Names }

interface Limit { count: number | null; offset: number; percent: number | null }

/** Datasets by what FROM says; null is the one that a query without FROM asks. */
export type Open = (path: string | null, version: string | null) => Promise<import("../../reader/src").Dataset>;

/** Rows of the first look at a condition with LIMIT, and of the largest. */
const [FEW, MANY] = [1 << 12, 1 << 18];

export class Execution {
  private opened = new Map<string, Promise<Relation>>();
  private asked: Query | null = null;

  constructor(
    readonly text: string,
    private readonly open: Open,
    private readonly signal: AbortSignal | undefined = undefined,
  ) {}

  async run(query: Query, outer = new Map<string, Relation>()): Promise<Relation> {
    this.asked ??= query;
    this.signal?.throwIfAborted();
    const tables = new Map(outer);
    for (const [name, inner] of query.tables) tables.set(name, await this.run(inner, tables));
    const { body } = query;
    if (body.is === "select") return this.select(body, query, tables);
    const relation = body.is === "query" ? await this.run(body, tables) : await this.combined(body, tables);
    const source = { relation, names: namesOf(relation) };
    const binder = await this.binder(source, tables, [query.order, query.arrange, query.limit, query.sample]);
    return (await this.arranged(source, query, binder, this.limitOf(query, binder, null))).relation;
  }

  /** A binder to a source, for some clauses: the queries in them are answered first, and the rows that they name read. */
  private async binder(source: From, tables: Map<string, Relation>, clauses: unknown, isGrouped = false, whole: Relation = source.relation): Promise<Binder> {
    const prepared: Prepared = new Map();
    for (const node of parts(clauses)) {
      const inner = node.is === "nested" || node.is === "in" ? (node.query as Query | null) : null;
      if (inner !== null) prepared.set(node, await this.inside(inner, tables, node));
      if (node.is === "call" && String(node.name).toUpperCase() === "DATA") {
        const found = await this.data(node as never, source, whole);
        if (found !== null) prepared.set(node, found);
      }
    }
    return new Binder(this.text, source.names, prepared, isGrouped);
  }

  /** The answer of a query inside another; one that names columns around it is not answered. */
  private async inside(query: Query, tables: Map<string, Relation>, node: { is: string; [key: string]: unknown }): Promise<Found> {
    let found: Relation;
    try {
      found = await this.run(query, tables);
    } catch (error) {
      if (error instanceof QueryError && error.kind === "unknown_column") throw new NeedsView("a query in a query that names columns around it");
      throw error;
    }
    const [name] = found.names;
    const isValue = node.is === "in" || !node.isExists;
    const column = isValue && found.names.length === 1 ? await found.read(name!, span(0, found.length)) : null;
    const values = column === null ? [] : node.is === "in" ? listOf(column) : rowsOf(column);
    return { values, info: found.infos.get(name!)!, rows: found.length, names: found.names.length };
  }

  private async data(node: Expression & { is: "call" }, source: From, whole: Relation): Promise<Found | null> {
    const [column, number] = node.operands;
    if (node.operands.length !== 2 || column!.is !== "name") return null;
    const name = source.names.find(column!.table, column!.column)[0]?.name;
    const found = new Binder(this.text, source.names, new Map()).bind(number!);
    const k = found.is === "value" && found.value instanceof Num && found.value.type === "int" ? Number(found.value.value) : null;
    if (name === undefined || k === null) return null;
    const at = k >= 0 ? k : whole.length + k;
    if (!(at >= 0 && at < whole.length)) throw errorAt(this.text, node.at, "index", `there is no row ${k} among ${whole.length}`);
    return { values: rowsOf(await whole.read(name, Int32Array.of(at))), info: whole.infos.get(name)!, rows: 1, names: 1 };
  }

  // -- SELECT ---------------------------------------------------------------------------------------------------------

  private async select(node: Select, query: Query, tables: Map<string, Relation>): Promise<Relation> {
    if (node.ungroup !== null) throw new NeedsView("UNGROUP BY");
    let source = await this.source(node.source, tables, node.at);
    const whole = source;
    const aliases = new Map(node.items.flatMap((item): [string, Expression][] => (item.alias && item.expression ? [[item.alias, item.expression]] : [])));
    const isGrouped = node.group.length > 0 || node.items.some((item) => countsRows(item.expression));
    const isLate = isGrouped && ordersGroups(node, query, source);
    const clauses = [query.order, query.arrange, query.limit, query.sample, node.items, node.distinctOn];
    const limiting = await this.binder(source, tables, query.limit);
    limiting.aliases = aliases;
    const limit = this.limitOf(query, limiting, node.top);
    const firstLimit = node.isDistinct ? null : limit;
    if (node.where !== null) source = await this.filtered(source, node.where, [...aliases.keys()], tables, isGrouped ? null : wantedBy(node, query, limit));
    let apart: Rows | null = null;
    if (node.expand !== null) {
      const [relation, distances] = this.expanded(whole.relation, source.relation, node.expand);
      [source, apart] = [{ relation, names: source.names }, distances];
    }
    const arrange = async (isOfGroups: boolean): Promise<void> => {
      const binder = await this.binder(source, tables, clauses, isOfGroups, isOfGroups ? source.relation : whole.relation);
      binder.aliases = aliases;
      source = await this.arranged(source, query, binder, firstLimit);
    };
    if (!isLate) await arrange(false);
    if (isGrouped) source = await this.grouped(source, node, aliases, tables);
    if (isLate) await arrange(true);
    const binder = await this.binder(source, tables, [node.items, node.distinctOn], isGrouped, isGrouped ? source.relation : whole.relation);
    const numbers = apart !== null && !isLate && node.expand?.alias != null ? ([node.expand.alias, apart] as [string, Rows]) : null;
    const found = this.outputs(node.items, binder, source, numbers);
    if (!node.isDistinct) return found;
    const keys = await Promise.all(
      node.distinctOn.length ? node.distinctOn.map((key) => source.relation.column(binder.bind(key))) : found.names.map((name) => found.read(name, span(0, found.length))),
    );
    return cut(found.select(firsts(joined(keys.map((key) => codes(key, false))))), limit);
  }

  private async filtered(source: From, where: Expression, aliases: string[], tables: Map<string, Relation>, wanted: number | null): Promise<From> {
    const binder = await this.binder(source, tables, where);
    binder.later = new Map(aliases.map((name) => [name, "WHERE"]));
    return { relation: await this.chosen(source.relation, binder.bind(where), wanted), names: source.names };
  }

  /** The rows for which a condition is true, the first `wanted` where that is a number. */
  private async chosen(relation: Relation, condition: Bound, wanted: number | null): Promise<Relation> {
    if (wanted === 0) return relation.select(new Int32Array(0));
    const conditions = conjuncts(condition).sort((a, b) => cost(a) - cost(b));
    const fixed = conditions.every((one) => one.is === "value");
    if (fixed) return !relation.length || truth(await relation.column(conditions.length > 1 ? and(conditions) : conditions[0]!, Int32Array.of(0)))[0] ? relation : relation.select(new Int32Array(0));
    // What may fail is asked of all rows, so that no other condition hides an error.
    const [failing, sure] = [conditions.filter(mayFail), conditions.filter((one) => !mayFail(one))];
    const left = await kept(relation, conditions, this.signal);
    const found: Rows[] = [];
    let [count, step] = [0, wanted === null ? MANY : FEW];
    for (const [from, stop] of left)
      for (let start = from; start < stop && !(wanted !== null && count >= wanted); start += step, step = Math.min(MANY, step * 4)) {
        this.signal?.throwIfAborted();
        let places = span(start, Math.min(stop, start + step));
        const narrow = (told: Uint8Array): void => void (places = gathered(places, placesOf(told)));
        try {
          if (failing.length) narrow(await relation.told(failing.length > 1 ? and(failing) : failing[0]!, places));
        } catch (error) {
          if (error instanceof QueryError && (conditions.length > 1 || wanted !== null)) throw new NeedsView("conditions of which one cannot be computed for each row");
          throw error;
        }
        for (const one of sure) if (places.length) narrow(await relation.told(one, places));
        found.push(places);
        count += places.length;
      }
    const rows = filled(new Int32Array(count), found);
    return relation.select(wanted === null ? rows : rows.slice(0, wanted));
  }

  private expanded(whole: Relation, found: Relation, node: NonNullable<Select["expand"]>): [Relation, Rows] {
    const [rows, all] = [found.baseRows, whole.baseRows];
    if (rows === null || all === null) throw errorAt(this.text, node.at, "unsupported", "EXPAND BY needs the rows of one dataset");
    const placeOf = new Map(Array.from(all, (row, place) => [row, place]));
    let near: [place: number, apart: number][] = [];
    for (const row of rows)
      for (let apart = -Math.min(node.before, whole.length); apart <= Math.min(node.after, whole.length); apart++) {
        const place = placeOf.get(row)! + apart;
        if (place >= 0 && place < whole.length) near.push([place, apart]);
      }
    // Of rows that are near several, the first counts.
    if (!node.keepsRepeats) near = [...new Map(near.reverse())].sort((a, b) => a[0] - b[0]);
    return [whole.select(Int32Array.from(near, ([place]) => place)), Int32Array.from(near, ([, apart]) => apart)];
  }

  // -- groups ---------------------------------------------------------------------------------------------------------

  private async grouped(source: From, node: Select, aliases: Map<string, Expression>, tables: Map<string, Relation>): Promise<From> {
    const { relation } = source;
    let binder = await this.binder(source, tables, node.group);
    binder.later = new Map([...aliases.keys()].map((name) => [name, "GROUP BY"]));
    const keys = node.group.map((key) => binder.bind(key));
    const numbers: Int32Array[] = [];
    for (const [i, key] of keys.entries()) {
      const column = await relation.column(key);
      numbers.push(placed(this.text, node.group[i]!.at, () => codes(column, true)));
    }
    const { members, ends } = keys.length ? groups(joined(numbers)) : { members: span(0, relation.length), ends: Float64Array.of(0, relation.length) };
    const made = new Grouped(relation, members, ends);
    const named = new Set(keys.flatMap((key) => (key.is === "input" ? [key.name] : [])));
    const names = new Names(source.names.entries.map((entry) => ({ ...entry, info: groupedInfo(entry.info, named.has(entry.name)) })));
    if (node.having === null) return { relation: made, names };
    binder = await this.binder({ relation: made, names }, tables, node.having, true);
    binder.aliases = aliases;
    return { relation: await this.chosen(made, binder.bind(node.having), null), names };
  }

  // -- order ----------------------------------------------------------------------------------------------------------

  /** The rows of a relation in the order of some keys, the first `most` where that is a number. */
  private async inOrder(relation: Relation, order: Order[], binder: Binder, most: number | null): Promise<Relation> {
    const bound = order.map(({ expression }) => binder.bind(expression));
    const keys: Key[] = [];
    for (const [i, key] of bound.entries()) {
      const column = await relation.column(key);
      keys.push({ ...order[i]!, column: key.is === "apply" && key.key ? key.key(column) : column });
    }
    return relation.select(placed(this.text, order[0]!.expression.at, () => ordered(keys, most)));
  }

  private async arranged(source: From, query: Query, binder: Binder, limit: Limit | null): Promise<From> {
    let { relation } = source;
    const { order, arrange } = query;
    for (const { expression } of order) if (expression.is === "literal") throw errorAt(this.text, expression.at, "type", `ORDER BY ${String(expression.value)} orders nothing: name a column or an expression`);
    if (order.length) {
      const own = this.limitOf(query, binder, null);
      relation = await this.inOrder(relation, order, binder, own.count === null || own.percent || binder.isGrouped ? null : own.count + own.offset);
    }
    if (limit !== null) relation = cut(relation, limit);
    if (arrange.length) relation = await this.inOrder(relation, arrange.map((expression) => ({ expression, isDescending: false, nulls: "" as const })), binder, null);
    const { sample } = query;
    if (sample !== null) {
      const weights = weightsOf(await relation.column(binder.bind(sample.weight)));
      let count = relation.length;
      if (sample.count !== null) {
        const wanted = this.number(sample.count, binder, "LIMIT");
        count = sample.isPercent ? even((count * wanted) / 100) : Math.trunc(wanted);
      }
      const seed = sample.seed === null ? null : BigInt(Math.abs(Math.trunc(this.number(sample.seed, binder, "SEED"))));
      relation = relation.select(placed(this.text, sample.at, () => drawn(weights, count, sample.replace, seed)));
    }
    return { relation, names: source.names };
  }

  private limitOf(query: Query, binder: Binder, top: number | null): Limit {
    const found: Limit = { count: top, offset: 0, percent: null };
    if (query.limit === null) return found;
    const { count, offset, isPercent } = query.limit;
    if (count !== null) {
      const wanted = this.number(count, binder, "LIMIT");
      if (isPercent) found.percent = wanted;
      else found.count = top === null ? Math.trunc(wanted) : Math.min(top, Math.trunc(wanted));
    }
    if (offset !== null) found.offset = Math.trunc(this.number(offset, binder, "OFFSET"));
    return found;
  }

  private number(node: Expression, binder: Binder, clause: string): number {
    const bound = binder.bind(node);
    const given = bound.is === "value" && bound.value instanceof Num && bound.value.type !== "bool" ? Number(bound.value.value) : null;
    if (given === null) throw errorAt(this.text, node.at, "type", `${clause} needs a number that is the same for all rows`);
    const isCount = clause === "LIMIT" || clause === "OFFSET";
    if (Number.isNaN(given) || Math.abs(given) > 2 ** 62 || (isCount && given < 0)) throw errorAt(this.text, node.at, "type", `${clause} cannot be ${given}${isCount ? "; it is 0 or more" : ""}`);
    return given;
  }

  // -- the list of SELECT ---------------------------------------------------------------------------------------------

  private outputs(items: Output[], binder: Binder, source: From, numbers: [string, Rows] | null): Relation {
    const base = source.relation;
    const found = new Map<string, Bound>();
    const fromAll = new Set<string>();
    const put = (name: string, node: Bound, at: number): void => {
      if (found.has(name)) throw errorAt(this.text, at, "duplicate_output", `two columns are called '${name}': name one with AS`);
      found.set(name, node);
    };
    for (const item of items) {
      if (item.expression !== null) {
        const node = binder.bind(item.expression);
        const name = item.alias ?? this.ownName(item.expression, node, binder, item.at);
        const known = fromAll.has(name) ? found.get(name) : undefined;
        if (known?.is === "input" && node.is === "input" && known.name === node.name) continue; // `*, id` repeats a column
        put(name, node, item.at);
        continue;
      }
      const entries = binder.names.allOf(item.table);
      if (item.table !== null && !entries.length) binder.names.one(this.text, item.at, item.table, "*");
      for (const entry of entries) {
        const same = item.table === null ? binder.names.find(null, entry.column) : [];
        if (same.length > 1) throw errorAt(this.text, item.at, "ambiguous", `both ${same[0]!.table} and ${same[1]!.table} have a column '${entry.column}': name the columns that you want`);
        const node: Bound = { is: "input", name: entry.name, info: entry.info };
        put(entry.column, item.items.length ? binder.subscripted(node, item.items, item.at) : node, item.at);
        fromAll.add(entry.column);
      }
    }
    if (numbers !== null) {
      const [name, places] = numbers;
      const compute = ({ columns: [rows] }: Given): Column => Arrays.scalars("int64", Float64Array.from((rows as Arrays).data as Float64Array, (row) => places[row]!));
      put(name, { is: "apply", name: "EXPANDED", compute, operands: [rowNumber], info: NUMBER, at: 0, cost: 0.1, mayFail: false } satisfies Apply, items[0]!.at);
    }
    if ([...found].every(([name, node]) => node.is === "input" && node.name === name)) {
      const names = [...found.keys()];
      if (names.join("\0") === base.names.join("\0")) return base;
      if (base instanceof Stored) return base.only(names);
    }
    return new Projected(base, found);
  }

  private ownName(expression: Expression, node: Bound, binder: Binder, at: number): string {
    if (expression.is === "name" && node.is === "input") return expression.column;
    const read = inputs(node).filter((name) => name !== COUNT_ALL);
    if (read.length !== 1) throw errorAt(this.text, at, "alias_required", `give it a name with AS: it is computed from ${read.length ? `${read.length} columns` : "no column"}`);
    return binder.names.entries.find((entry) => entry.name === read[0])?.column ?? read[0]!;
  }

  // -- sources --------------------------------------------------------------------------------------------------------

  private async source(node: Source | null, tables: Map<string, Relation>, at: number): Promise<From> {
    if (node === null) {
      const relation = await this.dataset(null, null, at);
      return { relation, names: namesOf(relation) };
    }
    if (node.is === "difference") throw new NeedsView("DIFF");
    if (node.is === "join") throw new NeedsView(node.kind === "zip" ? "FROM of several datasets" : `${node.kind.toUpperCase()} JOIN`);
    if (node.is === "derived") {
      const relation = await this.run(node.query, tables);
      return { relation, names: namesOf(relation, node.alias) };
    }
    const known = node.version === null ? tables.get(node.path) : undefined;
    const relation = known ?? (await this.dataset(node.path, node.version, node.at));
    return { relation, names: namesOf(relation, node.alias ?? (node.isQuoted && node.path.includes("/") ? null : node.path)) };
  }

  /** The rows of a dataset that all named columns have. */
  private dataset(path: string | null, version: string | null, at: number): Promise<Relation> {
    const key = JSON.stringify([path, version]);
    let found = this.opened.get(key);
    if (found === undefined) {
      found = this.read(path, version, at);
      this.opened.set(key, found);
    }
    return found;
  }

  private async read(path: string | null, version: string | null, at: number): Promise<Relation> {
    let dataset;
    try {
      dataset = await this.open(path, version);
    } catch (error) {
      if (error instanceof NeedsView || error instanceof DOMException) throw error;
      throw errorAt(this.text, at, "unknown_source", path === null ? 'the query needs FROM "path/of/a/dataset"' : `'${path}' cannot be read: ${error instanceof Error ? error.message : String(error)}`);
    }
    const all = [...dataset.tensors.values()];
    const asked = columnsOf(this.asked!);
    const named = all.filter(({ name }) => asked === null || asked.has(name) || asked.has(name.split("/").pop()!));
    const lengths = (named.length ? named : all).map((tensor) => tensor.length);
    const [short, long] = [Math.min(...lengths), Math.max(...lengths)];
    if (lengths.length && short === 0 && long > 0) throw errorAt(this.text, at, "type", "a tensor has 0 rows and others have some: name only tensors that have rows");
    return new Stored(dataset, span(0, lengths.length ? short : 0));
  }

  // -- UNION, INTERSECT, EXCEPT ---------------------------------------------------------------------------------------

  private async side(node: Body, tables: Map<string, Relation>): Promise<Relation> {
    if (node.is === "combined") return this.combined(node, tables);
    return this.run(node.is === "query" ? node : { is: "query", body: node, tables: [], order: [], arrange: [], limit: null, sample: null, at: node.at }, tables);
  }

  private async combined(node: Sets, tables: Map<string, Relation>): Promise<Relation> {
    const [left, right] = [await this.side(node.left, tables), await this.side(node.right, tables)];
    const operator = node.operator.toUpperCase();
    const fail = (kind: string, message: string): QueryError => errorAt(this.text, node.at, kind, message);
    if ([...left.names].sort().join("\0") !== [...right.names].sort().join("\0")) throw fail("schema_mismatch", `${operator} needs the same columns on both sides, not ${left.names.join(", ")} and ${right.names.join(", ")}`);
    for (const name of left.names) {
      const kinds = new Set([left, right].map((side) => side.infos.get(name)!.kind).filter((kind) => kind !== "any"));
      if (kinds.size > 1) throw fail("schema_mismatch", `${operator}: column '${name}' holds ${[...kinds].sort().join(" on one side and ")} on the other`);
    }
    const [first, second] = [left.baseRows, right.baseRows];
    const isOne = left.origin !== null && left.origin === right.origin && left instanceof Stored && right instanceof Stored;
    if (!isOne || first === null || second === null) {
      const isApart = left.origin === null || left.origin !== right.origin;
      if (isApart && node.operator !== "union") throw fail("independent", `${operator} compares rows of one dataset, at one version, by their number`);
      throw new NeedsView(`${operator} of other than rows of one dataset`);
    }
    const whole = (rows: Rows): Relation => new Stored(left.dataset, rows, left.shown, left.infos);
    if (node.operator === "union" && node.keepsAll) return whole(Int32Array.from([...first, ...second]));
    const [a, b] = [new Set(first), new Set(second)];
    const all = [...new Set([...first, ...second])].sort((x, y) => x - y);
    return whole(Int32Array.from(all.filter((row) => node.operator === "union" || (a.has(row) && b.has(row) === (node.operator === "intersect")))));
  }
}

const namesOf = (relation: Relation, table: string | null = null): Names => new Names(relation.names.map((name) => ({ table, column: name, name, info: relation.infos.get(name)! })));

const conjuncts = (node: Bound): Bound[] => (node.is === "logic" && node.operator === "and" ? node.operands.flatMap(conjuncts) : [node]);
/** Whether ORDER BY sorts groups: by a name that SELECT gives, or by COUNT(*). */
function ordersGroups(node: Select, query: Query, source: From): boolean {
  const aliases = new Set(node.items.map((item) => item.alias));
  return query.order.some(({ expression }) =>
    expression.is === "name" ? expression.table === null && aliases.has(expression.column) && !source.names.find(null, expression.column).length : countsRows(expression));
}

/** Rows that WHERE must find for LIMIT; null if other clauses need all of them. */
function wantedBy(node: Select, query: Query, limit: Limit): number | null {
  if (query.order.length || query.arrange.length || query.sample || node.expand || node.ungroup || node.isDistinct) return null;
  return limit.count === null || limit.percent ? null : limit.offset + limit.count;
}

function cut(relation: Relation, { count, offset, percent }: Limit): Relation {
  const total = relation.length;
  const share = percent === null ? null : Math.ceil((total * Math.min(Math.max(percent, 0), 100)) / 100);
  const most = share === null ? count : count === null ? share : Math.min(count, share);
  const stop = most === null ? total : Math.min(total, offset + most);
  return offset === 0 && stop === total ? relation : relation.select(span(Math.min(offset, stop), stop));
}

/** The values of the only column of a query, those of arrays one by one; missing ones are none. */
function listOf(column: Column): Val[] {
  return rowsOf(column).flatMap((value): Val[] => {
    if (value === null) return [];
    if (!(value instanceof Nd)) return [value];
    // Stored floats keep their digits: they are compared as numbers of 64 bits.
    return Array.from(value.data as Float64Array, (one): Val => (value.dtype === "float32" || value.dtype === "float64" ? new Nd("float64", [], Float64Array.of(one)) : bare(new Nd(value.dtype, [], value.data.constructor === Float64Array ? Float64Array.of(one) : ([one] as never)))));
  });
}
