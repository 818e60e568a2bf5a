/** What a dataset is, for the page, told from its metadata alone; and values of rows as cells. */

import type { Dataset, Json as Read, Tensor, Value } from "../reader/src";
import type { Column } from "./asking";
import type { Cell, Json, Kind, Meta, TensorMeta } from "./types";

const KINDS: { [htype: string]: Kind } = {
  ...{ image: "image", "image.rgb": "image", "image.gray": "image", dicom: "image", nifti: "image" },
  ...{ binary_mask: "mask", segment_mask: "mask", instance_label: "mask", point_cloud: "mesh", mesh: "mesh" },
  ...{ "bbox.3d": "array", embedding: "array", intrinsics: "array", text: "text", tag: "text", json: "json", list: "json" },
  ...{ video: "video", audio: "audio", bbox: "bbox", polygon: "polygon", point: "point" },
  ...{ keypoints_coco: "keypoints", class_label: "label" },
};
const DRAWN: Kind[] = ["bbox", "mask", "polygon", "keypoints", "point", "label"];
const FIRST: Kind[] = ["image", "video", "mask"];
const APART: Kind[] = ["image", "video", "audio", "mask", "mesh", "unknown"];
const [LETTERS, ITEMS, FEW, LINE, DEPTH] = [4096, 4096, 64, 256, 32];

export function kindOf(tensor: Tensor): Kind {
  const known = KINDS[tensor.htype];
  if (known !== undefined) return known;
  if (tensor.htype !== "generic") return "unknown";
  return ["", "1", "0"].includes(tensor.maxShape.join()) ? "scalar" : "array";
}

/** Whether only the shape of a sample is told with its row. */
export function isApart(tensor: Tensor): boolean {
  const kind = kindOf(tensor);
  const size = tensor.maxShape.reduce((a, b) => a * b, 1);
  return APART.includes(kind) || (kind === "array" && (tensor.isSequence || size > (tensor.maxShape.length === 1 ? LINE : FEW)));
}

export async function metaOf(ds: Dataset, id: number, name: string): Promise<Meta> {
  const tensors = [...ds.tensors.values()].map(tensorOf);
  const bases = tensors.filter((one) => one.kind === "image" || one.kind === "video");
  for (const one of tensors) one.over = over(one, bases);
  const commits = await ds.commits();
  const filled = tensors.filter((one) => one.rows > 0);
  return {
    id,
    name,
    branch: ds.branch,
    commit: commits[0]?.id ?? null,
    version: ds.id,
    head: !ds.isCommitted,
    rows: ds.longest,
    tensors,
    branches: ds.branches,
    commits: commits.map(({ id, branch, message, author, time }) => ({ id, branch, message: message ?? "", author: author ?? "", time })),
    tags: [],
    views: [],
    primary: FIRST.flatMap((kind) => filled.filter((one) => one.kind === kind))[0]?.name ?? null,
  };
}

export function tensorOf(tensor: Tensor): TensorMeta {
  const { info } = tensor;
  const kind = kindOf(tensor);
  const texts = (found: Read | undefined): string[] => (Array.isArray(found) ? found.map(String) : []);
  const pairs = Array.isArray(info.connections) ? info.connections.filter((pair): pair is number[] => Array.isArray(pair) && pair.length === 2) : [];
  const isSkeleton = kind === "keypoints";
  const stored = String(info.logical_type ?? "");
  return {
    name: tensor.name,
    htype: tensor.isSequence ? `sequence[${tensor.htype}]` : tensor.htype,
    kind,
    dtype: tensor.dtype ?? "",
    min_shape: tensor.minShape,
    max_shape: tensor.maxShape,
    rows: tensor.length,
    sequence: tensor.isSequence,
    link: tensor.isLink,
    format: tensor.sampleCompression === "lz4" ? null : tensor.sampleCompression,
    class_names: tensor.classNames,
    coords: kind === "bbox" ? coords(info.coords) : null,
    skeleton: isSkeleton ? pairs.map(([from, to]) => [from, to] as [number, number]) : [],
    keypoints: isSkeleton ? texts(info.keypoints) : [],
    over: null,
    logical: logicalOf(stored),
  };
}

/** What is known of a column that a query computes. */
export function metaOfColumn(column: Column, rows: number): TensorMeta {
  const { name, htype, rank, classNames, logical, dtype } = column;
  const plain: Kind = column.kind === "text" || column.kind === "json" ? column.kind : column.kind === "array" && (rank ?? 0) > 1 ? "array" : "scalar";
  const kind = classNames.length ? "label" : htype === "bbox" && !column.isGroup ? "bbox" : plain;
  return {
    ...{ name, htype: htype || "generic", kind, dtype, min_shape: [], max_shape: [], rows, sequence: false, link: false, format: null, class_names: classNames },
    ...{ coords: kind === "bbox" ? { type: "pixel", mode: ["LTRB", "CCWH"].includes(column.coords) ? column.coords : "LTWH" } : null, skeleton: [], keypoints: [], over: null },
    logical: logicalOf(logical),
  };
}

