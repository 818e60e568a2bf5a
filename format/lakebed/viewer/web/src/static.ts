/** The provider that reads datasets where they lie, with no server: what needs one says so. */

import { FormatError, LimitError, MissingError, SourceError, open, traffic, type Dataset, type FileValue, type Tensor, type Value } from "../reader/src";
import { stretches } from "../reader/src/runs";
import { bitmapOf, labelMap, limitsOf, numbersOf } from "./decoded";
import { Asker, type Asked } from "./asker";
import { ProviderError, type Media, type Numbers, type PictureOptions, type Points, type Place, type Provider } from "./provider";
import { cellOf, computedCell, isApart, metaOf } from "./described";
import { statsOf, statsOfValues } from "./counted";
import { pointsOf } from "./map/read";
import { diffOf } from "./static_diff";
import { KEYWORDS, NAMES } from "../query/src/words";
import type { Answer, Cell, Diff, Json, Lake, Meta, Rows, Sound, Stats, Window } from "./types";

/** What `lakebed view --static` writes beside the page. */
export interface Listing {
  title: string;
  datasets: { name: string; address: string }[];
}

const PEAKS = 2000;
const MOST_PLAYED = 4; // films and sounds of one page that are kept

export class StaticProvider implements Provider {
  private readonly opened = new Map<string, Promise<Dataset>>();
  private readonly urls = new Map<string, string>();
  private listing: Promise<Listing> | null = null;
  private readonly asker = new Asker();
  private milliseconds = 0;

  constructor(private readonly address: string) {}

  get traffic(): { requests: number; bytes: number; milliseconds: number } {
    const { requests, bytes } = this.asker.traffic;
    return { requests: traffic.requests + requests, bytes: traffic.bytes + bytes, milliseconds: this.milliseconds };
  }

  async lake(): Promise<Lake> {
    return this.asked(async () => {
      const { title, datasets } = await this.listed();
      const blank = { rows: null, bytes: null, changed: null, mode: null, error: null };
      return {
        title,
        path: new URL(".", this.address).href,
        single: datasets.length === 1,
        datasets: datasets.map(({ name }, id) => ({ id, name, ...blank })),
        language: { keywords: KEYWORDS, functions: NAMES },
      };
    });
  }

  async meta(dataset: number, at: string, signal?: AbortSignal): Promise<Meta> {
    return this.asked(async () => {
      const { datasets } = await this.listed();
      const ds = await this.dataset(dataset, at, signal);
      return metaOf(ds, dataset, datasets[dataset]!.name);
    });
  }

  rows(place: Place, start: number, count: number, tensors: string[], signal?: AbortSignal): Promise<Rows> {
    return this.asked(async () => {
      if (place.q !== null) return this.rowsOf(await this.answerOf(place, signal), start, count, tensors, signal);
      const ds = await this.at(place, signal);
      const stop = Math.max(start, Math.min(start + count, ds.longest));
      const ids = Array.from({ length: stop - start }, (_, i) => start + i);
      const cells = await Promise.all(tensors.map(async (name) => [name, await column(ds.tensor(name), start, stop, signal)] as const));
      return { start, ids, cells: Object.fromEntries(cells), groups: null };
    });
  }

  query(dataset: number, at: string, text: string, signal?: AbortSignal): Promise<Answer> {
    return this.asked(async () => (await this.answerOf({ dataset, at, q: text }, signal)).told);
  }

  /** The answer of a query, whose id is its text. */
  private async answerOf({ dataset, at, q }: Place, signal?: AbortSignal): Promise<Asked> {
    const { datasets } = await this.listed();
    if (/^(view|rows):/.test(q!)) throw needed("a saved view");
    const others = datasets.map(({ name, address }) => ({ name, address: new URL(address, this.address).href }));
    const ds = await this.dataset(dataset, at, signal);
    return this.asker.answer(JSON.stringify([dataset, ds.id, q]), q!, { address: others[dataset]!.address, ref: ds.id, others }, ds, signal);
  }

