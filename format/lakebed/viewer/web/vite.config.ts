import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// Names without hashes and no source maps: the same sources give the same bytes, and a review can read which file changed.
export default defineConfig({
  base: "./",
  plugins: [svelte()],
  worker: { format: "es", rollupOptions: { output: { entryFileNames: "assets/[name].js", chunkFileNames: "assets/[name].js" } } },
  build: {
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
});
