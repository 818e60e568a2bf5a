/** What one page has open: the state that the address holds, and what the provider told of it. */

import { Cache } from "./cache";
import { told } from "./colours";
import { ProviderError, type Numbers, type PictureOptions, type Place, type Provider } from "./provider";
import { fromFragment, initial, toFragment, type ViewState } from "./state";
import type { Answer, Cell, Kind, Lake, Meta, TensorMeta } from "./types";

/** One row, at its position in the order that is shown. */
export interface Row {
  position: number;
  /** Row of the version; -1 for a group of a query. */
  id: number;
  group: number | null;
  cells: { [tensor: string]: Cell };
}

export const BLOCK = 64; // rows that are asked for at once
/** Tensors whose samples are pictures. */
export const PICTURED: Kind[] = ["image", "video", "mask"];
const ROWS_BYTES = 32 << 20;
const PICTURE_BYTES = 192 << 20;
const SCREENS = 8; // of thumbnails that are kept, whose pixels are up to four times those shown
const ARRAY_BYTES = 64 << 20;

export class Session {
  /** Replace parts of it with `change`; the address follows. */
  state = $state<ViewState>(structuredClone(initial) as ViewState);
  lake = $state.raw<Lake | null>(null);
  meta = $state.raw<Meta | null>(null);
  /** Of the query that is shown; null shows all rows. */
  answer = $state.raw<Answer | null>(null);
  /** What went wrong with the whole page, or with the query. */
  failure = $state.raw<{ of: "page" | "query"; error: ProviderError } | null>(null);
  /** Whether a version or a query is on its way. */
  busy = $state(false);
  /** Counts up whenever blocks of rows have come. */
  arrivals = $state(0);

  readonly columns: TensorMeta[] = $derived(this.answer?.columns ?? this.meta?.tensors ?? []);
  readonly length: number = $derived(this.answer?.rows ?? this.meta?.rows ?? 0);
  /** The tensor of images that a grid shows; null where there is none. */
  readonly primary: TensorMeta | null = $derived(
    this.columns.find((one) => one.name === this.state.primary && PICTURED.includes(one.kind)) ??
      this.columns.find((one) => one.name === this.meta?.primary) ?? null,
  );
  // As text, it is the same while it says the same: what is read from there is not read again.
  private readonly placeKey: string = $derived(
    JSON.stringify(
      this.meta && this.meta.id === this.state.dataset
        ? { dataset: this.state.dataset, at: `id:${this.meta.version}`, q: this.answer?.q ?? null }
        : null,
    ),
  );
  /** Where rows are read: the version that was opened, which stays the same while a writer goes on. */
  readonly place: Place | null = $derived(JSON.parse(this.placeKey));

  /** The same in one text, which changes when other rows are shown; empty where none are. */
  readonly rowsKey: string = $derived(this.place && this.length ? JSON.stringify([this.place, this.length]) : "");

  /** Colours of classes that are not those of their names: chosen by hand, or taken by another class of the dataset. */
  readonly colours: Record<string, string> = $derived({
    ...told((this.meta?.tensors ?? []).flatMap((one) => one.class_names.filter(Boolean))),
    ...this.state.colours,
  });

  private readonly blocks = new Cache<Row[]>(() => ROWS_BYTES, (rows) => JSON.stringify(rows).length * 2);
  private readonly pictures = new Cache<ImageBitmap>(
    () => (this.state.row === null ? Math.min(PICTURE_BYTES, SCREENS * 4 * innerWidth * innerHeight * devicePixelRatio ** 2) : PICTURE_BYTES),
    (bitmap) => bitmap.width * bitmap.height * 4,
    (bitmap) => bitmap.close(),
  );
  private readonly wholes = new Cache<Cell>(() => ROWS_BYTES, (cell) => JSON.stringify(cell).length * 2);
  private readonly arrays = new Cache<Numbers>(() => ARRAY_BYTES, (numbers) => numbers.values.byteLength);
  private opening = new AbortController();
  private target = ""; // dataset, version and query that were asked for last
  private version = ""; // dataset and version that `meta` is of

  constructor(readonly provider: Provider) {}

  /** Show what an address says; of what is open already nothing is asked for again. */
  async open(fragment: string): Promise<void> {
    await this.show(fromFragment(fragment));
  }

  /**
   * Change parts of the state, and the address with it.
   *
   * Places a reader would want to come back to (a dataset, a version, a query, a row) are entries of the browser's
   * history; the rest replaces the entry that is there.
   */
  async change(parts: Partial<ViewState>): Promise<void> {
    const before = this.state;
    const next = { ...$state.snapshot(before), ...parts } as ViewState;
    const isStep =
      next.dataset !== before.dataset || next.at !== before.at || next.query !== before.query ||
      (next.row === null) !== (before.row === null) || (next.map === null) !== (before.map === null) || JSON.stringify([next.diff, next.compare?.how, next.compare?.pick]) !== JSON.stringify([before.diff, before.compare?.how, before.compare?.pick]);
    const address = toFragment(next);
    history[isStep ? "pushState" : "replaceState"](null, "", address ? `#${address}` : location.pathname + location.search);
    await this.show(next);
  }

  /** Ask again for what is shown, after it went wrong or was written anew. */
  async again(): Promise<void> {
    await this.show(this.state, true);
  }

