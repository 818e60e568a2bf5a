// Builds the queries and the reader as one module: node build.mjs OUT [--minify]
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const root = dirname(fileURLToPath(import.meta.url));
await build({
  configFile: false,
  root,
  logLevel: "error",
  build: {
    target: "es2022",
    outDir: resolve(process.argv[2]),
    emptyOutDir: true,
    minify: process.argv.includes("--minify"),
    lib: { entry: join(root, "src", "index.ts"), formats: ["es"], fileName: () => "query.js" },
  },
});
