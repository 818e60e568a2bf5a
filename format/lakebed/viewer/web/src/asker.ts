/** Queries of a page without a server: a worker answers them, which is loaded for the first. */

import type { Dataset } from "../reader/src";
import type { Column, Found, Request, Told, Where } from "./asking";
import { metaOfColumn, tensorOf } from "./described";
import { ProviderError } from "./provider";
import type { Answer, Json } from "./types";

const MOST_ANSWERS = 16;

/** An answer as the page keeps it: which rows, and which columns are tensors as they are. */
export interface Asked {
  key: string;
  told: Answer;
  columns: Map<string, Column>;
  rows: Int32Array | null;
  /** Whether each row can as well be asked for as one of the version. */
  isPlain: boolean;
  dataset: Dataset;
}

export class Asker {
  private worker: Worker | null = null;
  private readonly waiting = new Map<number, { resolve: (told: Told) => void; reject: (error: unknown) => void }>();
  private readonly kept = new Map<string, Promise<Asked>>();
  private last = 0;
  traffic = { requests: 0, bytes: 0 };

  /** The answer of a query, asked once; its id is the text. */
  answer(key: string, text: string, where: Where, dataset: Dataset, signal?: AbortSignal): Promise<Asked> {
    let found = this.kept.get(key);
    if (found === undefined) {
      found = this.found(key, text, where, dataset, signal);
      this.kept.set(key, found);
      found.catch(() => this.kept.delete(key));
      for (const [oldest] of this.kept) if (this.kept.size > MOST_ANSWERS) this.kept.delete(oldest);
    }
    return found;
  }

  private async found(key: string, text: string, where: Where, dataset: Dataset, signal?: AbortSignal): Promise<Asked> {
    const { told, columns, rows, isHere } = (await this.ask({ is: "query", where, q: key, text }, signal)) as Found;
    const metas = columns.map((column) => {
      const tensor = isHere && column.source !== null ? dataset.tensors.get(column.source) : undefined;
      return tensor === undefined ? metaOfColumn(column, told.rows) : { ...tensorOf(tensor), name: column.name };
    });
    const isMine = columns.every(({ name, source }) => source === name || !dataset.tensors.has(name));
    const sources = columns.map((column): Column => ({ ...column, source: isHere && rows !== null ? column.source : null }));
    return { key, told: { ...told, q: text, columns: metas }, columns: new Map(sources.map((column) => [column.name, column])), rows: isHere ? rows : null, isPlain: isHere && rows !== null && isMine, dataset };
  }

  /** Values of some rows of a column that is computed. */
  async values(key: string, name: string, start: number, stop: number, signal?: AbortSignal): Promise<Json[]> {
    return (await this.ask({ is: "values", q: key, name, start, stop }, signal)) as Json[];
  }

  private ask(request: Request, signal?: AbortSignal): Promise<Told["found"]> {
    signal?.throwIfAborted();
    this.worker ??= this.started();
    const id = (this.last += 1);
    const { worker, waiting } = this;
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        waiting.delete(id);
        worker.postMessage({ id, request: null });
        reject(signal!.reason);
      };
      signal?.addEventListener("abort", stop, { once: true });
      const told = ({ error, found }: Told): void => {
        signal?.removeEventListener("abort", stop);
        if (error) reject(new ProviderError(error.kind, error.message, error.position));
        else resolve(found);
      };
      waiting.set(id, { resolve: told, reject });
      worker.postMessage({ id, request });
    });
  }

  private started(): Worker {
    const worker = new Worker(new URL("./asked.worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<Told>) => {
      this.traffic = data.traffic ?? this.traffic;
      const one = this.waiting.get(data.id);
      this.waiting.delete(data.id);
      one?.resolve(data);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      for (const { reject } of this.waiting.values()) reject(new ProviderError("static", `this page cannot answer queries: ${event.message || "its worker does not start"}`));
      this.waiting.clear();
      worker.terminate();
      this.worker = null;
    };
    return worker;
  }
}
