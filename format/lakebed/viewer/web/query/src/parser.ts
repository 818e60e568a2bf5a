/** The parser, by operator precedence (Pratt): the tables of Python's `language/expressions.py` and `language/parser.py`. */

import { RESERVED, TokenStream, type Token } from "./tokens";
import type { Body, Expression, Item, Order, Output, Query, Select, Source } from "./syntax";

const [OR, AND, NOT, EQUAL, RELATION, NEGATIVE] = [1, 2, 3, 4, 5, 10];
const BINARY: { [operator: string]: number } = {
  ...{ "=": EQUAL, "==": EQUAL, "!=": EQUAL, "<>": EQUAL, "<": RELATION, "<=": RELATION, ">": RELATION, ">=": RELATION },
  ...{ "+": 6, "-": 6, "*": 7, "/": 7, "%": 7, "^": 8, "||": 9 },
};
const WORDS: { [word: string]: number } = {
  ...{ or: OR, and: AND, like: RELATION, ilike: RELATION, between: RELATION, in: RELATION, is: RELATION, isnull: RELATION, not: RELATION },
};
const MEANT: { [operator: string]: string } = { "==": "=", "<>": "!=" };
const JOINS: { [word: string]: string } = {
  ...{ join: "inner", inner: "inner", left: "left", right: "right", full: "full", outer: "full", cross: "cross", natural: "natural" },
};

/** Parse one statement; a semicolon may end it. */
export function parse(text: string): Query {
  const tokens = new TokenStream(text);
  const found = query(tokens);
  tokens.skip(";");
  if (tokens.token.kind !== "end") {
    if (tokens.tokens[tokens.next - 1]!.text === ";") throw tokens.error("one query at a time: something follows the semicolon");
    throw tokens.unexpected("the end of the query");
  }
  return found;
}

// -- expressions ------------------------------------------------------------------------------------------------------

function expression(tokens: TokenStream, least = 0): Expression {
  tokens.deeper();
  const { depth } = tokens;
  let left = operand(tokens);
  for (;;) {
    const own = strength(tokens);
    if (own === 0 || own < least) break;
    tokens.deeper();
    left = continued(tokens, left, own);
    if (own === RELATION && strength(tokens) === RELATION) throw tokens.error("comparisons do not follow each other: write a < b AND b < c");
  }
  tokens.depth = depth - 1;
  return left;
}

const expressions = (tokens: TokenStream): Expression[] => tokens.separated((one) => expression(one));

function strength(tokens: TokenStream): number {
  const table = tokens.token.kind === "operator" ? BINARY : WORDS;
  const word = tokens.token.kind === "operator" ? tokens.token.text : tokens.keyword();
  return Object.hasOwn(table, word) ? table[word]! : 0;
}

function continued(tokens: TokenStream, left: Expression, own: number): Expression {
  const { text, kind, at } = tokens.take();
  if (own === OR || own === AND) {
    const operator = text.toLowerCase() as "and" | "or";
    const operands = [left, expression(tokens, own + 1)];
    while (tokens.skip(operator)) operands.push(expression(tokens, own + 1));
    return { is: "logical", operator, operands, at };
  }
  if (kind === "name") return relation(tokens, left, text.toLowerCase(), at);
  return { is: "binary", operator: MEANT[text] ?? text, left, right: expression(tokens, own + 1), at };
}

/** LIKE, BETWEEN, IN and IS NULL, each of which may be negated. */
function relation(tokens: TokenStream, left: Expression, word: string, at: number): Expression {
  let isNegated = word === "not";
  let name = word;
  if (isNegated) {
    if (!tokens.is("like", "ilike", "between", "in")) throw tokens.unexpected("LIKE, ILIKE, BETWEEN or IN");
    name = tokens.take().text.toLowerCase();
  } else if (name === "is") {
    isNegated = tokens.skip("not");
    tokens.expect("null");
  }
  const found = related(tokens, left, name, at);
  return isNegated ? { is: "unary", operator: "not", operand: found, at } : found;
}

