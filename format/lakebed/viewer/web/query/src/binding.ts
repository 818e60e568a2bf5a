/** Syntax to bound expressions: names to columns, class names to numbers, constants to values, types checked; after Python's `binding`. */

import {
  evaluate, not, or, rowNumber, value, Scope, COUNT_ALL, type Apply, type Bound,
} from "./bound";
import { Arrays, Constant, Items, Nd, Num, asNd, byRow, isWhole, isWide, joint, kindOf, product, type Column, type Val } from "./columns";
import { isTime, microseconds, parsed, storedAs } from "./dates";
import { NeedsView, QueryError, errorAt, near, placed } from "./errors";
import { ANY, FLAG, FUNCTIONS, JSON_INFO, NUMBER, TEXT, countDistinct, isIn, merged, weighed, type Function, type Given, type Info } from "./functions";
import { SIGNS, arithmetic, compare, mapped, negative } from "./numbers";
import { shapeOf, subscript, type Part, type Slice } from "./subscripts";
import type { Expression, Item } from "./syntax";
import { NAMES, NOT_HERE } from "./words";
import { cast, joinedTexts, labelNames, like, matchingClasses } from "./texts";

export interface Entry {
  table: string | null;
  column: string;
  name: string;
  info: Info;
  /** Found only by a name with its table, as the columns of USING. */
  isBehind?: boolean;
}

/** The columns that a query may name. */
export class Names {
  constructor(readonly entries: Entry[]) {}

  get tables(): string[] {
    return [...new Set(this.entries.map((entry) => entry.table).filter((table) => table !== null))];
  }

  allOf(table: string | null): Entry[] {
    return this.entries.filter((entry) => (table === null ? !entry.isBehind : entry.table === table));
  }

  find(table: string | null, column: string): Entry[] {
    return this.allOf(table).filter((entry) => entry.column === column);
  }

  one(text: string, at: number, table: string | null, column: string): Bound & { is: "input" } {
    const found = this.find(table, column);
    if (found.length > 1) throw errorAt(text, at, "ambiguous", `'${column}' can be any of ${found.map((entry) => `${entry.table}.${column}`).join(", ")}: say which`);
    if (found.length) return { is: "input", name: found[0]!.name, info: found[0]!.info };
    if (table !== null && !this.tables.includes(table)) {
      const hint = this.find(null, table).length ? `; ${table} is a column: a part of a JSON value is ${table}['${column}']` : near(table, this.tables);
      throw errorAt(text, at, "unknown_column", `there is no table '${table}'${hint}`);
    }
    const hint = near(column, this.allOf(table).map((entry) => entry.column));
    throw errorAt(text, at, "unknown_column", `there is no column '${column}'${hint}${hint.startsWith("; did") ? "" : "; a text stands in single quotes"}`);
  }
}

/** What was found for the queries inside a clause, and rows that it names, before the clause is bound. */
export type Found = { values: Val[]; info: Info; rows: number; names: number };
export type Prepared = Map<unknown, Found>;

const PROPERTIES: { [name: string]: string } = { shape: "SHAPE", size: "COUNT", mean: "AVG", min: "AMIN", max: "AMAX", any: "ANY", all: "ALL" };
const OF_ONE_KIND = new Set(["COALESCE", "IFNULL", "NULLIF", "GREATEST", "LEAST"]);
const DISTANCES: { [name: string]: string } = { L1_NORM: "L1_DISTANCE", L2_NORM: "L2_DISTANCE", LINF_NORM: "LINF_DISTANCE" };

export class Binder {
  aliases = new Map<string, Expression>();
  later = new Map<string, string>();

  constructor(
    readonly text: string,
    readonly names: Names,
    readonly prepared: Prepared,
    readonly isGrouped = false,
  ) {}

  error(at: number, kind: string, message: string): QueryError {
    return errorAt(this.text, at, kind, message);
  }

