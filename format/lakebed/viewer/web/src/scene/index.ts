/** A row as it is drawn: a pure function of what the tensors are, the row's values and what is shown of them. */

import type { Size } from "../camera";
import { colourOf, numbered } from "../colours";
import type { Cell, Json, Kind, TensorMeta } from "../types";
import { boxes } from "./boxes";
import { mask } from "./masks";
import { keypoints, points } from "./points";
import { polygons } from "./polygons";
import { MOST_OBJECTS, type Beside, type Family, type Look, type Mark, type Mask, type Scene } from "./types";

export * from "./types";

const FAMILIES: Partial<Record<Kind, Family>> = { bbox: boxes, polygon: polygons, point: points, keypoints };
const SCORE = /(^|[/_.-])(confidences?|scores?|probs?|probability|probabilities)$/i;

export type Cells = { readonly [tensor: string]: Cell };

/** Whether slices lie behind each other along the last axes, as of NIfTI, not along the first. */
function isDeep(tensor: TensorMeta): boolean {
  return /\bnifti\b/.test(tensor.htype);
}

/** Whether a tensor holds scans, which have slices and a window. */
export function isScan(tensor: TensorMeta): boolean {
  return isDeep(tensor) || /\bdicom\b/.test(tensor.htype);
}

/** Whether a picture has a window of values: one channel of a scan, or numbers that are no bytes. */
export function hasWindow(tensor: TensorMeta, cell: Cell | undefined): boolean {
  if (tensor.kind !== "image" || !cell || !("s" in cell)) return false;
  const isColour = isDeep(tensor) ? deep(tensor, cell.s).length < cell.s.length - 2 : cell.s.at(-1) !== 1;
  return isScan(tensor) ? !isColour : !["uint8", "bool"].includes(tensor.dtype);
}

/** Return the axes of slices: of colours, channels are last. */
function deep(tensor: TensorMeta, shape: number[]): number[] {
  const isColour = shape.length === 4 && tensor.dtype === "uint8" && [3, 4].includes(shape[3] as number);
  return shape.slice(2, isColour ? 3 : undefined);
}

/** Return the size of a picture that a cell tells of, or null where it has none. */
export function sizeOf(tensor: TensorMeta, cell: Cell | undefined): Size | null {
  if (!cell || !("s" in cell)) return null;
  const isBehind = !isDeep(tensor) && (tensor.kind === "video" || cell.s.length === 4);
  const [height, width] = cell.s.slice(isBehind ? 1 : 0);
  return height && width ? { width, height } : null;
}

/** Return how many frames or slices a cell has, 1 for a single picture. */
export function framesOf(tensor: TensorMeta, cell: Cell | undefined): number {
  if (!cell || !("s" in cell)) return 1;
  if (cell.frames !== undefined) return cell.frames;
  if (isDeep(tensor)) return deep(tensor, cell.s).reduce((a, b) => a * b, 1);
  return tensor.kind === "video" || cell.s.length === 4 ? (cell.s[0] ?? 1) : 1;
}

/** Return where the values of a pixel of a slice begin in an array of all slices, and how many they are. */
export function placeIn(tensor: TensorMeta, shape: number[], frame: number, x: number, y: number): [number, number] {
  if (!isDeep(tensor)) {
    const [height = 1, width = 1, channels = 1] = shape.length > 2 ? shape.slice(-3) : shape;
    return [((frame * height + y) * width + x) * channels, channels];
  }
  const axes = deep(tensor, shape);
  const channels = axes.length < shape.length - 2 ? (shape.at(-1) as number) : 1;
  let at = y * (shape[1] as number) + x;
  let rest = frame; // the first of these axes is counted first
  for (const length of axes) [at, rest] = [at * length + (rest % length), Math.floor(rest / length)];
  return [at * channels, channels];
}

