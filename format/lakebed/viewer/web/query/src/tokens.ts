/** The words of a query: the tables of Python's `language/lexer.py` and `token_stream.py`. */

import { QueryError, errorAt } from "./errors";

const MAX_LENGTH = 1 << 22;
const MAX_DEPTH = 100;
const LARGEST = 2n ** 64n - 1n;

const SKIPPED = /(?:[ \t\r\n]+|--[^\n]*)*/y;
const LETTER = "\\p{L}\\p{Nl}\\p{No}";
/** The words of the language, each with the form that it has. */
const FORMS: [kind: Exclude<Token["kind"], "integer" | "end">, form: RegExp][] = [
  ["string", /'[^']*(?:''[^']*)*'/y],
  ["quoted", /"[^"\n]*"/y],
  ["version", /@[A-Za-z0-9_~^./+-]+/y],
  ["parameter", new RegExp(`\\$[${LETTER}][\\p{L}\\p{N}_]*`, "uy")],
  ["name", new RegExp(`[${LETTER}][\\p{L}\\p{N}_]*`, "uy")],
  ["float", /(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y],
  ["operator", /\.\.\.|==|!=|<>|<=|>=|\|\||[=<>+\-*/%^()[\],.:?;]/y],
];
const ADVICE: { [letter: string]: string } = {
  "'": "a string does not end: the closing ' is missing; a quote inside is two of them: ''",
  '"': 'a name in double quotes does not end: the closing " is missing',
  "@": "a branch, commit or tag must follow @",
  $: "a name must follow $; values in order are those of ?",
  "!": "unequal is !=, and negation is NOT",
  "&": "write AND",
  "|": "write OR, and || to join texts",
  "#": "a comment goes from -- to the end of its line",
  "`": "a name with other characters needs double quotes",
  _: 'a name that begins with an underscore needs double quotes: "_name"',
};

export interface Token {
  kind: "name" | "quoted" | "string" | "integer" | "float" | "version" | "parameter" | "operator" | "end";
  text: string;
  value: number | bigint | null;
  at: number;
}

/** Words that need double quotes as names of tables and columns. */
export const RESERVED = new Set(
  ("select from where group having ungroup expand order limit offset sample arrange union intersect except on using " +
    "join inner left right full outer cross natural and or not in is isnull like ilike between case when then else end " +
    "as asc desc nulls across overlap with by").split(" "),
);

function matched(pattern: RegExp, text: string, at: number): string {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? "";
}

function words(text: string): Token[] {
  // Places are counted in letters, as Python counts them, and texts in units of 16 bits.
  const isWide = /[\ud800-\udfff]/.test(text);
  const place = (unit: number): number => (isWide ? Array.from(text.slice(0, unit)).length : unit);
  const fail = (unit: number, message: string): QueryError => errorAt(text, place(unit), "syntax", message);
  if (text.length > MAX_LENGTH) throw fail(0, `a query has up to ${MAX_LENGTH} characters, not ${text.length}; pass large values for ?`);
  if (/[\ud800-\udfff]/u.test(text)) throw fail(0, "the text has half of a character, a lone surrogate, which no text can hold");
  const found: Token[] = [];
  let at = matched(SKIPPED, text, 0).length;
  while (at < text.length) {
    const [kind] = FORMS.find(([, form]) => matched(form, text, at) !== "") ?? [null];
    const letter = String.fromCodePoint(text.codePointAt(at)!);
    if (kind === null) throw fail(at, ADVICE[letter] ?? `no word of a query begins with '${letter}'`);
    const word = matched(FORMS.find(([one]) => one === kind)![1], text, at);
    const token: Token = { kind, text: word, value: null, at: place(at) };
    if (kind === "string") token.text = word.slice(1, -1).replaceAll("''", "'");
    else if (kind === "quoted") token.text = word.slice(1, -1);
    else if (kind === "version" || kind === "parameter") token.text = word.slice(1);
    else if (kind === "float") {
      const next = text.codePointAt(at + word.length);
      if (next !== undefined && /[\p{L}\p{N}_]/u.test(String.fromCodePoint(next))) throw fail(at + word.length, `a number does not go on with '${String.fromCodePoint(next)}'`);
      if (/^\d+$/.test(word)) token.kind = "integer";
      token.value = numberOf(word, (message) => fail(at, message));
    }
    found.push(token);
    at += word.length;
    at += matched(SKIPPED, text, at).length;
  }
  found.push({ kind: "end", text: "", value: null, at: place(text.length) });
  return found;
}

/** The value of a number: an integer is octal after a leading 0. */
function numberOf(digits: string, fail: (message: string) => QueryError): number | bigint {
  if (!/^\d+$/.test(digits)) return Number(digits);
  const isOctal = digits.length > 1 && digits[0] === "0";
  if (isOctal && /[89]/.test(digits)) throw fail(`${digits} begins with 0 and is octal, which has no digits 8 and 9`);
  if (digits.length > 25) throw fail("the number is larger than 64 bits");
  const value = BigInt(isOctal ? `0o${digits.slice(1)}` : digits);
  if (value > LARGEST) throw fail(`${digits} is larger than 64 bits`);
  return value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
}

/** The tokens of a query and the number of the next one. */
export class TokenStream {
  readonly tokens: Token[];
  next = 0;
  depth = 0;

  constructor(readonly text: string) {
    this.tokens = words(text);
  }

  get token(): Token {
    return this.tokens[this.next]!;
  }

  ahead(count: number): Token {
    return this.tokens[Math.min(this.next + count, this.tokens.length - 1)]!;
  }

  /** The next token in lower case if it is a name without quotes, else an empty text. */
  keyword(): string {
    return this.token.kind === "name" ? this.token.text.toLowerCase() : "";
  }

  /** Tell if the next token is one of some keywords or operators. */
  is(...words: string[]): boolean {
    return words.includes(this.token.kind === "operator" ? this.token.text : this.keyword() || " ");
  }

  take(): Token {
    const { token } = this;
    if (token.kind !== "end") this.next++;
    return token;
  }

  /** Move past a keyword or an operator if it is next, and tell if it was. */
  skip(word: string): boolean {
    const found = this.is(word);
    if (found) this.next++;
    return found;
  }

  expect(word: string): Token {
    if (!this.is(word)) throw this.unexpected(/[a-z]/.test(word) ? word.toUpperCase() : `'${word}'`);
    return this.take();
  }

  expectName(wanted: string): Token {
    if (this.token.kind !== "name" && this.token.kind !== "quoted") throw this.unexpected(wanted);
    return this.take();
  }

  separated<T>(read: (tokens: TokenStream) => T): T[] {
    const found = [read(this)];
    while (this.skip(",")) found.push(read(this));
    return found;
  }

  bracketed<T>(read: (tokens: TokenStream) => T): T {
    this.expect("(");
    const found = read(this);
    this.expect(")");
    return found;
  }

  /** Read TRUE or FALSE, which may be missing; whether it is not FALSE. */
  takeFlag(): boolean {
    if (this.skip("false")) return false;
    this.skip("true");
    return true;
  }

  error(message: string): QueryError {
    return errorAt(this.text, this.token.at, "syntax", message);
  }

  unexpected(wanted: string): QueryError {
    const { token } = this;
    if (token.kind === "end") return this.error(`the query ends where ${wanted} is expected`);
    return this.error(`${token.kind === "quoted" ? `"${token.text}"` : `'${token.text}'`} stands where ${wanted} is expected`);
  }

  /** Count one more level of nesting. */
  deeper(): void {
    if (++this.depth > MAX_DEPTH) throw this.error(`expressions are nested deeper than ${MAX_DEPTH} levels`);
  }
}