function related(tokens: TokenStream, left: Expression, name: string, at: number): Expression {
  if (name === "like" || name === "ilike") return { is: "like", operand: left, pattern: expression(tokens, RELATION + 1), anyCase: name === "ilike", at };
  if (name === "in") return member(tokens, left, at);
  if (name !== "between") return { is: "isnull", operand: left, at };
  const low = expression(tokens, RELATION + 1);
  tokens.expect("and");
  const edge = (operator: string, right: Expression): Expression => ({ is: "binary", operator, left, right, at });
  return { is: "logical", operator: "and", operands: [edge(">=", low), edge("<=", expression(tokens, RELATION + 1))], at };
}

function member(tokens: TokenStream, left: Expression, at: number): Expression {
  // 'cat' in labels
  if (left.is === "literal" && !tokens.is("(", "[")) return { is: "call", name: "CONTAINS", operands: [expression(tokens, RELATION + 1), left], isDistinct: false, isStar: false, at };
  const [opening, closing] = tokens.skip("array") ? ["[", "]"] : ["(", ")"];
  tokens.expect(opening!);
  const inner = opening === "(" && tokens.is("select", "with") ? query(tokens) : null;
  const items = inner === null && !tokens.is(closing!) ? expressions(tokens) : [];
  tokens.expect(closing!);
  return { is: "in", operand: left, items, query: inner, at };
}

function operand(tokens: TokenStream): Expression {
  const { at } = tokens.token;
  if (tokens.skip("-")) {
    const found = expression(tokens, NEGATIVE);
    const value = found.is === "literal" ? found.value : null;
    if (found.is === "literal" && typeof value === "bigint") return { ...found, value: -value, at };
    if (found.is === "literal" && typeof value === "number") return { ...found, value: value === 0 && !found.isFloat ? 0 : -value, at };
    return { is: "unary", operator: "-", operand: found, at };
  }
  if (tokens.skip("+")) return expression(tokens, NEGATIVE);
  if (tokens.skip("not")) return { is: "unary", operator: "not", operand: expression(tokens, NOT), at };
  let found = primary(tokens);
  while (tokens.is("[")) {
    tokens.deeper();
    const place = tokens.take().at;
    found = { is: "subscript", base: found, items: subscripts(tokens), at: place };
  }
  return found;
}

function primary(tokens: TokenStream): Expression {
  const { token } = tokens;
  if (token.kind === "integer" || token.kind === "float" || token.kind === "string") {
    tokens.take();
    return { is: "literal", value: token.kind === "string" ? token.text : token.value, isFloat: token.kind === "float", at: token.at };
  }
  if (tokens.is("?") || token.kind === "parameter") {
    tokens.take();
    return { is: "parameter", at: token.at };
  }
  if (tokens.is("[")) return array(tokens);
  if (tokens.is("(")) return tokens.bracketed(() => inside(tokens, token.at));
  if (token.kind === "quoted") return named(tokens, tokens.take());
  if (token.kind === "name") return unquoted(tokens);
  throw tokens.unexpected("an expression");
}

function inside(tokens: TokenStream, at: number): Expression {
  if (tokens.is("select", "with")) return { is: "nested", query: query(tokens), isExists: false, at };
  return expression(tokens);
}

function unquoted(tokens: TokenStream): Expression {
  const token = tokens.take();
  const name = token.text.toLowerCase();
  const { at } = token;
  if (name === "true" || name === "false" || name === "null") return { is: "literal", value: name === "null" ? null : name === "true", isFloat: false, at };
  if (name === "array" && tokens.is("[")) return array(tokens);
  if (name === "case") return cases(tokens, at);
  if (name === "cast" && tokens.is("("))
    return tokens.bracketed(() => {
      const value = expression(tokens);
      tokens.expect("as");
      const type = tokens.expectName("a type").text.toLowerCase();
      if (type === "double") tokens.skip("precision");
      return { is: "cast", operand: value, type, at };
    });
  if (name === "extract" && tokens.is("("))
    return tokens.bracketed(() => {
      const unit = tokens.expectName("a unit such as YEAR").text.toLowerCase();
      tokens.expect("from");
      const named: Expression = { is: "literal", value: unit, isFloat: false, at };
      return { is: "call", name: "DATE_PART", operands: [named, expression(tokens)], isDistinct: false, isStar: false, at };
    });
  if (name === "exists" && tokens.is("(")) return { is: "nested", query: tokens.bracketed(query), isExists: true, at };
  if ((name === "date" || name === "timestamp") && tokens.token.kind === "string") {
    const text = tokens.take();
    return { is: "cast", operand: { is: "literal", value: text.text, isFloat: false, at: text.at }, type: name, at };
  }
  if (RESERVED.has(name) && !((name === "left" || name === "right") && tokens.is("("))) {
    tokens.next--;
    throw tokens.unexpected("an expression");
  }
  return named(tokens, token);
}

