/** Functions of texts and JSON values, LIKE, and CAST; after Python's `functions/text.py` and `casts.py`. */

import {
  Arrays, Constant, Items, Nd, Num, byRow, collect, flagsOf, isDocument, isWhole, isWide, kindOf, rowError, rowsOf, texts as column, wholes, type Column, type Dtype, type Val,
} from "./columns";
import { NeedsView, QueryError, near } from "./errors";
import { ANY, FLAG, JSON_INFO, NUMBER, TEXT, TIME, define, textOf, wholeNumber, type Function, type Given, type Info } from "./functions";
import { isTime, moments, rest } from "./dates";
import { listed, mapped } from "./numbers";
import { lettersOf } from "./reductions";

const LONGEST = 1 << 16;

/** Whether a function of texts is given other values, of which some may be no text. */
const ofOthers = ([operand]: { info: Info }[]): boolean => operand!.info.kind !== "text";

/** A column of texts, which JSON values may be. */
function textsIn(given: Column, name: string): (string | null)[] {
  const found = rowsOf(given);
  for (const value of found) if (value !== null && typeof value !== "string") throw rowError(`${name} needs text`, "type");
  return found as (string | null)[];
}

const each = (given: Given, name: string, compute: (text: string) => string | null): Items => column(textsIn(given.columns[0]!, name).map((text) => (text === null ? null : compute(text))));
const ofText = (name: string, compute: (text: string) => string): void => define(name, 1, 1, (given) => each(given, name, compute), TEXT, { cost: 1, mayFail: ofOthers });

/** Change each letter by itself, as Arrow does: letters that become several, or of other tables, are not answered. */
function lettered(text: string, name: string, change: (letter: string) => string): string {
  if (/^[\0-\x7f]*$/.test(text)) return change(text);
  return Array.from(text, (letter) => {
    const found = change(letter);
    const code = letter.codePointAt(0)!;
    if (found !== letter && (Array.from(found).length > 1 || (code >= 0x250 && code < 0x2b0) || code >= 0x530)) throw new NeedsView(`${name} of the letter ${letter}`);
    if (code === 0xdf || code === 0x149 || code === 0x1f0) throw new NeedsView(`${name} of the letter ${letter}`);
    return found;
  }).join("");
}

/** White space at the ends, of plain texts only: libraries differ in what else is space. */
function trimmed(text: string, name: string, isLeft: boolean, isRight: boolean): string {
  const found = text.slice(isLeft ? /^[ \t\n\v\f\r]*/.exec(text)![0].length : 0);
  const all = isRight ? found.replace(/[ \t\n\v\f\r]+$/, "") : found;
  const isPlain = (letter: string | undefined): boolean => letter === undefined || (letter > " " && letter < "\x7f") || /^\p{L}$/u.test(letter);
  if ((isLeft && !isPlain(Array.from(all)[0])) || (isRight && !isPlain(Array.from(all).pop()))) throw new NeedsView(`${name} of such letters`);
  return all;
}

ofText("LOWER", (text) => lettered(text, "LOWER", (letter) => letter.toLowerCase()));
ofText("UPPER", (text) => lettered(text, "UPPER", (letter) => letter.toUpperCase()));
ofText("TRIM", (text) => trimmed(text, "TRIM", true, true));
ofText("LTRIM", (text) => trimmed(text, "LTRIM", true, false));
ofText("RTRIM", (text) => trimmed(text, "RTRIM", false, true));
ofText("REVERSE", (text) => Array.from(text).reverse().join(""));

export const joinedTexts = (given: Given): Column => {
  const parts = given.columns.map(asText);
  return column(Array.from({ length: given.count }, (_, i) => {
    const own = parts.map((part) => part[i]!);
    return own.includes(null as never) ? null : own.join("");
  }));
};
define("CONCAT", 1, Infinity, joinedTexts, TEXT, { cost: 1, mayFail: ofOthers });
define("CONCAT_WS", 2, Infinity, (given) => {
  const separator = textOf(given, 0, "CONCAT_WS puts a text between others");
  const parts = given.columns.slice(1).map(asText);
  return column(Array.from({ length: given.count }, (_, i) => parts.map((part) => part[i]!).filter((text) => text !== null).join(separator)));
}, TEXT, { cost: 1, mayFail: ofOthers });

