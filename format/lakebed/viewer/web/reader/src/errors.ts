/** What goes wrong when a dataset is read. */

/** The bytes are no dataset, or a damaged one. */
export class FormatError extends Error {
  override name = "FormatError";
}

/** The bytes ask for more memory than a page should give. */
export class LimitError extends Error {
  override name = "LimitError";
}

/** There is no such object, or the store does not show it. */
export class MissingError extends Error {
  override name = "MissingError";
  constructor(
    readonly key: string,
    readonly place: string,
    readonly status: number,
  ) {
    super(status === 404 ? `${key} does not exist in ${place}` : `${place} refuses ${key} (status ${status})`);
  }
}

/** The store answered something that cannot be used, or nothing. */
export class SourceError extends Error {
  override name = "SourceError";
}

/** The values are of a kind that this reader does not decode. */
export class UnsupportedError extends Error {
  override name = "UnsupportedError";
}

/** Largest numbers that are believed; they can be raised for data that you trust. */
export const LIMITS = {
  /** Bytes of one object that is read whole. */
  objectBytes: 512e6,
  /** Bytes of a sample, decoded. */
  sampleBytes: 1e9,
  /** Bytes of the data of a chunk, decompressed. */
  chunkBytes: 512e6,
  tensors: 10_000,
  axes: 32,
  tiles: 1_000_000,
  jsonDepth: 200,
};

export function check(limit: keyof typeof LIMITS, found: number, what: string): void {
  if (!(found <= LIMITS[limit])) throw new LimitError(`${what}: ${found} is more than LIMITS.${limit} (${LIMITS[limit]})`);
}
