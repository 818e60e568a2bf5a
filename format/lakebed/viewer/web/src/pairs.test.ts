import { describe, expect, it } from "vitest";
import { joined, rowBefore, samplesOf, spanCondition } from "./pairs";

describe("rowBefore", () => {
  const listed = (...rows: number[]) => ({ count: rows.length, rows });
  const diff = { name: "x", updated: listed(), added: listed(2, 6), removed: listed(3, 0) };

  it("follows a row over rows that were added and removed", () => {
    // before: 0 1 2 3 4 5 6, after: 1 2 + 4 5 6 +
    expect([0, 1, 3, 4, 5].map(rowBefore(diff))).toEqual([1, 2, 4, 5, 6]);
  });

  it("does not guess where the lists were cut", () => {
    expect(rowBefore({ ...diff, added: { count: 10_001, rows: [] } })(1)).toBeNull();
  });
});

describe("samplesOf", () => {
  const of = (...rows: number[]) => ({ count: rows.length, rows });

  it("tells each row once, with the tensors that changed in it", () => {
    const boxes = { name: "boxes", updated: of(3, 1), added: of(), removed: of(2) };
    const labels = { name: "labels", updated: of(1), added: of(), removed: of(2) };
    const score = { name: "score", updated: of(), added: of(0), removed: of() }; // a tensor that was made
    expect(samplesOf([boxes, labels, score])).toEqual([
      { way: "changed", before: 1, after: 1, tensors: ["boxes", "labels"] },
      { way: "changed", before: 4, after: 3, tensors: ["boxes"] },
      { way: "removed", before: 2, after: null, tensors: ["boxes", "labels"] },
      { way: "added", before: null, after: 0, tensors: ["score"] },
    ]);
  });
});

describe("joined", () => {
  it("finds rows by their ids, wherever they went", () => {
    const ids = (...all: number[]) => BigUint64Array.from(all, BigInt);
    expect([...joined(ids(9, 8, 7, 6), ids(9, 8, 6, 5, 7))]).toEqual([0, 1, 4, 2]);
    expect([...joined(ids(1, 2), ids(3))]).toEqual([-1, -1]);
    expect([...joined(ids(), ids(3))]).toEqual([]);
  });
});

describe("spanCondition", () => {
  it("writes numbers and dates", () => {
    expect(spanCondition("x", 0.5, 1, false, null)).toBe("x >= 0.5 and x < 1");
    expect(spanCondition("x", 0.18059407353401186, 0.4549339127540588, false, null)).toBe("x >= 0.180594 and x < 0.454933");
    expect(spanCondition("x", -0.18059407353401186, 0.4549339127540588, true, null)).toBe("x >= -0.180595 and x <= 0.454934");
    expect(spanCondition("x", 1e9, 1e9 + 1, false, null)).toBe("x >= 1000000000 and x < 1000000001");
    expect(spanCondition("x", 0, 86_400, true, "date")).toBe("x >= '1970-01-01' and x <= '1970-01-02'");
    expect(spanCondition("x", 0, 1.5, false, "timestamp")).toBe("x >= '1970-01-01 00:00:00.000' and x < '1970-01-01 00:00:01.500'");
    expect(spanCondition("x", 0, 1, false, "time")).toBeNull();
  });
});
