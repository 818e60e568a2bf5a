/** Where the objects of a dataset come from: a web server or bucket, or one packed file. */

import { NO_BYTES, cut, u64, viewOf, type Bytes } from "./bytes";
import { FormatError, MissingError, SourceError, UnsupportedError, check } from "./errors";

export interface Part {
  bytes: Bytes;
  /** Length of the whole object; null where the store does not tell. */
  size: number | null;
}

/** Objects by their keys. Methods reject with `MissingError`, `SourceError`, or an `AbortError`. */
export interface Source {
  readonly place: string;
  read(key: string, signal?: AbortSignal): Promise<Bytes>;
  /** Bytes from `start` to before `stop`, fewer where the object ends. */
  range(key: string, start: number, stop: number, signal?: AbortSignal): Promise<Part>;
  /** The last `length` bytes, or all. */
  tail(key: string, length: number, signal?: AbortSignal): Promise<Part>;
}

/** Bytes that can be read by ranges. */
export interface Ranges {
  readonly place: string;
  range(start: number, stop: number, signal?: AbortSignal): Promise<Part>;
  tail(length: number, signal?: AbortSignal): Promise<Part>;
}

/** What was asked of web servers so far. */
export const traffic = { requests: 0, bytes: 0 };

/** Requests under way; browsers queue what is beyond six to a server, others open a connection for each. */
const MOST_AT_ONCE = 32;
let underWay = 0;
const waiting: (() => void)[] = [];

async function inTurn<T>(request: () => Promise<T>): Promise<T> {
  if (underWay >= MOST_AT_ONCE) await new Promise<void>((resolve) => waiting.push(resolve));
  else underWay++;
  try {
    return await request();
  } finally {
    const next = waiting.shift();
    if (next === undefined) underWay--;
    else next();
  }
}

/** Objects below an address of http or https; ranges, and answers of servers that have none. */
export class WebSource implements Source {
  readonly place: string;

  constructor(
    address: string,
    private readonly init: RequestInit = {},
  ) {
    const url = new URL(address);
    if (url.protocol !== "http:" && url.protocol !== "https:") throw new SourceError(`${address} is no address of the web`);
    this.place = address.replace(/\/+$/, "");
  }

  async read(key: string, signal?: AbortSignal): Promise<Bytes> {
    return (await fetched(this.address(key), key, this.place, null, this.init, signal)).bytes;
  }

  async range(key: string, start: number, stop: number, signal?: AbortSignal): Promise<Part> {
    if (stop <= start) return { bytes: NO_BYTES, size: null };
    const part = await fetched(this.address(key), key, this.place, `bytes=${start}-${stop - 1}`, this.init, signal);
    return part.isWhole ? { bytes: part.bytes.subarray(start, stop), size: part.bytes.length } : part;
  }

  async tail(key: string, length: number, signal?: AbortSignal): Promise<Part> {
    const part = await fetched(this.address(key), key, this.place, `bytes=-${length}`, this.init, signal);
    return { bytes: part.bytes, size: part.isWhole || part.bytes.length < length ? part.bytes.length : part.size };
  }

  private address(key: string): string {
    const url = new URL(this.place);
    url.pathname = `${url.pathname.replace(/\/+$/, "")}/${key.split("/").map(encodeURIComponent).join("/")}`;
    return url.href;
  }
}

/** One file of the web. */
export class WebFile implements Ranges {
  constructor(
    readonly place: string,
    private readonly init: RequestInit = {},
  ) {}

  async range(start: number, stop: number, signal?: AbortSignal): Promise<Part> {
    const part = await fetched(this.place, "it", this.place, `bytes=${start}-${stop - 1}`, this.init, signal);
    if (part.isWhole) throw new SourceError(`${this.place} is served without ranges`);
    return part;
  }

  async tail(length: number, signal?: AbortSignal): Promise<Part> {
    return fetched(this.place, "it", this.place, `bytes=-${length}`, this.init, signal);
  }
}

/** A file that the user chose. */
export class ChosenFile implements Ranges {
  readonly place: string;
  constructor(private readonly file: Blob & { name?: string }) {
    this.place = file.name ?? "a file";
  }

