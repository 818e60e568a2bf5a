/** What is different between two rows, in colours: marks, pixels and words that came, went or changed. */

import type { Item, Scene } from "./scene";

export type Difference = "same" | "changed" | "added" | "removed";

/** Colours that also eyes tell apart that confuse red and green. */
export const COLOURS: Record<Difference, string> = { same: "#9aa0a6", changed: "#e69f00", added: "#009e73", removed: "#d55e00" };
const LEAST_OVERLAP = 0.5; // of two boxes of which one may have become the other

/** Return what each mark before and after is: equal ones are the same, boxes that overlap and other marks of a number changed. */
export function differences(before: readonly Item[], after: readonly Item[]): [Difference[], Difference[]] {
  const [old, now] = [before.map((): Difference => "removed"), after.map((): Difference => "added")];
  const pair = (way: Difference, fits: (a: Item, b: Item) => number) => {
    before.forEach((a, i) => {
      if (old[i] !== "removed") return;
      let [most, at] = [0, -1];
      after.forEach((b, j) => {
        const share = now[j] === "added" && a.tensor === b.tensor ? fits(a, b) : 0;
        if (share > most) [most, at] = [share, j];
      });
      if (at >= 0) [old[i], now[at]] = [way, way];
    });
  };
  pair("same", (a, b) => Number(textOf(a) === textOf(b)));
  pair("changed", (a, b) => {
    if (a.is !== "box" || b.is !== "box") return Number(a.index === b.index);
    const share = shared(a, b);
    return share >= LEAST_OVERLAP ? share : 0;
  });
  return [old, now];
}

/** What a mark is, without its number and colour. */
function textOf({ index, colour, labels, ...rest }: Item): string {
  return JSON.stringify(rest);
}

type Box = Item & { is: "box" };

function shared(a: Box, b: Box): number {
  const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  if (across <= 0 || down <= 0) return 0;
  const size = (one: Box) => (one.right - one.left) * (one.bottom - one.top);
  return (across * down) / (size(a) + size(b) - across * down);
}

/** Return a scene whose marks have the colours of what they are; those that stayed the same lose their names. */
export function coloured(scene: Scene, items: readonly Item[], are: readonly Difference[]): Scene {
  const found = new Map(items.map((one, at) => [`${one.tensor} ${one.index}`, are[at]]));
  const marked = scene.items.map((one) => {
    const is = found.get(`${one.tensor} ${one.index}`) ?? "same";
    return { ...one, colour: COLOURS[is], ...(is === "same" ? { name: "", score: null } : {}) };
  });
  return { ...scene, items: marked };
}

/** Return each word of two lists, with whether it went, came or stayed. */
export function words(before: readonly string[], after: readonly string[]): { text: string; is: Difference }[] {
  const left = [...after];
  const found: { text: string; is: Difference }[] = before.map((text) => {
    const at = left.indexOf(text);
    if (at >= 0) left.splice(at, 1);
    return { text, is: at >= 0 ? "same" : "removed" };
  });
  return [...found, ...left.map((text) => ({ text, is: "added" as const }))];
}

const SLIGHT = 8; // of 255: what compressing a picture anew changes

/**
 * Return a picture of the pixels in which two of one size differ, and how many they are: `exact` tells labels apart,
 * pictures that differ slightly are the same.
 */
export function pixels(before: Uint8ClampedArray, after: Uint8ClampedArray, exact: boolean): { rgba: Uint8ClampedArray<ArrayBuffer>; count: number } {
  const rgba = new Uint8ClampedArray(before.length);
  let count = 0;
  for (let at = 0; at < before.length; at += 4) {
    let most = 0;
    for (let channel = 0; channel < 4; channel += 1) most = Math.max(most, Math.abs((before[at + channel] as number) - (after[at + channel] as number)));
    if (most <= (exact ? 0 : SLIGHT)) continue;
    rgba.set([255, 0, 200, 150], at);
    count += 1;
  }
  return { rgba, count };
}