/** Return what is drawn of a row over the picture of one tensor; `size` is that of the picture where no cell has it. */
export function scene(
  tensors: readonly TensorMeta[], cells: Cells, look: Look, base: TensorMeta, frame = 0, size: Size | null = null,
): Scene {
  const of: Size = sizeOf(base, cells[base.name]) ?? size ?? { width: 1, height: 1 };
  const found: Scene = {
    base: base.kind === "mask" ? null : base.name, size: of, masks: [], items: [], chips: [], notes: [],
    overlays: [], classes: [], hasScores: false,
  };
  const values = new Map(tensors.map((one) => [one.name, valueOf(one, cells[one.name], frame)]));
  const over = tensors.filter((one) => one.over === base.name || (one === base && one.kind === "mask"));
  const words = wordsOf(tensors.filter((one) => one.kind === "label"), over, values);
  const used = new Set<string>();
  for (const tensor of over) {
    const value = values.get(tensor.name) ?? null;
    const cell = cells[tensor.name];
    if (tensor.kind === "label") continue;
    if (tensor !== base) found.overlays.push(tensor.name);
    if (cell && "error" in cell) found.notes.push(`${tensor.name}: ${cell.error}`);
    if (cell && "cut" in cell) found.notes.push(`${tensor.name}: only the first objects are shown`);
    const isOn = !look.hidden.includes(tensor.name);
    const beside = (count: number) => besideOf(tensor, count, tensors, words, values);
    if (tensor.kind === "mask") {
      if (!cell || !("s" in cell) || !cell.s.every((length) => length > 0)) continue;
      const near = beside(tensor.htype.includes("binary_mask") ? (cell.s[2] ?? 1) : Number.NaN);
      const mine = mask(tensor, look, near.objects ? { ...near, names: near.objects.map((one) => near.names[one] ?? "") } : near);
      if (near.labels) used.add(near.labels);
      if (isOn) found.masks.push(mine);
      if (mine.names === tensor.class_names) found.classes.push(...classesOf(mine, look));
      continue;
    }
    const whole = Array.isArray(value) ? value.slice(0, MOST_OBJECTS) : value;
    if (Array.isArray(value) && value.length > MOST_OBJECTS) {
      found.notes.push(`${tensor.name}: the first 10,000 of ${value.length.toLocaleString("en")} objects are drawn`);
    }
    const mark = (index: number, near: Beside): Mark | null => {
      const name = near.names[index] ?? "";
      const score = near.scores[index] ?? null;
      if (near.labels) used.add(near.labels);
      if (score !== null) found.hasScores = true;
      if (score !== null && score < look.confidence) return null;
      if (name && [near.labels, tensor.name].some((by) => look.hiddenClasses.includes(`${by}:${name}`))) return null;
      const colour = name ? colourOf(name, look.colours) : numbered(index);
      return { tensor: tensor.name, index, name, labels: near.labels, score, colour };
    };
    const note = (text: string) => found.notes.push(text);
    const items = FAMILIES[tensor.kind]?.({ tensor, value: whole, size: of, look, note, beside, mark }) ?? [];
    if (isOn) found.items.push(...items);
  }
  for (const [name, texts] of words) {
    const isOver = over.some((one) => one.name === name);
    if (!isOver && !used.has(name)) continue;
    if (!used.has(name) && texts.length) {
      found.overlays.push(name);
      for (const text of new Set(texts)) {
        if (look.hidden.includes(name) || look.hiddenClasses.includes(`${name}:${text}`)) continue;
        found.chips.push({ tensor: name, name: text, colour: colourOf(text, look.colours) });
      }
    }
    const counts = new Map<string, number>();
    for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
    for (const [text, count] of counts) {
      const on = !look.hiddenClasses.includes(`${name}:${text}`);
      found.classes.push({ tensor: name, name: text, colour: colourOf(text, look.colours), count, on });
    }
  }
  return found;
}

/** Return a cell's value, of sequences the one of a frame. */
export function valueOf(tensor: TensorMeta, cell: Cell | undefined, frame: number): Json {
  if (!cell || !("v" in cell)) return null;
  return tensor.sequence && Array.isArray(cell.v) ? (cell.v[frame] ?? null) : cell.v;
}