  /** Stop a query, or a version, that is on its way; what was shown before stays. */
  cancel(): void {
    if (!this.busy) return;
    this.opening.abort();
    this.failure = { of: this.place ? "query" : "page", error: new ProviderError("Cancelled", "cancelled") };
  }

  /** The row at a position, if it is there already. */
  rowNow(position: number): Row | null {
    return this.blocks.peek(this.blockKey(position))?.[position % BLOCK] ?? null;
  }

  /** The row at a position, asked for if it is not there; null while it is on its way. */
  row(position: number, signal?: AbortSignal): Row | null {
    const found = this.rowNow(position);
    if (found) return found;
    this.rowLater(position, signal).then(
      () => (this.arrivals += 1),
      (error: unknown) => {
        if (!isAbort(error)) this.fail("page", error);
      },
    );
    return null;
  }

  /** The row at a position, once it has come. */
  async rowLater(position: number, signal?: AbortSignal): Promise<Row | null> {
    const place = this.place;
    if (!place || position < 0 || position >= this.length) return null;
    const start = position - (position % BLOCK);
    const names = this.columns.map((one) => one.name);
    const load = async (stop: AbortSignal) => {
      const found = await this.provider.rows(place, start, Math.min(BLOCK, this.length - start), names, stop);
      return found.ids.map((id, at) => ({
        position: start + at,
        id,
        group: found.groups?.[at] ?? null,
        cells: Object.fromEntries(names.map((name) => [name, found.cells[name]?.[at] ?? null])),
      }));
    };
    const block = await this.blocks.get(this.blockKey(position), load, signal);
    return block[position % BLOCK] ?? null;
  }

  /** A picture of a row: do not close it, the cache does. */
  picture(tensor: string, row: Row, options: PictureOptions, signal?: AbortSignal): Promise<ImageBitmap> {
    const { place, number } = this.placeOf(tensor, row);
    const key = JSON.stringify([place, tensor, number, options]);
    return this.pictures.get(key, (stop) => this.provider.picture(place, tensor, number, options, stop), signal);
  }

  /** A picture that is there already. */
  pictureNow(tensor: string, row: Row, options: PictureOptions): ImageBitmap | undefined {
    const { place, number } = this.placeOf(tensor, row);
    return this.pictures.peek(JSON.stringify([place, tensor, number, options]));
  }

  array(tensor: string, row: Row, signal?: AbortSignal): Promise<Numbers> {
    const { place, number } = this.placeOf(tensor, row);
    const key = JSON.stringify([place, tensor, number]);
    return this.arrays.get(key, (stop) => this.provider.array(place, tensor, number, stop), signal);
  }

  /** A cell of which all is told: in a block of rows, long ones are cut. */
  whole(tensor: string, row: Row, signal?: AbortSignal): Promise<Cell> {
    const { place, number } = this.placeOf(tensor, row);
    const load = async (stop: AbortSignal) => (await this.provider.rows(place, number, 1, [tensor], stop)).cells[tensor]?.[0] ?? null;
    return this.wholes.get(JSON.stringify([place, tensor, number]), load, signal);
  }

  /** Where a sample is asked for: a tensor's own by its row of the version, which several queries share. */
  placeOf(tensor: string, row: Row): { place: Place; number: number } {
    const place = this.place;
    if (!place) throw new ProviderError("Gone", "no dataset is open");
    const isStored = row.id >= 0 && this.meta?.tensors.some((one) => one.name === tensor);
    return isStored ? { place: { ...place, q: null }, number: row.id } : { place, number: row.position };
  }

  private blockKey(position: number): string {
    return `${this.place?.dataset} ${this.place?.at} ${this.place?.q} ${position - (position % BLOCK)}`;
  }

  private async show(next: ViewState, isAnew = false): Promise<void> {
    if (next.dataset === null && this.lake?.single) next.dataset = 0;
    const target = JSON.stringify([next.dataset, next.at, next.query]);
    this.state = next;
    if (target === this.target && !isAnew) return; // it is there, on its way, or told why not
    this.target = target;
    this.opening.abort();
    const opening = (this.opening = new AbortController());
    this.busy = true;
    this.failure = null;
    let failing: "page" | "query" = "page";
    try {
      if (!this.lake || isAnew) this.lake = await this.provider.lake(opening.signal);
      if (next.dataset === null && this.lake.single) {
        this.state.dataset = next.dataset = 0;
        this.target = JSON.stringify([0, next.at, next.query]);
      }
      if (next.dataset === null) {
        this.meta = this.answer = null;
        return;
      }
      const version = JSON.stringify([next.dataset, next.at]);
      if (isAnew || !this.meta || version !== this.version) {
        const meta = await this.provider.meta(next.dataset, next.at, opening.signal);
        this.answer = null;
        this.meta = meta;
        this.version = version;
      }
      failing = "query";
      const at = `id:${this.meta?.version}`;
      this.answer = next.query ? await this.provider.query(next.dataset, at, next.query, opening.signal) : null;
    } catch (error) {
      if (!isAbort(error)) this.fail(failing, error);
    } finally {
      if (this.opening === opening) this.busy = false;
    }
  }

  private fail(of: "page" | "query", error: unknown): void {
    if (!(error instanceof ProviderError)) throw error;
    this.failure = { of, error };
  }
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** What went wrong, for the reader; empty where nobody waits for it any more. */
export function failureOf(error: unknown): string {
  if (isAbort(error)) return "";
  if (error instanceof ProviderError || error instanceof DOMException) return error.message;
  throw error;
}
