/** What is shown: one value that can be written into the fragment of an address and read back. */

/** What is shown beside the rows that are open, and how the boxes of both are matched. */
export interface Compare {
  /** Values beside each other, boxes matched by their overlap, or crops of predictions. */
  how: "sides" | "match" | "crops";
  /** Dataset and version at the right; null takes those at the left. */
  dataset: number | null;
  at: string | null;
  /**
   * Tensors: `left` and `right` beside each other; of a match `truth`, `predicted`, the labels of each, and `scores`. The
   * page chooses those that are missing, and uses none where the name is empty.
   */
  tensors: { [role: string]: string };
  /** Least intersection over union of a match. */
  iou: number;
  /** Count that was clicked on: `tp`, `fp` or `fn` and a class, or `cell` and two classes. */
  pick: string[];
  /** Screen of the list. */
  page: number;
}

/** A map of vectors, whose points are rows. */
export interface VectorMap {
  /** The vectors; empty takes the first embedding. */
  tensor: string;
  /** The labels or numbers that colour points; empty takes the first labels, null colours none. */
  colour: string | null;
  /** Where one looks: x, y and scale, or an orbit; empty shows all. */
  view: number[];
}

export interface ViewState {
  /** Number of the dataset in the lake; null is the page of the lake. */
  dataset: number | null;
  /** Version: a branch, commit or tag; empty is the main branch. */
  at: string;
  /** Text of the query, empty for all rows. */
  query: string;
  layout: "grid" | "table";
  /** Position, in the order that is shown, of the row that is open; null shows the grid. */
  row: number | null;
  /** Frame of a sequence or film, slice of a scan. */
  frame: number;
  /** Position at the upper edge of the rows, with a share of what lies around it. */
  top: number;
  /** Width of a cell of the grid, in CSS pixels. */
  cell: number;
  /** The tensor of images that is shown; empty takes the schema's. */
  primary: string;
  /** Tensors whose overlays are off. */
  hidden: string[];
  /** Classes that are off, as `tensor:name`. */
  hiddenClasses: string[];
  /** Class name -> colour, where it was chosen by hand. */
  colours: Record<string, string>;
  /** Least confidence of what is drawn, 0 to 1. */
  confidence: number;
  /** Opacity of masks, 0 to 1. */
  opacity: number;
  /** Camera of the open image: scale against the image's own pixels (0 fits it), and the pixel in the middle. */
  zoom: { scale: number; x: number; y: number };
  /** Window of values that are shown from black to white; null takes all. */
  window: { low: number; high: number } | null;
  /** Panel that is open beside the rows. */
  panel: "" | "statistics" | "versions" | "views" | "help";
  /** Versions whose difference is shown. */
  diff: { a: string; b: string } | null;
  compare: Compare | null;
  map: VectorMap | null;
  /** Where one looks from at a point cloud or mesh: turn, tilt, zoom and move; empty shows all. */
  orbit: number[];
  /** Rows of the version that are chosen. */
  selected: number[];
}

export const initial: Readonly<ViewState> = Object.freeze({
  dataset: null,
  at: "",
  query: "",
  layout: "grid",
  row: null,
  frame: 0,
  top: 0,
  cell: 220,
  primary: "",
  hidden: [],
  hiddenClasses: [],
  colours: {},
  confidence: 0,
  opacity: 0.5,
  zoom: { scale: 0, x: 0, y: 0 },
  window: null,
  panel: "",
  diff: null,
  compare: null,
  map: null,
  orbit: [],
  selected: [],
});

export const initialCompare: Readonly<Compare> = Object.freeze({ how: "sides", dataset: null, at: null, tensors: {}, iou: 0.5, pick: [], page: 0 });

const VERSION = 1;

/** Write a state as the fragment of an address: what differs from the initial one, as JSON that an address can hold. */
export function toFragment(state: ViewState): string {
  const changed: Record<string, unknown> = {};
  for (const key of Object.keys(initial) as (keyof ViewState)[]) {
    if (JSON.stringify(state[key]) !== JSON.stringify(initial[key])) {
      changed[key] = key === "selected" ? packed(state.selected) : state[key];
    }
  }
  if (!Object.keys(changed).length) return "";
  return `v${VERSION}=${encodeURIComponent(JSON.stringify(changed)).replace(/%(7B|7D|22|3A|2C|5B|5D)/g, (code) => decodeURIComponent(code))}`;
}

