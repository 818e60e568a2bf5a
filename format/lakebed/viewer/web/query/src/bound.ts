/** Bound expressions, and their values over rows that are here; after Python's `relations/bound.py` and `evaluate.py`. */

import { Arrays, Constant, collect, flags, flagsOf, inPlaces, gathered, placesOf, rowsOf, take, truth, wholes, type Column, type Rows, type Val } from "./columns";
import { FLAG, NUMBER, type Given, type Info } from "./functions";
import { logical, mapped } from "./numbers";

/** The column of a grouped relation that counts the rows of each group. */
export const COUNT_ALL = "";

export interface Apply {
  is: "apply";
  name: string;
  compute(given: Given): Column;
  operands: Bound[];
  info: Info;
  at: number;
  cost: number;
  mayFail: boolean;
  key?: ((column: Column) => Column) | undefined;
}

export type Bound =
  | { is: "value"; value: Val; info: Info; exact?: Val; isRead?: boolean }
  | { is: "input"; name: string; info: Info }
  | Apply
  | { is: "logic"; operator: "and" | "or"; operands: Bound[]; info: Info }
  | { is: "not"; operand: Bound; info: Info }
  | { is: "missing"; operand: Bound; info: Info }
  | { is: "shape"; name: string; info: Info }
  | { is: "number"; info: Info }
  | { is: "cases"; branches: [Bound | null, Bound][]; info: Info };

export const value = (given: Val, info: Info, isRead = false): Bound => ({ is: "value", value: given, info, isRead });
export const not = (operand: Bound): Bound => ({ is: "not", operand, info: FLAG });
export const and = (operands: Bound[]): Bound => ({ is: "logic", operator: "and", operands, info: FLAG });
export const or = (operands: Bound[]): Bound => ({ is: "logic", operator: "or", operands, info: FLAG });
export const rowNumber: Bound = { is: "number", info: NUMBER };

export function parts(node: Bound): Bound[] {
  switch (node.is) {
    case "apply": case "logic": return node.operands;
    case "not": case "missing": return [node.operand];
    case "cases": return node.branches.flatMap(([told, value]) => (told === null ? [value] : [told, value]));
    default: return [];
  }
}

/** The column whose missing values are recorded separately; null where only the values tell. */
export const onRecord = (node: Bound): string | null => (node.is === "missing" && node.operand.is === "input" && node.operand.info.nullsApart ? node.operand.name : null);

/** Needs of an expression, each a word and the name of a column: its data, its shape, or which values are missing. */
export function needs(node: Bound, found = new Set<string>()): Set<string> {
  const record = onRecord(node);
  if (record !== null) found.add(`missing ${record}`);
  else if (node.is === "input") found.add(`data ${node.name}`);
  else if (node.is === "shape") found.add(`shape ${node.name}`);
  else for (const part of parts(node)) needs(part, found);
  return found;
}

export const nameIn = (need: string): string => need.slice(need.indexOf(" ") + 1);
export const inputs = (node: Bound): string[] => [...new Set([...needs(node)].map(nameIn))];
export const isByPlace = (node: Bound): boolean => node.is === "number" || parts(node).some(isByPlace);
export const mayFail = (node: Bound): boolean => (node.is === "apply" && node.mayFail) || parts(node).some(mayFail);

export function cost(node: Bound): number {
  if (node.is === "input") return node.info.cost + 0.5;
  return (node.is === "apply" ? node.cost : 0.01) + (node.is === "shape" ? 0.5 : 0) + parts(node).reduce((sum, part) => sum + cost(part), 0);
}

/** Rows, with the columns that expressions over them read. */
export class Scope {
  constructor(
    readonly count: number,
    readonly read: Map<string, Column>,
    /** Positions of the rows in their relation. */
    readonly places: Rows,
  ) {}

  only(mask: Uint8Array): Scope {
    const kept = placesOf(mask);
    return new Scope(kept.length, new Map([...this.read].map(([need, column]) => [need, take(column, kept)])), gathered(this.places, kept));
  }
}

export function evaluate(node: Bound, scope: Scope): Column {
  switch (node.is) {
    case "value": return new Constant(node.value, scope.count);
    case "input": return scope.read.get(`data ${node.name}`)!;
    case "shape": return scope.read.get(`shape ${node.name}`)!;
    case "number": return wholes(scope.places);
    case "apply": return node.compute({ columns: node.operands.map((operand) => evaluate(operand, scope)), count: scope.count, infos: node.operands.map((operand) => operand.info) });
    case "logic": return node.operands.map((operand) => flags(evaluate(operand, scope))).reduce((a, b) => logical(node.operator, a, b));
    case "not": return mapped(flags(evaluate(node.operand, scope)), "NOT", () => "bool", (own) => (own ? 0 : 1));
    case "missing": return flagsOf(missing(node, scope));
    case "cases": return casesOf(node.branches, scope);
  }
}

function missing(node: Bound & { is: "missing" }, scope: Scope): Uint8Array {
  const name = onRecord(node);
  if (name !== null) return (scope.read.get(`missing ${name}`) as Arrays).data as Uint8Array;
  return evaluate(node.operand, scope).missing ?? new Uint8Array(scope.count);
}

function casesOf(branches: [Bound | null, Bound][], scope: Scope): Column {
  const left = new Uint8Array(scope.count).fill(1);
  const [found, places]: [Column[], Rows[]] = [[], []];
  for (const [condition, result] of branches) {
    let chosen = left.slice();
    if (condition !== null) {
      chosen = new Uint8Array(scope.count);
      const told = isTrue(condition, scope.only(left));
      placesOf(left).forEach((row, i) => (chosen[row] = told[i]!));
    }
    if (chosen.includes(1)) {
      const column = evaluate(result, scope.only(chosen));
      found.push(column instanceof Constant ? collect(rowsOf(column)) : column);
      places.push(placesOf(chosen));
    }
    chosen.forEach((one, i) => one && (left[i] = 0));
  }
  return found.length ? inPlaces(found, places) : new Constant(null, scope.count);
}

/** Whether a condition is true for each row: for arrays, for all values, of which there is at least one. */
export function isTrue(node: Bound, scope: Scope): Uint8Array {
  if (node.is === "not") return isTrue(node.operand, scope).map((one) => 1 - one);
  if (node.is === "missing") return missing(node, scope);
  if (node.is !== "logic") return truth(evaluate(node, scope));
  const found = isTrue(node.operands[0]!, scope).slice();
  const isAnd = node.operator === "and";
  for (const operand of node.operands.slice(1)) {
    if (!found.includes(isAnd ? 1 : 0)) break;
    const told = isTrue(operand, scope);
    for (let i = 0; i < found.length; i++) found[i] = isAnd ? found[i]! & told[i]! : found[i]! | told[i]!;
  }
  return found;
}

