/** Answers of the server that served the page. */

import type { Transport } from "./source.ts";
import { SourceError } from "./source.ts";

export const http: Transport = {
  isLive: true,
  async get(path, signal) {
    try {
      return await fetch(`/api/${path}`, { signal: signal ?? null, credentials: "same-origin", cache: "no-store" });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new SourceError("The server of this page cannot be reached.", 0, "Start `gym view` again.");
    }
  },
};
