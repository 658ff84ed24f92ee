/** The rows that hold the texts of a filter, as the server finds them. */

import { useEffect, useState } from "preact/hooks";

import type { FileKind } from "../columns/engine.ts";
import { source } from "./run.ts";

export interface Found {
  /** The offsets of the rows that hold all texts; null if there is no text to look for. */
  hits: number[] | null;
  excerpts: Map<number, string>;
  /** The share of the file that was read, from 0 to 1. */
  progress: number;
  isDone: boolean;
  error: Error | null;
}

const NOTHING: Found = { hits: null, excerpts: new Map(), progress: 1, isDone: true, error: null };
const SHOWN_EVERY = 300; // milliseconds

/** Search for all texts. A change of them stops the search, and so does `stop`. */
export function useSearch(run: string, kind: FileKind, texts: string[]): [Found, stop: () => void] {
  const [found, setFound] = useState(NOTHING);
  const [controller, setController] = useState(new AbortController());
  const key = JSON.stringify([kind, ...texts]);
  useEffect(() => {
    if (!texts.length) {
      setFound(NOTHING);
      return undefined;
    }
    const own = new AbortController();
    setController(own);
    const show = (next: Found) => own.signal.aborted || setFound(next);
    searchAll(run, kind, texts, own.signal, show).catch((error: Error) => show({ ...NOTHING, hits: [], error }));
    return () => own.abort();
  }, [run, key]);
  return [
    found,
    () => {
      controller.abort();
      setFound((current) => ({ ...current, isDone: true }));
    },
  ];
}

async function searchAll(
  run: string, kind: FileKind, texts: string[], signal: AbortSignal, show: (found: Found) => void,
): Promise<void> {
  let kept: Set<number> | null = null;
  const excerpts = new Map<number, string>();
  for (const [at, text] of texts.entries()) {
    const hits = new Set<number>();
    let progress = 0;
    let shown = 0;
    for await (const event of source.search(run, kind, text, signal)) {
      if ("scanned" in event) progress = event.of ? event.scanned / event.of : 1;
      if ("start" in event && (!kept || kept.has(event.start))) {
        hits.add(event.start);
        excerpts.set(event.start, event.excerpt);
      }
      if (performance.now() - shown < SHOWN_EVERY) continue;
      shown = performance.now();
      show({ hits: [...hits], excerpts, progress: (at + progress) / texts.length, isDone: false, error: null });
    }
    kept = hits;
  }
  show({ hits: [...kept!], excerpts, progress: 1, isDone: true, error: null });
}
