/** A scene onto a canvas: pictures, masks through a table of colours, marks at their exact place, names where there is room. */

import { toView, type Camera, type Size } from "./camera";
import { inkOn } from "./colours";
import type { Item, Mask, Scene } from "./scene";
import { labels, table } from "./scene/masks";

/** A picture, or a part of one, and where it lies in the pixels of the image. */
export interface Layer {
  bitmap: ImageBitmap;
  box: [number, number, number, number];
}

export interface Pixels {
  layers: Layer[];
  /** Label maps by tensor. */
  masks: ReadonlyMap<string, ImageBitmap>;
}

export interface Settings {
  /** Device pixels for each CSS pixel. */
  ratio: number;
  opacity: number;
  /** Which names are written: those of the largest things, where there is little room; and whether the picture's own are. */
  names: "none" | "few" | "all";
  chips: boolean;
  /** The mark that is drawn thicker. */
  lit: { tensor: string; index: number } | null;
}

const FONT = "system-ui, sans-serif";
const MOST_NAMES = 400;
const FEW_NAMES = 8;
const NEAREST = 2; // device pixels of one of the picture's, from where on its pixels are shown as squares

/** Draw on a canvas whose size is that of the view in device pixels. */
export function draw(context: CanvasRenderingContext2D, scene: Scene, pixels: Pixels, camera: Camera, view: Size, settings: Settings): void {
  const { ratio } = settings;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, view.width, view.height);
  for (const { bitmap, box } of pixels.layers) {
    if (!bitmap.width) continue; // its cache let go of it
    const isWhole = bitmap.width >= box[2];
    context.imageSmoothingEnabled = !isWhole || camera.scale * ratio < NEAREST;
    context.imageSmoothingQuality = "high";
    place(context, bitmap, box, camera, view);
  }
  for (const mask of scene.masks) {
    const bitmap = pixels.masks.get(mask.tensor);
    if (!bitmap?.width) continue;
    context.imageSmoothingEnabled = false;
    context.globalAlpha = scene.base === null ? 1 : settings.opacity;
    place(context, coloured(bitmap, mask), [0, 0, scene.size.width, scene.size.height], camera, view);
    context.globalAlpha = 1;
  }
  const seen = scene.items.map((item) => ({ item, at: extent(item, camera, view) })).filter(({ at }) => isSeen(at, view));
  areas(context, seen.map(({ item }) => item), camera, view, settings);
  lines(context, seen.map(({ item }) => item), camera, view, settings);
  const taken: Rectangle[] = [];
  if (settings.chips) chips(context, scene, camera, view, taken);
  if (settings.names !== "none") names(context, seen, view, taken, settings.names === "few");
}

type Rectangle = [number, number, number, number]; // left, top, right, bottom in CSS pixels

function place(context: CanvasRenderingContext2D, image: CanvasImageSource, box: Layer["box"], camera: Camera, view: Size): void {
  const [left, top] = toView(camera, view, box[0], box[1]);
  context.drawImage(image, left, top, box[2] * camera.scale, box[3] * camera.scale);
}

const LABELS = new WeakMap<ImageBitmap, Uint32Array>();
const COLOURED = new WeakMap<ImageBitmap, { key: string; canvas: OffscreenCanvas }>();

/** Return the labels of a label map's bitmap, read once. */
export function labelsOf(bitmap: ImageBitmap): Uint32Array {
  const found = LABELS.get(bitmap);
  if (found) return found;
  const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d", { willReadFrequently: true });
  if (!context) return new Uint32Array(bitmap.width * bitmap.height);
  context.drawImage(bitmap, 0, 0);
  const read = labels(context.getImageData(0, 0, bitmap.width, bitmap.height).data);
  LABELS.set(bitmap, read);
  return read;
}

function coloured(bitmap: ImageBitmap, mask: Mask): OffscreenCanvas {
  const key = JSON.stringify([mask.off, mask.colours, mask.colour]);
  const found = COLOURED.get(bitmap);
  if (found?.key === key) return found.canvas;
  const canvas = found?.canvas ?? new OffscreenCanvas(bitmap.width, bitmap.height);
  const context = canvas.getContext("2d");
  if (context) context.putImageData(new ImageData(painted(labelsOf(bitmap), mask), bitmap.width, bitmap.height), 0, 0);
  COLOURED.set(bitmap, { key, canvas });
  return canvas;
}

