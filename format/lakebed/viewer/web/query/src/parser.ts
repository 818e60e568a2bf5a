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
export function parse(text: string): { query: Query; parameters: boolean } {
  const tokens = new TokenStream(text, query);
  const found = query(tokens);
  tokens.takeOperator(";");
  if (tokens.token.kind !== "end") {
    if (tokens.tokens[tokens.next - 1]!.text === ";") throw tokens.error("one query at a time: something follows the semicolon");
    throw tokens.unexpected("the end of the query");
  }
  return { query: found, parameters: tokens.parameters };
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
    while (tokens.takeKeyword(operator)) operands.push(expression(tokens, own + 1));
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
    if (!tokens.isKeyword("like", "ilike", "between", "in")) throw tokens.unexpected("LIKE, ILIKE, BETWEEN or IN");
    name = tokens.take().text.toLowerCase();
  } else if (name === "is") {
    isNegated = tokens.takeKeyword("not");
    tokens.expectKeyword("null");
  }
  const found = related(tokens, left, name, at);
  return isNegated ? { is: "unary", operator: "not", operand: found, at } : found;
}

function related(tokens: TokenStream, left: Expression, name: string, at: number): Expression {
  if (name === "like" || name === "ilike") return { is: "like", operand: left, pattern: expression(tokens, RELATION + 1), anyCase: name === "ilike", at };
  if (name === "in") return member(tokens, left, at);
  if (name !== "between") return { is: "isnull", operand: left, at };
  const low = expression(tokens, RELATION + 1);
  tokens.expectKeyword("and");
  const edge = (operator: string, right: Expression): Expression => ({ is: "binary", operator, left, right, at });
  return { is: "logical", operator: "and", operands: [edge(">=", low), edge("<=", expression(tokens, RELATION + 1))], at };
}

function member(tokens: TokenStream, left: Expression, at: number): Expression {
  // 'cat' in labels
  if (left.is === "literal" && !tokens.isOperator("(", "[")) return { is: "call", name: "CONTAINS", operands: [expression(tokens, RELATION + 1), left], isDistinct: false, isStar: false, at };
  const [opening, closing] = tokens.takeKeyword("array") ? ["[", "]"] : ["(", ")"];
  tokens.expectOperator(opening!);
  const inner = opening === "(" && tokens.isKeyword("select", "with") ? query(tokens) : null;
  const items = inner === null && !tokens.isOperator(closing!) ? expressions(tokens) : [];
  tokens.expectOperator(closing!);
  return { is: "in", operand: left, items, query: inner, at };
}

