/**
 * The mark "looks fine" of rollouts. The viewer changes no file: the browser keeps the marks, and a button saves them as
 * a file, which the viewer reads if it lies beside the rows.
 */

import { signal } from "@preact/signals";
import type { VNode } from "preact";

import type { RowCells } from "../columns/engine.ts";
import { kept } from "../state/kept.ts";
import type { Run } from "../state/run.ts";

const stored = kept<Record<string, boolean>>("looks-fine", {});
/** The marks that were set or taken away in this browser, by file and rollout. */
const changes = signal(new Map(Object.entries(stored.read())));

function prefixOf(run: Run): string {
  return `${run.detail.value?.path} `;
}

function rolloutOf({ cells }: RowCells): string {
  return `${cells.task}/${cells.rollout}`;
}

function marksOf(run: Run): Set<string> {
  const marks = new Set(run.detail.value?.looks_fine ?? []);
  const prefix = prefixOf(run);
  for (const [name, isFine] of changes.value) {
    if (!name.startsWith(prefix)) continue;
    if (isFine) marks.add(name.slice(prefix.length));
    else marks.delete(name.slice(prefix.length));
  }
  return marks;
}

export function looksFine(run: Run, row: RowCells): boolean {
  return marksOf(run).has(rolloutOf(row));
}

export function LooksFine({ run, row }: { run: Run; row: RowCells }): VNode {
  const isFine = looksFine(run, row);
  const toggle = () => {
    changes.value = new Map(changes.value).set(prefixOf(run) + rolloutOf(row), !isFine);
    stored.write(Object.fromEntries(changes.value));
  };
  return (
    <button type="button" aria-pressed={isFine} onClick={toggle} title="This browser keeps the mark">
      looks fine
    </button>
  );
}

/** A button that saves the marks of a run as a file. */
export function SaveMarks({ run }: { run: Run }): VNode {
  const marks = [...marksOf(run)].sort();
  const name = `${run.detail.value?.stem ?? run.id}_looks_fine.json`;
  const save = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(marks)], { type: "application/json" }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <button type="button" disabled={!marks.length} onClick={save} title={`Saves ${name}. The viewer reads it beside the rows.`}>
      Save {marks.length} marks as a file
    </button>
  );
}