/** The cell of a value that a query computes. */
export function computedCell(value: Read, column: Column): Cell {
  if (value === null) return null;
  const left = { items: ITEMS, cut: false };
  const isDate = /^(timestamp|date)/.test(column.logical);
  const found = isDate && (typeof value === "number" || typeof value === "bigint") ? dated(value, column.logical) : told(value, left, 0);
  return left.cut ? { v: found, cut: true } : { v: found };
}

const logicalOf = (stored: string): string | null => ["timestamp", "date", "time", "duration"].find((word) => stored.startsWith(word)) ?? null;

function coords(found: Read | undefined): { type: string; mode: string } {
  const given = found !== null && typeof found === "object" && !Array.isArray(found) ? found : {};
  const mode = String(given.mode).toUpperCase();
  return { type: given.type === "fractional" ? "fractional" : "pixel", mode: ["LTRB", "CCWH"].includes(mode) ? mode : "LTWH" };
}

function over(one: TensorMeta, bases: TensorMeta[]): string | null {
  if (!DRAWN.includes(one.kind) || one.name === "split") return null;
  const group = (name: string): string => name.slice(0, Math.max(0, name.lastIndexOf("/")));
  const fitting = bases.filter((base) => base.sequence === one.sequence || base.kind === "video");
  return (fitting.find((base) => group(base.name) === group(one.name)) ?? fitting[0])?.name ?? null;
}

/** A value as the page shows it. */
export function cellOf(value: Value, tensor: Tensor): Cell {
  const left = { items: ITEMS, cut: false };
  const found = plain(value, tensor, left);
  if (found === undefined) return null;
  return left.cut ? { v: found, cut: true } : { v: found };
}

function plain(value: Value, tensor: Tensor, left: { items: number; cut: boolean }): Json | undefined {
  if (value === null) return undefined;
  if (value.kind === "text") return words(value.text, left);
  if (value.kind === "json") return told(value.value, left, 0);
  if (value.kind === "list") return told(value.items, left, 0);
  if (value.kind === "link") return words(value.address, left);
  if (value.kind === "sequence") return value.items.map((item) => plain(item, tensor, left) ?? null);
  if (value.kind === "polygons") return value.polygons.map(({ shape, data }) => nested(data, shape, left));
  if (value.kind !== "array") return `${value.kind}`;
  if (kindOf(tensor) === "scalar" && value.data.length <= 1) return value.data.length ? scalar(value.data[0]!, value.dtype, tensor) : undefined;
  return nested(value.data, value.shape, left);
}

const UNITS: { [unit: string]: number } = { s: 1e3, ms: 1, us: 1e-3, ns: 1e-6, d: 864e5 };

function scalar(value: number | bigint, dtype: string, tensor: Tensor): Json {
  const stored = String(tensor.info.logical_type ?? "");
  if (/^(timestamp|date)/.test(stored)) return dated(value, stored);
  return dtype === "bool" ? value === 1 : number(value);
}

/** A moment as a text. */
function dated(value: number | bigint, stored: string): Json {
  const unit = /\[(\w+)/.exec(stored)?.[1] ?? (stored.startsWith("date") ? "d" : "s");
  const made = new Date(Number(value) * (UNITS[unit] ?? (unit === "day" ? 864e5 : NaN)));
  if (Number.isNaN(made.getTime())) return number(value);
  const text = made.toISOString();
  return stored.startsWith("date") ? text.slice(0, 10) : text.replace(/\.000Z$|Z$/, "");
}

/** Numbers that JSON lacks, or that a page would round, are texts. */
function number(value: number | bigint): Json {
  if (typeof value === "bigint") return value < 2n ** 53n && value > -(2n ** 53n) ? Number(value) : `${value}`;
  return Number.isFinite(value) ? value : `${value}`;
}

function nested(data: ArrayLike<number | bigint>, shape: number[], left: { items: number; cut: boolean }): Json {
  const row = shape.slice(1).reduce((a, b) => a * b, 1);
  let count = shape[0] ?? 0;
  if (count * row > left.items) {
    left.cut = true;
    count = Math.floor(left.items / Math.max(1, row));
  }
  left.items -= count * row;
  let at = 0;
  const build = (axis: number): Json => {
    if (axis === shape.length) return number(data[at++]!);
    return Array.from({ length: axis === 0 ? count : shape[axis]! }, () => build(axis + 1));
  };
  return build(0);
}

function words(text: string, left: { items: number; cut: boolean }): string {
  left.cut ||= text.length > LETTERS;
  left.items -= text.length / FEW;
  return text.slice(0, LETTERS);
}

function told(value: Read, left: { items: number; cut: boolean }, depth: number): Json {
  if (typeof value === "number" || typeof value === "bigint") return number(value);
  if (typeof value === "string") return words(value, left);
  if (value === null || typeof value === "boolean") return value;
  if (depth >= DEPTH) {
    left.cut = true;
    return "...";
  }
  const fits = (): boolean => {
    left.cut ||= left.items <= 0;
    return left.items-- > 0;
  };
  if (Array.isArray(value)) return value.filter(fits).map((item) => told(item, left, depth + 1));
  const members = Object.entries(value).filter(fits);
  return Object.fromEntries(members.map(([key, item]) => [words(key, left), told(item, left, depth + 1)]));
}
