// Reads datasets with the built reader, and prints what it found as a line of JSON: node read.mjs READER ADDRESS [REF...]
import { createHash } from "node:crypto";
import { pathToFileURL } from "node:url";

const [library, address, ...refs] = process.argv.slice(2);
const { open } = await import(pathToFileURL(library).href);

const bytesOf = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength);
const base64 = (array) => bytesOf(array).toString("base64");
const sha1 = (array) => createHash("sha1").update(bytesOf(array)).digest("hex");
const LARGE = 2_000;

/** Values of JSON that JSON of JavaScript has no words for. */
function told(value) {
  if (typeof value === "bigint") return { $int: `${value}` };
  if (typeof value === "number" && !Number.isFinite(value)) return { $float: `${value}` };
  if (Array.isArray(value)) return value.map(told);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, told(member)]));
}

function dumped(value, isPart = false) {
  if (value === null) return null;
  if (value.kind === "array") {
    const told = value.data.byteLength > LARGE ? { sha1: sha1(value.data) } : { data: base64(value.data) };
    return { ...value, data: undefined, ...told, type: value.data.constructor.name };
  }
  if (value.kind === "file" && isPart) return { ...value, bytes: base64(value.bytes) };
  if (value.kind === "file") return { ...value, bytes: undefined, sha1: sha1(value.bytes), ...(value.crop && { bytes: base64(value.bytes) }) };
  if (value.kind === "sequence") return { ...value, items: value.items.map((item) => dumped(item)) };
  if (value.kind === "tiles") return { ...value, tiles: value.tiles.map(({ at, value }) => ({ at, value: dumped(value, true) })) };
  if (value.kind === "polygons") return { ...value, polygons: value.polygons.map(({ shape, data }) => ({ shape, data: base64(data), type: data.constructor.name })) };
  if (value.kind === "json") return { kind: "json", value: told(value.value) };
  if (value.kind === "list") return { kind: "list", items: told(value.items) };
  return value;
}

const failure = (error) => ({ error: error.name, message: error.message });

/** Each row by itself; and whether all rows at once are the same. */
async function tensorOf(tensor) {
  const rows = [];
  for (let row = 0; row < tensor.length; row++) {
    try {
      rows.push(dumped(await tensor.at(row)));
    } catch (error) {
      rows.push(failure(error));
    }
  }
  let same = rows.some((row) => row?.error);
  if (!same) same = JSON.stringify((await tensor.rows(0, tensor.length)).map((value) => dumped(value))) === JSON.stringify(rows);
  return { htype: tensor.htype, length: tensor.length, classes: tensor.classNames, rows, same };
}

const found = {};
for (const ref of refs.length ? refs : [null]) {
  try {
    const ds = await open(address, ref === null ? {} : { ref });
    const tensors = {};
    for (const [name, tensor] of ds.tensors) tensors[name] = await tensorOf(tensor);
    found[ref ?? ""] = { tensors, branches: ds.branches, info: told(ds.info), commits: (await ds.commits()).map(({ id, message }) => [id, message]) };
  } catch (error) {
    found[ref ?? ""] = failure(error);
  }
}
process.stdout.write(JSON.stringify(found));