/** Letters of a text from a place to before another, cut as in Python. */
function letters(text: string, start: number, stop?: number): string {
  return /[\ud800-\udfff]/.test(text) ? Array.from(text).slice(start, stop).join("") : text.slice(start, stop);
}

define("SUBSTR SUBSTRING", 2, 3, (given, name) => {
  const start = wholeNumber(given, 1, name);
  const from = start > 0 ? start - 1 : start;
  const count = given.columns.length > 2 ? wholeNumber(given, 2, name) : null;
  if (count !== null && count < 0) throw rowError("SUBSTR takes a number of characters that is not negative");
  if (count !== null && from < 0 && from + count >= 0) return byRow(given.count, [column(textsIn(given.columns[0]!, name))], (text) => letters(letters(text as string, from), 0, count));
  return each(given, name, (text) => {
    if (count === null) return letters(text, from);
    return from + count === 0 && from < 0 ? letters(text, from) : letters(text, from, from + count);
  });
}, TEXT, { cost: 1, mayFail: ofOthers });
define("LEFT RIGHT", 2, 2, (given, name) => {
  const count = wholeNumber(given, 1, name);
  return each(given, name, (text) => (count <= 0 ? "" : name === "LEFT" ? letters(text, 0, count) : letters(text, -count)));
}, TEXT, { cost: 1, mayFail: ofOthers });
define("REPLACE", 3, 3, (given) => {
  const old = textOf(given, 1, "REPLACE needs a text to look for, not the empty one", false);
  const other = textOf(given, 2, "REPLACE puts text in the place of text");
  return each(given, "REPLACE", (text) => text.replaceAll(old, () => other));
}, TEXT, { cost: 2, mayFail: ofOthers });
define("LPAD RPAD", 2, 3, (given, name) => {
  const width = lengthOf(given, 1, name);
  const fill = given.columns.length > 2 ? textOf(given, 2, `${name} fills with text`, false) : " ";
  return each(given, name, (text) => {
    const more = letters(fill.repeat(Math.max(0, width - lettersOf(text))), 0, Math.max(0, width - lettersOf(text)));
    return letters(name === "LPAD" ? more + text : text + more, 0, width);
  });
}, TEXT, { cost: 4, mayFail: ofOthers });
define("REPEAT", 2, 2, (given) => {
  const count = lengthOf(given, 1, "REPEAT");
  return each(given, "REPEAT", (text) => text.repeat(count));
}, TEXT, { cost: 4, mayFail: ofOthers });

function lengthOf(given: Given, at: number, name: string): number {
  const value = wholeNumber(given, at, name);
  if (value > LONGEST) throw new QueryError("limit", `${name} makes texts of up to ${LONGEST} characters`);
  return Math.max(0, value);
}

define("SPLIT", 2, 2, (given) => {
  const separator = textOf(given, 1, "SPLIT needs a text to split at", false);
  return new Items(textsIn(given.columns[0]!, "SPLIT").map((text) => text?.split(separator) ?? null));
}, JSON_INFO, { cost: 5, mayFail: ofOthers });
define("SPLIT_PART", 3, 3, (given) => {
  const separator = textOf(given, 1, "SPLIT_PART needs a text to split at", false);
  const number = wholeNumber(given, 2, "SPLIT_PART");
  if (number === 0) throw new QueryError("type", "SPLIT_PART counts parts from 1");
  return each(given, "SPLIT_PART", (text) => text.split(separator).at(number > 0 ? number - 1 : number) ?? "");
}, TEXT, { cost: 4, mayFail: ofOthers });
define("STRPOS INSTR", 2, 2, (given) => {
  const pattern = textOf(given, 1, "STRPOS looks for text");
  return wholes(textsIn(given.columns[0]!, "STRPOS").map((text) => {
    const at = (text ?? "").indexOf(pattern);
    return at < 0 ? 0 : lettersOf((text ?? "").slice(0, at)) + 1;
  }));
}, NUMBER, { cost: 3, mayFail: ofOthers });

