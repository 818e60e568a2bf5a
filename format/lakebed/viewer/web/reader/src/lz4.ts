/** LZ4 blocks. */

import { NO_BYTES, viewOf, type Bytes } from "./bytes";
import { FormatError, UnsupportedError, check } from "./errors";
import { fastBlock } from "./fast";

/** A block behind its uncompressed size (format.md 5.3); no bytes, and five zeros, are empty. */
export function decodeSized(data: Bytes, what: string): Bytes {
  if (data.length === 0) return NO_BYTES;
  if (data.length < 5) throw new FormatError(`${what}: ${data.length} bytes are no LZ4 block`);
  const size = viewOf(data).getUint32(0, true);
  if (size === 0x184d2204) throw new UnsupportedError(`${what} is an LZ4 frame of an old writer`);
  if (size === 0 && data[4] === 0) return NO_BYTES;
  check("chunkBytes", size, what);
  // One byte stands for 255 at most: a larger promise is a lie.
  if (size > 256 * data.length) throw new FormatError(`${what}: a block of ${data.length} bytes does not decode to ${size}`);
  const found = fastBlock(data.subarray(4), size);
  if (found === null) throw damaged(what);
  if (found !== undefined) return found;
  const out = new Uint8Array(size);
  decodeBlock(data, 4, out, what);
  return out;
}

/** Fill all of `out` from the block that begins at `at`. */
export function decodeBlock(block: Uint8Array, at: number, out: Uint8Array, what: string): void {
  const end = block.length;
  const size = out.length;
  let from = at;
  let to = 0;
  for (;;) {
    if (from >= end) throw damaged(what);
    const token = block[from++]!;
    let length = token >> 4;
    if (length === 15) {
      let more: number;
      do {
        if (from >= end) throw damaged(what);
        more = block[from++]!;
        length += more;
      } while (more === 255);
    }
    if (length > end - from || length > size - to) throw damaged(what);
    if (length > 32) {
      out.set(block.subarray(from, from + length), to);
      to += length;
      from += length;
    } else {
      for (const stop = from + length; from < stop; ) out[to++] = block[from++]!;
    }
    if (from === end) {
      if (to !== size) throw damaged(what);
      return;
    }
    if (end - from < 2) throw damaged(what);
    const distance = block[from]! | (block[from + 1]! << 8);
    from += 2;
    if (distance === 0 || distance > to) throw damaged(what);
    let match = (token & 15) + 4;
    if (match === 19) {
      let more: number;
      do {
        if (from >= end) throw damaged(what);
        more = block[from++]!;
        match += more;
      } while (more === 255);
    }
    if (match > size - to) throw damaged(what);
    if (distance >= match && match > 32) {
      out.copyWithin(to, to - distance, to - distance + match);
      to += match;
    } else {
      for (let source = to - distance, stop = to + match; to < stop; ) out[to++] = out[source++]!;
    }
  }
}

function damaged(what: string): FormatError {
  return new FormatError(`${what} is a damaged LZ4 block`);
}