  bind(node: Expression): Bound {
    switch (node.is) {
      case "literal": return constant(node.value, node.isFloat);
      case "parameter": throw this.error(node.at, "arity", "the query takes values, and none are given here");
      case "name": return this.name(node);
      case "array": return this.array(node.items, node.at);
      case "unary": return this.unary(node.operator, this.bind(node.operand), node.at);
      case "binary": return this.binary(node.operator, this.bind(node.left), this.bind(node.right), node.at);
      case "logical": return { is: "logic", operator: node.operator, operands: node.operands.map((one) => this.bind(one)), info: FLAG };
      case "subscript": return this.subscripted(this.bind(node.base), node.items, node.at);
      case "call": return this.call(node);
      case "weights": return this.weights(node.name.toUpperCase(), node.pairs, node.at);
      case "in": return this.among(node);
      case "like": {
        const [operand, pattern] = [this.bind(node.operand), this.bind(node.pattern)];
        if (operand.info.kind === "array") throw this.error(node.at, "type", `LIKE needs text${operand.info.classNames ? "; CONTAINS(label, 'pattern*') finds class names" : ""}`);
        return this.applied(like(node.anyCase), [operand, pattern], node.at);
      }
      case "isnull": return { is: "missing", operand: this.bind(node.operand), info: FLAG };
      case "case": {
        const branches = node.branches.map(([told, result]): [Bound | null, Bound] => [this.bind(told), this.bind(result)]);
        return this.cases([...branches, [null, node.otherwise === null ? value(null, ANY) : this.bind(node.otherwise)]], node.at);
      }
      case "cast": return this.applied(placed(this.text, node.at, () => cast(node.type)), [this.bind(node.operand)], node.at);
      case "nested": return this.nested(node);
    }
  }

  // -- folding --------------------------------------------------------------------------------------------------------

  apply(name: string, compute: (given: Given) => Column, operands: Bound[], info: Info, at: number, more: Partial<Apply> = {}): Bound {
    return this.folded({ is: "apply", name, compute, operands, info, at, cost: 0.1, mayFail: false, ...more });
  }

  applied(given: Function, operands: Bound[], at: number): Bound {
    let [made, own] = [given, operands];
    const distance = DISTANCES[given.name];
    const apart = distance === undefined ? null : difference(operands[0]!);
    if (apart !== null) [made, own] = [FUNCTIONS.get(distance!)!, apart];
    const info = typeof made.info === "function" ? made.info(own.map((operand) => operand.info)) : made.info;
    return this.apply(made.name, made.compute, own, info, at, { cost: made.cost, mayFail: typeof made.mayFail === "function" ? made.mayFail(own) : made.mayFail, key: made.key });
  }

  /** The value of an expression of constants, or else the expression. */
  folded(node: Bound): Bound {
    const operands = node.is === "apply" ? node.operands : node.is === "not" ? [node.operand] : [];
    if (!operands.length || operands.some((operand) => operand.is !== "value")) return node;
    const nothing = new Scope(1, new Map(), Int32Array.of(0));
    return placed(this.text, node.is === "apply" ? node.at : 0, () => {
      const found = evaluate(node, nothing);
      if (found instanceof Arrays && found.error !== null) throw new NeedsView("constants that are rounded");
      const one = found instanceof Constant ? found.value : found instanceof Items ? found.items[0]! : found.row(0);
      return value(bare(one), node.info);
    });
  }

  // -- names ----------------------------------------------------------------------------------------------------------

  private name(node: Expression & { is: "name" }): Bound {
    const { table, column, at } = node;
    if (table === null) {
      const meaning = this.aliases.get(column);
      if (meaning !== undefined && !this.names.find(null, column).length) {
        this.aliases.delete(column);
        try {
          return this.bind(meaning);
        } finally {
          this.aliases.set(column, meaning);
        }
      }
      const clause = this.later.get(column);
      if (clause !== undefined && !this.names.find(null, column).length)
        throw this.error(at, "unknown_column", `'${column}' is computed by SELECT, after ${clause}: write its expression there, or put the SELECT into brackets behind FROM`);
    } else if (!this.names.tables.includes(table)) {
      if (this.names.find(null, `${table}/${column}`).length) return this.names.one(this.text, at, null, `${table}/${column}`);
      const property = Object.hasOwn(PROPERTIES, column) ? PROPERTIES[column] : undefined;
      if (property !== undefined && this.names.find(null, table).length)
        return this.bind({ is: "call", name: property, operands: [{ is: "name", table: null, column: table, at }], isDistinct: false, isStar: false, at });
    }
    return this.names.one(this.text, at, table, column);
  }

