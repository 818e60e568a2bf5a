/** Colours of classes: the same for a name in every dataset, tellable by eyes that confuse red and green. */

/** Okabe and Ito's seven, then those farthest from all before them as normal, protanopic and deuteranopic eyes see them. */
export const PALETTE = [
  "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#692d2d",
  "#78ffff", "#0000ff", "#4b1e96", "#8778ff", "#00e1a5", "#a52d69", "#964b00", "#87ffa5",
  "#a5d2ff", "#0f4bc3", "#780069", "#ff4b69", "#ffb478", "#c31e96", "#695ae1", "#5a87d2",
] as const;

/** Return the colour of a class: the one chosen for it, else one that its name alone decides. */
export function colourOf(name: string, chosen: Readonly<Record<string, string>> = {}): string {
  return Object.hasOwn(chosen, name) ? (chosen[name] as string) : numbered(place(name));
}

/**
 * Return colours of names that would share one with a name before them, while there are colours left.
 *
 * A name that shares with none before it keeps the colour that it has in every dataset.
 */
export function told(names: Iterable<string>): Record<string, string> {
  const found: Record<string, string> = Object.create(null);
  const taken = new Set<number>();
  for (const name of new Set(names)) {
    if (taken.size === PALETTE.length) break;
    const own = place(name) % PALETTE.length;
    let at = own;
    while (taken.has(at)) at = (at + 1) % PALETTE.length;
    taken.add(at);
    if (at !== own) found[name] = numbered(at);
  }
  return found;
}

function place(name: string): number {
  let hash = 0x811c9dc5; // FNV-1a
  for (let at = 0; at < name.length; at += 1) hash = Math.imul(hash ^ name.charCodeAt(at), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return (hash ^ (hash >>> 12)) >>> 0;
}

/** Return the colour of an object without a class, by its number. */
export function numbered(number: number): string {
  return PALETTE[((number % PALETTE.length) + PALETTE.length) % PALETTE.length] as string;
}

/** Return red, green and blue of `#rrggbb`, 0 to 255. */
export function channels(colour: string): [number, number, number] {
  const value = Number.parseInt(colour.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** Return black or white, whichever is read better on a colour: one of them has a contrast of 4.58 or more. */
export function inkOn(colour: string): "#000000" | "#ffffff" {
  return contrast(colour, "#000000") >= contrast(colour, "#ffffff") ? "#000000" : "#ffffff";
}

/** Return the contrast of two colours as WCAG 2 has it, 1 to 21. */
export function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

function luminance(colour: string): number {
  const [red, green, blue] = channels(colour).map((channel) => {
    const share = channel / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