define("STARTS_WITH ENDS_WITH", 2, 2, (given, name) => {
  const part = textOf(given, 1, `${name} looks for text`);
  const isThere = (text: string | null): boolean => text !== null && (name === "STARTS_WITH" ? text.startsWith(part) : text.endsWith(part));
  return flagsOf(Uint8Array.from(textsIn(given.columns[0]!, name), (text) => Number(isThere(text))));
}, FLAG, { cost: 2, mayFail: ofOthers });

/** A pattern as an expression: `*`, and `%` where that is wild, stand for any text, `?` for a letter. */
function wildcard(pattern: string, wild: string, flags: string): RegExp {
  const source = Array.from(pattern, (letter) => (wild.includes(letter) ? ".*" : letter === "?" ? "." : letter.replace(/[.*+?^${}()|[\]\\/-]/, "\\$&").replace("\\-", "-"))).join("");
  return new RegExp(`^${source.replace(/(?:\.\*)+/g, ".*")}$`, flags);
}

export const like = (anyCase: boolean): Function => ({
  name: anyCase ? "ILIKE" : "LIKE", least: 2, most: 2, info: FLAG, cost: 4, mayFail: false,
  compute: ({ columns: [given, pattern] }) => {
    if (!(pattern instanceof Constant) || typeof pattern.value !== "string") throw new QueryError("type", "LIKE needs a pattern: one text");
    const expression = wildcard(pattern.value, "*%", anyCase ? "isu" : "su");
    return flagsOf(Uint8Array.from(rowsOf(given!), (value) => (typeof value === "string" && expression.test(value) ? 1 : 0)));
  },
});

/** Numbers of the classes that a name, or a pattern with `*` and `?`, matches. */
export function matchingClasses(names: string[], pattern: string): number[] {
  const numbers = names.map((_, i) => i);
  if (names.includes(pattern)) return numbers.filter((i) => names[i] === pattern);
  if (!/[*?]/.test(pattern)) return [];
  const expression = wildcard(pattern, "*", "su");
  return numbers.filter((i) => expression.test(names[i]!));
}

// -- JSON -------------------------------------------------------------------------------------------------------------

/** Members in the order in which they were written: JavaScript moves keys that are numbers. */
function members(value: { [key: string]: unknown }): [string, Val][] {
  const found = Object.entries(value) as [string, Val][];
  if (found.length > 1 && found.some(([key]) => /^(0|[1-9]\d*)$/.test(key))) throw new NeedsView("the order of JSON keys that are numbers");
  return found;
}

define("KEYS VALUES", 1, 1, (given, name) => new Items(rowsOf(given.columns[0]!).map((value) => (isDocument(value) ? members(value).map((pair) => pair[name === "KEYS" ? 0 : 1]!) : null))), JSON_INFO, { cost: 5 });
define("HAS_KEY", 2, 2, (given) => {
  const key = textOf(given, 1, "HAS_KEY looks for a key: a text");
  return flagsOf(Uint8Array.from(rowsOf(given.columns[0]!), (value) => (isDocument(value) && Object.hasOwn(value, key) ? 1 : 0)));
}, FLAG, { cost: 5 });
define("JSON_TYPE", 1, 1, (given) => collect(rowsOf(given.columns[0]!).map((value) => {
  if (value === null) return "null";
  if (typeof value === "boolean" || (value instanceof Num && value.type === "bool")) return "boolean";
  if (value instanceof Nd) return value.shape.length ? "array" : "number";
  if (typeof value === "string") return "string";
  return Array.isArray(value) ? "array" : isDocument(value) ? "object" : "number";
})), TEXT, { cost: 5 });

// -- CAST -------------------------------------------------------------------------------------------------------------