  private async rowsOf(asked: Asked, start: number, count: number, names: string[], signal?: AbortSignal): Promise<Rows> {
    const stop = Math.max(start, Math.min(start + count, asked.told.rows));
    const rows = asked.rows?.slice(start, stop) ?? new Int32Array(stop - start).fill(-1);
    const cells = await Promise.all(names.map(async (name) => [name, await this.cellsOf(asked, name, rows, start, signal)] as const));
    const { groups } = asked.told;
    const numbers = groups && Array.from(rows, (_, i) => groups.findLastIndex((group) => group.start <= start + i));
    return { start, ids: Array.from(rows, (row) => (asked.isPlain ? row : -1)), cells: Object.fromEntries(cells), groups: numbers };
  }

  private async cellsOf(asked: Asked, name: string, rows: Int32Array, start: number, signal?: AbortSignal): Promise<Cell[]> {
    const known = asked.columns.get(name);
    const source = known?.source ?? (known === undefined && asked.isPlain ? name : null);
    const tensor = source === null ? undefined : asked.dataset.tensors.get(source);
    if (tensor !== undefined) {
      const cells = stretches(rows).map(([first, last]) => column(tensor, rows[first]!, rows[last]! + 1, signal));
      return (await Promise.all(cells)).flat();
    }
    if (known === undefined) throw new ProviderError("missing", `the answer has no column ${name}`);
    return (await this.asker.values(asked.key, name, start, start + rows.length, signal)).map((value) => computedCell(value, known));
  }

  /** A value of a row: of a tensor, or of a column of an answer. */
  private async value(place: Place, name: string, row: number, frame: number | undefined, signal?: AbortSignal): Promise<Value> {
    if (place.q === null) return this.sample((await this.at(place, signal)).tensor(name), row, frame, signal);
    const asked = await this.answerOf(place, signal);
    const source = asked.columns.get(name)?.source;
    const tensor = source == null ? undefined : asked.dataset.tensors.get(source);
    if (tensor !== undefined && asked.rows !== null) return this.sample(tensor, asked.rows[row] ?? tensor.length, frame, signal);
    return arrayOf((await this.asker.values(asked.key, name, row, row + 1, signal))[0] ?? null, `${name}[${row}]`);
  }

  picture(place: Place, tensor: string, row: number, options: PictureOptions, signal?: AbortSignal): Promise<ImageBitmap> {
    return this.asked(async () => {
      const value = await this.value(place, tensor, row, options.frame, signal);
      if (value === null) throw new ProviderError("missing", `${tensor}[${row}] is empty`);
      const asked = place.q === null ? null : await this.answerOf(place, signal);
      const { htype = "" } = (await this.dataset(place.dataset, place.at, signal)).tensors.get(asked?.columns.get(tensor)?.source ?? tensor) ?? {};
      if (/mask|instance_label/.test(htype)) return labelMap(await numbersOf(value), htype, options);
      return bitmapOf(value, options);
    });
  }

  array(place: Place, tensor: string, row: number, signal?: AbortSignal): Promise<Numbers> {
    return this.asked(async () => {
      const value = await this.value(place, tensor, row, undefined, signal);
      const { shape, dtype, data } = await numbersOf(value);
      return { shape, dtype, values: data.slice() as Numbers["values"] }; // not in the memory of its chunk
    });
  }

  window(place: Place, tensor: string, row: number, frame: number, signal?: AbortSignal): Promise<Window> {
    return this.asked(async () => limitsOf(await numbersOf(await this.value(place, tensor, row, frame, signal))));
  }

