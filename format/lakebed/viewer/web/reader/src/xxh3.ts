/** XXH3 of 64 bits without a seed, as 16 hexadecimal digits: the checksum of chunks and manifests (xxHash 0.8.3). */

import { fastSums } from "./fast";

const P32 = [0x9e3779b1, 0x85ebca77, 0xc2b2ae3d] as const;
const P64 = [
  0x9e3779b185ebca87n,
  0xc2b2ae3d27d4eb4fn,
  0x165667b19e3779f9n,
  0x85ebca77c2b2ae63n,
  0x27d4eb2f165667c5n,
] as const;
const MX1 = 0x165667919e3779f9n;
const MX2 = 0x9fb21c651e98df25n;
const MASK = 0xffffffffffffffffn;
const INVERSE = 1 / 2 ** 32;

const SECRET = Uint8Array.from(
  (
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e" +
    "e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d" +
    "8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc" +
    "8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
  ).match(/../g)!,
  (digits) => parseInt(digits, 16),
);
const SECRET_VIEW = new DataView(SECRET.buffer);
/** Words of the secret from its start, and from where the last stripe and the scrambling take theirs. */
const WORDS = words(0, 48);
const LAST_WORDS = words(121, 16);
const SCRAMBLE_WORDS = words(128, 16);

function words(at: number, count: number): Uint32Array {
  return Uint32Array.from({ length: count }, (_, i) => SECRET_VIEW.getUint32(at + 4 * i, true));
}

const secret = (at: number): bigint => SECRET_VIEW.getBigUint64(at, true);
const rotated = (x: bigint, by: bigint): bigint => ((x << by) | (x >> (64n - by))) & MASK;
const swapped = (x: bigint): bigint => {
  SWAP.setBigUint64(0, x, true);
  return SWAP.getBigUint64(0, false);
};
const SWAP = new DataView(new ArrayBuffer(8));

function folded(a: bigint, b: bigint): bigint {
  const product = a * b;
  return (product & MASK) ^ (product >> 64n);
}

function avalanche(x: bigint): bigint {
  x ^= x >> 37n;
  x = (x * MX1) & MASK;
  return x ^ (x >> 32n);
}

function avalanche64(x: bigint): bigint {
  x ^= x >> 33n;
  x = (x * P64[1]) & MASK;
  x ^= x >> 29n;
  x = (x * P64[2]) & MASK;
  return x ^ (x >> 32n);
}

export function xxh3(bytes: Uint8Array): string {
  return digest(bytes).toString(16).padStart(16, "0");
}

function digest(bytes: Uint8Array): bigint {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = bytes.length;
  if (length > 240) return long(bytes);
  const read = (at: number): bigint => view.getBigUint64(at, true);
  const mixed = (at: number, key: number): bigint => folded(read(at) ^ secret(key), read(at + 8) ^ secret(key + 8));
  const size = BigInt(length);
  if (length === 0) return avalanche64(secret(56) ^ secret(64));
  if (length <= 3) {
    const joined = (bytes[0]! << 16) | (bytes[length >> 1]! << 24) | bytes[length - 1]! | (length << 8);
    const flip = SECRET_VIEW.getUint32(0, true) ^ SECRET_VIEW.getUint32(4, true);
    return avalanche64(BigInt((joined ^ flip) >>> 0));
  }
  if (length <= 8) {
    const joined = BigInt(view.getUint32(length - 4, true)) + (BigInt(view.getUint32(0, true)) << 32n);
    let x = joined ^ secret(8) ^ secret(16);
    x ^= rotated(x, 49n) ^ rotated(x, 24n);
    x = (x * MX2) & MASK;
    x ^= (x >> 35n) + size;
    x = (x * MX2) & MASK;
    return x ^ (x >> 28n);
  }
  if (length <= 16) {
    const low = read(0) ^ secret(24) ^ secret(32);
    const high = read(length - 8) ^ secret(40) ^ secret(48);
    return avalanche((size + swapped(low) + high + folded(low, high)) & MASK);
  }
  let sum = size * P64[0];
  if (length <= 128) {
    for (let i = Math.floor((length - 1) / 32); i >= 0; i--) sum += mixed(16 * i, 32 * i) + mixed(length - 16 * (i + 1), 32 * i + 16);
    return avalanche(sum & MASK);
  }
  for (let i = 0; i < 8; i++) sum += mixed(16 * i, 16 * i);
  sum = avalanche(sum & MASK);
  for (let i = 8; i < Math.floor(length / 16); i++) sum += mixed(16 * i, 16 * (i - 8) + 3);
  return avalanche((sum + mixed(length - 16, 119)) & MASK);
}

function long(bytes: Uint8Array): bigint {
  const sums = fastSums(bytes) ?? plainSums(bytes);
  let sum = BigInt(bytes.length) * P64[0];
  for (let i = 0; i < 4; i++) sum += folded(sums[2 * i]! ^ secret(11 + 16 * i), sums[2 * i + 1]! ^ secret(19 + 16 * i));
  return avalanche(sum & MASK);
}