/** A float as Python writes it. */
export function written(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  const [digits, exponent] = value.toExponential().split("e") as [string, string];
  const power = Number(exponent);
  if (power < -4 || power >= 16) return `${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  // JavaScript has no exponents from 10^-6 to 10^21.
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

function textOfValue(value: Val): string {
  if (typeof value === "string") return value;
  if (value instanceof Num) return value.type === "bool" ? String(value.value != 0) : value.type === "float" ? written(value.value as number) : String(value.value);
  if (value instanceof Nd) {
    if (value.data.length !== 1) return jsonOf(listed(value), isWhole(value.dtype));
    if (value.dtype === "bool") return String(value.data[0] === 1);
    return isWhole(value.dtype) ? String(value.data[0]) : written(value.data[0] as number);
  }
  if (typeof value === "boolean") return String(value);
  return jsonOf(value, null);
}

/** JSON as Python writes it; numbers of JSON that are whole may have been written with a point. */
function jsonOf(value: Val, areWhole: boolean | null): string {
  if (Array.isArray(value)) return `[${value.map((item) => jsonOf(item, areWhole)).join(", ")}]`;
  if (isDocument(value)) return `{${members(value).map(([key, item]) => `${quoted(key)}: ${jsonOf(item, areWhole)}`).join(", ")}}`;
  if (value instanceof Nd || value instanceof Num) throw new NeedsView("CAST of lists of arrays AS text");
  if (typeof value === "string") return quoted(value);
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && areWhole === null) throw new NeedsView("CAST of whole numbers of JSON AS text");
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
  return areWhole ? String(value) : written(value);
}

function quoted(text: string): string {
  if (/[\u007f-\u009f\u2028\u2029]/.test(text)) throw new NeedsView("CAST of such letters in JSON AS text");
  return JSON.stringify(text);
}

export function asText(given: Column): (string | null)[] {
  if (given instanceof Arrays && given.loose && given.data.some((one: number | bigint) => Number.isInteger(Number(one)))) throw new NeedsView("CAST of whole numbers of JSON AS text");
  return rowsOf(given).map((value) => (value === null ? null : textOfValue(value)));
}

/** Class names of labels, or of a list of them. */
export function labelNames(value: Val, names: string[]): Val {
  if (Array.isArray(value)) return value.map((item) => labelNames(item, names));
  const data = value instanceof Nd ? Array.from(value.data as Float64Array) : value instanceof Num ? [value.value] : typeof value === "number" ? [value] : [];
  if (!data.length) return null;
  const found = data.map((one) => names[Number(one)] ?? String(one));
  return found.length === 1 ? found[0]! : found;
}

const DTYPES: { [name: string]: Dtype } = {
  ...{ int: "int64", integer: "int64", bigint: "int64", smallint: "int16", tinyint: "int8", int8: "int8", int16: "int16", int32: "int32", int64: "int64" },
  ...{ uint8: "uint8", uint16: "uint16", uint32: "uint32", uint64: "uint64", float: "float64", double: "float64", real: "float32", float16: "float16" },
  ...{ float32: "float32", float64: "float64", bool: "bool", boolean: "bool" },
};
const TEXTS = ["text", "string", "varchar", "char", "str"];

function converted(value: number, own: Dtype, dtype: Dtype): number {
  if (dtype === "bool") return Number(value != 0);
  if (!isWhole(dtype)) return value;
  if (!Number.isFinite(value)) throw rowError(`a number that is not finite is no ${dtype}`);
  const found = isWhole(own) ? value : Math.trunc(value);
  const [isSigned, bits] = [kindOf(dtype) === "i", Number(/\d+/.exec(dtype)![0])];
  const most = 2 ** (isSigned ? bits - 1 : bits) - 1;
  if (bits === 64 && Math.abs(found) > Number.MAX_SAFE_INTEGER && (isSigned || found > 0)) throw new NeedsView("integers beyond 2^53");
  if (found < (isSigned ? -most - 1 : 0) || found > most) throw rowError(`a number is too large for ${dtype}`);
  return found + 0;
}

/** A text or JSON value as a number; null and the empty text are missing. */
function numberOf(value: Val, dtype: Dtype): Val {
  if (value === null || value === "") return null;
  let given: Val = value;
  if (typeof value === "string") {
    const text = value.trim();
    if (dtype === "bool") {
      const flag = { true: 1, t: 1, "1": 1, false: 0, f: 0, "0": 0 }[text.toLowerCase()];
      if (flag === undefined) throw rowError(`'${text}' is neither true nor false`);
      return new Nd("bool", [], Uint8Array.of(flag));
    }
    const isInteger = kindOf(dtype) !== "f" && text.length < 30;
    if (!/^[\x20-\x7e]*$/.test(value) || text.includes("_") || (kindOf(dtype) !== "f" && !isInteger)) throw new NeedsView("CAST of such a text");
    if (!(isInteger ? /^[+-]?\d+$/ : /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$|^[+-]?(inf|infinity|nan)$/i).test(text)) throw rowError(`'${text.slice(0, 40)}' is no ${dtype}`);
    const number = /inf/i.test(text) ? (text[0] === "-" ? -Infinity : Infinity) : Number(text);
    given = new Num(number, isInteger ? "int" : "float");
  }
  if (isDocument(given)) throw rowError(`a document is no ${dtype}`, "type");
  if (Array.isArray(given) || typeof given === "bigint") throw new NeedsView("CAST of lists");
  const one = given instanceof Nd ? given : given instanceof Num ? given : typeof given === "boolean" ? new Num(Number(given), "bool") : new Num(given as number, Number.isInteger(given) ? "int" : "float");
  return (mapped(new Constant(one, 1), "CAST", () => dtype, (number, own) => converted(number, own, dtype)) as Constant).value;
}

export function cast(type: string): Function {
  const made = (compute: (given: Given) => Column, info: Function["info"], mayFail = true): Function => ({ name: "CAST", least: 1, most: 1, compute, info, cost: 2, mayFail });
  if (TEXTS.includes(type))
    return made((given) => {
      const [own] = given.columns as [Column];
      const [info] = given.infos as [typeof ANY];
      if (own instanceof Items && own.isText) return own;
      if (isTime(info)) {
        const found = moments(own, info, "CAST");
        const isDay = info.logical === "date32[day]";
        return column(Array.from({ length: given.count }, (_, i) => (found.missing?.[i] ? null : moment(found.data[i] as number, isDay))));
      }
      const names = info.classNames;
      if (names !== null)
        return byRow(given.count, [own], (value) => {
          if (Array.isArray(value)) throw new NeedsView("CAST of lists of labels AS text");
          return labelNames(value, names);
        });
      return column(asText(own));
    }, TEXT);
  if (type === "json") throw new NeedsView("CAST AS json");
  if (type === "date" || type === "timestamp" || type === "datetime")
    return made((given) => {
      const found = moments(given.columns[0]!, given.infos[0]!, "CAST");
      return type === "date" ? found.like("int64", (found.data as Float64Array).map((value) => value - rest(value, 864e8))) : found;
    }, TIME);
  const dtype = Object.hasOwn(DTYPES, type) ? DTYPES[type]! : null;
  if (dtype === null) throw new QueryError("type", `there is no type '${type}'${near(type, [...Object.keys(DTYPES), ...TEXTS, "json", "date", "timestamp", "datetime"])}`);
  if (dtype === "float16") throw new NeedsView("CAST AS float16");
  return made((given) => {
    const [own] = given.columns as [Column];
    if (own instanceof Arrays || (own instanceof Constant && (own.value instanceof Num || own.value instanceof Nd))) {
      if (own instanceof Arrays && isWide(own.data)) {
        if (own.dtype === dtype) return own;
        throw new NeedsView("CAST of integers beyond 2^53");
      }
      return mapped(own, "CAST", () => dtype, (value, from) => converted(value, from, dtype));
    }
    return byRow(given.count, [own], (value) => numberOf(value, dtype));
  }, (infos) => ({ ...NUMBER, dtype, rank: infos[0]!.rank }));
}

function moment(value: number, isDay: boolean): string {
  const made = new Date(Math.floor(value / 1000));
  if (Number.isNaN(made.getTime()) || made.getUTCFullYear() < 0 || made.getUTCFullYear() > 9999) throw new NeedsView("dates of such years");
  return made.toISOString().slice(0, isDay ? 10 : 19);
}

