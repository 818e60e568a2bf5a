/** Dates and times: integers with a logical type, or ISO texts; functions return microseconds since 1970. After Python's `functions/dates.py`. */

import { Arrays, Constant, Items, Nd, Num, either, isWhole, marks, rowsOf, wholes, type Column } from "./columns";
import { NeedsView, QueryError } from "./errors";
import { NUMBER, TIME, constant, define, wholeNumber, type Given, type Info } from "./functions";

const DAY = 864e8;
const SIZES: { [unit: string]: number } = { week: 7 * DAY, day: DAY, hour: 36e8, minute: 6e7, second: 1e6, millisecond: 1e3, microsecond: 1 };
const MONTHS: { [unit: string]: number } = { year: 12, quarter: 3, month: 1 };
/** Microseconds of the units of stored times; those of nanoseconds are a part of one. */
const STORED: { [unit: string]: number } = { D: DAY, s: 1e6, ms: 1e3, us: 1 };

const floored = (value: number, by: number): number => Math.floor(value / by);
export const rest = (value: number, by: number): number => value - by * Math.floor(value / by);

/** The moment of an ISO text in microseconds since 1970; null if it is no date or time. */
export function microseconds(given: string): number | null {
  const text = given.trim();
  const found = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?(Z|[+-]\d\d:\d\d)?)?$/.exec(text);
  if (found === null) {
    if (/^\d{4}-?(\d|W)/.test(text)) throw new NeedsView(`the date '${text}'`);
    return null;
  }
  const [year, month, day, hour = 0, minute = 0, second = 0] = found.slice(1, 7).map((part) => Number(part ?? 0));
  const days = dayOf(year!, month!, day!);
  if (days === null || hour > 23 || minute > 59 || second > 59 || year === 0) return null;
  const zone = found[8] === undefined || found[8] === "Z" ? 0 : (found[8][0] === "-" ? -1 : 1) * (Number(found[8].slice(1, 3)) * 60 + Number(found[8].slice(4, 6)));
  if (Math.abs(zone) >= 1440) return null;
  const fraction = Number((found[7] ?? "").slice(0, 6).padEnd(6, "0"));
  return ((days * 24 + hour) * 60 + minute - zone) * 6e7 + second * 1e6 + fraction;
}

/** Days since 1970 of a day that there is. */
function dayOf(year: number, month: number, day: number): number | null {
  const made = new Date(0);
  made.setUTCFullYear(year, month - 1, day);
  return made.getUTCMonth() === month - 1 && made.getUTCDate() === day ? made.getTime() / 864e5 : null;
}

const unitIn = (logical: string): string => (logical.startsWith("date32") ? "D" : /\[([^\],]*)/.exec(logical)?.[1] ?? "");

/** Microseconds as the integers of a logical type, between two of them as a float. */
export function storedAs(moment: number, logical: string): Num {
  const unit = unitIn(logical);
  if (unit === "ns") {
    const whole = BigInt(moment) * 1000n;
    return new Num(whole <= Number.MAX_SAFE_INTEGER && whole >= -Number.MAX_SAFE_INTEGER ? Number(whole) : whole, "int");
  }
  const size = STORED[unit] ?? 1;
  return new Num(moment / size, rest(moment, size) === 0 ? "int" : "float");
}

export const isTime = (info: Info): boolean => /^(timestamp|date32|date64)/.test(info.logical);

/** Moments of texts in microseconds, missing for texts without one; null for other columns. */
export function parsed(column: Column): Arrays | null {
  const isText = column instanceof Constant && typeof column.value === "string";
  if (!isText && !(column instanceof Items)) return null;
  const found = rowsOf(column).map((value) => (typeof value === "string" ? microseconds(value) : null));
  return wholes(found.map((value) => value ?? 0), marks(found, (value) => value === null));
}