  // -- operators ------------------------------------------------------------------------------------------------------

  private unary(operator: "-" | "not", operand: Bound, at: number): Bound {
    if (operator === "not") return this.folded(not(operand));
    this.checkNumber(operand, at, "-");
    return this.apply("-", (given) => negative(given.columns[0]!), [operand], NUMBER, at);
  }

  private binary(sign: string, left: Bound, right: Bound, at: number): Bound {
    if (SIGNS.includes(sign)) return this.compared(sign, left, right, at);
    if (sign === "||") return this.apply("||", joinedTexts, [left, right], TEXT, at, { cost: 1 });
    this.checkNumber(left, at, sign);
    this.checkNumber(right, at, sign);
    const rank = left.info.rank === null || right.info.rank === null ? null : Math.max(left.info.rank, right.info.rank);
    if ((sign === "+" || sign === "-") && [left, right].every((side) => timeOf(side.info) !== null) && left.info.logical !== right.info.logical) throw new NeedsView(`${sign} of times of two units`);
    return this.apply(sign, (given) => arithmetic(sign, given.columns[0]!, given.columns[1]!), [left, right], { ...NUMBER, rank }, at, { mayFail: true });
  }

  private checkNumber(node: Bound, at: number, sign: string): void {
    if (node.info.kind === "text" || (node.is === "value" && typeof node.value === "string")) throw this.error(at, "type", `${sign} needs numbers, not text; || joins texts`);
  }

  compared(sign: string, left: Bound, right: Bound, at: number): Bound {
    if ([left, right].some((side) => side.is === "value" && side.value === null)) throw this.error(at, "type", "NULL cannot be compared: say IS NULL or IS NOT NULL");
    let [one, other] = this.alignedAll([this.alike(left, right, at), this.alike(right, left, at)], at, sign !== "=" && sign !== "!=") as [Bound, Bound];
    [one, other] = [unrounded(one, other), unrounded(other, one)];
    const kinds = [one, other].map((side) => (side.is !== "value" ? side.info.kind : typeof side.value === "string" ? "text" : side.value instanceof Num || side.value instanceof Nd ? "array" : ""));
    const isKnown = [one, other].some((side) => side.is === "value") || [one, other].every((side) => side.is === "input");
    if (isKnown && kinds.sort().join() === "array,text") throw this.error(at, "type", "numbers are compared with text: say CAST(x AS text), or CAST(x AS float64)");
    return this.apply(sign, (given) => compare(sign, given.columns[0]!, given.columns[1]!), [one, other], FLAG, at);
  }

  /** A text as the number of the class or date that it names beside the other column. */
  private alike(node: Bound, other: Bound, at: number): Bound {
    if (node.is !== "value" || typeof node.value !== "string" || node.isRead) return node;
    const { value: text } = node;
    const names = other.info.classNames;
    if (names !== null) {
      if (!names.includes(text)) throw this.error(at, "bad_class_name", `there is no class '${text}'${near(text, names)}`);
      return value(new Num(names.indexOf(text), "int"), NUMBER);
    }
    if (!isTime(other.info)) return node;
    const moment = microseconds(text);
    if (moment === null) throw this.error(at, "type", noDate(text));
    return value(storedAs(moment, other.info.logical), other.info);
  }

  private among(node: Expression & { is: "in" }): Bound {
    let operand = this.bind(node.operand);
    let plain: Val[];
    if (node.query !== null) {
      const found = this.prepared.get(node)!;
      if (found.names !== 1) throw this.error(node.at, "arity", `IN needs a query of one column, not ${found.names}`);
      const domain = placed(this.text, node.at, () => shared([operand.info, found.info]));
      if (domain !== null) {
        if (found.info.logical !== domain.logical || JSON.stringify(found.info.classNames) !== JSON.stringify(domain.classNames)) throw new NeedsView("IN of columns that mean other things");
        operand = this.folded(inDomain(operand, domain, node.at));
      }
      plain = found.values;
    } else {
      const items = node.items.map((item) => this.alike(this.bind(item), operand, node.at));
      if (items.some((item) => item.is !== "value" || (item.value instanceof Nd && item.value.shape.length))) {
        return or(items.map((item) => this.compared("=", operand, item, node.at)));
      }
      plain = items.map((item) => (item as { value: Val }).value);
    }
    return this.apply("IN", isIn, [operand, value(plain, JSON_INFO)], FLAG, node.at, { cost: 1 });
  }