/** Return red, green, blue and alpha of each label. */
export function painted(map: Uint32Array, mask: Mask): Uint8ClampedArray<ArrayBuffer> {
  let most = 0;
  for (let at = 0; at < map.length; at += 1) if ((map[at] as number) > most) most = map[at] as number;
  const colours = new Uint32Array(table(mask, most + 1).buffer);
  const found = new Uint32Array(map.length);
  const count = colours.length;
  for (let at = 0; at < found.length; at += 1) {
    const label = map[at] as number;
    if (label) found[at] = colours[label < count ? label : 1 + (label % (count - 1))] as number;
  }
  return new Uint8ClampedArray(found.buffer);
}

/** Return what an item covers in the view. */
function extent(item: Item, camera: Camera, view: Size): Rectangle {
  if (item.is === "box") {
    return [...toView(camera, view, item.left, item.top), ...toView(camera, view, item.right, item.bottom)];
  }
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  const take = (x: number, y: number) => {
    [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x), Math.max(bottom, y)];
  };
  if (item.is === "points") for (const { x, y, seen } of item.points) if (seen !== null) take(x, y);
  if (item.is === "polygon") for (const part of item.parts) for (let at = 0; at < part.length; at += 2) take(part[at] as number, part[at + 1] as number);
  return [...toView(camera, view, left, top), ...toView(camera, view, right, bottom)];
}

function isSeen([left, top, right, bottom]: Rectangle, view: Size): boolean {
  const edge = 8;
  return right >= -edge && bottom >= -edge && left <= view.width + edge && top <= view.height + edge;
}

function areas(context: CanvasRenderingContext2D, items: Item[], camera: Camera, view: Size, { opacity }: Settings): void {
  context.globalAlpha = opacity * 0.6;
  for (const item of items) {
    if (item.is !== "polygon") continue;
    context.beginPath();
    trace(context, item, camera, view);
    context.fillStyle = item.colour;
    context.fill("evenodd");
  }
  context.globalAlpha = 1;
}

/** Draw outlines, joins and points, those of a colour at once: a dark line below a coloured one is seen on any picture. */
function lines(context: CanvasRenderingContext2D, items: Item[], camera: Camera, view: Size, { lit, names: which }: Settings): void {
  const thin = which === "all" ? 1.5 : 1;
  const isLit = (item: Item) => item.tensor === lit?.tensor && item.index === lit.index;
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const key = `${item.colour}${isLit(item) ? "+" : ""}`;
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  context.lineJoin = "round";
  for (const [key, group] of groups) {
    const width = key.endsWith("+") ? 3 : thin;
    context.beginPath();
    for (const item of group) trace(context, item, camera, view);
    context.strokeStyle = "rgb(0 0 0 / 0.55)";
    context.lineWidth = 2 * width;
    context.stroke();
    context.strokeStyle = key.slice(0, 7);
    context.lineWidth = width;
    context.stroke();
    for (const item of group) if (item.is === "points") dots(context, item, camera, view, which === "all" ? width * 2 : 1.5);
  }
}

function trace(context: CanvasRenderingContext2D, item: Item, camera: Camera, view: Size): void {
  if (item.is === "box") {
    const [left, top] = toView(camera, view, item.left, item.top);
    context.rect(left, top, (item.right - item.left) * camera.scale, (item.bottom - item.top) * camera.scale);
  } else if (item.is === "polygon") {
    for (const part of item.parts) {
      for (let at = 0; at < part.length; at += 2) {
        context[at ? "lineTo" : "moveTo"](...toView(camera, view, part[at] as number, part[at + 1] as number));
      }
      context.closePath();
    }
  } else {
    for (const [from, to] of item.joins) {
      const [a, b] = [item.points[from], item.points[to]];
      if (!a || !b) continue;
      context.moveTo(...toView(camera, view, a.x, a.y));
      context.lineTo(...toView(camera, view, b.x, b.y));
    }
  }
}

function dots(context: CanvasRenderingContext2D, item: Item & { is: "points" }, camera: Camera, view: Size, radius: number): void {
  for (const { x, y, seen } of item.points) {
    if (seen === null) continue;
    context.beginPath();
    context.arc(...toView(camera, view, x, y), radius, 0, 2 * Math.PI);
    context.fillStyle = seen ? item.colour : "rgb(0 0 0 / 0.55)";
    context.fill();
    context.strokeStyle = seen ? "rgb(0 0 0 / 0.7)" : item.colour;
    context.lineWidth = 1;
    context.stroke();
  }
}

const HEIGHT = 16;
const WIDTHS = new Map<string, number>();

function widthOf(context: CanvasRenderingContext2D, text: string): number {
  if (WIDTHS.size > 10_000) WIDTHS.clear();
  const found = WIDTHS.get(text) ?? context.measureText(text).width + 8;
  WIDTHS.set(text, found);
  return found;
}

