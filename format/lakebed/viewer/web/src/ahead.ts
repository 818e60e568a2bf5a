/** Pictures of frames that are shown, or come next: asked for once, and given up when they are wanted no more. */

import type { PictureOptions } from "./provider";
import type { Row, Session } from "./session.svelte";

export interface Wanted {
  tensor: string;
  options: PictureOptions;
}

export class Ahead {
  private readonly waiting = new Map<string, AbortController>();

  constructor(private readonly session: Session) {}

  /** Ask for what is not on its way yet; `come` is called for each that comes. */
  want(row: Row, wanted: Wanted[], come: () => void, failed: (error: unknown) => void): void {
    const keys = new Set(wanted.map((one) => JSON.stringify([row.position, row.id, one])));
    for (const [key, stop] of this.waiting) {
      if (keys.has(key)) continue;
      this.waiting.delete(key);
      stop.abort();
    }
    for (const one of wanted) {
      const key = JSON.stringify([row.position, row.id, one]);
      if (this.waiting.has(key)) continue;
      const stop = new AbortController();
      this.waiting.set(key, stop);
      this.session.picture(one.tensor, row, one.options, stop.signal).then(come, failed);
    }
  }
}