  private nested(node: Expression & { is: "nested" }): Bound {
    const found = this.prepared.get(node)!;
    if (node.isExists) return value(new Num(found.rows > 0 ? 1 : 0, "bool"), FLAG);
    if (found.names !== 1 || found.rows > 1) throw this.error(node.at, "arity", `a query that stands for a value has one column and one row, not ${found.names} and ${found.rows}; GROUP BY true makes one of all`);
    const one = found.values.length ? bare(found.values[0]!) : null;
    return value(one, one === null ? ANY : found.info, true);
  }

  // -- calls ----------------------------------------------------------------------------------------------------------

  private call(node: Expression & { is: "call" }): Bound {
    const name = node.name.toUpperCase();
    const { at } = node;
    if (name === "IIF") return this.call({ ...node, name: "IF" });
    if (node.isStar) {
      if (name !== "COUNT") throw this.error(at, "arity", `${name} takes no *`);
      if (!this.isGrouped) throw this.error(at, "unsupported", "COUNT(*) counts rows of groups: it goes into SELECT or HAVING");
      return { is: "input", name: COUNT_ALL, info: NUMBER };
    }
    if (NOT_HERE.has(name)) throw new NeedsView(name);
    const special: { [name: string]: [number, (operands: Bound[]) => Bound] } = {
      SHAPE: [1, ([one]) => this.shape(one!, at)],
      ROW_NUMBER: [0, () => rowNumber],
      IF: [3, ([told, then, otherwise]) => this.cases([[told!, then!], [null, otherwise!]], at)],
      DATA: [2, () => this.data(node)],
    };
    if (Object.hasOwn(special, name)) {
      const [count, make] = special[name]!;
      if (node.operands.length !== count) throw this.error(at, "arity", `${name} takes ${count} arguments, not ${node.operands.length}`);
      return make(name === "DATA" ? [] : node.operands.map((one) => this.bind(one)));
    }
    const found = FUNCTIONS.get(name);
    if (found === undefined) throw this.error(at, "unknown_function", `there is no function ${name}${near(name, [...NAMES, ...NOT_HERE])}`);
    const { least, most } = found;
    if (node.operands.length < least || node.operands.length > most) throw this.error(at, "arity", `${name} takes ${least === most ? least : most === Infinity ? `${least} or more` : `${least} to ${most}`} arguments, not ${node.operands.length}`);
    let operands = node.operands.map((one) => this.bind(one));
    const [first] = operands;
    if (name === "COUNT" && first!.is === "value" && !(Array.isArray(first!.value) || first!.value instanceof Nd)) throw this.error(at, "type", "COUNT of one constant does not count rows: say COUNT(*)");
    if (node.isDistinct) {
      if (name !== "COUNT") throw this.error(at, "unsupported", `DISTINCT goes with COUNT, not with ${name}`);
      return this.apply("COUNT", countDistinct, operands, NUMBER, at, { cost: 2 });
    }
    if (OF_ONE_KIND.has(name)) operands = this.alignedAll(operands, at);
    if (name === "CONTAINS") {
      const [column, wanted] = operands as [Bound, Bound];
      const names = column.info.classNames;
      if (names !== null && wanted.is === "value" && typeof wanted.value === "string") {
        const numbers = matchingClasses(names, wanted.value);
        if (!numbers.length) throw this.error(at, "bad_class_name", `no class is named '${wanted.value}'${near(wanted.value, names)}`);
        const inside = this.apply("IN", isIn, [column, value(numbers.map((one) => new Num(one, "int")), JSON_INFO)], FLAG, at, { cost: 1 });
        return this.applied(FUNCTIONS.get("ANY")!, [inside], at);
      }
    }
    return this.applied(found, operands, at);
  }

