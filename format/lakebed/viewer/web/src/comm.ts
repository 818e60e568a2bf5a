/** The provider in a notebook whose ports cannot be reached: the widget that frames this page asks the server. */

import type { Media, Place } from "./provider";
import { of, pathOf, ServerProvider } from "./server";

interface Told {
  id: string;
  status: number;
  headers: Record<string, string>;
  body: ArrayBuffer;
}

/** Whether a widget made this page, from text. */
export const isWidget = location.protocol === "blob:";

const BASE = "widget://kernel/";
const waiting = new Map<string, (told: Told) => void>();
const mine = Math.random().toString(36); // the same widget may be shown twice, and both hear what is answered
let asked = 0;

function listen({ source, data }: MessageEvent): void {
  if (source === parent) waiting.get((data as Told).id)?.(data as Told);
}

function ask(address: string, { method, body, signal }: RequestInit): Promise<Response> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const id = `${mine} ${asked++}`;
    waiting.set(id, (told) => {
      waiting.delete(id);
      resolve(new Response(told.body, { status: told.status, headers: told.headers }));
    });
    signal?.addEventListener("abort", () => {
      waiting.delete(id);
      reject(signal.reason);
    });
    parent.postMessage({ id, path: address.slice(BASE.length), method, body }, "*");
  });
}

export class CommProvider extends ServerProvider {
  constructor() {
    super(BASE, "", ask);
    addEventListener("message", listen);
  }

  /** A film or sound as a whole: there is no address that an element could play by ranges. */
  override async media(place: Place, tensor: string, row: number, signal?: AbortSignal): Promise<Media> {
    const { rate } = await super.media(place, tensor, row, signal);
    const response = await this.asked(pathOf(place, "media", tensor, row), of(place), signal);
    return { address: URL.createObjectURL(await response.blob()), rate };
  }
}
