/** Files of point clouds and meshes: PLY and LAS. All lengths are checked before they are used. */

import { ProviderError } from "../provider";
import { packed } from "./raster";

/** Points in space, their colours where they have some, and the corners of triangles where it is a mesh. */
export interface Cloud {
  places: Float32Array;
  colours: Uint32Array | null;
  corners: Uint32Array | null;
  /** What was taken from all coordinates, so that numbers of 32 bits keep their digits. */
  origin: [number, number, number];
}

const MOST_POINTS = 20_000_000;

function damaged(why: string): ProviderError {
  return new ProviderError("damaged", `the file is damaged: ${why}`);
}

function limited(count: number, what: string): number {
  if (!(Number.isSafeInteger(count) && count >= 0)) throw damaged(`${count} ${what}`);
  if (count > MOST_POINTS) throw new ProviderError("limit", `${count.toLocaleString("en")} ${what} are too many for a page`);
  return count;
}

/** Read a file by its format. */
export function cloudOf(bytes: Uint8Array<ArrayBuffer>, format: string): Cloud {
  if (format === "las") return las(bytes);
  if (format === "ply") return ply(bytes);
  throw new ProviderError("invalid", `files of the format ${format} are not drawn`);
}

/** Numbers of an array of points: x, y and z, and red, green and blue of 0 to 255 or 0 to 1 in the last of six columns. */
export function cloudFrom(values: ArrayLike<number | bigint>, shape: number[]): Cloud {
  const columns = shape.at(-1) ?? 0;
  if (columns < 2) throw new ProviderError("invalid", `an array of ${shape.join(" x ")} is no list of points`);
  const count = limited(values.length / columns, "points");
  const number = (row: number, column: number): number => (column < columns ? Number(values[row * columns + column]) : 0);
  const origin = [0, 1, 2].map((axis) => (count && Number.isFinite(number(0, axis)) ? number(0, axis) : 0)) as Cloud["origin"];
  const places = new Float32Array(3 * count);
  for (let at = 0; at < places.length; at += 1) places[at] = number(Math.floor(at / 3), at % 3) - origin[at % 3]!;
  if (columns !== 6) return { places, colours: null, corners: null, origin };
  let most = 0;
  for (let at = 0; at < count; at += 1) most = Math.max(most, number(at, 3), number(at, 4), number(at, 5));
  const scale = most <= 1 ? 255 : most <= 255 ? 1 : 255 / most;
  const colours = Uint32Array.from({ length: count }, (_, at) => packed(...([3, 4, 5].map((column) => number(at, column) * scale) as [number, number, number])));
  return { places, colours, corners: null, origin };
}

const LAS_COLOURS: { [format: number]: number } = { 2: 20, 3: 28, 5: 28, 7: 30, 8: 30, 10: 30 };

/** LAS 1.0 to 1.4 (ASPRS): a header, then records of one length. */
function las(bytes: Uint8Array<ArrayBuffer>): Cloud {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 227 || String.fromCharCode(...bytes.subarray(0, 4)) !== "LASF") throw damaged("it has no header of LAS");
  const [start, length] = [view.getUint32(96, true), view.getUint16(105, true)];
  const format = bytes[104]!;
  if (format & 0xc0) throw new ProviderError("invalid", "compressed point clouds (LAZ) are not drawn");
  const isNew = bytes[25]! >= 4 && bytes.length >= 375 && view.getUint32(107, true) === 0;
  const count = limited(isNew ? Number(view.getBigUint64(247, true)) : view.getUint32(107, true), "points");
  const colour = LAS_COLOURS[format];
  if (length < (colour === undefined ? 20 : colour + 6) || start + count * length > bytes.length) throw damaged(`it ends before its ${count} points`);
  const scales = [131, 139, 147].map((at) => view.getFloat64(at, true));
  const places = new Float32Array(3 * count);
  const colours = new Uint32Array(count);
  const whole = (at: number, axis: number): number => view.getInt32(start + at * length + 4 * axis, true);
  const first = [0, 1, 2].map((axis) => (count ? whole(0, axis) : 0));
  let most = 0;
  const parts = new Uint16Array(3 * count);
  for (let at = 0; at < count; at += 1) {
    for (let axis = 0; axis < 3; axis += 1) {
      places[3 * at + axis] = (whole(at, axis) - first[axis]!) * scales[axis]!;
      // Without colours, the strength of the echo.
      const part = view.getUint16(start + at * length + (colour === undefined ? 12 : colour + 2 * axis), true);
      parts[3 * at + axis] = part;
      if (part > most) most = part;
    }
  }
  const scale = most > 255 ? 255 / (colour === undefined ? most : 65_535) : colour === undefined ? 255 / (most || 1) : 1;
  for (let at = 0; at < count; at += 1) colours[at] = packed(parts[3 * at]! * scale, parts[3 * at + 1]! * scale, parts[3 * at + 2]! * scale);
  const origin = first.map((one, axis) => one * scales[axis]! + view.getFloat64(155 + 8 * axis, true)) as Cloud["origin"];
  return { places, colours: most ? colours : null, corners: null, origin };
}

