/** The mark "looks fine" of a rollout. The browser keeps it: the viewer changes no file. */

import { signal } from "@preact/signals";
import type { VNode } from "preact";

import { kept } from "../state/kept.ts";

const stored = kept<string[]>("looks-fine", []);
const marks = signal(new Set(stored.read()));

export function looksFine(name: string): boolean {
  return marks.value.has(name);
}

export function LooksFine({ name }: { name: string }): VNode {
  const toggle = () => {
    const next = new Set(marks.value);
    if (!next.delete(name)) next.add(name);
    marks.value = next;
    stored.write([...next]);
  };
  return (
    <button type="button" aria-pressed={looksFine(name)} onClick={toggle} title="This browser keeps the mark">
      looks fine
    </button>
  );
}
