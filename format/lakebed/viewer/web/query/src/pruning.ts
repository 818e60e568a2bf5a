/** Rows that a condition may be true for, by the statistics of chunks. */

import type { Bound } from "./bound";
import type { Relation } from "./relations";

/** Stretches of rows that are left. */
export async function kept(relation: Relation, _conditions: Bound[], _signal?: AbortSignal): Promise<[number, number][]> {
  return [[0, relation.length]];
}
