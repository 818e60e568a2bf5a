/** The provider that asks the server which this page came from. */

import { keep, kept } from "./browser";
import { ProviderError, type Media, type Numbers, type PictureOptions, type Points, type Place, type Provider } from "./provider";
import type { Answer, Diff, Failure, Lake, Meta, Rows, Sound, Stats, Window } from "./types";

const TOKEN = "lakebed-token";

/** Take the token out of the address of this page, or from where it was kept; null where there is none. */
export function takeToken(): string | null {
  const match = /(?:^#|&)token=([\w-]+)/.exec(location.hash);
  if (match?.[1]) {
    const rest = location.hash.slice(1).replace(/(^|&)token=[\w-]+/, "").replace(/^&/, "");
    history.replaceState(null, "", rest ? `#${rest}` : location.pathname);
    keep(TOKEN, match[1]); // where that is forbidden, it lives as long as the page
  }
  return match?.[1] ?? kept(TOKEN);
}

const ARRAYS = {
  f8: Float64Array, f4: Float32Array, i8: BigInt64Array, u8: BigUint64Array, i4: Int32Array, u4: Uint32Array,
  i2: Int16Array, u2: Uint16Array, i1: Int8Array, u1: Uint8Array, b1: Uint8Array,
} as const;

/** The address of a sample, and the parameters that say of which version. */
export function pathOf(place: Place, what: string, tensor: string, row: number): string {
  return `${place.dataset}/${what}/${encodeURIComponent(tensor)}/${row}`;
}

export const of = ({ at, q }: Place) => ({ at, q });

export class ServerProvider implements Provider {
  readonly traffic = { requests: 0, bytes: 0, milliseconds: 0 };

  constructor(
    private readonly base: string,
    private readonly token: string,
    private readonly send: (address: string, request: RequestInit) => Promise<Response> = (...one) => fetch(...one),
  ) {}

  lake(signal?: AbortSignal): Promise<Lake> {
    return this.json("lake", {}, signal);
  }

  meta(dataset: number, at: string, signal?: AbortSignal): Promise<Meta> {
    return this.json(`${dataset}/meta`, { at }, signal);
  }

  rows(place: Place, start: number, count: number, tensors: string[], signal?: AbortSignal): Promise<Rows> {
    const names = tensors.map((name) => name.replaceAll("\\", "\\\\").replaceAll(",", "\\,")).join(",");
    return this.json(`${place.dataset}/rows`, { ...of(place), start, count, tensors: names }, signal);
  }

  query(dataset: number, at: string, text: string, signal?: AbortSignal): Promise<Answer> {
    return this.json(`${dataset}/query`, {}, signal, { at, text });
  }

  async picture(place: Place, tensor: string, row: number, options: PictureOptions, signal?: AbortSignal): Promise<ImageBitmap> {
    const { width, frame, window, box } = options;
    const query = { ...of(place), w: width, frame, low: window?.low, high: window?.high, box: box?.join(",") };
    const response = await this.asked(pathOf(place, "image", tensor, row), query, signal);
    const blob = await response.blob();
    this.traffic.bytes += blob.size;
    signal?.throwIfAborted();
    return createImageBitmap(blob, { colorSpaceConversion: "none", premultiplyAlpha: "default" });
  }

  async array(place: Place, tensor: string, row: number, signal?: AbortSignal): Promise<Numbers> {
    const response = await this.asked(pathOf(place, "array", tensor, row), of(place), signal);
    const bytes = await response.arrayBuffer();
    this.traffic.bytes += bytes.byteLength;
    const dtype = response.headers.get("X-Dtype") ?? "";
    const shape = JSON.parse(response.headers.get("X-Shape") ?? "[]") as number[];
    const kind = ARRAYS[dtype.replace(/^[<|>=]/, "") as keyof typeof ARRAYS];
    if (!kind) throw new ProviderError("Unknown", `numbers of dtype ${dtype} are not shown`);
    return { shape, dtype, values: new kind(bytes) };
  }

  window(place: Place, tensor: string, row: number, frame: number, signal?: AbortSignal): Promise<Window> {
    return this.json(pathOf(place, "window", tensor, row), { ...of(place), frame }, signal);
  }

  async media(place: Place, tensor: string, row: number, signal?: AbortSignal): Promise<Media> {
    const path = pathOf(place, "media", tensor, row);
    const { ticket, rate } = await this.json<{ ticket: string; rate: number | null }>(`${path}/ticket`, of(place), signal);
    return { address: this.address(path, { ...of(place), ticket }), rate };
  }

  sound(place: Place, tensor: string, row: number, signal?: AbortSignal): Promise<Sound> {
    return this.json(pathOf(place, "sound", tensor, row), of(place), signal);
  }

  stats(place: Place, tensor: string, signal?: AbortSignal): Promise<Stats> {
    return this.json(`${place.dataset}/stats/${encodeURIComponent(tensor)}`, of(place), signal);
  }

  async points(place: Place, tensor: string, signal?: AbortSignal): Promise<Points> {
    const response = await this.asked(`${place.dataset}/points/${encodeURIComponent(tensor)}`, { at: place.at }, signal);
    const bytes = await response.arrayBuffer();
    this.traffic.bytes += bytes.byteLength;
    const [axes, step, share] = ["axes", "step", "share"].map((name) => Number(response.headers.get(`X-${name}`)));
    return { values: new Float32Array(bytes), axes: axes!, step: step!, share: share! };
  }

  async found(place: Place, signal?: AbortSignal): Promise<Int32Array | null> {
    const response = await this.asked(`${place.dataset}/found`, of(place), signal);
    if (response.status === 204) return null;
    const bytes = await response.arrayBuffer();
    this.traffic.bytes += bytes.byteLength;
    return new Int32Array(bytes);
  }

  async file(place: Place, tensor: string, row: number, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const response = await this.asked(pathOf(place, "media", tensor, row), of(place), signal);
    const bytes = new Uint8Array(await response.arrayBuffer());
    this.traffic.bytes += bytes.length;
    return bytes;
  }

  async ids(place: Place, tensor: string, signal?: AbortSignal): Promise<BigUint64Array | null> {
    const response = await this.asked(`${place.dataset}/ids/${encodeURIComponent(tensor)}`, { at: place.at }, signal);
    if (response.status === 204) return null;
    const bytes = await response.arrayBuffer();
    this.traffic.bytes += bytes.byteLength;
    return new BigUint64Array(bytes);
  }

  diff(dataset: number, a: string, b: string, signal?: AbortSignal): Promise<Diff> {
    return this.json(`${dataset}/diff`, { a, b }, signal);
  }

  async saveView(dataset: number, at: string, name: string, content: { text: string } | { rows: number[] }): Promise<string> {
    const { id } = await this.json<{ id: string }>(`${dataset}/views`, {}, undefined, { at, name, ...content });
    return id;
  }

  private address(path: string, query: Record<string, unknown>): string {
    const found = new URL(`v1/${path}`, this.base);
    for (const [key, value] of Object.entries(query)) {
      if (value !== undefined && value !== null && value !== "") found.searchParams.set(key, String(value));
    }
    return found.href;
  }

  private async json<T>(path: string, query: Record<string, unknown>, signal?: AbortSignal, body?: unknown): Promise<T> {
    const response = await this.asked(path, query, signal, body);
    const text = await response.text();
    this.traffic.bytes += text.length;
    return JSON.parse(text) as T;
  }

  protected async asked(path: string, query: Record<string, unknown>, signal?: AbortSignal, body?: unknown): Promise<Response> {
    const started = performance.now();
    this.traffic.requests += 1;
    const headers: Record<string, string> = { Authorization: `Bearer ${this.token}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response: Response;
    try {
      response = await this.send(this.address(path, query), {
        method: body === undefined ? "GET" : "POST",
        headers,
        body: body === undefined ? null : JSON.stringify(body),
        signal: signal ?? null,
      });
    } catch (error) {
      if (error instanceof TypeError) {
        throw new ProviderError("Gone", "the viewer's server does not answer: start it again with `lakebed view`");
      }
      throw error;
    } finally {
      this.traffic.milliseconds += performance.now() - started;
    }
    if (response.ok) return response;
    const text = await response.text();
    let failure: Failure["error"];
    try {
      failure = (JSON.parse(text) as Failure).error;
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      failure = { kind: `HTTP ${response.status}`, message: text.slice(0, 500) || response.statusText };
    }
    throw new ProviderError(failure.kind, failure.message, failure.position ?? null);
  }
}
