/** Stored samples to pictures and numbers, as far as a browser decodes them. */

import type { FileValue, NumberArray, Value } from "../reader/src";
import { ProviderError, type PictureOptions } from "./provider";
import type { Window } from "./types";

const MOST_PIXELS = 1 << 27;

/** A picture of a sample, or of a part of it, no wider than asked for. */
export async function bitmapOf(value: Value, options: PictureOptions): Promise<ImageBitmap> {
  if (value?.kind === "file" && options.window == null) return fitted(await drawn(value), options);
  if (value?.kind === "tiles") return fitted(await joined(value), options);
  const array = await numbersOf(value);
  return fitted(await createImageBitmap(imageData(sliced(array, options.frame ?? 0), options.window ?? null)), options);
}

async function drawn(file: FileValue): Promise<ImageBitmap> {
  if (!file.mime.startsWith("image/")) throw new ProviderError("static", `browsers do not draw files of the format ${file.format}: \`lakebed view\` does`);
  check(file.shape);
  const blob = new Blob([file.bytes], { type: file.mime });
  const made = { imageOrientation: "none" as const, premultiplyAlpha: "none" as const };
  try {
    return await (file.crop ? createImageBitmap(blob, ...file.crop, made) : createImageBitmap(blob, made));
  } catch {
    throw new ProviderError("damaged", `the browser cannot decode this ${file.format} file`);
  }
}

async function joined(value: Extract<Value, { kind: "tiles" }>): Promise<ImageBitmap> {
  check(value.shape);
  const canvas = new OffscreenCanvas(value.shape[1]!, value.shape[0]!);
  const context = canvas.getContext("2d")!;
  for (const tile of value.tiles) {
    const bitmap = await drawn(tile.value);
    context.drawImage(bitmap, tile.at[1]!, tile.at[0]!);
    bitmap.close();
  }
  return canvas.transferToImageBitmap();
}

async function fitted(bitmap: ImageBitmap, { width, box }: PictureOptions): Promise<ImageBitmap> {
  const [left, top, across, down] = box ?? [0, 0, bitmap.width, bitmap.height];
  const scale = width ? Math.min(1, width / across) : 1;
  if (!box && scale === 1) return bitmap;
  const size = { resizeWidth: Math.max(1, Math.round(across * scale)), resizeHeight: Math.max(1, Math.round(down * scale)), resizeQuality: "high" as const };
  const made = await createImageBitmap(bitmap, left, top, Math.min(across, bitmap.width - left), Math.min(down, bitmap.height - top), size);
  bitmap.close();
  return made;
}

function check(shape: number[]): void {
  if ((shape[0] ?? 0) * (shape[1] ?? 0) > MOST_PIXELS) throw new ProviderError("limit", `an image of ${shape.join(" x ")} is too large for a page`);
}

/** The numbers of a sample; of an image file its pixels. */
export async function numbersOf(value: Value): Promise<NumberArray> {
  if (value?.kind === "array") return value;
  if (value?.kind !== "file" && value?.kind !== "tiles") throw new ProviderError("missing", "the sample holds no numbers");
  const bitmap = value.kind === "file" ? await drawn(value) : await joined(value);
  const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d")!;
  context.drawImage(bitmap, 0, 0);
  const { data } = context.getImageData(0, 0, bitmap.width, bitmap.height);
  bitmap.close();
  const channels = value.shape[2] ?? 1;
  const pixels = new Uint8Array((data.length / 4) * channels);
  for (let at = 0; at < data.length / 4; at++) for (let i = 0; i < channels; i++) pixels[at * channels + i] = data[4 * at + i]!;
  return { kind: "array", dtype: "uint8", shape: value.shape, data: pixels };
}

function sliced(array: NumberArray, frame: number): NumberArray {
  if (array.shape.length < 4) return array;
  const size = array.data.length / array.shape[0]!;
  const at = Math.min(frame, array.shape[0]! - 1) * size;
  return { ...array, shape: array.shape.slice(1), data: array.data.slice(at, at + size) as NumberArray["data"] };
}

/** Least and most of what is finite; 0 and 1 of numbers with a point between them. */
export function limitsOf(array: NumberArray): Window {
  let [least, most] = [Infinity, -Infinity];
  for (const one of array.data) {
    const value = Number(one);
    if (!Number.isFinite(value)) continue;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  if (least > most) [least, most] = [0, 0];
  if (array.dtype.startsWith("float") && least >= 0 && most <= 1) [least, most] = [0, 1];
  return { low: least, high: most, least, most };
}

function imageData(array: NumberArray, window: { low: number; high: number } | null): ImageData {
  const [height, width, channels = 1] = array.shape as [number, number, number?];
  check(array.shape);
  const isPlain = window === null && (array.dtype === "uint8" || array.dtype === "bool");
  const { low, high } = window ?? limitsOf(array);
  const scale = isPlain ? (array.dtype === "bool" ? 255 : 1) : 255 / (high - low || 1);
  const out = new ImageData(width, height);
  const colours = channels >= 3 ? 3 : 1;
  for (let at = 0; at < width * height; at++) {
    for (let i = 0; i < 3; i++) {
      const value = Number(array.data[at * channels + (colours === 3 ? i : 0)]);
      out.data[4 * at + i] = isPlain ? value * scale : Math.trunc(((Number.isFinite(value) ? value : 0) - low) * scale);
    }
    out.data[4 * at + 3] = channels === 4 && isPlain ? Number(array.data[4 * at + 3]) : 255;
  }
  return out;
}

/** A map of labels: red, green and blue are the lowest bytes of each pixel's label, 0 for none. */
export async function labelMap(array: NumberArray, htype: string, { width: wanted }: PictureOptions): Promise<ImageBitmap> {
  const [rows, columns, channels = 1] = array.shape as [number, number, number?];
  check(array.shape);
  const scale = wanted ? Math.min(1, wanted / columns) : 1;
  const [height, width] = [Math.max(1, Math.round(rows * scale)), Math.max(1, Math.round(columns * scale))];
  const out = new ImageData(width, height);
  const isBinary = htype === "binary_mask" && array.shape.length === 3;
  for (let y = 0; y < height; y++) {
    const row = Math.floor((y + 0.5) * (rows / height));
    for (let x = 0; x < width; x++) {
      const at = (row * columns + Math.floor((x + 0.5) * (columns / width))) * channels;
      let label = 0;
      if (isBinary) for (let i = 0; i < channels; i++) label = Number(array.data[at + i]) === 0 ? label : i + 1;
      else label = Number(array.data[at]) >>> 0;
      const place = 4 * (y * width + x);
      out.data.set([label & 255, (label >> 8) & 255, (label >> 16) & 255, 255], place);
    }
  }
  return createImageBitmap(out, { premultiplyAlpha: "none", colorSpaceConversion: "none" });
}
