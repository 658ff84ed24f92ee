/** Small pieces of every page: errors, emptiness, badges. */

import type { ComponentChildren, VNode } from "preact";

import { Exact } from "./exact.tsx";
import { SourceError } from "../source/source.ts";

export function ErrorNotice({ error }: { error: Error }): VNode {
  return (
    <div class="notice error" role="alert">
      <p>{error.message}</p>
      {error instanceof SourceError && error.remedy && <p class="muted">{error.remedy}</p>}
    </div>
  );
}

/** The damaged files of a run. */
export function Problems({ problems }: { problems: string[] }): VNode | null {
  if (!problems.length) return null;
  return (
    <ul class="notice error problems" aria-label="Problems of the run">
      {problems.map((problem) => <li key={problem}><Exact text={problem} /></li>)}
    </ul>
  );
}

export function Empty({ children }: { children: ComponentChildren }): VNode {
  return <p class="empty">{children}</p>;
}

export function Loading(): VNode {
  return (
    <p class="empty" role="status">
      Reading…
    </p>
  );
}

const GOOD = new Set(["completed", "complete", "up", "back", "ready"]);
const BAD = new Set(["failed", "unreadable", "lost", "crashed"]);

/** A word with the colour of its meaning: an outcome, or the state of a run. */
export function Badge({ children }: { children: string }): VNode {
  const tone = GOOD.has(children) ? "good" : BAD.has(children) ? "bad" : children === "running" ? "live" : "";
  return <span class={`badge ${tone}`}>{children}</span>;
}
