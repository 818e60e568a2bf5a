/** Numbers that a scene needs and a row's cells do not tell: they are asked for by themselves. */

import { missing, type Cells } from "./scene";
import type { Row, Session } from "./session.svelte";
import type { TensorMeta } from "./types";

/** Return cells of scores, and of the owners of parts, that are drawn over a picture; and, with all frames, those that were cut. */
export async function companions(session: Session, row: Row, base: TensorMeta, frames: "first" | "all", signal: AbortSignal): Promise<Cells> {
  const asked = missing(session.columns, row.cells, base).map(async (name) => {
    const { values } = await session.array(name, row, signal);
    return [name, { v: Array.from(values as ArrayLike<number | bigint>, Number) }] as const;
  });
  const cut = session.columns.filter((one) => frames === "all" && one.sequence && row.cells[one.name] && "cut" in (row.cells[one.name] as object));
  const whole = cut.map(async ({ name }) => [name, await session.whole(name, row, signal)] as const);
  return Object.fromEntries(await Promise.all([...asked, ...whole]));
}
