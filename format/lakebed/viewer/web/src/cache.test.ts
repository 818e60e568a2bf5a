import { expect, test } from "vitest";
import { Cache } from "./cache";

test("what was used longest ago goes first, and more of it once the limit is lower", async () => {
  let most = 30;
  const gone: string[] = [];
  const cache = new Cache<string>(() => most, () => 10, (value) => gone.push(value));
  const put = (key: string) => cache.get(key, async () => key);
  for (const key of ["a", "b", "c"]) await put(key);
  expect(cache.peek("a")).toBe("a");
  await put("d");
  expect(gone).toEqual(["b"]);
  most = 10;
  await put("e");
  expect(gone).toEqual(["b", "c", "a", "d"]);
});