function named(tokens: TokenStream, token: Token): Expression {
  if (tokens.is("(")) return call(tokens, token);
  const isPath = tokens.is(".") && ["name", "quoted"].includes(tokens.ahead(1).kind);
  if (!isPath) return { is: "name", table: null, column: token.text, at: token.at };
  tokens.take();
  const column = tokens.take();
  if (!tokens.is("(")) return { is: "name", table: token.text, column: column.text, at: token.at };
  const found = call(tokens, column); // images.contains(3) is contains(images, 3)
  if (found.is !== "call") return found;
  return { ...found, operands: [{ is: "name", table: null, column: token.text, at: token.at }, ...found.operands], isStar: false };
}

function array(tokens: TokenStream): Expression {
  const { at } = tokens.expect("[");
  const items = tokens.is("]") ? [] : expressions(tokens);
  tokens.expect("]");
  return { is: "array", items, at };
}

function call(tokens: TokenStream, { text: name, at }: Token): Expression {
  return tokens.bracketed((): Expression => {
    const found = { is: "call" as const, name, operands: [] as Expression[], isDistinct: false, isStar: tokens.skip("*"), at };
    if (found.isStar) return found;
    found.isDistinct = tokens.skip("distinct");
    if (tokens.is(")")) return found;
    const weights: Expression[] = [];
    found.operands = tokens.separated(() => {
      const operand = expression(tokens);
      if (weights.length === 0 ? tokens.skip(":") : tokens.expect(":")) weights.push(expression(tokens));
      return operand;
    });
    if (!weights.length) return found;
    if (weights.length < found.operands.length) throw tokens.unexpected("':'");
    return { is: "weights", name, pairs: found.operands.map((one, i) => [one, weights[i]!]), at };
  });
}

function cases(tokens: TokenStream, at: number): Expression {
  const compared = tokens.is("when") ? null : expression(tokens);
  const branches: [Expression, Expression][] = [];
  while (tokens.skip("when")) {
    const condition = expression(tokens);
    tokens.expect("then");
    branches.push([compared === null ? condition : { is: "binary", operator: "=", left: compared, right: condition, at }, expression(tokens)]);
  }
  if (!branches.length) throw tokens.unexpected("WHEN");
  const otherwise = tokens.skip("else") ? expression(tokens) : null;
  tokens.expect("end");
  return { is: "case", branches, otherwise, at };
}

/** The items between square brackets, and the closing one. */
function subscripts(tokens: TokenStream): Item[] {
  const found = tokens.separated((): Item => {
    const { at } = tokens.token;
    if (tokens.skip("...")) return { is: "dots", at };
    const start = tokens.is(":") ? null : expression(tokens);
    if (!tokens.skip(":")) {
      if (start === null) throw tokens.unexpected("an index");
      return start;
    }
    const stop = tokens.is(":", ",", "]") ? null : expression(tokens);
    const step = tokens.skip(":") && !tokens.is(",", "]") ? expression(tokens) : null;
    return { is: "slice", start, stop, step, at };
  });
  tokens.expect("]");
  return found;
}

// -- statements -------------------------------------------------------------------------------------------------------

function query(tokens: TokenStream): Query {
  tokens.deeper();
  const [{ depth }, { at }] = [tokens, tokens.token];
  const tables = tokens.skip("with")
    ? tokens.separated((): [string, Query] => {
        const name = tokens.expectName("a name for the query").text;
        tokens.expect("as");
        return [name, tokens.bracketed(query)];
      })
    : [];
  const body = combined(tokens);
  const order = takes(tokens, "order") ? tokens.separated(key) : [];
  const arrange = takes(tokens, "arrange") ? expressions(tokens) : [];
  const found: Query = { is: "query", body, tables, order, arrange, limit: limit(tokens), sample: sample(tokens), at };
  tokens.depth = depth - 1;
  return found;
}

/** Move past a keyword and BY if they are next. */
function takes(tokens: TokenStream, word: string): boolean {
  if (!tokens.skip(word)) return false;
  tokens.expect("by");
  return true;
}

