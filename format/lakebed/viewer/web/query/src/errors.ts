/** What goes wrong with a query: with its text, with the data, or because this engine does not answer it. */

/** The text is no query, or does not fit the data. `position` is the place in the text, counted in letters. */
export class QueryError extends Error {
  override name = "QueryError";
  constructor(
    readonly kind: string,
    message: string,
    readonly position: number | null = null,
  ) {
    super(message);
  }
}

/** The engine of Python answers it, and this one does not: nothing is answered rather than something else. */
export class NeedsView extends Error {
  override name = "NeedsView";
  constructor(readonly what: string) {
    super(`this needs \`lakebed view\`: ${what}`);
  }
}

const SHOWN = 100;
const LISTED = 12;

/** An error at a place, with the line and a caret below the place. */
export function errorAt(text: string, at: number, kind: string, message: string): QueryError {
  const letters = Array.from(text);
  const place = Math.min(at, letters.length);
  const start = letters.lastIndexOf("\n", place - 1) + 1;
  const next = letters.indexOf("\n", place);
  const end = next < 0 ? letters.length : next;
  const line = letters.slice(0, place).filter((letter) => letter === "\n").length + 1;
  const first = Math.max(start, Math.min(place - SHOWN / 2, end - SHOWN));
  const shown = letters.slice(first, Math.min(end, first + SHOWN)).join("").replace(/[\t\r]/g, " ");
  return new QueryError(kind, `${message} (line ${line}, column ${place - start + 1})\n    ${shown}\n    ${" ".repeat(place - first)}^`, place);
}

/** Add a place to errors that have none. */
export function placed<T>(text: string, at: number, compute: () => T): T {
  try {
    return compute();
  } catch (error) {
    if (error instanceof QueryError && error.position === null) throw errorAt(text, at, error.kind, error.message);
    throw error;
  }
}

/** The end of an error about an unknown name: the most similar one, or those that are known. */
export function near(name: string, known: readonly string[]): string {
  const pairs = (text: string): string[] => Array.from({ length: Math.max(1, text.length - 1) }, (_, i) => text.slice(i, i + 2).toLowerCase());
  const own = pairs(name);
  const alike = known.map(pairs).map((theirs) => own.filter((pair) => theirs.includes(pair)).length / Math.max(own.length, theirs.length));
  const best = alike.indexOf(Math.max(0, ...alike));
  if ((alike[best] ?? 0) >= 0.4) return `; did you mean '${known[best]}'?`;
  const more = known.length > LISTED ? ` and ${known.length - LISTED} more` : "";
  return known.length ? `; there are ${known.slice(0, LISTED).join(", ")}${more}` : "";
}
