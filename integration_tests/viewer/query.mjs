// Answers queries with the built engine; lines of JSON in and out: node query.mjs ENGINE ADDRESS [DATASET] < {"q": text}
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [library, address, implicit] = process.argv.slice(2);
const { query, reader } = await import(pathToFileURL(library).href);

const opened = new Map();
/** Datasets of memory in Python are folders here. */
function open(path, version) {
  const name = path === null ? implicit : path.replace(/^mem:\/\//, "");
  if (name === undefined || !/^[\w-]+$/.test(name)) throw new Error("there is no such dataset");
  const key = `${name} ${version}`;
  if (!opened.has(key)) opened.set(key, reader.open(`${address}/${name}`, version === null ? {} : { ref: version }));
  return opened.get(key);
}

/** Values of JSON that JSON of JavaScript has no words for. */
function told(value) {
  if (typeof value === "bigint") return { $int: `${value}` };
  if (typeof value === "number" && !Number.isFinite(value)) return { $float: `${value}` };
  if (Array.isArray(value)) return value.map(told);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, told(member)]));
}

async function answered(text) {
  const found = await query(text, open);
  const columns = {};
  for (const name of found.names) {
    try {
      columns[name] = told(await found.values(name, 0, found.length));
    } catch (error) {
      columns[name] = failure(error);
    }
  }
  return { length: found.length, rows: found.rows && [...found.rows], columns };
}

const failure = (error) => (error.name === "NeedsView" ? { needs: error.message } : { error: error.name, kind: error.kind, message: error.message, stack: error.name === "QueryError" ? "" : error.stack });

for await (const line of createInterface({ input: process.stdin })) {
  let found;
  try {
    found = await answered(JSON.parse(line).q);
  } catch (error) {
    found = failure(error);
  }
  process.stdout.write(`${JSON.stringify(found)}\n`);
}