  media(place: Place, tensor: string, row: number, signal?: AbortSignal): Promise<Media> {
    return this.asked(async () => {
      const key = JSON.stringify([place, tensor, row]);
      let address = this.urls.get(key);
      if (address === undefined) {
        const file = fileOf(await this.value(place, tensor, row, undefined, signal), tensor, row);
        address = URL.createObjectURL(new Blob([file.bytes], { type: file.mime }));
        this.urls.set(key, address);
        // Each address keeps its file in memory.
        const [oldest] = this.urls;
        if (this.urls.size > MOST_PLAYED && oldest) {
          this.urls.delete(oldest[0]);
          URL.revokeObjectURL(oldest[1]);
        }
      }
      return { address, rate: null };
    });
  }

  sound(place: Place, tensor: string, row: number, signal?: AbortSignal): Promise<Sound> {
    return this.asked(async () => {
      const file = fileOf(await this.value(place, tensor, row, undefined, signal), tensor, row);
      const audio = await new OfflineAudioContext(1, 1, 44_100).decodeAudioData(file.bytes.slice().buffer);
      const samples = audio.getChannelData(0);
      const step = Math.max(1, Math.ceil(samples.length / PEAKS));
      const peaks: [number, number][] = [];
      for (let at = 0; at < samples.length; at += step) {
        let [low, high] = [1, -1];
        for (const one of samples.subarray(at, at + step)) [low, high] = [Math.min(low, one), Math.max(high, one)];
        peaks.push([low, high]);
      }
      return { rate: audio.sampleRate, channels: audio.numberOfChannels, seconds: audio.duration, peaks, spectrogram: null };
    });
  }

  stats(place: Place, tensor: string, signal?: AbortSignal): Promise<Stats> {
    return this.asked(async () => {
      if (place.q === null) return statsOf((await this.at(place, signal)).tensor(tensor), null, signal);
      const asked = await this.answerOf(place, signal);
      const known = asked.columns.get(tensor);
      const source = known?.source == null ? undefined : asked.dataset.tensors.get(known.source);
      if (source !== undefined && asked.rows !== null) return { ...(await statsOf(source, asked.rows, signal)), tensor };
      return statsOfValues(tensor, await this.asker.values(asked.key, tensor, 0, asked.told.rows, signal), known?.classNames ?? []);
    });
  }

  points(place: Place, tensor: string, signal?: AbortSignal): Promise<Points> {
    return this.asked(async () => pointsOf((await this.at(place, signal)).tensor(tensor), signal));
  }

  found(place: Place, signal?: AbortSignal): Promise<Int32Array | null> {
    return this.asked(async () => (await this.answerOf(place, signal)).rows);
  }

  file(place: Place, tensor: string, row: number, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    return this.asked(async () => {
      const value = await this.value(place, tensor, row, undefined, signal);
      if (value?.kind !== "file") throw new ProviderError("missing", `${tensor}[${row}] has no file`);
      return value.bytes;
    });
  }

  ids(place: Place, tensor: string, signal?: AbortSignal): Promise<BigUint64Array | null> {
    return this.asked(async () => (await this.at(place, signal)).ids(tensor, signal));
  }

  diff(dataset: number, a: string, b: string, signal?: AbortSignal): Promise<Diff> {
    return this.asked(async () => diffOf(await this.dataset(dataset, a, signal), await this.dataset(dataset, b, signal), signal));
  }

  saveView(): Promise<string> {
    return Promise.reject(needed("saving a view"));
  }

  private async sample(tensor: Tensor, row: number, frame: number | undefined, signal?: AbortSignal): Promise<Value> {
    if (row >= tensor.length) return null;
    const value = await tensor.at(row, signal);
    if (value?.kind === "sequence") return value.items[Math.min(frame ?? 0, value.items.length - 1)] ?? null;
    if (value?.kind === "link") throw needed("the file behind a link");
    return value;
  }

  private listed(): Promise<Listing> {
    this.listing ??= fetch(this.address).then(async (answer) => {
      if (!answer.ok) throw new SourceError(`${this.address} answered ${answer.status}`);
      return (await answer.json()) as Listing;
    });
    return this.listing;
  }

  private at(place: Place, signal?: AbortSignal): Promise<Dataset> {
    return this.dataset(place.dataset, place.at, signal);
  }