/** Read a state from a fragment; what is not of a state's type there is left as it is at first. */
export function fromFragment(fragment: string): ViewState {
  const state: ViewState = structuredClone(initial) as ViewState;
  const match = /(?:^|&|#)v1=([^&]*)/.exec(fragment);
  if (!match?.[1]) return state;
  let found: unknown;
  try {
    found = JSON.parse(decodeURIComponent(match[1]));
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof URIError) return state;
    throw error;
  }
  if (!isRecord(found)) return state;
  const take = <K extends keyof ViewState>(key: K, is: (value: unknown) => boolean) => {
    if (Object.hasOwn(found as object, key) && is((found as Record<string, unknown>)[key])) {
      state[key] = (found as Record<string, ViewState[K]>)[key] as ViewState[K];
    }
  };
  const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0;
  const isText = (value: unknown) => typeof value === "string" && value.length <= 100_000;
  const isTexts = (value: unknown) => Array.isArray(value) && value.every(isText);
  const isShare = (value: unknown) => typeof value === "number" && value >= 0 && value <= 1;
  const are = (value: unknown, ...names: string[]) =>
    isRecord(value) && names.every((name) => Number.isFinite(value[name]));
  take("dataset", isCount);
  take("at", isText);
  take("query", isText);
  take("layout", (value) => value === "grid" || value === "table");
  take("row", isCount);
  take("frame", isCount);
  take("top", (value) => typeof value === "number" && value >= 0 && value <= Number.MAX_SAFE_INTEGER);
  take("cell", (value) => isCount(value) && (value as number) >= 60 && (value as number) <= 1024);
  take("primary", isText);
  take("hidden", isTexts);
  take("hiddenClasses", isTexts);
  take("colours", (value) => isRecord(value) && Object.values(value).every((one) => /^#[0-9a-f]{6}$/.test(String(one))));
  take("confidence", isShare);
  take("opacity", isShare);
  take("zoom", (value) => are(value, "scale", "x", "y"));
  take("window", (value) => are(value, "low", "high"));
  take("panel", (value) => ["", "statistics", "versions", "views", "help"].includes(value as string));
  take("diff", (value) => isRecord(value) && isText(value.a) && isText(value.b));
  const isCompare = ({ how, dataset, at, tensors, iou, pick, page }: Record<string, unknown>) =>
    ["sides", "match", "crops"].includes(how as string) && (dataset === null || isCount(dataset)) && (at === null || isText(at)) &&
    isRecord(tensors) && Object.values(tensors).every(isText) && isShare(iou) && isTexts(pick) && isCount(page);
  if (isRecord(found.compare)) found.compare = { ...initialCompare, ...found.compare };
  take("compare", (value) => isRecord(value) && isCompare(value));
  const isLook = (value: unknown) => Array.isArray(value) && value.length <= 5 && value.every(Number.isFinite);
  take("map", (value) => isRecord(value) && isText(value.tensor) && (value.colour === null || isText(value.colour)) && isLook(value.view));
  take("orbit", isLook);
  if (typeof found.selected === "string") state.selected = unpacked(found.selected);
  return state;
}

/** Rows as differences of sorted numbers, runs as `first+length`: `3.4+10.20`. */
function packed(rows: number[]): string {
  const sorted = [...new Set(rows)].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let at = 0; at < sorted.length; ) {
    const first = sorted[at] as number;
    let length = 1;
    while (sorted[at + length] === first + length) length += 1;
    parts.push(length === 1 ? `${first}` : `${first}+${length}`);
    at += length;
  }
  return parts.join(".");
}

const MOST_SELECTED = 100_000;

function unpacked(text: string): number[] {
  const rows: number[] = [];
  for (const part of text.split(".")) {
    const match = /^(\d{1,15})(?:\+(\d{1,6}))?$/.exec(part);
    if (!match) continue;
    for (let at = 0; at < Number(match[2] ?? 1) && rows.length < MOST_SELECTED; at += 1) rows.push(Number(match[1]) + at);
  }
  return rows;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