/** Return names of labels: those of `class_names`, else the numbers themselves. */
export function wordsIn(tensor: TensorMeta, value: Json): string[] {
  const flat = (Array.isArray(value) ? value.flat(3) : value === null ? [] : [value]) as Json[];
  return flat.slice(0, MOST_OBJECTS).map((one) => tensor.class_names[one as number] ?? String(one));
}

function wordsOf(all: TensorMeta[], over: TensorMeta[], values: Map<string, Json>): Map<string, string[]> {
  const groups = new Set(over.map((one) => groupOf(one.name)));
  const near = all.filter((one) => over.includes(one) || groups.has(groupOf(one.name)));
  return new Map(near.map((one) => [one.name, wordsIn(one, values.get(one.name) ?? null)]));
}

/** Return the group that a tensor is in, empty outside of all. */
export function groupOf(name: string): string {
  return name.slice(0, Math.max(0, name.lastIndexOf("/")));
}

/** Return the first name of the tensor's own group, else the first. */
function nearest(tensor: TensorMeta, names: string[]): string | null {
  return names.find((one) => groupOf(one) === groupOf(tensor.name)) ?? names[0] ?? null;
}

/** Return names of tensors that may say whose each part of a tensor is, as imports of COCO write them. */
function ownersOf(name: string): string[] {
  return [`${name}_object`, `${name.replace(/_mask$/, "")}_object`];
}

function besideOf(
  tensor: TensorMeta, count: number, tensors: readonly TensorMeta[], words: Map<string, string[]>, values: Map<string, Json>,
): Beside {
  const owners = ownersOf(tensor.name).map((one) => numbersOf(values.get(one) ?? null)).find((one) => one?.length === count);
  const objects = owners?.every((one) => one !== null) ? (owners as number[]) : null;
  const fits = (length: number) => (objects ? length > Math.max(-1, ...objects) : length === count);
  const labels = nearest(tensor, [...words].filter(([, texts]) => fits(texts.length)).map(([name]) => name));
  const isTheirs = (name: string) => groupOf(name) !== groupOf(tensor.name) && tensors.some((one) => one.kind === tensor.kind && groupOf(one.name) === groupOf(name));
  const scores = tensors
    .filter((one) => SCORE.test(one.name) && one.name !== tensor.name && ["scalar", "array"].includes(one.kind) && !isTheirs(one.name))
    .filter((one) => fits(numbersOf(values.get(one.name) ?? null)?.length ?? Number.NaN))
    .map((one) => one.name);
  const scored = nearest(tensor, scores);
  return {
    labels,
    names: labels ? (words.get(labels) ?? []) : [],
    scores: scored ? (numbersOf(values.get(scored) ?? null) ?? []) : [],
    objects,
  };
}

/** Return tensors beside the overlays whose numbers a scene needs and a cell does not tell: scores, and owners of parts. */
export function missing(tensors: readonly TensorMeta[], cells: Cells, base: TensorMeta): string[] {
  const over = tensors.filter((one) => one.over === base.name);
  const owners = new Set(over.flatMap((one) => ownersOf(one.name)));
  return tensors
    .filter((one) => owners.has(one.name) || (over.length > 0 && one.kind === "array" && SCORE.test(one.name)))
    .filter((one) => {
      const cell = cells[one.name];
      return cell && "s" in cell && cell.s.reduce((a, b) => a * b, 1) <= MOST_OBJECTS;
    })
    .map((one) => one.name);
}

function numbersOf(value: Json): (number | null)[] | null {
  const flat = (Array.isArray(value) ? value.flat(2) : [value]) as Json[];
  if (!flat.every((one) => typeof one === "number" || one === null)) return null;
  return flat.map((one) => (Number.isFinite(one) ? (one as number) : null));
}

const MOST_CLASSES = 256;

function classesOf(of: Mask, look: Look): Scene["classes"] {
  const named = of.names.map((name, label) => ({ name, label })).filter(({ name, label }) => label && name);
  return named.slice(0, MOST_CLASSES).map(({ name, label }) => ({
    tensor: of.tensor, name, colour: of.colours[label] as string, count: 0, on: !look.hiddenClasses.includes(`${of.tensor}:${name}`),
  }));
}