type Take = (view: DataView, at: number, little: boolean) => number;
const NUMBERS: [string, number, Take][] = [
  ["char int8", 1, (view, at) => view.getInt8(at)],
  ["uchar uint8", 1, (view, at) => view.getUint8(at)],
  ["short int16", 2, (view, at, little) => view.getInt16(at, little)],
  ["ushort uint16", 2, (view, at, little) => view.getUint16(at, little)],
  ["int int32", 4, (view, at, little) => view.getInt32(at, little)],
  ["uint uint32", 4, (view, at, little) => view.getUint32(at, little)],
  ["float float32", 4, (view, at, little) => view.getFloat32(at, little)],
  ["double float64", 8, (view, at, little) => view.getFloat64(at, little)],
];
const TYPES = new Map(NUMBERS.flatMap(([names, size, take]) => names.split(" ").map((name) => [name, { size, take }] as const)));

interface Element {
  name: string;
  count: number;
  /** Type of a list's length, null of plain properties; type of the values; name. */
  properties: { length: string | null; type: string; name: string }[];
}

/** PLY, text and binary: elements declared in a header, one after another. */
function ply(bytes: Uint8Array<ArrayBuffer>): Cloud {
  const head = new TextDecoder("latin1").decode(bytes.subarray(0, 1 << 20));
  const end = /end_header[ \t]*(\r\n|\n|\r)/.exec(head);
  if (!/^ply\s/.test(head) || !end) throw damaged("it has no header of PLY");
  const elements: Element[] = [];
  let form = "";
  for (const line of head.slice(0, end.index).split(/[\r\n]+/)) {
    const words = line.trim().split(/\s+/);
    const type = (name: string | undefined): string => {
      if (name === undefined || !TYPES.has(name)) throw damaged(`it has properties of the type ${name}`);
      return name;
    };
    if (words[0] === "format") form = words[1] ?? "";
    else if (words[0] === "element") elements.push({ name: words[1] ?? "", count: limited(Number(words[2]), words[1] ?? "elements"), properties: [] });
    else if (words[0] === "property" && words[1] === "list") elements.at(-1)?.properties.push({ length: type(words[2]), type: type(words[3]), name: words[4] ?? "" });
    else if (words[0] === "property") elements.at(-1)?.properties.push({ length: null, type: type(words[1]), name: words[2] ?? "" });
  }
  const next = reader(bytes, end.index + end[0].length, form);
  const [corners, seen]: [number[], Map<string, Float64Array>] = [[], new Map()];
  let count = 0;
  for (const element of elements) {
    if (element.count * Math.max(1, element.properties.length) > bytes.length) throw damaged(`it ends before its ${element.count} ${element.name}s`);
    const isVertex = element.name === "vertex";
    if (isVertex) {
      count = element.count;
      for (const { name, length } of element.properties) if (length === null) seen.set(name, new Float64Array(count));
    }
    for (let at = 0; at < element.count; at += 1) {
      for (const { length, type, name } of element.properties) {
        if (length === null) {
          const value = next(type);
          if (isVertex) seen.get(name)![at] = value;
          continue;
        }
        const items: number[] = [];
        for (let left = next(length); left > 0; left -= 1) items.push(next(type)); // which ends with the file at the latest
        if (element.name !== "face" || !/^vertex_ind(ices|ex)$/.test(name)) continue;
        for (let one = 1; one + 1 < items.length; one += 1) corners.push(items[0]!, items[one]!, items[one + 1]!);
      }
    }
  }
  const column = (name: string): Float64Array => seen.get(name) ?? new Float64Array(count);
  const [x, y, z] = [column("x"), column("y"), column("z")];
  if (corners.some((corner) => !(corner >= 0 && corner < count))) throw damaged("a face has corners that are no vertices");
  const origin = [x, y, z].map((one) => (Number.isFinite(one[0]) ? one[0]! : 0)) as Cloud["origin"];
  const places = new Float32Array(3 * count);
  for (let at = 0; at < count; at += 1) places.set([x[at]! - origin[0], y[at]! - origin[1], z[at]! - origin[2]], 3 * at);
  const [red, green, blue] = ["red", "green", "blue"].map((name) => seen.get(name));
  const colours = red && green && blue ? Uint32Array.from({ length: count }, (_, at) => packed(red[at]!, green[at]!, blue[at]!)) : null;
  return { places, colours, corners: corners.length ? Uint32Array.from(corners) : null, origin };
}

/** What reads one number after another, of text or of bytes. */
function reader(bytes: Uint8Array<ArrayBuffer>, start: number, form: string): (type: string) => number {
  const early = damaged("it ends before all that its header promises");
  if (form === "ascii") {
    const words = new TextDecoder("latin1").decode(bytes.subarray(start)).matchAll(/\S+/g);
    return () => {
      const word = words.next().value;
      if (word === undefined) throw early;
      return Number(word[0]);
    };
  }
  if (form !== "binary_little_endian" && form !== "binary_big_endian") throw damaged(`its form is ${form}`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = start;
  return (type) => {
    const { size, take } = TYPES.get(type)!;
    if (at + size > bytes.length) throw early;
    at += size;
    return take(view, at - size, form === "binary_little_endian");
  };
}