  async range(start: number, stop: number): Promise<Part> {
    return { bytes: new Uint8Array(await this.file.slice(start, stop).arrayBuffer()), size: this.file.size };
  }

  async tail(length: number): Promise<Part> {
    return this.range(Math.max(0, this.file.size - length), this.file.size);
  }
}

function fetched(
  address: string,
  key: string,
  place: string,
  range: string | null,
  init: RequestInit,
  signal: AbortSignal | undefined,
): Promise<Part & { isWhole: boolean }> {
  return inTurn(() => answered(address, key, place, range, init, signal));
}

async function answered(
  address: string,
  key: string,
  place: string,
  range: string | null,
  init: RequestInit,
  signal: AbortSignal | undefined,
): Promise<Part & { isWhole: boolean }> {
  const headers = new Headers(init.headers);
  if (range !== null) headers.set("Range", range);
  traffic.requests++;
  let answer: Response;
  try {
    answer = await fetch(address, { ...init, headers, signal: signal ?? null });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new SourceError(
      `${place} cannot be read: the server is out of reach, or does not let this page read it (CORS: it has to allow ` +
        "this origin, GET and the header Range)",
    );
  }
  if (answer.status === 416) return { bytes: NO_BYTES, size: 0, isWhole: true };
  if (answer.status === 404 || answer.status === 403) throw new MissingError(key, place, answer.status);
  if (!answer.ok) throw new SourceError(`${place} answered ${answer.status} for ${key}`);
  const isPart = answer.status === 206;
  if (isPart && (answer.headers.get("content-encoding") ?? "identity") !== "identity")
    throw new SourceError(`${place} compresses ranges of ${key}, which cannot be put together`);
  check("objectBytes", Number(answer.headers.get("content-length") ?? 0), key);
  const bytes = await body(answer, key);
  traffic.bytes += bytes.length;
  const total = /\/(\d+)$/.exec(answer.headers.get("content-range") ?? "")?.[1];
  return { bytes, size: isPart ? (total === undefined ? null : Number(total)) : bytes.length, isWhole: !isPart };
}

/** All bytes of an answer, unless there are more than may be. */
async function body(answer: Response, key: string): Promise<Bytes> {
  if (answer.body === null) return NO_BYTES;
  const pieces: Uint8Array[] = [];
  let length = 0;
  const reader = answer.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      length += value.length;
      check("objectBytes", length, key);
      pieces.push(value);
    }
  } catch (error) {
    await reader.cancel().catch(() => undefined);
    throw error;
  }
  const all = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

interface Member {
  /** Where its own header begins. */
  header: number;
  size: number;
  data: number | null;
}

const TAIL = 131_072;
const HEADER = 30;

/** A dataset in one file, a ZIP archive whose members are stored as they are (APPNOTE 6.3.10, 4.3.7, 4.3.12, 4.3.16). */
export class PackedSource implements Source {
  private readonly members: Map<string, Member>;

  private constructor(
    private readonly file: Ranges,
    members: Map<string, Member>,
    private readonly end: { bytes: Bytes; at: number },
  ) {
    this.members = members;
  }

  get place(): string {
    return this.file.place;
  }

  static async open(file: Ranges, signal?: AbortSignal): Promise<PackedSource> {
    const { bytes: tail, size } = await file.tail(TAIL, signal);
    if (size === null) throw new SourceError(`${file.place}: the server does not tell its size (CORS: expose Content-Range)`);
    const what = `${file.place}, as a packed dataset,`;
    const view = viewOf(tail);
    let at = tail.length - 22;
    while (at >= 0 && view.getUint32(at, true) !== 0x06054b50) at--;
    if (at < 0) throw new FormatError(`${file.place} is no packed dataset`);
    let count = view.getUint16(at + 10, true);
    let length = view.getUint32(at + 12, true);
    let start = view.getUint32(at + 16, true);
    if (at >= 20 && view.getUint32(at - 20, true) === 0x07064b50) {
      const begin = u64(view, at - 12, what) - (size - tail.length);
      const end = viewOf(cut(tail, begin, 56, what));
      [count, length, start] = [u64(end, 32, what), u64(end, 40, what), u64(end, 48, what)];
    }
    check("objectBytes", length, `${what} directory`);
    const comment = new TextDecoder().decode(tail.subarray(at + 22));
    const first = Number(/^lakebed 1 (\d{20})$/.exec(comment)?.[1] ?? start);
    const from = Math.min(start, first);
    if (!(from >= 0 && start + length <= size)) throw new FormatError(`${what} has its directory outside of it`);
    let bytes = tail;
    let begin = size - tail.length;
    if (from < begin) {
      check("objectBytes", size - from, what);
      bytes = (await file.range(from, size, signal)).bytes;
      begin = from;
    }
    const members = directory(cut(bytes, start - begin, length, what), count, what);
    return new PackedSource(file, members, { bytes, at: begin });
  }

