/** Syntax tree of a query; `at` is the place of each node in the text, counted in letters. */

export type Expression =
  | { is: "literal"; value: number | bigint | string | boolean | null; isFloat: boolean; at: number }
  | { is: "parameter"; at: number }
  | { is: "name"; table: string | null; column: string; at: number }
  | { is: "array"; items: Expression[]; at: number }
  | { is: "unary"; operator: "-" | "not"; operand: Expression; at: number }
  | { is: "binary"; operator: string; left: Expression; right: Expression; at: number }
  | { is: "logical"; operator: "and" | "or"; operands: Expression[]; at: number }
  | { is: "subscript"; base: Expression; items: Item[]; at: number }
  | { is: "call"; name: string; operands: Expression[]; isDistinct: boolean; isStar: boolean; at: number }
  | { is: "weights"; name: string; pairs: [Expression, Expression][]; at: number }
  | { is: "in"; operand: Expression; items: Expression[]; query: Query | null; at: number }
  | { is: "like"; operand: Expression; pattern: Expression; anyCase: boolean; at: number }
  | { is: "isnull"; operand: Expression; at: number }
  | { is: "case"; branches: [Expression, Expression][]; otherwise: Expression | null; at: number }
  | { is: "cast"; operand: Expression; type: string; at: number }
  | { is: "nested"; query: Query; isExists: boolean; at: number };

/** What stands between square brackets. */
export type Item = Expression | { is: "slice"; start: Expression | null; stop: Expression | null; step: Expression | null; at: number } | { is: "dots"; at: number };

export type Source =
  | { is: "path"; path: string; version: string | null; alias: string | null; isQuoted: boolean; at: number }
  | { is: "difference"; at: number }
  | { is: "derived"; query: Query; alias: string | null; at: number }
  | { is: "join"; kind: string; at: number };

/** One entry of the list of SELECT; without an expression `*`, `table.*` or `*[...]`. */
export interface Output { expression: Expression | null; alias: string | null; table: string | null; items: Item[]; at: number }

export interface Order { expression: Expression; isDescending: boolean; nulls: "" | "first" | "last" }

export interface Select {
  is: "select";
  items: Output[];
  source: Source | null;
  where: Expression | null;
  expand: { before: number; after: number; keepsRepeats: boolean; alias: string | null; at: number } | null;
  group: Expression[];
  having: Expression | null;
  ungroup: { count: Expression | null; at: number } | null;
  isDistinct: boolean;
  distinctOn: Expression[];
  top: number | null;
  at: number;
}

export interface Combined {
  is: "combined";
  operator: "union" | "intersect" | "except";
  keepsAll: boolean;
  left: Body;
  right: Body;
  at: number;
}

export type Body = Select | Combined | Query;

export interface Query {
  is: "query";
  body: Body;
  tables: [string, Query][];
  order: Order[];
  arrange: Expression[];
  limit: { count: Expression | null; isPercent: boolean; offset: Expression | null; at: number } | null;
  sample: { weight: Expression; replace: boolean; seed: Expression | null; count: Expression | null; isPercent: boolean; at: number } | null;
  at: number;
}

/** A node and all nodes below it; `inside` also those of queries in it. */
export function* parts(node: unknown, inside = false): Generator<{ is: string; [key: string]: unknown }> {
  if (Array.isArray(node)) for (const item of node) yield* parts(item, inside);
  else if (node !== null && typeof node === "object") {
    const found = node as { is: string; [key: string]: unknown };
    yield found;
    if (inside || found.is !== "query") for (const part of Object.values(found)) yield* parts(part, inside);
  }
}

/** Whether COUNT(*), which counts the rows of groups, is in an expression. */
export function countsRows(node: Expression | null): boolean {
  for (const part of parts(node)) if (part.is === "call" && part.isStar) return true;
  return false;
}

/** All names of columns and results in a query; null where it asks for all columns. */
export function columnsOf(query: Query): Set<string> | null {
  const found = new Set<string>();
  for (const part of parts(query, true)) {
    if (part.is === "name") found.add(part.column as string);
    else if (part.is === undefined && "expression" in part && part.expression === null) return null;
  }
  return found;
}
