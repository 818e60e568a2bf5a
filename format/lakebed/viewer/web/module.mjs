// Builds a package of this folder, reader or query, as one module: node module.mjs PACKAGE OUT [--minify]
import { join, resolve } from "node:path";
import { build } from "vite";

const [name, out] = process.argv.slice(2);
const root = join(import.meta.dirname, name);
await build({
  configFile: false,
  root,
  logLevel: "error",
  build: {
    target: "es2022",
    outDir: resolve(out),
    emptyOutDir: true,
    minify: process.argv.includes("--minify"),
    lib: { entry: join(root, "src", "index.ts"), formats: ["es"], fileName: () => `${name}.js` },
  },
});