  async read(key: string, signal?: AbortSignal): Promise<Bytes> {
    const member = this.member(key);
    check("objectBytes", member.size, key);
    return this.bytes(member, 0, member.size, key, signal);
  }

  async range(key: string, start: number, stop: number, signal?: AbortSignal): Promise<Part> {
    const member = this.member(key);
    return { bytes: await this.bytes(member, start, Math.min(stop, member.size), key, signal), size: member.size };
  }

  async tail(key: string, length: number, signal?: AbortSignal): Promise<Part> {
    const { size } = this.member(key);
    return this.range(key, Math.max(0, size - length), size, signal);
  }

  private member(key: string): Member {
    const found = this.members.get(key);
    if (found === undefined) throw new MissingError(key, this.place, 404);
    return found;
  }

  private async bytes(member: Member, start: number, stop: number, key: string, signal?: AbortSignal): Promise<Bytes> {
    if (stop <= start) return NO_BYTES;
    if (member.data === null) {
      const header = await this.part(member.header, member.header + HEADER, signal);
      const view = viewOf(header);
      if (header.length < HEADER || view.getUint32(0, true) !== 0x04034b50)
        throw new FormatError(`${this.place}: ${key} is not where its directory says`);
      member.data = member.header + HEADER + view.getUint16(26, true) + view.getUint16(28, true);
    }
    const found = await this.part(member.data + start, member.data + stop, signal);
    if (found.length !== stop - start) throw new FormatError(`${this.place} ends inside of ${key}`);
    return found;
  }

  private async part(start: number, stop: number, signal?: AbortSignal): Promise<Bytes> {
    const { bytes, at } = this.end;
    if (start >= at) return bytes.subarray(start - at, stop - at);
    return (await this.file.range(start, stop, signal)).bytes;
  }
}

function directory(bytes: Bytes, count: number, what: string): Map<string, Member> {
  const view = viewOf(bytes);
  const members = new Map<string, Member>();
  const names = new TextDecoder();
  let at = 0;
  for (let i = 0; i < count; i++) {
    cut(bytes, at, 46, what);
    if (view.getUint32(at, true) !== 0x02014b50) throw new FormatError(`${what} has a damaged directory`);
    const method = view.getUint16(at + 10, true);
    let size = view.getUint32(at + 24, true);
    let header = view.getUint32(at + 42, true);
    const [named, extra, comment] = [28, 30, 32].map((place) => view.getUint16(at + place, true)) as [number, number, number];
    const name = names.decode(cut(bytes, at + 46, named, what));
    const fields = cut(bytes, at + 46 + named, extra, what);
    [size, header] = large(fields, size, header, what);
    if (method !== 0 && size > 0) throw new UnsupportedError(`${what} has ${name} compressed; pack it again without compression`);
    if (!name.endsWith("/")) members.set(name, { header, size, data: null });
    at += 46 + named + extra + comment;
  }
  return members;
}

/** Sizes and places beyond 4 GB, which a field of their own has. */
function large(fields: Bytes, size: number, header: number, what: string): [number, number] {
  const view = viewOf(fields);
  for (let at = 0; at + 4 <= fields.length; at += 4 + view.getUint16(at + 2, true)) {
    if (view.getUint16(at, true) !== 1) continue;
    let place = at + 4;
    const next = (): number => {
      cut(fields, place, 8, what);
      place += 8;
      return u64(view, place - 8, what);
    };
    if (size === 0xffffffff) {
      size = next();
      next();
    }
    if (header === 0xffffffff) header = next();
  }
  return [size, header];
}
