// Reads datasets with the built reader, in node and in browsers, and tells what it found: node read.mjs READER ADDRESS [REF...]

function base64({ buffer, byteOffset, byteLength }) {
  const bytes = new Uint8Array(buffer, byteOffset, byteLength);
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

async function sha1(array) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-1", array));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

const LARGE = 2_000;

/** Values of JSON that JSON of JavaScript has no words for. */
function told(value) {
  if (typeof value === "bigint") return { $int: `${value}` };
  if (typeof value === "number" && !Number.isFinite(value)) return { $float: `${value}` };
  if (Array.isArray(value)) return value.map(told);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, told(member)]));
}

const all = (values, map) => Promise.all(values.map(map));

async function dumped(value, isPart = false) {
  if (value === null) return null;
  if (value.kind === "array") {
    const told = value.data.byteLength > LARGE ? { sha1: await sha1(value.data) } : { data: base64(value.data) };
    return { ...value, data: undefined, ...told, type: value.data.constructor.name };
  }
  if (value.kind === "file" && isPart) return { ...value, bytes: base64(value.bytes) };
  if (value.kind === "file") return { ...value, bytes: undefined, sha1: await sha1(value.bytes), ...(value.crop && { bytes: base64(value.bytes) }) };
  if (value.kind === "sequence") return { ...value, items: await all(value.items, (item) => dumped(item)) };
  if (value.kind === "tiles") return { ...value, tiles: await all(value.tiles, async ({ at, value }) => ({ at, value: await dumped(value, true) })) };
  if (value.kind === "polygons") return { ...value, polygons: value.polygons.map(({ shape, data }) => ({ shape, data: base64(data), type: data.constructor.name })) };
  if (value.kind === "json") return { kind: "json", value: told(value.value) };
  if (value.kind === "list") return { kind: "list", items: told(value.items) };
  return value;
}

const failure = (error) => ({ error: error.name, message: error.message });

/** Whether rows that are read as one array are the same numbers, in new memory and in what was given. */
async function isColumn(tensor, values) {
  let column;
  try {
    column = await tensor.column(0, values.length);
  } catch (error) {
    if (error.name !== "UnsupportedError") throw error;
    return true; // of several shapes, or other things than numbers
  }
  const { data, missing } = column;
  const room = new Uint8Array(data.byteLength).fill(7);
  const isFilled = tensor.dtype === "float16" || base64((await tensor.column(0, values.length, undefined, room)).data) === base64(data);
  const size = data.length / (values.length || 1);
  return isFilled && values.every((value, at) => missing.includes(at) === !(value?.data?.length) && (missing.includes(at) || base64(value.data) === base64(data.subarray(at * size, (at + 1) * size))));
}

/** Each row by itself; and whether all rows at once are the same. */
async function tensorOf(tensor) {
  const rows = [];
  for (let row = 0; row < tensor.length; row++) {
    try {
      rows.push(await dumped(await tensor.at(row)));
    } catch (error) {
      rows.push(failure(error));
    }
  }
  let same = rows.some((row) => row?.error);
  if (!same) {
    const values = await tensor.rows(0, tensor.length);
    same = JSON.stringify(await all(values, (value) => dumped(value))) === JSON.stringify(rows) && (await isColumn(tensor, values));
  }
  return { htype: tensor.htype, length: tensor.length, classes: tensor.classNames, rows, same };
}

/** What a reader finds at an address, by version. */
export async function read({ open }, address, refs) {
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
  return JSON.stringify(found);
}

if (globalThis.process) {
  const [library, address, ...refs] = process.argv.slice(2);
  process.stdout.write(await read(await import((await import("node:url")).pathToFileURL(library).href), address, refs));
}
