/** Vectors, labels and numbers of all rows, read by the page itself. */

import { UnsupportedError, type Tensor } from "../../reader/src";
import type { Points } from "../provider";

const MOST_ROWS = 1_000_000;
const MOST_NUMBERS = 1 << 27;
const PIECE = 1 << 22; // numbers that are read at once

/** What `points` of the server (viewer/points.py) tells of a tensor. */
export async function pointsOf(tensor: Tensor, signal?: AbortSignal): Promise<Points> {
  const axes = tensor.maxShape.reduce((a, b) => a * b, 1);
  const isEven = tensor.maxShape.join() === tensor.minShape.join();
  const width = tensor.htype === "class_label" || axes < 1 ? 1 : axes;
  const step = Math.max(1, Math.ceil(tensor.length / MOST_ROWS), Math.ceil((tensor.length * width) / MOST_NUMBERS));
  const rows = new Float32Array(Math.ceil(tensor.length / step) * width).fill(NaN);
  const length = step * Math.max(1, Math.floor(PIECE / (step * Math.max(width, axes))));
  for (let start = 0; start < tensor.length; start += length) {
    const stop = Math.min(tensor.length, start + length);
    const put = (row: number, from: ArrayLike<number | bigint>, at: number): void => {
      for (let axis = 0; axis < width; axis += 1) rows[((start + row) / step) * width + axis] = Number(from[at + axis]);
    };
    if (isEven || axes === 1) {
      const isRoom = step === 1 && tensor.dtype === "float32";
      const { data, missing } = await tensor.column(start, stop, signal, isRoom ? new Uint8Array(rows.buffer, 4 * start * width, 4 * (stop - start) * width) : null);
      const without = new Set(missing);
      if (isRoom) for (const row of missing) rows.fill(NaN, (start + row) * width, (start + row + 1) * width);
      else for (let row = 0; row < stop - start; row += step) if (!without.has(row)) put(row, data, row * axes);
    } else {
      const values = await tensor.rows(start, stop, signal);
      for (let row = 0; row < stop - start; row += step) {
        const value = values[row];
        if (value?.kind === "array" && value.data.length >= width) put(row, value.data, 0);
        else if (value && value.kind !== "array") throw new UnsupportedError(`${tensor.name} holds no numbers`);
      }
    }
  }
  if (width <= 3) return { values: rows, axes: width, step, share: 1 };
  const worker = new Worker(new URL("./pca.worker.ts", import.meta.url), { type: "module" });
  try {
    return await new Promise<Points>((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve({ ...data, axes: 2, step });
      worker.onerror = () => reject(new UnsupportedError("the browser does not start the part of the page that finds the plane of vectors"));
      signal?.addEventListener("abort", () => reject(signal.reason));
      worker.postMessage({ rows, axes: width }, [rows.buffer]);
    });
  } finally {
    worker.terminate();
  }
}