  private shape(operand: Bound, at: number): Bound {
    const info: Info = { ...NUMBER, dtype: "uint32", rank: 1 };
    if (operand.is === "input") return { is: "shape", name: operand.name, info };
    return this.apply("SHAPE", (given) => shapeOf(given.columns[0]!), [operand], info, at);
  }

  private data(node: Expression & { is: "call" }): Bound {
    const found = this.prepared.get(node);
    const column = this.bind(node.operands[0]!);
    if (found === undefined || column.is !== "input") throw this.error(node.at, "type", "DATA(column, k) takes a column and a constant whole number");
    return value(bare(found.values[0]!), column.info);
  }

  private weights(name: string, pairs: [Expression, Expression][], at: number): Bound {
    if (name !== "MAX_WEIGHT" && name !== "SUM_WEIGHT") throw this.error(at, "unknown_function", `${name} takes no pairs; MAX_WEIGHT and SUM_WEIGHT do`);
    return this.apply(name, (given) => weighed(given, name === "SUM_WEIGHT"), pairs.flat().map((one) => this.bind(one)), NUMBER, at, { cost: 1, mayFail: true });
  }

  private cases(branches: [Bound | null, Bound][], at: number): Bound {
    const values = this.alignedAll(branches.map(([, result]) => result), at);
    const info = merged(values.filter((one) => !(one.is === "value" && one.value === null)).map((one) => one.info));
    return { is: "cases", branches: branches.map(([told], i) => [told, values[i]!]), info };
  }

  /** Operands in what they have in common: one list of classes, one unit of time. */
  private alignedAll(operands: Bound[], at: number, isOrdered = false): Bound[] {
    return placed(this.text, at, () => {
      const domain = shared(operands.map((operand) => operand.info));
      if (domain === null) return operands;
      if (isOrdered && domain.classNames !== null) throw new QueryError("type", "classes of two lists have no common order; CAST(x AS text) has that of their names");
      return operands.map((operand) => this.folded(inDomain(operand, domain, at)));
    });
  }

  // -- parts and arrays -----------------------------------------------------------------------------------------------

  subscripted(base: Bound, items: Item[], at: number): Bound {
    const given = items.map((item): Part | Bound => this.part(item));
    const isBound = (one: Part | Bound): one is Bound => typeof one === "object" && "is" in one;
    const dynamic = given.filter(isBound);
    const { kind, rank } = base.info;
    const count = given.filter((one) => one !== "...").length;
    if (kind === "array" && rank !== null && count > rank) throw this.error(at, "rank", `${count} indices for samples of ${rank} axes`);
    if (kind === "array" && given.some((one) => typeof one === "object" && "key" in one && !isBound(one))) throw this.error(at, "type", "an array has no keys; a text between brackets is a key of a JSON value");
    if (kind !== "array" && kind !== "json" && given.includes("...")) throw new NeedsView("... of JSON values");
    const compute = (own: Given): Column => {
      let next = 1;
      return subscript(own.columns[0]!, given.map((one) => (isBound(one) ? own.columns[next++]! : one)));
    };
    return this.apply("[]", compute, [base, ...dynamic], partInfo(base.info, given.map((one) => (isBound(one) ? "bound" : one))), at, { mayFail: dynamic.length > 0 || (kind !== "json" && rank === null) });
  }

  private part(item: Item): Part | Bound {
    if (item.is === "dots") return "...";
    if (item.is === "slice") {
      const [start, stop, step] = [item.start, item.stop, item.step].map((end) => (end === null ? null : this.whole(end)));
      if (step === 0) throw this.error(item.at, "index", "the step of a slice is not 0");
      return { start: start!, stop: stop!, step: step! } satisfies Slice;
    }
    const found = this.bind(item);
    if (found.is !== "value") return found;
    if (typeof found.value === "string") return { key: found.value };
    const one = found.value instanceof Num && found.value.type === "int" ? found.value.value : null;
    return one === null ? found : Number(one);
  }

  private whole(node: Expression): number {
    const found = this.bind(node);
    const one = found.is === "value" && found.value instanceof Num && found.value.type === "int" ? found.value.value : null;
    if (one === null) throw this.error(node.at, "type", "the ends of a slice are whole numbers, the same for all rows");
    return Number(one);
  }

