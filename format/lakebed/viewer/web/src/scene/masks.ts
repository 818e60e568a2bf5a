/** Masks: label maps whose pixels come by themselves, coloured through a table. */

import { channels, colourOf, numbered } from "../colours";
import type { TensorMeta } from "../types";
import type { Beside, Look, Mask } from "./types";

/** Return what is known of a mask before its pixels: names, colours and what is off. */
export function mask(tensor: TensorMeta, look: Look, beside: Beside): Mask {
  const names = tensor.htype.includes("segment_mask") || !beside.names.length ? tensor.class_names : ["", ...beside.names];
  const isOff = (name: string) =>
    [tensor.name, beside.labels].some((of) => of && look.hiddenClasses.includes(`${of}:${name}`));
  return {
    tensor: tensor.name,
    names,
    off: names.flatMap((name, label) => (label && name && isOff(name) ? [label] : [])),
    colours: names.map((name) => (name ? colourOf(name, look.colours) : "")),
    colour: tensor.htype.includes("binary_mask") && !names.length ? colourOf(tensor.name, look.colours) : null,
  };
}

const MOST_LABELS = 1 << 16;

/** Return red, green, blue and alpha of each label below `count`; 0 is the ground, which is clear. */
export function table(of: Mask, count: number): Uint8ClampedArray {
  const found = new Uint8ClampedArray(4 * Math.min(count, MOST_LABELS));
  const off = new Set(of.off);
  for (let label = 1; 4 * label < found.length; label += 1) {
    if (off.has(label)) continue;
    found.set([...channels(of.colours[label] || of.colour || numbered(label - 1)), 255], 4 * label);
  }
  return found;
}

/** Return the labels of a decoded picture of them: red + 256 green + 65,536 blue. */
export function labels(rgba: Uint8ClampedArray): Uint32Array {
  const found = new Uint32Array(rgba.buffer, rgba.byteOffset, rgba.length / 4).slice(); // browsers run on little-endian machines
  for (let at = 0; at < found.length; at += 1) found[at] = (found[at] as number) & 0xffffff;
  return found;
}