const combined = (tokens: TokenStream): Body => chain(tokens, ["union", "except"], () => chain(tokens, ["intersect"], term));

function chain(tokens: TokenStream, operators: string[], read: (tokens: TokenStream) => Body): Body {
  let left = read(tokens);
  while (tokens.is(...operators)) {
    tokens.deeper();
    const { text, at } = tokens.take();
    const keepsAll = tokens.skip("all");
    if (!keepsAll) tokens.skip("distinct");
    left = { is: "combined", operator: text.toLowerCase() as "union", keepsAll, left, right: read(tokens), at };
  }
  return left;
}

const term = (tokens: TokenStream): Body => (tokens.is("(") ? tokens.bracketed(query) : select(tokens));

function select(tokens: TokenStream): Select {
  const { at } = tokens.expect("select");
  let top = topOf(tokens);
  const isDistinct = tokens.skip("distinct");
  let distinctOn: Expression[] = [];
  if (isDistinct && tokens.skip("on")) distinctOn = tokens.bracketed(expressions);
  else if (!isDistinct && tokens.ahead(1).text !== "(") tokens.skip("all"); // ALL(...) is the function
  top ??= topOf(tokens);
  const items = tokens.separated(output);
  const source = tokens.skip("from") ? sources(tokens) : null;
  const where = tokens.skip("where") ? expression(tokens) : null;
  const expand = expandOf(tokens);
  let group: Expression[] = [];
  let having: Expression | null = null;
  if (takes(tokens, "group")) {
    group = expressions(tokens);
    having = tokens.skip("having") ? expression(tokens) : null;
    if (tokens.skip("across")) {
      if (!tokens.is("time", "space")) throw tokens.unexpected("TIME or SPACE");
      tokens.take();
    }
  } else if (tokens.is("having")) throw tokens.error("HAVING follows GROUP BY; without it, say WHERE");
  if (tokens.is("where")) throw tokens.error("WHERE comes before GROUP BY; to choose among groups, say HAVING");
  const place = tokens.token.at;
  const ungroup = takes(tokens, "ungroup") ? { count: tokens.skip("split") ? null : expression(tokens), at: place } : null;
  return { is: "select", items, source, where, expand, group, having, ungroup, isDistinct, distinctOn, top, at };
}

function topOf(tokens: TokenStream): number | null {
  if (!tokens.is("top") || tokens.ahead(1).kind !== "integer") return null;
  tokens.take();
  return whole(tokens);
}

function output(tokens: TokenStream): Output {
  const { token } = tokens;
  const { at } = token;
  if (tokens.skip("*")) return { expression: null, alias: null, table: null, items: tokens.skip("[") ? subscripts(tokens) : [], at };
  const isAll = tokens.ahead(1).text === "." && tokens.ahead(2).text === "*" && tokens.ahead(2).kind === "operator";
  if ((token.kind === "name" || token.kind === "quoted") && isAll) {
    tokens.next += 3;
    return { expression: null, alias: null, table: token.text, items: [], at };
  }
  const found = expression(tokens);
  return { expression: found, alias: alias(tokens), table: null, items: [], at };
}

function alias(tokens: TokenStream): string | null {
  if (tokens.skip("as")) return tokens.expectName("a name").text;
  const { token } = tokens;
  return token.kind === "quoted" || (token.kind === "name" && !RESERVED.has(token.text.toLowerCase())) ? tokens.take().text : null;
}

function expandOf(tokens: TokenStream): Select["expand"] {
  const { at } = tokens.token;
  if (!takes(tokens, "expand")) return null;
  const before = whole(tokens);
  const after = tokens.skip(",") || tokens.token.kind === "integer" ? whole(tokens) : before;
  const keepsRepeats = tokens.skip("overlap") && tokens.takeFlag();
  return { before, after, keepsRepeats, alias: tokens.skip("as") ? tokens.expectName("a name").text : null, at };
}

function whole(tokens: TokenStream): number {
  if (tokens.token.kind !== "integer") throw tokens.unexpected("a number of rows");
  return Number(tokens.take().value ?? 0);
}

function key(tokens: TokenStream): Order {
  const found = expression(tokens);
  const isDescending = tokens.skip("desc");
  if (!isDescending) tokens.skip("asc");
  let nulls: Order["nulls"] = "";
  if (tokens.skip("nulls")) {
    if (!tokens.is("first", "last")) throw tokens.unexpected("FIRST or LAST");
    nulls = tokens.take().text.toLowerCase() as "first";
  }
  return { expression: found, isDescending, nulls };
}