  private array(items: Expression[], at: number): Bound {
    const bound = items.map((item) => this.bind(item));
    if (bound.some((item) => item.is !== "value")) throw this.error(at, "type", "an array literal holds constants, no columns");
    const values = bound.map((item) => item as Bound & { is: "value" });
    if (values.length && values.every((item) => typeof item.value === "string")) return value(values.map((item) => item.value), JSON_INFO);
    const nds = values.map(({ value: own, exact }) => {
      const one = exact ?? own;
      if (!(one instanceof Num || one instanceof Nd)) throw this.error(at, "type", "the items of an array are numbers of equal shape: not all of them are numbers");
      return asNd(one);
    });
    return this.arrayValue(nds, at);
  }

  /** An array literal: float32, or 64-bit numbers if float32 rounds integers or overflows. */
  private arrayValue(items: Nd[], at: number): Bound {
    const shape = items[0]?.shape ?? [];
    if (items.some((item) => item.shape.join() !== shape.join())) throw this.error(at, "type", "the items of an array are numbers of equal shape");
    const dtype = items.length ? joint(items.map((item) => item.dtype)) : "float64";
    if (items.some((item) => isWide(item.data))) throw new NeedsView("arrays of integers beyond 2^53");
    const whole = [items.length, ...shape];
    const data = Float64Array.from(items.flatMap((item) => Array.from(item.data as Float64Array)));
    const narrow = Float32Array.from(data);
    const isSame = narrow.every((one, i) => one === data[i] || Number.isNaN(one));
    const overflows = narrow.some((one, i) => Number.isFinite(one) !== Number.isFinite(data[i]));
    const found = isWhole(dtype) && kindOf(dtype) !== "b" && !isSame ? new Nd("int64", whole, data) : overflows ? new Nd("float64", whole, data) : new Nd("float32", whole, narrow);
    return { is: "value", value: found, info: { ...NUMBER }, ...(isSame ? {} : { exact: new Nd(dtype, whole, data) }) };
  }
}

function constant(given: number | bigint | string | boolean | null, isFloat: boolean): Bound {
  if (given === null) return value(null, ANY);
  if (typeof given === "string") return value(given, TEXT);
  if (typeof given === "boolean") return value(new Num(Number(given), "bool"), NUMBER);
  return value(new Num(given, isFloat ? "float" : "int"), NUMBER);
}

/** Arrays without axes as numbers, which take the dtype of what they are compared with. */
export function bare(given: Val): Val {
  if (typeof given === "boolean") return new Num(Number(given), "bool");
  if (!(given instanceof Nd) || given.shape.length) return given;
  return new Num(given.data[0]!, given.dtype === "bool" ? "bool" : isWhole(given.dtype) ? "int" : "float");
}

/** The operands of the difference of a stored vector and a constant one that floats can hold. */
function difference(node: Bound): [Bound, Bound] | null {
  if (node.is !== "apply" || node.name !== "-" || node.operands.length !== 2) return null;
  const [column, vector] = (node.operands[0]!.is === "input" ? node.operands : [...node.operands].reverse()) as [Bound, Bound];
  if (column.is !== "input" || vector.is !== "value" || !(vector.value instanceof Nd)) return null;
  const { dtype, rank } = column.info;
  const isFloat = dtype !== null && (kindOf(dtype) === "f" || ["int8", "uint8", "int16", "uint16"].includes(dtype));
  return isFloat && rank === 1 && vector.value.shape.length === 1 && product(vector.value.shape) > 1 ? [column, vector] : null;
}

/** An array literal with all digits if float32 rounded it and the other side has more precision. */
const unrounded = (node: Bound, other: Bound): Bound =>
  node.is === "value" && node.exact !== undefined && other.info.dtype !== "float32" && other.info.dtype !== "float16" ? value(node.exact, node.info) : node;

function partInfo(info: Info, given: (Part | "bound")[]): Info {
  if (info.kind !== "array") return info.kind === "text" ? TEXT : ANY;
  const rank = info.rank === null || given.includes("bound") ? null : info.rank - given.filter((one) => typeof one === "number").length;
  return { ...NUMBER, dtype: info.dtype, rank, classNames: info.classNames, htype: info.htype, coords: info.coords, unit: info.unit, logical: info.logical };
}

// -- domains ----------------------------------------------------------------------------------------------------------