/**
 * Write names of the largest things first, each at a corner of its own where no other one stands, or not at all; those
 * of one object, which may have a box, an outline and points, once.
 */
function names(context: CanvasRenderingContext2D, seen: { item: Item; at: Rectangle }[], view: Size, taken: Rectangle[], few: boolean): void {
  const area = ([left, top, right, bottom]: Rectangle) => (right - left) * (bottom - top);
  const least = few ? (view.width * view.height) / 50 : 0;
  const named = seen.filter(({ item, at }) => (item.name || item.score !== null) && area(at) >= least).sort((a, b) => area(b.at) - area(a.at));
  const written = new Map<string, Rectangle[]>(); // by text; an object's marks are about the same rectangle
  const objects = new Set<string>();
  context.font = `11px ${FONT}`;
  for (const { item, at } of named.slice(0, few ? FEW_NAMES : MOST_NAMES)) {
    const text = [cut(item.name), item.score === null ? "" : item.score.toFixed(2)].join(" ").trim();
    const object = `${item.labels} ${item.index}`;
    const same = written.get(text) ?? [];
    const isWritten = (item.is !== "box" && item.labels && objects.has(object)) || same.some((other) => other.every((edge, side) => Math.abs(edge - (at[side] as number)) < 6));
    if (isWritten) continue;
    const [left, top, right, bottom] = at;
    const width = widthOf(context, text);
    const corners = [[left, top - HEIGHT], [left, top], [left, bottom], [right - width, top - HEIGHT], [right - width, bottom - HEIGHT]];
    for (const [x, y] of corners as [number, number][]) {
      if (!chip(context, text, item.colour, Math.min(Math.max(x, 0), view.width - width), Math.max(0, Math.min(y, view.height - HEIGHT)), taken)) continue;
      written.set(text, [...same, at]);
      objects.add(object);
      break;
    }
  }
}

function chips(context: CanvasRenderingContext2D, scene: Scene, camera: Camera, view: Size, taken: Rectangle[]): void {
  const [left, bottom] = toView(camera, view, 0, scene.size.height);
  context.font = `11px ${FONT}`;
  let x = Math.max(0, left) + 4;
  for (const { name, colour } of scene.chips) {
    const width = widthOf(context, cut(name));
    if (x + width > view.width - 4) break;
    chip(context, cut(name), colour, x, Math.min(bottom, view.height) - HEIGHT - 4, taken);
    x += width + 4;
  }
}

/** Write a name on its colour; return false, and write nothing, where another one stands. */
function chip(context: CanvasRenderingContext2D, text: string, colour: string, x: number, y: number, taken: Rectangle[]): boolean {
  const mine: Rectangle = [x, y, x + widthOf(context, text), y + HEIGHT];
  if (taken.some((other) => mine[0] < other[2] && mine[2] > other[0] && mine[1] < other[3] && mine[3] > other[1])) return false;
  taken.push(mine);
  context.fillStyle = colour;
  context.fillRect(mine[0], mine[1], mine[2] - mine[0], HEIGHT);
  context.fillStyle = inkOn(colour);
  context.textBaseline = "middle";
  context.fillText(text, x + 4, y + HEIGHT / 2 + 0.5);
  return true;
}

/** Return a name short enough for a chip. */
function cut(name: string): string {
  const letters = Array.from(name.slice(0, 80));
  return letters.length > 32 ? `${letters.slice(0, 31).join("")}…` : name;
}

/** Return the marks below a place of the image, the smallest first. */
export function below(scene: Scene, x: number, y: number, reach: number): Item[] {
  const found: { item: Item; size: number }[] = [];
  for (const item of scene.items) {
    if (item.is === "box") {
      if (x < item.left - reach || x > item.right + reach || y < item.top - reach || y > item.bottom + reach) continue;
      found.push({ item, size: (item.right - item.left) * (item.bottom - item.top) });
    } else if (item.is === "polygon") {
      if (isInside(item.parts, x, y)) found.push({ item, size: 1 });
    } else if (item.points.some((one) => one.seen !== null && Math.hypot(one.x - x, one.y - y) <= 4 * reach)) {
      found.push({ item, size: 0 });
    }
  }
  return found.sort((a, b) => a.size - b.size).map(({ item }) => item);
}

/** Return whether a place is inside outlines, those inside others being holes. */
export function isInside(parts: number[][], x: number, y: number): boolean {
  let inside = false;
  for (const part of parts) {
    for (let at = 0, last = part.length - 2; at < part.length; last = at, at += 2) {
      const [ax, ay, bx, by] = [part[at], part[at + 1], part[last], part[last + 1]] as [number, number, number, number];
      if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
    }
  }
  return inside;
}
