// Compiles fast.c into src/wasm.ts: `pip install ziglang` in a virtual environment, then `PYTHON=.../python node wasm/build.mjs`
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const here = import.meta.dirname;
const out = join(mkdtempSync(join(tmpdir(), "reader-")), "fast.wasm");
const exported = ["room", "begin", "stripes", "last", "lz4"].map((name) => `-Wl,--export=${name}`);
const options = ["-O3", "-msimd128", "-mbulk-memory", "-nostdlib", "-fvisibility=hidden", "-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=4096"];
execFileSync(process.env.PYTHON ?? "python3", ["-m", "ziglang", "cc", "--target=wasm32-freestanding", ...options, ...exported, "-o", out, join(here, "fast.c")], { stdio: "inherit" });
const text = readFileSync(out).toString("base64").match(/.{1,116}/g);
const lines = ["/** Compiled from wasm/fast.c by wasm/build.mjs. */", "", "export const WASM =", ...text.map((line, at) => `  "${line}"${at === text.length - 1 ? ";" : " +"}`)];
writeFileSync(join(here, "..", "src", "wasm.ts"), lines.join("\n") + "\n");