  /** A dataset at a version: a branch, a commit, or the id of what was opened before. */
  private async dataset(number: number, at: string, signal?: AbortSignal): Promise<Dataset> {
    const found = (await this.listed()).datasets[number];
    if (found === undefined) throw new ProviderError("missing", "there is no such dataset");
    const ref = at.replace(/^id:/, "");
    const key = `${number} ${ref}`;
    const known = this.opened.get(key);
    if (known !== undefined && (at.startsWith("id:") || (await known).isCommitted)) return known;
    const address = new URL(found.address, this.address).href;
    const opening = open(address, { ...(ref ? { ref } : {}), ...(signal ? { signal } : {}) });
    this.opened.set(key, opening);
    opening.then(
      (ds) => this.opened.set(`${number} ${ds.id}`, opening),
      () => this.opened.delete(key),
    );
    return opening;
  }

  private async asked<T>(answer: () => Promise<T>): Promise<T> {
    const started = performance.now();
    try {
      return await answer();
    } catch (error) {
      throw shown(error);
    } finally {
      this.milliseconds += performance.now() - started;
    }
  }
}

function shown(error: unknown): unknown {
  const kinds: [new (...of: never[]) => Error, string][] = [
    [MissingError, "missing"],
    [SourceError, "storage"],
    [LimitError, "limit"],
    [FormatError, "damaged"],
  ];
  if (error instanceof ProviderError || (error instanceof DOMException && error.name === "AbortError")) return error;
  const kind = kinds.find(([type]) => error instanceof type)?.[1] ?? "invalid";
  return new ProviderError(kind, error instanceof Error ? error.message : String(error));
}

function needed(what: string): ProviderError {
  return new ProviderError("static", `this page has no server: ${what} needs \`lakebed view\``);
}

function fileOf(value: Value, tensor: string, row: number): FileValue {
  if (value?.kind !== "file") throw new ProviderError("missing", `${tensor}[${row}] has no file`);
  if (value.mime === "") throw needed(`a file of the format ${value.format}`);
  return value;
}

/** Numbers that a query computed, as a sample. */
function arrayOf(value: Json, what: string): Value {
  const shape: number[] = [];
  for (let one: Json | undefined = value; Array.isArray(one); one = one[0]) shape.push(one.length);
  const flat = (one: Json): number[] => (Array.isArray(one) ? one.flatMap(flat) : [typeof one === "string" || one === null ? NaN : Number(one)]);
  const data = flat(value);
  if (value === null || data.some(Number.isNaN) || data.length !== shape.reduce((a, b) => a * b, 1)) throw new ProviderError("missing", `${what} holds no numbers`);
  return { kind: "array", dtype: "float64", shape, data: Float64Array.from(data) };
}

/** The cells of one tensor; what cannot be read costs its own cell. */
async function column(tensor: Tensor, start: number, stop: number, signal?: AbortSignal): Promise<Cell[]> {
  const end = Math.max(start, Math.min(stop, tensor.length));
  const beyond = new Array<Cell>(stop - start - (end - start)).fill(null);
  return [...(await read(tensor, start, end, signal)), ...beyond];
}

async function read(tensor: Tensor, start: number, stop: number, signal?: AbortSignal): Promise<Cell[]> {
  if (stop <= start) return [];
  try {
    if (isApart(tensor)) {
      return (await tensor.shapes(start, stop, signal)).map((found) =>
        found === null || found.shape.includes(0) ? null : { s: found.shape, ...(found.items === null ? {} : { frames: found.items }) },
      );
    }
    return (await tensor.rows(start, stop, signal)).map((value) => cellOf(value, tensor));
  } catch (error) {
    if (error instanceof DOMException) throw error;
    if (stop - start === 1) return [{ error: error instanceof Error ? error.message : String(error) }];
    const middle = (start + stop) >>> 1;
    return [...(await read(tensor, start, middle, signal)), ...(await read(tensor, middle, stop, signal))];
  }
}

