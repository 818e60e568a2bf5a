/** The boxes of all rows, read in windows through the provider, and how those of two sides match. */

import type { Size } from "../camera";
import { counted, curves, match, type Objects } from "../match";
import { ProviderError } from "../provider";
import { sizeOf, type Item } from "../scene";
import { edges } from "../scene/boxes";
import { failureOf, type Session } from "../session.svelte";
import type { Cell, TensorMeta } from "../types";
import type { Roles } from "./roles";

const WINDOW = 512; // rows of a request
const AHEAD = 3; // windows that are asked for before they are read
const MOST = 8_000_000; // boxes of one side: some 500 MB
const ALONE = "object"; // what boxes without labels are called
export const COLOURS = { tp: "#009e73", fp: "#d55e00", fn: "#56b4e9", found: "#9aa0a6" };

interface Read {
  objects: Objects;
  /** Row of the version at each position. */
  ids: Int32Array;
  /** Boxes that are left out or lack a label or score, in words. */
  notes: string[];
}

export interface Data {
  truth: Objects;
  predicted: Objects;
  classes: string[];
  ids: Int32Array;
  /** Whether boxes are parts of a picture, not pixels. */
  isFractional: boolean;
  notes: string[];
  /** Rows that were read: fewer than there are after a cancel. */
  rows: number;
}

/** Read the boxes of the first rows of a session; after `cancelled` says so, return those that are there. */
async function read(session: Session, boxes: TensorMeta, length: number, labels: string, scores: string, scaled: boolean, classes: Map<string, number>, told: (rows: number) => void, cancelled: () => boolean, signal: AbortSignal): Promise<Read> {
  const { place, provider } = session;
  if (!place) throw new ProviderError("Gone", "no dataset is open");
  const base = scaled ? session.columns.find((one) => one.name === boxes.over) : undefined;
  if (scaled && !base) throw new ProviderError("invalid", `${boxes.name} has parts of a picture, and there is none of which the size is known`);
  const names = [boxes.name, labels, scores, base?.name ?? ""].filter(Boolean);
  const labelled = session.columns.find((one) => one.name === labels);
  const starts = [0];
  const [ids, sides, kinds, sure]: [number[], number[], number[], number[]] = [[], [], [], []];
  let [broken, bare] = [0, 0];
  const numbers = async (name: string, row: number, cell: Cell | undefined): Promise<unknown[]> => {
    if (!cell) return [];
    if ("error" in cell) throw new ProviderError("damaged", `${name}, row ${row}: ${cell.error}`);
    if ("v" in cell && !("cut" in cell)) return [cell.v].flat(3);
    return Array.from((await provider.array(place, name, row, signal)).values, Number);
  };
  const windows: Promise<unknown>[] = [];
  for (let start = 0, asked = 0; start < length && !cancelled(); start += WINDOW) {
    for (; asked < length && asked <= start + AHEAD * WINDOW; asked += WINDOW) {
      const window = provider.rows(place, asked, Math.min(WINDOW, length - asked), names, signal);
      window.catch(() => {}); // told where it is waited for
      windows.push(window);
    }
    const found = (await windows.shift()) as Awaited<ReturnType<typeof provider.rows>>;
    for (let at = 0; at < found.ids.length; at += 1) {
      const row = start + at;
      const [flat, kind, score] = await Promise.all([boxes.name, labels, scores].map((name) => (name ? numbers(name, row, found.cells[name]?.[at]) : [])));
      const size = base ? sizeOf(base, found.cells[base.name]?.[at]) : null;
      for (let box = 0; 4 * box + 3 < flat!.length; box += 1) {
        const four = flat!.slice(4 * box, 4 * box + 4) as number[];
        if (!four.every(Number.isFinite) || (base && !size)) {
          broken += 1;
          continue;
        }
        const isPlain = !scaled && boxes.coords?.mode === "LTWH" && four[2]! >= 0 && four[3]! >= 0;
        const { left, top, right, bottom } = edges(four, scaled ? boxes.coords : boxes.coords && { ...boxes.coords, type: "pixel" }, size ?? { width: 1, height: 1 });
        sides.push(...(isPlain ? four : [left, top, right - left, bottom - top]));
        const word = !labels ? ALONE : kind![box] === undefined ? "no label" : (labelled?.class_names[kind![box] as number] ?? String(kind![box]));
        if (!classes.has(word)) classes.set(word, classes.size);
        kinds.push(classes.get(word)!);
        const sureness = scores ? Number(score![box] ?? 0) : 1;
        sure.push(Number.isFinite(sureness) ? sureness : 0);
        bare += Number((labels && kind![box] === undefined) || (scores && score![box] === undefined));
      }
      starts.push(kinds.length);
      ids.push(found.ids[at]!);
    }
    if (kinds.length > MOST) throw new ProviderError("limit", `${boxes.name} has more than ${MOST.toLocaleString("en")} boxes: ask for fewer rows by a query`);
    told(starts.length - 1);
  }
  const notes = [broken ? `${broken} boxes of ${boxes.name} are no four numbers, and left out` : "", bare ? `${bare} boxes of ${boxes.name} have no label or score of their own` : ""].filter(Boolean);
  return { objects: { starts: Uint32Array.from(starts), boxes: Float64Array.from(sides), classes: Int32Array.from(kinds), scores: Float64Array.from(sure) }, ids: Int32Array.from(ids), notes };
}

