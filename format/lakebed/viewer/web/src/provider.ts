/** Where rows come from: what the page asks, whoever answers. */

import type { Answer, Diff, Lake, Meta, Rows, Sound, Stats, Window } from "./types";

/** A dataset at a version, with the answer of a query where one chose rows. */
export interface Place {
  dataset: number;
  at: string;
  q: string | null;
}

export interface PictureOptions {
  /** Width in pixels that is enough; 0 asks for all pixels. */
  width: number;
  frame?: number;
  window?: { low: number; high: number } | null;
  /** Part of the image, in its own pixels: left, top, width, height. */
  box?: [number, number, number, number];
}

/** Numbers of an array, in C order. */
export interface Numbers {
  shape: number[];
  dtype: string;
  values: Float64Array | Float32Array | Int32Array | Uint32Array | Int16Array | Uint16Array | Int8Array | Uint8Array | BigInt64Array | BigUint64Array;
}

/** An address that an element of sound or film can play; and frames a second, null where that is not on record. */
export interface Media {
  address: string;
  rate: number | null;
}

/** Numbers of all rows: vectors, on the plane along which they vary most where they have more than three axes; or labels. */
export interface Points {
  /** Row after row; NaN where a row has none. */
  values: Float32Array;
  axes: number;
  /** Every so many rows are told. */
  step: number;
  /** Part of the variance that the plane has; 1 where vectors are told as they are. */
  share: number;
}

/** What a provider says went wrong: a message for the reader, and the place of an error in a query's text. */
export class ProviderError extends Error {
  constructor(
    readonly kind: string,
    message: string,
    readonly position: number | null = null,
  ) {
    super(message);
  }
}

/** All methods reject with a `ProviderError`, or with an `AbortError` where the signal was raised. */
export interface Provider {
  lake(signal?: AbortSignal): Promise<Lake>;
  meta(dataset: number, at: string, signal?: AbortSignal): Promise<Meta>;
  rows(place: Place, start: number, count: number, tensors: string[], signal?: AbortSignal): Promise<Rows>;
  query(dataset: number, at: string, text: string, signal?: AbortSignal): Promise<Answer>;
  /** A picture or a label map; the caller closes it. */
  picture(place: Place, tensor: string, row: number, options: PictureOptions, signal?: AbortSignal): Promise<ImageBitmap>;
  array(place: Place, tensor: string, row: number, signal?: AbortSignal): Promise<Numbers>;
  window(place: Place, tensor: string, row: number, frame: number, signal?: AbortSignal): Promise<Window>;
  media(place: Place, tensor: string, row: number, signal?: AbortSignal): Promise<Media>;
  sound(place: Place, tensor: string, row: number, signal?: AbortSignal): Promise<Sound>;
  stats(place: Place, tensor: string, signal?: AbortSignal): Promise<Stats>;
  points(place: Place, tensor: string, signal?: AbortSignal): Promise<Points>;
  /** Numbers of the rows that a query found, in their order; null where they are none of the version. */
  found(place: Place, signal?: AbortSignal): Promise<Int32Array | null>;
  /** The stored file of a sample of a cloud or mesh. */
  file(place: Place, tensor: string, row: number, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>>;
  /** Ids of the samples of a tensor, which stay theirs in other versions; null where it has none. */
  ids(place: Place, tensor: string, signal?: AbortSignal): Promise<BigUint64Array | null>;
  diff(dataset: number, a: string, b: string, signal?: AbortSignal): Promise<Diff>;
  saveView(dataset: number, at: string, name: string, content: { text: string } | { rows: number[] }): Promise<string>;
  /** What was asked for so far. */
  readonly traffic: { requests: number; bytes: number; milliseconds: number };
}
