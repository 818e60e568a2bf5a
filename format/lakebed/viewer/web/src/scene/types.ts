/** What is drawn of a row: plain data, in the pixels of its picture. */

import type { Size } from "../camera";
import type { ViewState } from "../state";
import type { Json, TensorMeta } from "../types";

export const MOST_OBJECTS = 10_000;

/** What all drawn things say of themselves. */
export interface Mark {
  tensor: string;
  /** Number of the object in its tensor. */
  index: number;
  /** Name of its class, empty where it has none; and the tensor of labels that says so. */
  name: string;
  labels: string | null;
  score: number | null;
  colour: string;
}

export type Item = Mark &
  (
    | { is: "box"; left: number; top: number; right: number; bottom: number }
    | { is: "polygon"; parts: number[][] } // x, y, x, y, ...
    | { is: "points"; points: Point[]; joins: [number, number][] }
  );

export interface Point {
  x: number;
  y: number;
  /** Whether it can be seen; one that is known but covered is drawn as a ring, null is not drawn at all. */
  seen: boolean | null;
  name: string;
}

/** A label map that is drawn over the picture; its pixels come by themselves. */
export interface Mask {
  tensor: string;
  /** Name of label `n`, empty where it has none. */
  names: string[];
  /** Labels that are off. */
  off: number[];
  colours: string[];
  /** Colour of all labels that have none of their own: null takes one for each number. */
  colour: string | null;
}

export interface Chip {
  tensor: string;
  name: string;
  colour: string;
}

export interface Scene {
  /** The tensor whose picture lies below, null where there is none. */
  base: string | null;
  size: Size;
  masks: Mask[];
  items: Item[];
  /** Labels of the whole picture. */
  chips: Chip[];
  /** What is left out, in words. */
  notes: string[];
  /** Tensors that are drawn over the picture, in order, whether they are on or off. */
  overlays: string[];
  /** Classes of the row as `tensor`, `name`, colour and how many, whether they are on or off. */
  classes: { tensor: string; name: string; colour: string; count: number; on: boolean }[];
  hasScores: boolean;
}

export type Look = Pick<ViewState, "hidden" | "hiddenClasses" | "colours" | "confidence">;

/** What the objects of a tensor are called, and how sure that is. */
export interface Beside {
  /** Tensor of the labels. */
  labels: string | null;
  names: string[];
  scores: (number | null)[];
  /** For each part of an object, such as a polygon, the number of its object. */
  objects: number[] | null;
}

/** What a family of htypes gets to draw one tensor. */
export interface Given {
  tensor: TensorMeta;
  value: Json;
  size: Size;
  look: Look;
  note: (words: string) => void;
  /** Labels, scores and owners for so many objects. */
  beside: (count: number) => Beside;
  /** Return the mark of an object; null where its class, or its score, is off. */
  mark: (index: number, beside: Beside) => Mark | null;
}

export type Family = (given: Given) => Item[];

/** Return a list's numbers, null where one is none or is not finite. */
export function finite(value: Json | undefined): number[] | null {
  if (!Array.isArray(value)) return null;
  return value.every((one) => typeof one === "number" && Number.isFinite(one)) ? (value as number[]) : null;
}

/** Return a sentence on what is left out. */
export function leftOut(tensor: TensorMeta, count: number, what: string): string {
  return `${tensor.name}: ${count.toLocaleString("en")} ${what} not drawn`;
}
