/** Numbers as pictures: a line, a map of colours; and the colours of a spectrogram. */

import { channels } from "../colours";

/** From low to high, growing evenly in lightness, told apart by red-green blind eyes as well. */
const STEPS = ["#00204d", "#31446b", "#666970", "#958f78", "#cbba69", "#ffea46"].map(channels);

/** Return red, green, blue and alpha for each number between two; clear where it is none. */
export function heat(values: ArrayLike<number | bigint>, low: number, high: number): Uint8ClampedArray<ArrayBuffer> {
  const found = new Uint8ClampedArray(4 * values.length);
  for (let at = 0; at < values.length; at += 1) {
    const share = Math.min(1, Math.max(0, (Number(values[at]) - low) / (high - low || 1))) * (STEPS.length - 1);
    if (Number.isNaN(share)) continue;
    const step = Math.min(Math.floor(share), STEPS.length - 2);
    const [from, to] = [STEPS[step], STEPS[step + 1]] as [number[], number[]];
    for (let channel = 0; channel < 3; channel += 1) {
      const [a, b] = [from[channel] as number, to[channel] as number];
      found[4 * at + channel] = a + (b - a) * (share - step);
    }
    found[4 * at + 3] = 255;
  }
  return found;
}

/** Return the smallest and largest finite number; 0 and 0 where there is none. */
export function range(values: ArrayLike<number | bigint>): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (let at = 0; at < values.length; at += 1) {
    const one = Number(values[at]);
    if (!Number.isFinite(one)) continue;
    if (one < low) low = one;
    if (one > high) high = one;
  }
  return low <= high ? [low, high] : [0, 0];
}

/** Draw a line of numbers as the lowest and highest of each pixel's span. */
export function line(context: CanvasRenderingContext2D, values: ArrayLike<number | bigint>, low: number, high: number, colour: string): void {
  const { width, height } = context.canvas;
  context.clearRect(0, 0, width, height);
  context.strokeStyle = colour;
  context.lineWidth = Math.max(1, height / 100);
  context.beginPath();
  const y = (value: number) => height - 2 - ((value - low) / (high - low || 1)) * (height - 4);
  const span = Math.max(1, values.length / width);
  for (let at = 0; at < values.length; at += span) {
    const x = (at / Math.max(1, values.length - 1)) * width;
    const [least, most] = range(Array.from({ length: Math.ceil(span) }, (_, next) => values[Math.floor(at) + next] ?? Number.NaN));
    context.lineTo(x, y(least));
    if (most !== least) context.lineTo(x, y(most));
  }
  context.stroke();
}

/** Return a number as short as it is read well, with so many digits where it is not whole. */
export function short(value: number | bigint, digits = 6): string {
  return typeof value === "bigint" || Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(digits)));
}