/** XXH3 of 128 bits of more than 16 bytes: the upper half and the lower one (xxHash 0.8.3). */
export function xxh128(bytes: Uint8Array): [bigint, bigint] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const { length } = bytes;
  const size = BigInt(length);
  let [low, high] = [(size * P64[0]) & MASK, 0n];
  if (length > 240) {
    const sums = plainSums(bytes);
    const merged = (start: bigint, key: number): bigint => avalanche((start + [0, 1, 2, 3].reduce((sum, i) => sum + folded(sums[2 * i]! ^ secret(key + 16 * i), sums[2 * i + 1]! ^ secret(key + 8 + 16 * i)), 0n)) & MASK);
    return [merged(~(size * P64[1]) & MASK, 117), merged(low, 11)];
  }
  const word = (at: number): bigint => view.getBigUint64(at, true);
  const mixed = (at: number, key: number): bigint => folded(word(at) ^ secret(key), word(at + 8) ^ secret(key + 8));
  const mix = (one: number, other: number, key: number): void => {
    low = ((low + mixed(one, key)) & MASK) ^ ((word(other) + word(other + 8)) & MASK);
    high = ((high + mixed(other, key + 16)) & MASK) ^ ((word(one) + word(one + 8)) & MASK);
  };
  if (length <= 128) for (let i = Math.floor((length - 1) / 32); i >= 0; i--) mix(16 * i, length - 16 * (i + 1), 32 * i);
  else {
    for (let at = 32; at < 160; at += 32) mix(at - 32, at - 16, at - 32);
    [low, high] = [avalanche(low), avalanche(high)];
    for (let at = 160; at <= length; at += 32) mix(at - 32, at - 16, at - 157);
    mix(length - 16, length - 32, 103);
  }
  return [(MASK + 1n - avalanche((low * P64[0] + high * P64[3] + size * P64[1]) & MASK)) & MASK, avalanche((low + high) & MASK)];
}

/** Eight sums of 64 bits, added up as halves. */
export function plainSums(bytes: Uint8Array): BigUint64Array {
  const length = bytes.length;
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
  const data = new Uint32Array(aligned.buffer, aligned.byteOffset, length >> 2);
  const low = new Uint32Array(8);
  const high = new Uint32Array(8);
  [BigInt(P32[2]), ...P64.slice(0, 4), BigInt(P32[1]), P64[4], BigInt(P32[0])].forEach((start, i) => {
    low[i] = Number(start & 0xffffffffn);
    high[i] = Number(start >> 32n);
  });
  const stripes = Math.floor((length - 1) / 64);
  for (let stripe = 0; stripe < stripes; stripe++) {
    const inBlock = stripe & 15;
    accumulate(low, high, data, 16 * stripe, WORDS, 2 * inBlock);
    if (inBlock === 15) scramble(low, high);
  }
  const last = new Uint32Array(bytes.slice(length - 64).buffer);
  accumulate(low, high, last, 0, LAST_WORDS, 0);
  return BigUint64Array.from(low, (word, i) => (BigInt(high[i]!) << 32n) | BigInt(word));
}

function accumulate(low: Uint32Array, high: Uint32Array, data: Uint32Array, at: number, keys: Uint32Array, key: number): void {
  for (let i = 0; i < 8; i++) {
    const dataLow = data[at + 2 * i]!;
    const dataHigh = data[at + 2 * i + 1]!;
    const a = (dataLow ^ keys[key + 2 * i]!) >>> 0;
    const b = (dataHigh ^ keys[key + 2 * i + 1]!) >>> 0;
    const productLow = Math.imul(a, b) >>> 0;
    // The product as a double is off by less than 2^12, so that its upper half can be rounded to.
    const productHigh = Math.round((a * b - productLow) * INVERSE);
    const other = low[i ^ 1]! + dataLow;
    low[i ^ 1] = other;
    high[i ^ 1]! += dataHigh + (other > 0xffffffff ? 1 : 0);
    const own = low[i]! + productLow;
    low[i] = own;
    high[i]! += productHigh + (own > 0xffffffff ? 1 : 0);
  }
}

function scramble(low: Uint32Array, high: Uint32Array): void {
  for (let i = 0; i < 8; i++) {
    const above = high[i]!;
    const a = (low[i]! ^ (above >>> 15) ^ SCRAMBLE_WORDS[2 * i]!) >>> 0;
    const b = (above ^ SCRAMBLE_WORDS[2 * i + 1]!) >>> 0;
    const productLow = Math.imul(a, P32[0]) >>> 0;
    low[i] = productLow;
    high[i] = Math.imul(b, P32[0]) + Math.round((a * P32[0] - productLow) * INVERSE);
  }
}
