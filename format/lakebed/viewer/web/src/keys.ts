/** The keys of the page: one table, which the help panel shows. */

import { step, toggle, toggleOverlay } from "./choosing";
import { toggleMap } from "./map/plane";
import type { Session } from "./session.svelte";
import type { ViewState } from "./state";

/** What a key may do to the page beyond its session. */
export interface Page {
  session: Session;
  focusQuery(): void;
  resize(factor: number): void;
  copyLink(): void;
  switchTheme(): void;
}

export interface Key {
  /** Keys as an event names them; two pressed one after the other are written with a space. */
  keys: string[];
  /** How the help panel writes them. */
  shown: string;
  words: string;
  /** What it does, false where it leaves the key to others; keys without are heard where they mean something: by the rows, the player, the query. */
  act?: (page: Page, key: string) => unknown;
}

const panel = (name: ViewState["panel"]) => ({ session }: Page) => {
  session.change({ panel: session.state.panel === name ? "" : name });
};

export const KEYS: Key[] = [
  { keys: [], shown: "← → ↑ ↓", words: "move over the rows; shift chooses them" },
  { keys: [], shown: "Home PgUp …", words: "move to an end, or by screens" },
  { keys: [], shown: "Enter", words: "open the row; in the query box: ask" },
  { keys: ["Escape"], shown: "Esc", words: "close what is open; cancel a query", act: back },
  { keys: ["]", "j"], shown: "]", words: "next row", act: ({ session }) => step(session, 1) },
  { keys: ["[", "k"], shown: "[", words: "previous row", act: ({ session }) => step(session, -1) },
  { keys: ["x"], shown: "x", words: "choose the row", act: choose },
  { keys: [], shown: "space", words: "play or pause" },
  { keys: [], shown: ", .", words: "a frame back or on; in a video a second" },
  { keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"], shown: "1 – 9", words: "show or hide an overlay", act: overlay },
  { keys: ["+", "="], shown: "+", words: "larger pictures; closer to the open one", act: (page) => page.resize(1.15) },
  { keys: ["-"], shown: "−", words: "smaller pictures; away from the open one", act: (page) => page.resize(1 / 1.15) },
  { keys: [], shown: "0", words: "fit the picture of an open row" },
  { keys: [], shown: "b B", words: "brighter, darker: scans and pictures of numbers" },
  { keys: [], shown: "h H", words: "more contrast, less" },
  { keys: ["/"], shown: "/", words: "to the query", act: (page) => page.focusQuery() },
  { keys: ["g t"], shown: "g t", words: "table", act: ({ session }) => void session.change({ layout: "table", row: null }) },
  { keys: ["g g"], shown: "g g", words: "grid", act: ({ session }) => void session.change({ layout: "grid", row: null }) },
  { keys: ["m"], shown: "m", words: "map of vectors", act: ({ session }) => toggleMap(session) },
  { keys: ["s"], shown: "s", words: "statistics", act: panel("statistics") },
  { keys: ["v"], shown: "v", words: "versions", act: panel("versions") },
  { keys: ["w"], shown: "w", words: "saved views and chosen rows", act: panel("views") },
  { keys: ["c"], shown: "c", words: "copy a link to what is shown", act: (page) => page.copyLink() },
  { keys: ["d"], shown: "d", words: "dark or light", act: (page) => page.switchTheme() },
  { keys: ["?"], shown: "?", words: "these keys", act: panel("help") },
];

/** Tensors that are drawn over the pictures that are shown, in the order of their keys. */
export function overlays(session: Session): string[] {
  return session.columns.filter((one) => one.over !== null && one.over === session.primary?.name).map((one) => one.name);
}

function overlay({ session }: Page, key: string): false | void {
  if (session.state.row !== null) return false; // an open row has overlays of its own
  const name = overlays(session)[Number(key) - 1];
  if (name !== undefined) toggleOverlay(session, name);
}

function choose({ session }: Page): void {
  const row = session.state.row === null ? null : session.rowNow(session.state.row);
  if (row) toggle(session, row.id);
}

function back({ session }: Page): void {
  const { state } = session;
  if (session.busy) session.cancel();
  else if (state.row !== null) session.change({ row: null });
  else if (state.map && !state.compare && !state.diff) session.change({ map: null });
  else if (state.compare) session.change({ compare: null });
  else if (state.diff) session.change({ diff: null });
  else if (state.panel) session.change({ panel: "" });
  else if (state.selected.length) session.change({ selected: [] });
}

/** Return a listener that acts by the table, except where something is being written. */
export function listener(page: Page): (event: KeyboardEvent) => void {
  let first = "";
  let at = 0;
  return (event) => {
    const target = event.target as Element | null;
    const isWriting = target?.matches("input:not([type=range], [type=checkbox]), textarea, select, [contenteditable]");
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isWriting) return;
    const pair = event.timeStamp - at < 1000 ? `${first} ${event.key}` : "";
    const found = KEYS.find((one) => one.keys.includes(pair)) ?? KEYS.find((one) => one.keys.includes(event.key));
    [first, at] = [event.key, event.timeStamp];
    if (!found?.act) return;
    if (found.act(page, event.key) !== false) event.preventDefault();
  };
}
