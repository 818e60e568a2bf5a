/** Queries of datasets that lie anywhere, answered where this runs: `await query(text, () => open(address))`. */

import { Arrays, Nd, Num, rowsOf, span, type Rows, type Val } from "./columns";
import "./dates";
import "./texts";
import { Execution, type Open } from "./engine";
import { NeedsView } from "./errors";
import type { Info } from "./functions";
import { listed } from "./numbers";
import { parse } from "./parser";
import { Picked, Projected, type Relation } from "./relations";
import { Stored } from "./stored";
import { columnsOf, type Output, type Query, type Select } from "./syntax";

/** The answer of a query: rows, and columns that are computed when they are read. */
export class Answer {
  readonly length: number;
  readonly names: string[];
  /** Rows of the dataset that these come from; null of joins and groups. */
  readonly rows: Rows | null;
  /** The dataset that they come from. */
  readonly origin: unknown;

  constructor(
    private readonly relation: Relation,
    /** Columns that ARRANGE BY puts side by side. */
    readonly arranged: string[],
  ) {
    ({ length: this.length, names: this.names, baseRows: this.rows, origin: this.origin } = relation);
  }

  info(name: string): Info {
    return this.relation.infos.get(name)!;
  }

  /** The tensor that a column shows as it is; null where it is computed. */
  source(name: string, relation = this.relation): string | null {
    if (relation instanceof Stored) return name;
    if (relation instanceof Picked) return this.source(name, relation.base);
    const node = relation instanceof Projected ? relation.outputs.get(name)! : null;
    return node?.is === "input" ? this.source(node.name, (relation as Projected).base) : null;
  }

  /** Values of some rows as those of JSON: numbers that it lacks are `bigint`, NaN and infinite. */
  async values(name: string, start: number, stop: number): Promise<Val[]> {
    if (stop <= start) return [];
    const found = await this.relation.read(name, span(start, stop));
    return rowsOf(found instanceof Arrays && found.error !== null ? found.like(found.dtype, found.data) : found).map(plain);
  }
}

function plain(value: Val): Val {
  if (value instanceof Nd) return listed(value);
  if (value instanceof Num) return value.type === "bool" ? value.value != 0 : value.value;
  return Array.isArray(value) ? value.map(plain) : value;
}

export async function query(text: string, open: Open, signal?: AbortSignal): Promise<Answer> {
  if (/^\s*EXPLAIN\b/i.test(text)) throw new NeedsView("EXPLAIN");
  const parsed = parse(text);
  const names = isAllRows(parsed) ? await shortened(parsed, open) : null;
  const relation = await new Execution(text, open, signal).run(names === null ? parsed : { ...parsed, body: { ...(parsed.body as Select), items: names } });
  return new Answer(relation, parsed.arrange.flatMap((key) => (key.is === "name" ? [key.column] : [""])));
}

/** Whether a query chooses rows of the dataset alone, in all columns. */
function isAllRows({ body }: Query): boolean {
  return body.is === "select" && body.source === null && !body.expand && !body.group.length && !body.isDistinct && body.items.length === 1 && body.items[0]!.expression === null && !body.items[0]!.items.length && !body.items[0]!.table;
}

/**
 * Columns by which `SELECT *` chooses rows where tensors differ in length: a page shows all rows, and those of the
 * language are in all columns that are asked for. Null where all have the same.
 */
async function shortened(parsed: Query, open: Open): Promise<Output[] | null> {
  const tensors = [...(await open(null, null)).tensors.values()];
  if (new Set(tensors.map((tensor) => tensor.length)).size < 2) return null;
  const named = columnsOf({ ...parsed, body: { ...(parsed.body as Select), items: [] } }) ?? new Set();
  const asked = tensors.filter(({ name }) => named.has(name) || named.has(name.split("/").pop()!));
  const longest = tensors.reduce((a, b) => (b.length > a.length ? b : a));
  return (asked.length ? asked : [longest]).map(({ name }) => ({ expression: { is: "name", table: null, column: name, at: 0 }, alias: null, table: null, items: [], at: 0 }));
}

export { NeedsView, QueryError } from "./errors";
export { FUNCTIONS } from "./functions";
export { NAMES } from "./words";
export { parse } from "./parser";
export * as reader from "../../reader/src";
export type { Open } from "./engine";