/** Return the objects of some rows, in this order; of a row -1 there are none. */
function taken({ starts, boxes, classes, scores }: Objects, rows: ArrayLike<number>): Objects {
  const numbers: number[] = [];
  const begins = new Uint32Array(rows.length + 1);
  for (let at = 0; at < rows.length; at += 1) {
    const row = rows[at]!;
    if (row >= 0 && row + 1 < starts.length) for (let one = starts[row]!; one < starts[row + 1]!; one += 1) numbers.push(one);
    begins[at + 1] = numbers.length;
  }
  return {
    starts: begins,
    boxes: Float64Array.from({ length: 4 * numbers.length }, (_, at) => boxes[4 * numbers[at >> 2]! + (at & 3)]!),
    classes: Int32Array.from(numbers, (one) => classes[one]!),
    scores: Float64Array.from(numbers, (one) => scores[one]!),
  };
}

export class Matching {
  progress = $state.raw<{ done: number; total: number } | null>(null);
  error = $state("");
  data = $state.raw<Data | null>(null);
  private stop = new AbortController();
  private isCancelled = false;

  constructor(private readonly given: () => { iou: number; least: number }) {}

  /** How the boxes match, at the thresholds of the moment. */
  readonly found = $derived.by(() => {
    if (!this.data) return null;
    const { truth, predicted, classes } = this.data;
    const { iou, least } = this.given();
    const matches = match(truth, predicted, iou, least);
    return { matches, counts: counted(truth, predicted, matches, classes.length), curves: curves(truth, predicted, matches, classes.length) };
  });

  /** Read both sides; `pair` is the row at the right of a row at the left, null where they have the same positions. */
  async start(left: Session, right: Session, roles: Roles, pair: ((row: number) => number) | null): Promise<void> {
    this.stop.abort();
    const stop = (this.stop = new AbortController());
    this.isCancelled = false;
    this.error = "";
    this.data = null;
    const [truth, predicted] = [left.columns.find((one) => one.name === roles.truth), right.columns.find((one) => one.name === roles.predicted)];
    if (!truth || !predicted) return void (this.progress = null);
    const total = left.length + right.length;
    this.progress = { done: 0, total };
    const classes = new Map<string, number>();
    const isMixed = truth.coords?.type !== predicted.coords?.type;
    const [scaledTruth, scaledPrediction] = [truth, predicted].map((one) => isMixed && one.coords?.type === "fractional") as [boolean, boolean];
    const cancelled = () => this.isCancelled;
    const told = (before: number) => (rows: number) => stop.signal.aborted || (this.progress = { done: before + rows, total });
    try {
      const mine = await read(left, truth, left.length, roles.truthLabels!, "", scaledTruth, classes, told(0), cancelled, stop.signal);
      this.isCancelled = false; // the other side of what a cancel left is read still
      const theirs = await read(right, predicted, pair ? right.length : mine.ids.length, roles.predictedLabels!, roles.scores!, scaledPrediction, classes, told(left.length), cancelled, stop.signal);
      const places = Int32Array.from(mine.ids, (id, at) => (pair ? pair(id) : at));
      const beyond = places.findIndex((place) => place >= theirs.ids.length);
      const both = places.subarray(0, beyond < 0 ? undefined : beyond);
      this.data = {
        truth: taken(mine.objects, both.map((_, at) => at)),
        predicted: taken(theirs.objects, both),
        classes: [...classes.keys()], ids: mine.ids, rows: both.length,
        isFractional: !isMixed && truth.coords?.type === "fractional",
        notes: [...mine.notes, ...theirs.notes],
      };
    } catch (error) {
      if (!stop.signal.aborted) this.error = failureOf(error);
    } finally {
      if (this.stop === stop) this.progress = null;
    }
  }