/** Dates and times in microseconds; texts without a date are missing. */
export function moments(column: Column, info: Info, name: string): Arrays {
  const found = parsed(column);
  if (found !== null) return found;
  let own = column;
  if (own instanceof Constant && (own.value instanceof Num || own.value instanceof Nd)) {
    const value = own.value instanceof Num ? own.value : new Num(own.value.data[0]!, isWhole(own.value.dtype) ? "int" : "float");
    if (typeof value.value === "bigint" || value.type === "float") throw new QueryError("type", `${name} needs a date or time, not other numbers`);
    own = wholes(new Float64Array(own.length).fill(value.value));
  }
  if (!(own instanceof Arrays) || own.shape === null) throw new QueryError("type", `${name} needs one date or time per row`);
  if (!isWhole(own.dtype) || own.dtype === "bool") throw new QueryError("type", `${name} needs a date or time, not other numbers`);
  if (own.shape.length > 0 && own.size !== 1) throw new NeedsView(`${name} of arrays`);
  const unit = unitIn(info.logical || "timestamp[us]");
  const { data } = own;
  const micro = (value: number | bigint): number => {
    if (typeof value === "bigint") {
      if (unit !== "ns") throw new NeedsView("moments beyond 2^53");
      return Number((value - (((value % 1000n) + 1000n) % 1000n)) / 1000n);
    }
    const made = unit === "ns" ? floored(value, 1000) : value * (STORED[unit] ?? 1);
    if (!Number.isSafeInteger(made)) throw new NeedsView("moments beyond 2^53");
    return made;
  };
  return wholes(Float64Array.from({ length: own.length }, (_, i) => (own.missing?.[i] ? 0 : micro(data[i]!))), own.missing);
}

/** Year, month from 0 on, and days since 1970. */
function dateOf(value: number): { year: number; month: number; days: number } {
  const days = floored(value, DAY);
  const made = new Date(days * 864e5);
  if (Number.isNaN(made.getTime())) throw new NeedsView("dates of such years");
  return { year: made.getUTCFullYear(), month: made.getUTCMonth(), days };
}

const startOf = (year: number, month: number): number => {
  const made = new Date(0);
  made.setUTCFullYear(year, month, 1);
  return made.getTime() / 864e5;
};

/** Whole steps of a unit, which begin anew after so many. */
const clock = (unit: string, count: number): ((value: number) => number) => (value) => floored(rest(value, DAY), SIZES[unit]!) % count;

const PARTS: { [unit: string]: (value: number) => number } = {
  year: (value) => dateOf(value).year,
  quarter: (value) => floored(dateOf(value).month, 3) + 1,
  month: (value) => dateOf(value).month + 1,
  week: (value) => {
    const thursday = floored(value, DAY) - rest(floored(value, DAY) + 3, 7) + 3;
    return floored(thursday - startOf(dateOf(thursday * DAY).year, 0), 7) + 1;
  },
  day: (value) => floored(value, DAY) - startOf(dateOf(value).year, dateOf(value).month) + 1,
  dow: (value) => rest(floored(value, DAY) + 4, 7),
  doy: (value) => floored(value, DAY) - startOf(dateOf(value).year, 0) + 1,
  ...{ hour: clock("hour", 24), minute: clock("minute", 60), second: clock("second", 60), millisecond: clock("millisecond", 1000), microsecond: clock("microsecond", 1000) },
  epoch: (value) => floored(value, 1e6),
};

export function part(unit: string, column: Column, info: Info): Column {
  const whole = moments(column, info, unit.toUpperCase());
  return whole.like("int64", (whole.data as Float64Array).map(PARTS[unit]!));
}

/** A unit by its name, which may be plural. */
export function unitOf(name: string): string {
  const plain = name.toLowerCase();
  for (const candidate of [plain, plain.replace(/s$/, "")]) if (Object.hasOwn(PARTS, candidate)) return candidate;
  throw new QueryError("type", `there is no unit '${name}' of time; there are ${Object.keys(PARTS).join(", ")}`);
}

