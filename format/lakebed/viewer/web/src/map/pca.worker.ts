/** Vectors to places on their plane, beside the page. */

import { plane, projected } from "./pca";

addEventListener("message", ({ data: { rows, axes } }: MessageEvent<{ rows: Float32Array<ArrayBuffer>; axes: number }>) => {
  const found = plane(rows, axes);
  const values = projected(rows, axes, found);
  (postMessage as (message: unknown, transfer: Transferable[]) => void)({ values, share: found.share }, [values.buffer]);
});