  /** Stop reading, and match what is there. */
  cancel(): void {
    this.isCancelled = true;
  }

  close(): void {
    this.stop.abort();
  }

  /** A box as it is drawn in a picture of a size. */
  item(of: "truth" | "predicted", at: number, size: Size, name: string, colour: string): Item {
    const { isFractional, [of]: objects } = this.data!;
    const [x, y] = isFractional ? [size.width, size.height] : [1, 1];
    const [left, top, width, height] = objects.boxes.subarray(4 * at, 4 * at + 4) as unknown as [number, number, number, number];
    const score = of === "predicted" && colour !== COLOURS.found ? objects.scores[at]! : null;
    return { is: "box", tensor: of, index: at, name, labels: null, score, colour, left: left * x, top: top * y, right: (left + width) * x, bottom: (top + height) * y };
  }

  /** What is drawn over the picture at a position: true boxes that were found in grey, below all else. */
  marks(position: number, size: Size): Item[] {
    const { data, found } = this;
    if (!data || !found || position >= data.rows) return [];
    const { truthOf, predictionOf, takenFor, takenBy, least } = found.matches;
    const { truth, predicted, classes } = data;
    const span = ({ starts }: Objects) => Array.from({ length: starts[position + 1]! - starts[position]! }, (_, at) => starts[position]! + at);
    const wasFound = (at: number) => predictionOf[at]! >= 0 && predicted.scores[predictionOf[at]!]! >= least;
    const mine = span(truth).map((at) => {
      const name = classes[truth.classes[at]!]!;
      return wasFound(at) ? this.item("truth", at, size, "", COLOURS.found) : this.item("truth", at, size, takenBy[at]! >= 0 ? "" : `missed ${name}`, COLOURS.fn);
    });
    const theirs = span(predicted).filter((at) => predicted.scores[at]! >= least).map((at) => {
      const name = classes[predicted.classes[at]!]!;
      if (truthOf[at]! >= 0) return this.item("predicted", at, size, name, COLOURS.tp);
      const other = takenFor[at]! >= 0 ? `${classes[truth.classes[takenFor[at]!]!]} taken for ${name}` : `false ${name}`;
      return this.item("predicted", at, size, other, COLOURS.fp);
    });
    const rank = (one: Item) => (one.colour === COLOURS.found ? 0 : 1);
    return [...mine, ...theirs].sort((a, b) => rank(a) - rank(b));
  }

  /** Predictions of a class that are shown, those that overlap a true box of it least first, with their positions. */
  crops(of: number): { at: number; position: number; overlap: number }[] {
    const { data, found } = this;
    if (!data || !found) return [];
    const { classes, scores, starts } = data.predicted;
    const shown: { at: number; position: number; overlap: number }[] = [];
    for (let position = 0; position < data.rows; position += 1) {
      for (let at = starts[position]!; at < starts[position + 1]!; at += 1) {
        if (classes[at] === of && scores[at]! >= found.matches.least) shown.push({ at, position, overlap: found.matches.best[at]! });
      }
    }
    return shown.sort((a, b) => a.overlap - b.overlap || scores[b.at]! - scores[a.at]!);
  }
}
