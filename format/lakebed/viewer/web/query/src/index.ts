/** Queries of datasets that lie anywhere, answered where this runs: `await query(text, () => open(address))`. */

import { Arrays, Constant, Nd, Num, isDocument, rowsOf, span, type Column, type Rows, type Val } from "./columns";
import "./dates";
import "./texts";
import { Execution, type Open } from "./engine";
import { NeedsView } from "./errors";
import type { Info } from "./functions";
import { listed } from "./numbers";
import { parse } from "./parser";
import type { Relation } from "./relations";
import { Stored } from "./stored";
import { Picked, Projected } from "./relations";

/** The answer of a query: rows, and columns that are computed when they are read. */
export class Answer {
  constructor(
    readonly relation: Relation,
    /** Columns that ARRANGE BY puts side by side. */
    readonly arranged: string[],
  ) {}

  get length(): number {
    return this.relation.length;
  }

  get names(): string[] {
    return this.relation.names;
  }

  info(name: string): Info {
    return this.relation.infos.get(name)!;
  }

  /** Rows of the dataset that these come from; null of joins and groups. */
  get rows(): Rows | null {
    return this.relation.baseRows;
  }

  /** The dataset that they come from. */
  get origin(): unknown {
    return this.relation.origin;
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
    return stop > start ? valuesOf(await this.relation.read(name, span(start, stop))) : [];
  }
}

export function valuesOf(column: Column): Val[] {
  if (column instanceof Arrays && column.error !== null) column = column.like(column.dtype, column.data);
  return rowsOf(column instanceof Arrays || column instanceof Constant ? column : column).map(plain);
}

function plain(value: Val): Val {
  if (value instanceof Nd) return listed(value);
  if (value instanceof Num) return value.type === "bool" ? value.value != 0 : value.value;
  if (Array.isArray(value)) return value.map(plain);
  if (isDocument(value)) return value;
  return value;
}

export async function query(text: string, open: Open, signal?: AbortSignal): Promise<Answer> {
  if (/^\s*EXPLAIN\b/i.test(text)) throw new NeedsView("EXPLAIN");
  const { query: parsed } = parse(text);
  const relation = await new Execution(text, open, signal).run(parsed);
  return new Answer(relation, parsed.arrange.flatMap((key) => (key.is === "name" ? [key.column] : [""])));
}

export { NeedsView, QueryError } from "./errors";
export { FUNCTIONS } from "./functions";
export { KEYWORDS } from "./tokens";
export { parse } from "./parser";
export * as reader from "../../reader/src";
export type { Open } from "./engine";