/** A number of rows, or of hundredths of them. */
const counted = (tokens: TokenStream): { count: Expression; isPercent: boolean } => ({ count: expression(tokens), isPercent: tokens.skip("percent") });

function limit(tokens: TokenStream): Query["limit"] {
  const { at } = tokens.token;
  const first = tokens.keyword();
  if (first !== "limit" && first !== "offset") return null;
  const found: NonNullable<Query["limit"]> = { count: null, isPercent: false, offset: null, at };
  for (const clause of [first, first === "limit" ? "offset" : "limit"]) {
    if (!tokens.skip(clause)) continue;
    if (clause === "offset") found.offset = expression(tokens);
    else if (!tokens.skip("all")) Object.assign(found, counted(tokens));
  }
  return found;
}

function sample(tokens: TokenStream): Query["sample"] {
  const { at } = tokens.token;
  if (!takes(tokens, "sample")) return null;
  const found: NonNullable<Query["sample"]> = { weight: expression(tokens), replace: true, seed: null, count: null, isPercent: false, at };
  for (;;) {
    if (tokens.skip("replace")) found.replace = tokens.takeFlag();
    else if (tokens.skip("seed")) found.seed = expression(tokens);
    else if (tokens.skip("limit")) Object.assign(found, counted(tokens));
    else return found;
  }
}

// -- sources ----------------------------------------------------------------------------------------------------------

function sources(tokens: TokenStream): Source {
  let left = joined(tokens);
  while (tokens.is(",")) {
    tokens.deeper();
    const { at } = tokens.take();
    joined(tokens);
    left = { is: "join", kind: "zip", at };
  }
  return left;
}

/** Tables and their joins, which only Python answers. */
function joined(tokens: TokenStream): Source {
  let left = table(tokens);
  while (tokens.is(...Object.keys(JOINS))) {
    tokens.deeper();
    const { text, at } = tokens.take();
    const first = text.toLowerCase();
    const kind = JOINS[first]!;
    if (["left", "right", "full"].includes(first)) tokens.skip("outer");
    if (first !== "join") tokens.expect("join");
    table(tokens);
    if (tokens.skip("on")) expression(tokens);
    else if (tokens.skip("using")) tokens.bracketed(() => tokens.separated(() => tokens.expectName("a column")));
    else if (kind !== "cross" && kind !== "natural") throw tokens.unexpected("ON or USING");
    left = { is: "join", kind, at };
  }
  return left;
}

function table(tokens: TokenStream): Source {
  const { token } = tokens;
  const { at } = token;
  if (tokens.is("(")) {
    const found = tokens.bracketed((): Query | Source => (tokens.is("select", "with") || tokens.is("(") ? query(tokens) : sources(tokens)));
    return found.is === "query" ? { is: "derived", query: found, alias: alias(tokens), at } : found;
  }
  if (tokens.is("diff") && tokens.ahead(1).text === "(") return difference(tokens);
  if (token.kind === "name" && RESERVED.has(token.text.toLowerCase())) throw tokens.unexpected("a dataset");
  const name = tokens.expectName('a dataset: "path/to/it" in double quotes');
  let path = name.text;
  while (name.kind === "name" && tokens.is(".") && ["name", "quoted"].includes(tokens.ahead(1).kind)) {
    tokens.take();
    path += `.${tokens.take().text}`;
  }
  let version: string | null = null;
  if (tokens.token.kind === "version") version = tokens.take().text;
  else if (tokens.is("version") && tokens.ahead(1).kind === "string") {
    tokens.take();
    version = tokens.take().text;
  }
  return { is: "path", path, version, alias: alias(tokens), isQuoted: name.kind === "quoted", at };
}

function difference(tokens: TokenStream): Source {
  const { at } = tokens.take();
  const version = (): void => {
    if (tokens.token.kind !== "string") throw tokens.unexpected("a branch, commit or tag in single quotes");
    tokens.take();
  };
  tokens.bracketed(() => {
    if (tokens.token.kind === "quoted" && tokens.take()) tokens.expect(",");
    version();
    tokens.expect(",");
    version();
  });
  alias(tokens);
  return { is: "difference", at };
}