function operand(tokens: TokenStream): Expression {
  const { at } = tokens.token;
  if (tokens.takeOperator("-")) {
    const found = expression(tokens, NEGATIVE);
    const value = found.is === "literal" ? found.value : null;
    if (found.is === "literal" && typeof value === "bigint") return { ...found, value: -value, at };
    if (found.is === "literal" && typeof value === "number") return { ...found, value: value === 0 && !found.isFloat ? 0 : -value, at };
    return { is: "unary", operator: "-", operand: found, at };
  }
  if (tokens.takeOperator("+")) return expression(tokens, NEGATIVE);
  if (tokens.takeKeyword("not")) return { is: "unary", operator: "not", operand: expression(tokens, NOT), at };
  let found = primary(tokens);
  while (tokens.isOperator("[")) {
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
  if (tokens.isOperator("?") || token.kind === "parameter") {
    tokens.take();
    tokens.parameters = true;
    return { is: "parameter", at: token.at };
  }
  if (tokens.isOperator("[")) return array(tokens);
  if (tokens.isOperator("(")) return tokens.bracketed(() => inside(tokens, token.at));
  if (token.kind === "quoted") return named(tokens, tokens.take());
  if (token.kind === "name") return unquoted(tokens);
  throw tokens.unexpected("an expression");
}

function inside(tokens: TokenStream, at: number): Expression {
  if (tokens.isKeyword("select", "with")) return { is: "nested", query: query(tokens), isExists: false, at };
  return expression(tokens);
}

function unquoted(tokens: TokenStream): Expression {
  const token = tokens.take();
  const name = token.text.toLowerCase();
  const { at } = token;
  if (name === "true" || name === "false" || name === "null") return { is: "literal", value: name === "null" ? null : name === "true", isFloat: false, at };
  if (name === "array" && tokens.isOperator("[")) return array(tokens);
  if (name === "case") return cases(tokens, at);
  if (name === "cast" && tokens.isOperator("("))
    return tokens.bracketed(() => {
      const value = expression(tokens);
      tokens.expectKeyword("as");
      const type = tokens.expectName("a type").text.toLowerCase();
      if (type === "double") tokens.takeKeyword("precision");
      return { is: "cast", operand: value, type, at };
    });
  if (name === "extract" && tokens.isOperator("("))
    return tokens.bracketed(() => {
      const unit = tokens.expectName("a unit such as YEAR").text.toLowerCase();
      tokens.expectKeyword("from");
      const named: Expression = { is: "literal", value: unit, isFloat: false, at };
      return { is: "call", name: "DATE_PART", operands: [named, expression(tokens)], isDistinct: false, isStar: false, at };
    });
  if (name === "exists" && tokens.isOperator("(")) return { is: "nested", query: tokens.bracketed(query), isExists: true, at };
  if ((name === "date" || name === "timestamp") && tokens.token.kind === "string") {
    const text = tokens.take();
    return { is: "cast", operand: { is: "literal", value: text.text, isFloat: false, at: text.at }, type: name, at };
  }
  if (RESERVED.has(name) && !((name === "left" || name === "right") && tokens.isOperator("("))) {
    tokens.next--;
    throw tokens.unexpected("an expression");
  }
  return named(tokens, token);
}

function named(tokens: TokenStream, token: Token): Expression {
  if (tokens.isOperator("(")) return call(tokens, token);
  const isPath = tokens.isOperator(".") && ["name", "quoted"].includes(tokens.ahead(1).kind);
  if (!isPath) return { is: "name", table: null, column: token.text, at: token.at };
  tokens.take();
  const column = tokens.take();
  if (!tokens.isOperator("(")) return { is: "name", table: token.text, column: column.text, at: token.at };
  const found = call(tokens, column); // images.contains(3) is contains(images, 3)
  if (found.is !== "call") return found;
  return { ...found, operands: [{ is: "name", table: null, column: token.text, at: token.at }, ...found.operands], isStar: false };
}

function array(tokens: TokenStream): Expression {
  const { at } = tokens.expectOperator("[");
  const items = tokens.isOperator("]") ? [] : expressions(tokens);
  tokens.expectOperator("]");
  return { is: "array", items, at };
}

function call(tokens: TokenStream, { text: name, at }: Token): Expression {
  return tokens.bracketed((): Expression => {
    const found = { is: "call" as const, name, operands: [] as Expression[], isDistinct: false, isStar: tokens.takeOperator("*"), at };
    if (found.isStar) return found;
    found.isDistinct = tokens.takeKeyword("distinct");
    if (tokens.isOperator(")")) return found;
    const weights: Expression[] = [];
    found.operands = tokens.separated(() => {
      const operand = expression(tokens);
      if (weights.length === 0 ? tokens.takeOperator(":") : tokens.expectOperator(":")) weights.push(expression(tokens));
      return operand;
    });
    if (!weights.length) return found;
    if (weights.length < found.operands.length) throw tokens.unexpected("':'");
    return { is: "weights", name, pairs: found.operands.map((one, i) => [one, weights[i]!]), at };
  });
}

function cases(tokens: TokenStream, at: number): Expression {
  const compared = tokens.isKeyword("when") ? null : expression(tokens);
  const branches: [Expression, Expression][] = [];
  while (tokens.takeKeyword("when")) {
    const condition = expression(tokens);
    tokens.expectKeyword("then");
    branches.push([compared === null ? condition : { is: "binary", operator: "=", left: compared, right: condition, at }, expression(tokens)]);
  }
  if (!branches.length) throw tokens.unexpected("WHEN");
  const otherwise = tokens.takeKeyword("else") ? expression(tokens) : null;
  tokens.expectKeyword("end");
  return { is: "case", branches, otherwise, at };
}

/** The items between square brackets, and the closing one. */
function subscripts(tokens: TokenStream): Item[] {
  const found = tokens.separated((): Item => {
    const { at } = tokens.token;
    if (tokens.takeOperator("...")) return { is: "dots", at };
    const start = tokens.isOperator(":") ? null : expression(tokens);
    if (!tokens.takeOperator(":")) {
      if (start === null) throw tokens.unexpected("an index");
      return start;
    }
    const stop = tokens.isOperator(":", ",", "]") ? null : expression(tokens);
    const step = tokens.takeOperator(":") && !tokens.isOperator(",", "]") ? expression(tokens) : null;
    return { is: "slice", start, stop, step, at };
  });
  tokens.expectOperator("]");
  return found;
}

// -- statements -------------------------------------------------------------------------------------------------------

function query(tokens: TokenStream): Query {
  tokens.deeper();
  const [{ depth }, { at }] = [tokens, tokens.token];
  const tables = tokens.takeKeyword("with")
    ? tokens.separated((): [string, Query] => {
        const name = tokens.expectName("a name for the query").text;
        tokens.expectKeyword("as");
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
  if (!tokens.takeKeyword(word)) return false;
  tokens.expectKeyword("by");
  return true;
}

const combined = (tokens: TokenStream): Body => chain(tokens, ["union", "except"], () => chain(tokens, ["intersect"], term));

function chain(tokens: TokenStream, operators: string[], read: (tokens: TokenStream) => Body): Body {
  let left = read(tokens);
  while (tokens.isKeyword(...operators)) {
    tokens.deeper();
    const { text, at } = tokens.take();
    const keepsAll = tokens.takeKeyword("all");
    if (!keepsAll) tokens.takeKeyword("distinct");
    left = { is: "combined", operator: text.toLowerCase() as "union", keepsAll, left, right: read(tokens), at };
  }
  return left;
}

const term = (tokens: TokenStream): Body => (tokens.isOperator("(") ? tokens.bracketed(query) : select(tokens));

function select(tokens: TokenStream): Select {
  const { at } = tokens.expectKeyword("select");
  let top = topOf(tokens);
  const isDistinct = tokens.takeKeyword("distinct");
  let distinctOn: Expression[] = [];
  if (isDistinct && tokens.takeKeyword("on")) distinctOn = tokens.bracketed(expressions);
  else if (!isDistinct && tokens.ahead(1).text !== "(") tokens.takeKeyword("all"); // ALL(...) is the function
  top ??= topOf(tokens);
  const items = tokens.separated(output);
  const source = tokens.takeKeyword("from") ? sources(tokens) : null;
  const where = tokens.takeKeyword("where") ? expression(tokens) : null;
  const expand = expandOf(tokens);
  let group: Expression[] = [];
  let having: Expression | null = null;
  if (takes(tokens, "group")) {
    group = expressions(tokens);
    having = tokens.takeKeyword("having") ? expression(tokens) : null;
    if (tokens.takeKeyword("across")) {
      if (!tokens.isKeyword("time", "space")) throw tokens.unexpected("TIME or SPACE");
      tokens.take();
    }
  } else if (tokens.isKeyword("having")) throw tokens.error("HAVING follows GROUP BY; without it, say WHERE");
  if (tokens.isKeyword("where")) throw tokens.error("WHERE comes before GROUP BY; to choose among groups, say HAVING");
  const place = tokens.token.at;
  const ungroup = takes(tokens, "ungroup") ? { count: tokens.takeKeyword("split") ? null : expression(tokens), at: place } : null;
  return { is: "select", items, source, where, expand, group, having, ungroup, isDistinct, distinctOn, top, at };
}

function topOf(tokens: TokenStream): number | null {
  if (!tokens.isKeyword("top") || tokens.ahead(1).kind !== "integer") return null;
  tokens.take();
  return whole(tokens);
}

function output(tokens: TokenStream): Output {
  const { token } = tokens;
  const { at } = token;
  if (tokens.takeOperator("*")) return { expression: null, alias: null, table: null, items: tokens.takeOperator("[") ? subscripts(tokens) : [], at };
  const isAll = tokens.ahead(1).text === "." && tokens.ahead(2).text === "*" && tokens.ahead(2).kind === "operator";
  if ((token.kind === "name" || token.kind === "quoted") && isAll) {
    tokens.next += 3;
    return { expression: null, alias: null, table: token.text, items: [], at };
  }
  const found = expression(tokens);
  return { expression: found, alias: alias(tokens), table: null, items: [], at };
}

function alias(tokens: TokenStream): string | null {
  if (tokens.takeKeyword("as")) return tokens.expectName("a name").text;
  const { token } = tokens;
  return token.kind === "quoted" || (token.kind === "name" && !RESERVED.has(token.text.toLowerCase())) ? tokens.take().text : null;
}

function expandOf(tokens: TokenStream): Select["expand"] {
  const { at } = tokens.token;
  if (!takes(tokens, "expand")) return null;
  const before = whole(tokens);
  const after = tokens.takeOperator(",") || tokens.token.kind === "integer" ? whole(tokens) : before;
  const keepsRepeats = tokens.takeKeyword("overlap") && tokens.takeFlag();
  return { before, after, keepsRepeats, alias: tokens.takeKeyword("as") ? tokens.expectName("a name").text : null, at };
}

function whole(tokens: TokenStream): number {
  if (tokens.token.kind !== "integer") throw tokens.unexpected("a number of rows");
  return Number(tokens.take().value ?? 0);
}

function key(tokens: TokenStream): Order {
  const found = expression(tokens);
  const isDescending = tokens.takeKeyword("desc");
  if (!isDescending) tokens.takeKeyword("asc");
  let nulls: Order["nulls"] = "";
  if (tokens.takeKeyword("nulls")) {
    if (!tokens.isKeyword("first", "last")) throw tokens.unexpected("FIRST or LAST");
    nulls = tokens.take().text.toLowerCase() as "first";
  }
  return { expression: found, isDescending, nulls };
}

/** A number of rows, or of hundredths of them. */
const counted = (tokens: TokenStream): { count: Expression; isPercent: boolean } => ({ count: expression(tokens), isPercent: tokens.takeKeyword("percent") });

function limit(tokens: TokenStream): Query["limit"] {
  const { at } = tokens.token;
  const first = tokens.keyword();
  if (first !== "limit" && first !== "offset") return null;
  const found: NonNullable<Query["limit"]> = { count: null, isPercent: false, offset: null, at };
  for (const clause of [first, first === "limit" ? "offset" : "limit"]) {
    if (!tokens.takeKeyword(clause)) continue;
    if (clause === "offset") found.offset = expression(tokens);
    else if (!tokens.takeKeyword("all")) Object.assign(found, counted(tokens));
  }
  return found;
}

function sample(tokens: TokenStream): Query["sample"] {
  const { at } = tokens.token;
  if (!takes(tokens, "sample")) return null;
  const found: NonNullable<Query["sample"]> = { weight: expression(tokens), replace: true, seed: null, count: null, isPercent: false, at };
  for (;;) {
    if (tokens.takeKeyword("replace")) found.replace = tokens.takeFlag();
    else if (tokens.takeKeyword("seed")) found.seed = expression(tokens);
    else if (tokens.takeKeyword("limit")) Object.assign(found, counted(tokens));
    else return found;
  }
}

// -- sources ----------------------------------------------------------------------------------------------------------

function sources(tokens: TokenStream): Source {
  let left = joined(tokens);
  while (tokens.isOperator(",")) {
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
  while (tokens.isKeyword(...Object.keys(JOINS))) {
    tokens.deeper();
    const { text, at } = tokens.take();
    const first = text.toLowerCase();
    const kind = JOINS[first]!;
    if (["left", "right", "full"].includes(first)) tokens.takeKeyword("outer");
    if (first !== "join") tokens.expectKeyword("join");
    table(tokens);
    if (tokens.takeKeyword("on")) expression(tokens);
    else if (tokens.takeKeyword("using")) tokens.bracketed(() => tokens.separated(() => tokens.expectName("a column")));
    else if (kind !== "cross" && kind !== "natural") throw tokens.unexpected("ON or USING");
    left = { is: "join", kind, at };
  }
  return left;
}

function table(tokens: TokenStream): Source {
  const { token } = tokens;
  const { at } = token;
  if (tokens.isOperator("(")) {
    const found = tokens.bracketed((): Query | Source => (tokens.isKeyword("select", "with") || tokens.isOperator("(") ? query(tokens) : sources(tokens)));
    return found.is === "query" ? { is: "derived", query: found, alias: alias(tokens), at } : found;
  }
  if (tokens.isKeyword("diff") && tokens.ahead(1).text === "(") return difference(tokens);
  if (token.kind === "name" && RESERVED.has(token.text.toLowerCase())) throw tokens.unexpected("a dataset");
  const name = tokens.expectName('a dataset: "path/to/it" in double quotes');
  let path = name.text;
  while (name.kind === "name" && tokens.isOperator(".") && ["name", "quoted"].includes(tokens.ahead(1).kind)) {
    tokens.take();
    path += `.${tokens.take().text}`;
  }
  let version: string | null = null;
  if (tokens.token.kind === "version") version = tokens.take().text;
  else if (tokens.isKeyword("version") && tokens.ahead(1).kind === "string") {
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
    if (tokens.token.kind === "quoted" && tokens.take()) tokens.expectOperator(",");
    version();
    tokens.expectOperator(",");
    version();
  });
  alias(tokens);
  return { is: "difference", at };
}
