/** Inner loops in WebAssembly, where the browser and the page's policy allow them; elsewhere xxh3.ts and lz4.ts do the same. */

import type { Bytes } from "./bytes";
import { WASM } from "./wasm";

interface Exports {
  memory: WebAssembly.Memory;
  room(): number;
  begin(): number;
  stripes(data: number, count: number): void;
  last(data: number): void;
  lz4(block: number, length: number, out: number, size: number): number;
}

const PIECE = 1 << 16;
const SPARE = 32; // bytes behind each input and output that may be read and written
const MOST = 1 << 26;

const loops = instance();

function instance(): Exports | null {
  try {
    const module = new WebAssembly.Module(Uint8Array.from(atob(WASM), (letter) => letter.charCodeAt(0)));
    return new WebAssembly.Instance(module).exports as unknown as Exports;
  } catch {
    return null; // no SIMD, or a policy without 'wasm-unsafe-eval'
  }
}

/** Memory with room for so many bytes. */
function heap({ memory, room }: Exports, length: number): Uint8Array<ArrayBuffer> {
  const lacking = room() + length - memory.buffer.byteLength;
  if (lacking > 0) memory.grow(Math.ceil(lacking / PIECE));
  return new Uint8Array(memory.buffer as ArrayBuffer);
}

/** The eight sums of XXH3 over more than 240 bytes; null without WebAssembly. */
export function fastSums(bytes: Uint8Array): BigUint64Array | null {
  if (loops === null) return null;
  const memory = heap(loops, PIECE);
  const [sums, room] = [loops.begin(), loops.room()];
  const count = Math.floor((bytes.length - 1) / 64);
  for (let at = 0; at < 64 * count; at += PIECE) {
    memory.set(bytes.subarray(at, at + PIECE), room);
    loops.stripes(room, Math.min(PIECE / 64, count - at / 64));
  }
  memory.set(bytes.subarray(bytes.length - 64), room);
  loops.last(room);
  return new BigUint64Array(loops.memory.buffer, sums, 8);
}

/** Decode a block of LZ4 to so many bytes; null where it is damaged, undefined without WebAssembly and for large blocks. */
export function fastBlock(block: Uint8Array, size: number): Bytes | null | undefined {
  const out = block.length + SPARE;
  if (loops === null || out + size + SPARE > MOST) return undefined;
  const memory = heap(loops, out + size + SPARE);
  const room = loops.room();
  memory.set(block, room);
  return loops.lz4(room, block.length, room + out, size) ? memory.slice(room + out, room + out + size) : null;
}