function named(given: Given, name: string): string {
  const value = constant(given, 0, name);
  if (typeof value !== "string") throw new QueryError("type", `${name} needs a unit of time`);
  return unitOf(value);
}

const changed = (found: Arrays, change: (value: number) => number): Arrays => found.like("int64", (found.data as Float64Array).map(change));

for (const unit of "year quarter month week day hour minute second dow doy epoch".split(" ")) define(unit.toUpperCase(), 1, 1, (given) => part(unit, given.columns[0]!, given.infos[0]!), NUMBER, { cost: 2, mayFail: true });
define("DATE_PART", 2, 2, (given) => part(named(given, "DATE_PART"), given.columns[1]!, given.infos[1]!), NUMBER, { cost: 2, mayFail: true });
define("TIMESTAMP", 1, 1, (given) => moments(given.columns[0]!, given.infos[0]!, "TIMESTAMP"), TIME, { cost: 2, mayFail: true });
define("DATE", 1, 1, (given) => changed(moments(given.columns[0]!, given.infos[0]!, "DATE"), (value) => value - rest(value, DAY)), TIME, { cost: 2, mayFail: true });

define("DATE_TRUNC", 2, 2, (given) => {
  const unit = named(given, "DATE_TRUNC");
  const found = moments(given.columns[1]!, given.infos[1]!, "DATE_TRUNC");
  if (["dow", "doy", "epoch"].includes(unit)) throw new QueryError("type", `DATE_TRUNC does not cut to ${unit}`);
  return changed(found, (value) => {
    if (unit === "week") return (floored(value, DAY) - rest(floored(value, DAY) + 3, 7)) * DAY;
    const months = MONTHS[unit];
    if (months === undefined) return value - rest(value, SIZES[unit]!);
    const { year, month } = dateOf(value);
    return startOf(year, month - (month % months)) * DAY;
  });
}, TIME, { cost: 2, mayFail: true });

define("DATE_DIFF", 3, 3, (given) => {
  const unit = named(given, "DATE_DIFF");
  const [first, second] = [1, 2].map((at) => moments(given.columns[at]!, given.infos[at]!, "DATE_DIFF")) as [Arrays, Arrays];
  const months = MONTHS[unit];
  const count = (value: number): number => {
    const { year, month } = dateOf(value);
    return Math.floor((12 * year + month) / months!);
  };
  if (months === undefined && SIZES[unit] === undefined) throw new QueryError("type", `DATE_DIFF does not count ${unit}`);
  return first.like("int64", (first.data as Float64Array).map((value, i) => {
    const other = second.data[i] as number;
    return months === undefined ? Math.trunc((other - value) / SIZES[unit]!) + 0 : count(other) - count(value);
  }), either(first.missing, second.missing));
}, NUMBER, { cost: 2, mayFail: true });

define("DATE_ADD", 3, 3, (given) => {
  const unit = named(given, "DATE_ADD");
  const count = wholeNumber(given, 1, "DATE_ADD");
  const found = moments(given.columns[2]!, given.infos[2]!, "DATE_ADD");
  if (Math.abs(count) > 2 ** 37) throw new QueryError("type", `DATE_ADD adds up to ${2 ** 37} units`);
  const months = MONTHS[unit];
  if (months === undefined && SIZES[unit] === undefined) throw new QueryError("type", `DATE_ADD does not add ${unit}`);
  return changed(found, (value) => {
    if (months === undefined) {
      const made = value + count * SIZES[unit]!;
      if (!Number.isSafeInteger(made)) throw new NeedsView("moments beyond 2^53");
      return made;
    }
    const { year, month, days } = dateOf(value);
    const later = month + count * months;
    const last = startOf(year, later + 1) - 1;
    if (!Number.isFinite(last)) throw new NeedsView("dates of such years");
    return Math.min(startOf(year, later) + days - startOf(year, month), last) * DAY + rest(value, DAY);
  });
}, TIME, { cost: 2, mayFail: true });
