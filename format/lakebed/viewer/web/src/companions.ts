/** Numbers that a scene needs and a row's cells do not tell: they are asked for by themselves. */

import { missing, type Cells } from "./scene";
import type { Row, Session } from "./session.svelte";
import type { TensorMeta } from "./types";

/** Return cells of scores, and of the owners of parts, that are drawn over a picture. */
export async function companions(session: Session, row: Row, base: TensorMeta, signal: AbortSignal): Promise<Cells> {
  const names = missing(session.columns, row.cells, base);
  const found = await Promise.all(names.map((name) => session.array(name, row, signal)));
  return Object.fromEntries(
    found.map(({ values }, at) => [names[at], { v: Array.from(values as ArrayLike<number | bigint>, Number) }]),
  );
}
