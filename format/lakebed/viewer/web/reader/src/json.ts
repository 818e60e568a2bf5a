/** JSON as Python writes it: numbers that are none, infinite ones, and integers of any length. */

import { FormatError, LIMITS, LimitError } from "./errors";

/** Integers beyond 2^53 are `bigint`. */
export type Json = null | boolean | number | bigint | string | Json[] | { [key: string]: Json };

const UNUSUAL = /NaN|Infinity|\d{16}/;

export function parseJson(text: string, what: string): Json {
  if (!UNUSUAL.test(text)) {
    checkDepth(text, what);
    try {
      return JSON.parse(text) as Json;
    } catch {
      throw new FormatError(`${what} is no JSON`);
    }
  }
  checkDepth(text, what);
  return new Parser(text, what).parsed();
}

export function parseObject(text: string, what: string): { [key: string]: Json } {
  const found = parseJson(text, what);
  if (found === null || typeof found !== "object" || Array.isArray(found)) throw new FormatError(`${what} is no object of JSON`);
  return found;
}

function checkDepth(text: string, what: string): void {
  if (text.length < LIMITS.jsonDepth) return;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const letter = text.charCodeAt(at);
    if (letter === 0x22) {
      for (at++; at < text.length && text.charCodeAt(at) !== 0x22; at++) if (text.charCodeAt(at) === 0x5c) at++;
    } else if (letter === 0x5b || letter === 0x7b) {
      if (++depth > LIMITS.jsonDepth) throw new LimitError(`${what} is nested deeper than LIMITS.jsonDepth (${LIMITS.jsonDepth})`);
    } else if (letter === 0x5d || letter === 0x7d) depth--;
  }
}

const TOKEN = /[\s]*(?:([[\]{},:])|("(?:[^"\\\u0000-\u001f]|\\.)*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|-?Infinity|NaN|true|false|null))/y;
const WORDS: { [word: string]: Json } = { true: true, false: false, null: null, NaN: NaN, Infinity: Infinity, "-Infinity": -Infinity };

class Parser {
  private token = "";

  constructor(
    private readonly text: string,
    private readonly what: string,
  ) {}

  private at = 0;

  parsed(): Json {
    this.next();
    const value = this.value();
    if (this.text.slice(this.at).trim() !== "") this.fail();
    return value;
  }

  private next(): string {
    TOKEN.lastIndex = this.at;
    const found = TOKEN.exec(this.text);
    if (found === null) this.fail();
    this.at = TOKEN.lastIndex;
    this.token = (found[1] ?? found[2] ?? found[3])!;
    return this.token;
  }

  private fail(): never {
    throw new FormatError(`${this.what} is no JSON`);
  }

  private value(): Json {
    const token = this.token;
    if (token === "[") return this.items();
    if (token === "{") return this.members();
    if (token in WORDS) return WORDS[token]!;
    if (token.startsWith('"')) return this.string(token);
    if (!/^-?\d/.test(token)) this.fail();
    const number = Number(token);
    return /^-?\d+$/.test(token) && !Number.isSafeInteger(number) ? BigInt(token) : number;
  }

  private string(token: string): string {
    try {
      return JSON.parse(token) as string;
    } catch {
      return this.fail();
    }
  }

  private items(): Json[] {
    const found: Json[] = [];
    if (this.next() === "]") return found;
    for (;;) {
      found.push(this.value());
      const end = this.next();
      if (end === "]") return found;
      if (end !== ",") this.fail();
      this.next();
    }
  }

  private members(): { [key: string]: Json } {
    const found: { [key: string]: Json } = {};
    if (this.next() === "}") return found;
    for (;;) {
      if (!this.token.startsWith('"')) this.fail();
      const key = this.string(this.token);
      if (this.next() !== ":") this.fail();
      this.next();
      Object.defineProperty(found, key, { value: this.value(), enumerable: true, writable: true, configurable: true });
      const end = this.next();
      if (end === "}") return found;
      if (end !== ",") this.fail();
      this.next();
    }
  }
}
