import { defineConfig } from "vite";

// The bundle lies in the Python package, so that users need no Node. It has one script and one style sheet, which the
// export of a single file puts inline, and the script of the worker.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../nemo_gym/viewer/page",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
  },
  worker: { format: "es" },
});
