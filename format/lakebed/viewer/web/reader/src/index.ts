/**
 * Read a tensor dataset where it lies: `await open("https://bucket.example/photos")`.
 *
 * Addresses of the web with ranges, packed datasets (`.lake`) there or as files that the user chose. Values are decoded
 * where the format has them; images, films and sounds come as they are stored, and browsers decode them.
 */

import { Dataset } from "./dataset";
import { ChosenFile, PackedSource, WebFile, WebSource, type Source } from "./source";

export interface Options {
  /** A branch, a commit, or the first digits of one. */
  ref?: string;
  signal?: AbortSignal;
  /** Headers, credentials and the like of all requests. */
  init?: RequestInit;
}

/** Open a dataset at an address, in a packed file, or from a source of your own. */
export async function open(place: string | Blob | Source, options: Options = {}): Promise<Dataset> {
  const { ref = null, signal, init } = options;
  let source: Source;
  if (typeof place === "string") source = place.split(/[?#]/)[0]!.endsWith(".lake") ? await PackedSource.open(new WebFile(place, init), signal) : new WebSource(place, init);
  else source = place instanceof Blob ? await PackedSource.open(new ChosenFile(place), signal) : place;
  return Dataset.open(source, ref, signal);
}

export { Dataset } from "./dataset";
export { Tensor, type Run } from "./tensor";
export { FormatError, LIMITS, LimitError, MissingError, SourceError, UnsupportedError } from "./errors";
export { xxh3 } from "./xxh3";
export { traffic, type Part, type Source } from "./source";
export type { Commit } from "./tree";
export type { Json } from "./json";
export type { FileValue, NumberArray, Numbers, Value } from "./values";