const UNITS = ["day", "s", "ms", "us", "ns"];
const PER_DAY: { [unit: string]: number } = { day: 1, s: 86_400, ms: 864e5, us: 864e8, ns: 864e11 };
const KINDS: { [name: string]: string } = { timestamp: "moment", date32: "moment", date64: "moment", time32: "time of day", time64: "time of day", duration: "duration" };

/** The kind of time that numbers stand for, and their unit. */
function timeOf(info: Info): { kind: string; unit: string } | null {
  const [name, rest = ""] = info.logical.split("[") as [string, string?];
  const unit = rest.replace(/\]$/, "").split(",")[0]!;
  return Object.hasOwn(KINDS, name) && UNITS.includes(unit) ? { kind: KINDS[name]!, unit } : null;
}

/** The common type that several columns are converted to; null if they need no conversion. */
function shared(infos: Info[]): Info | null {
  const times = infos.map(timeOf).filter((one) => one !== null);
  const hasText = infos.some((info) => info.kind === "text");
  if (times.length) {
    if (new Set(times.map((one) => one.kind)).size > 1) throw new QueryError("type", `a ${[...new Set(times.map((one) => one.kind))].sort().join(" and a ")} are not compared, and make no column`);
    const logicals = new Set(infos.filter((info) => timeOf(info) !== null).map((info) => info.logical));
    const isText = hasText && times[0]!.kind === "moment";
    if (!isText && logicals.size === 1) return null;
    if (times[0]!.kind !== "moment") throw new NeedsView("times of two units");
    const unit = UNITS[Math.max(...times.map((one) => UNITS.indexOf(one.unit)), isText ? 3 : 0)]!;
    return { ...NUMBER, dtype: "int64", logical: `timestamp[${unit === "day" ? "s" : unit}]` };
  }
  const lists = [...new Map(infos.filter((info) => info.classNames !== null).map((info) => [JSON.stringify(info.classNames), info.classNames!])).values()];
  if (lists.length && hasText) return TEXT;
  if (lists.length > 1) return { ...NUMBER, classNames: [...new Set(lists.flat())], htype: "class_label" };
  return null;
}

const noDate = (text: string): string => `'${text}' is no date such as '2026-01-31' or '2026-01-31 12:00'`;

function inDomain(node: Bound, domain: Info, at: number): Bound {
  const { info } = node;
  if (node.is === "value" && node.value === null) return node;
  if (node.is === "value" && !node.isRead && typeof node.value === "string" && domain.logical && microseconds(node.value) === null) throw new QueryError("type", noDate(node.value));
  const isSame = info.logical === domain.logical && JSON.stringify(info.classNames) === JSON.stringify(domain.classNames);
  if (isSame && (domain.kind === info.kind || !(info.logical || info.classNames))) return node;
  const told = { ...domain, rank: info.rank, isGroup: info.isGroup, coords: info.coords, unit: info.unit };
  return { is: "apply", name: "CONVERTED", compute: (given) => converted(given.columns[0]!, info, domain), operands: [node], info: told, at, cost: 1, mayFail: false };
}

function converted(column: Column, info: Info, domain: Info): Column {
  if (domain.logical) {
    const [wanted, own] = [timeOf(domain)!, timeOf(info)];
    const found = own === null ? parsed(column) : column;
    if (found === null) return column;
    const factor = PER_DAY[wanted.unit]! / PER_DAY[own?.unit ?? "us"]!;
    if (factor === 1) return found;
    if (factor < 1) throw new NeedsView("dates of texts beside coarser ones");
    return arithmetic("*", found, new Constant(new Num(factor, "int"), found.length));
  }
  const names = info.classNames;
  if (names === null || (domain.kind !== "text" && (domain.classNames === null || domain.classNames === names))) return column;
  const { classNames: wanted } = domain;
  if (wanted === null) return column instanceof Constant ? new Constant(labelNames(column.value, names), column.length) : byRow(column.length, [column], (one) => labelNames(one, names));
  const table = names.map((name) => wanted.indexOf(name));
  return mapped(column, "CONVERTED", () => "int64", (one) => table[one] ?? (one < 0 ? one : one - names.length + wanted.length));
}

