/** What the server answers, and what a provider hands to the page: the contract of both sides. */

/** A value of JSON. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface Lake {
  /** Name shown at the top: the last part of the address. */
  title: string;
  /** The address that was given, without credentials. */
  path: string;
  /** Whether the address is a dataset itself, not a folder of some. */
  single: boolean;
  datasets: LakeDataset[];
  /** Names of functions and keywords of the query language, for completion. */
  language: { keywords: string[]; functions: string[] };
}

export interface LakeDataset {
  id: number;
  /** Path below the lake, such as `public/users`. */
  name: string;
  rows: number | null;
  /** Bytes on disk, null where counting them is dear. */
  bytes: number | null;
  /** Seconds since 1970 of the last change. */
  changed: number | null;
  /** How a sync writes it: `append`, `append_dedup`, `overwrite`; null where no sync does. */
  mode: string | null;
  /** Why it cannot be opened, else null. */
  error: string | null;
}

/** How the page treats a tensor; the server decides it from htype, dtype and shapes. */
export type Kind =
  | "image" // one picture; also of medical files with `slices` > 1
  | "video"
  | "audio"
  | "mask" // label map of an image's size: binary_mask, segment_mask, instance masks
  | "bbox"
  | "polygon"
  | "point"
  | "keypoints"
  | "label" // class numbers
  | "scalar" // a number, bool, date or none
  | "text" // text, tag
  | "json" // json, list
  | "array" // any other numbers
  | "mesh" // point clouds and meshes
  | "unknown";

export interface TensorMeta {
  name: string;
  htype: string;
  kind: Kind;
  dtype: string;
  /** Smallest and largest shape of a sample; null for axes that no sample has. */
  min_shape: (number | null)[];
  max_shape: (number | null)[];
  rows: number;
  /** Whether each sample is a sequence of items (frames of one row). */
  sequence: boolean;
  link: boolean;
  /** Format of the files that samples are stored as; null where they are numbers. */
  format: string | null;
  class_names: string[];
  /** Of boxes: `{type: "pixel" | "fractional", mode: "LTWH" | "LTRB" | "CCWH"}`. */
  coords: { type: string; mode: string } | null;
  /** Of key points: pairs of numbers, from 0, that lines join; names of the points. */
  skeleton: [number, number][];
  keypoints: string[];
  /** The tensor of images that this one is drawn over, null where it is not drawn over one. */
  over: string | null;
  /** Values are moments or durations: how they are shown (`timestamp`, `date`, `time`, `duration`). */
  logical: string | null;
}

export interface Meta {
  id: number;
  name: string;
  /** The version that was opened: branch or null, its commit, and an id that changes with each publish. */
  branch: string | null;
  commit: string | null;
  version: string;
  /** Whether the version can still change. */
  head: boolean;
  rows: number;
  tensors: TensorMeta[];
  branches: string[];
  commits: Commit[];
  tags: { name: string; commit: string }[];
  views: SavedView[];
  /** The tensor shown first in a grid; null shows a table. */
  primary: string | null;
}

export interface Commit {
  id: string;
  branch: string;
  message: string;
  author: string;
  /** Seconds since 1970; null where it is not recorded. */
  time: number | null;
}

export interface SavedView {
  id: string;
  name: string;
  /** The query, or another text that opens it. */
  text: string;
}

/**
 * Values of some rows.
 *
 * Where a value is too large for a cell it is cut: texts to 4,096 letters, lists to 4,096 numbers, and its place is in
 * `cut`; a sequence that is asked for alone is told whole. Of pictures, films, sounds, masks and arrays of more than 64 numbers, 256 on one axis, only the shape is
 * told.
 */
export interface Rows {
  start: number;
  /** The row of the version for each row here; a group of a query has the first of its rows, or -1. */
  ids: number[];
  /** Tensor -> a cell for each row. */
  cells: { [tensor: string]: Cell[] };
  /** Of `ARRANGE BY` and `GROUP BY`: the number of the group of each row. */
  groups: number[] | null;
}

export type Cell =
  | null // missing
  | { v: Json } // value: number, text, JSON, boxes [[x, y, w, h], ...] as stored, labels [3, 1], polygons [[[x, y], ...]]
  | { s: number[]; frames?: number } // shape of what is asked for by itself; frames of a sequence
  | { v: Json; cut: true }
  | { error: string };

export interface Answer {
  /** Id of the answer, for `rows` and `stats`; it may be forgotten, then the text is sent again. */
  q: string;
  rows: number;
  /** Columns, in their order; computed ones have no tensor of their own. */
  columns: TensorMeta[];
  /** Of groups: the label and the number of rows of each, at most 10,000. */
  groups: { label: string; start: number; rows: number }[] | null;
  /** Milliseconds of the engine. */
  ms: number;
}

export interface Stats {
  tensor: string;
  rows: number;
  nulls: number;
  /** Distinct values, null where they were not counted. */
  distinct: number | null;
  min: number | string | null;
  max: number | string | null;
  mean: number | null;
  /** Of numbers: `counts.length + 1` edges. */
  histogram: { edges: number[]; counts: number[] } | null;
  /** Of classes and texts: the commonest values, at most 200, with the condition that chooses their rows. */
  top: { label: string; count: number; condition: string }[] | null;
  /** Of pictures and arrays: shapes and how many have them, at most 200. */
  shapes: { shape: number[]; count: number }[] | null;
  /** Whether only a part of the rows was looked at. */
  sampled: boolean;
}

export interface Diff {
  a: string;
  b: string;
  tensors: TensorDiff[];
  /** Tensors and groups made, removed and renamed, in words. */
  schema: string[];
}

export interface TensorDiff {
  name: string;
  /** Rows, at most 10,000 of each; `count` has all. Removed rows are rows of `a`, the others of `b`. */
  added: { count: number; rows: number[] };
  updated: { count: number; rows: number[] };
  removed: { count: number; rows: number[] };
}

export interface Sound {
  rate: number;
  channels: number;
  seconds: number;
  /** Lowest and highest of each of some 2,000 spans, -1 to 1. */
  peaks: [number, number][];
  /** Rows of a spectrogram from low to high, 0 to 255, base64 of width x height bytes. */
  spectrogram: { width: number; height: number; data: string } | null;
}

/** Values of an image that are black and white at first, and the least and most that there are. */
export interface Window {
  /** What is black: more than what is white where large values are dark. */
  low: number;
  high: number;
  least: number;
  most: number;
}

export interface Failure {
  error: { kind: string; message: string; position?: number };
}
