import { describe, expect, it } from "vitest";
import { asQuery, completions, named, orderOf, tokens, unitAt, withCondition, withOrder } from "./query_text";
import type { TensorMeta } from "./types";

const kinds = (text: string) =>
  tokens(text).filter((one) => one.kind !== "space").map((one) => `${one.kind}:${text.slice(one.from, one.to)}`);

describe("tokens", () => {
  it("knows the words of the language", () => {
    expect(kinds(`select "a b"[0:2] where x >= 1.5e-2 and y == 'it''s' -- why`)).toEqual([
      "name:select", 'quoted:"a b"', "operator:[", "number:0", "operator::", "number:2", "operator:]", "name:where",
      "name:x", "operator:>=", "number:1.5e-2", "name:and", "name:y", "operator:==", "string:'it''s'", "comment:-- why",
    ]);
    expect(kinds('FROM "birds"@v1 where größe < $low')).toEqual([
      "name:FROM", 'quoted:"birds"', "version:@v1", "name:where", "name:größe", "operator:<", "parameter:$low",
    ]);
  });

  it("covers every text, also a wrong one", () => {
    for (const text of ["", "a & b `", "'open", `"open`, "''", "'a''", "x == ''' 🦆"]) {
      expect(tokens(text).map((one) => text.slice(one.from, one.to)).join("")).toBe(text);
    }
    expect(tokens("'a''").at(-1)?.open).toBe(true);
    expect(tokens("'a'''").at(-1)?.open).toBeUndefined();
    expect(kinds("a & b")[1]).toBe("wrong:&");
  });

  it("finds the place that Python counted", () => {
    expect("x == '🦆' oops".slice(unitAt("x == '🦆' oops", 9))).toBe("oops");
  });
});

describe("queries", () => {
  it("completes conditions and clauses", () => {
    expect(asQuery("kind == 'kite'")).toBe("select * where kind == 'kite'");
    expect(asQuery(" order by x desc ")).toBe("select * order by x desc");
    expect(asQuery("limit 5")).toBe("select * limit 5");
    expect(asQuery("SELECT x")).toBe("SELECT x");
    expect(asQuery("(select * limit 1) union (select *)")).toBe("(select * limit 1) union (select *)");
    expect(asQuery("(a > 3) and b")).toBe("select * where (a > 3) and b");
    expect(asQuery("  -- nothing")).toBe("");
  });

  it("adds a condition where it belongs", () => {
    expect(withCondition("", "a > 1")).toBe("select * where a > 1");
    expect(withCondition("select * where b == 1 or c order by d limit 3", "a > 1")).toBe(
      "select * where (b == 1 or c) and a > 1 order by d limit 3",
    );
    expect(withCondition("select a limit 3", "a > 1")).toBe("select a where a > 1 limit 3");
    expect(withCondition("select * where exists (select * where x)", "y")).toBe("select * where exists (select * where x) and y");
    expect(withCondition("select a, count(*) as n group by a", "n > 1")).toBe(
      "select * from (select a, count(*) as n group by a) where n > 1",
    );
    const once = withCondition("select * where b", "a > 1");
    expect(withCondition(once, "a > 1")).toBe(once);
  });

  it("changes the order", () => {
    expect(withOrder("", "my col", "desc")).toBe('select * order by "my col" desc');
    expect(withOrder("select * where a order by b limit 3", "c", "asc")).toBe("select * where a order by c limit 3");
    expect(withOrder("select * order by b", "b", null)).toBe("");
    expect(orderOf('select * order by "my col" desc limit 3')).toEqual({ name: "my col", descending: true });
    expect(orderOf("select * order by a, b")).toBeNull();
    expect(orderOf("select * where (select x order by y)")).toBeNull();
  });

  it("quotes what is no single word", () => {
    expect([named("a"), named("train/boxes"), named("_id"), named("Order")]).toEqual(["a", '"train/boxes"', '"_id"', '"Order"']);
  });
});

describe("completions", () => {
  const tensor = (name: string, class_names: string[] = []) => ({ name, htype: "x", class_names }) as unknown as TensorMeta;
  const tensors = [tensor("Kind", ["wren", "kite", "red kite", "o'hare"]), tensor("photo"), tensor("my kinds")];
  const language = { keywords: ["WHERE", "ORDER"], functions: ["WEEK", "SHAPE"] };
  const shown = (text: string) => completions(text, text.length, tensors, language)?.items.map((one) => one.text);

  it("offers classes within quotes behind their label", () => {
    expect(shown("Kind == 'ki")).toEqual(["'kite'", "'red kite'"]);
    expect(shown("Kind[0] != '")).toHaveLength(4);
    expect(shown("Kind in ('wren', 'o")).toEqual(["'o''hare'"]);
    expect(shown("Kind not in ('wr")).toEqual(["'wren'"]);
    expect(shown("contains(Kind, 'w")).toEqual(["'wren'"]);
    expect(shown("photo == 'k")).toBeUndefined();
  });

  it("offers tensors, functions and keywords", () => {
    expect(shown("select k")).toEqual(["Kind", '"my kinds"']);
    expect(shown("w")).toEqual(["week(", "where"]);
    expect(shown('"my')).toEqual(['"my kinds"']);
    expect(shown("select photo")).toBeUndefined();
    expect(shown("select ")).toBeUndefined();
  });
});
