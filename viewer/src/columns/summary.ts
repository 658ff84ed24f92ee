/** The figures of a run by agent or by another label, as `ng_aggregate_rollouts` computes them. */

import { Codes } from "./column.ts";
import { boundedInterval, clusteredInterval, expectedMax, meanOf, type Interval } from "./estimators.ts";
import { countLabels } from "./facets.ts";
import { everyRow } from "./select.ts";
import type { Table } from "./table.ts";
import { TaskGroups } from "./task_groups.ts";
import { gatherScores, type TaskScores } from "./task_scores.ts";

export interface PassAtK {
  k: number;
  value: number;
  /** The tasks with fewer than k scores. They are left out. */
  short: number;
}

export interface Summary {
  label: string | null;
  tasks: number;
  rollouts: number;
  /** The rollouts with a reward. The other ones are counted, and never averaged. */
  scored: number;
  masked: number;
  outcomes: Record<string, number>;
  mean: number | null;
  interval: Interval | null;
  passAtK: PassAtK[];
  /** Whether a reward is neither 0 nor 1, so that `passAtK` has best rewards. */
  isBest: boolean;
  /** Means of a scored rollout; null where no row has one. */
  tokens: number | null;
  outputTokens: number | null;
  seconds: number | null;
  /** The scored rollouts with tool calls that failed by the environment's fault, or by the model's. */
  toolErrors: number;
  invalidCalls: number;
  /** Mean seconds by phase, of the phases that rows have. */
  phases: [phase: string, seconds: number][];
}

export const PHASES = ["queue", "model", "tools", "verify"];

interface Rollouts {
  /** The rows that count, of one table. */
  rows: Uint32Array;
  table: Table;
}

const MOST_K = 1024;
/** Version 10 comes after version 9. */
const ORDER = new Intl.Collator("en", { numeric: true });

/** The index of each task that repeats another → that of this one. */
export type EqualTasks = Record<number, number>;

/**
 * Summarize the rollouts of the tables of rows and failures by the column `by`. Of several attempts at a rollout, the
 * scored one or else the last one counts. Intervals take equal tasks for one; without `equal` there are no intervals.
 */
export function summarize(rows: Table, failures: Table, by: string, equal: EqualTasks | null): Summary[] {
  const all = everyRow(rows.rows);
  const groups = new TaskGroups([rows, failures]);
  const counted = [{ table: rows, rows: all }, { table: failures, rows: lastFailures(rows, failures) }];
  const labels = new Set(counted.flatMap(({ table, rows: own }) => (own.length ? valuesOf(table, by) : [])));
  const summaries = [...labels].map((label) => summaryOf(label, counted.map((rollouts) => withLabel(rollouts, by, label)), groups, equal));
  const filled = summaries.filter(({ rollouts }) => rollouts > 0);
  return filled.sort((one, other) => ORDER.compare(one.label ?? "", other.label ?? ""));
}

/** The last failure of each rollout that has no row. */
function lastFailures(rows: Table, failures: Table): Uint32Array {
  const last = new Map<string, number>();
  const keyAt = keyReader(failures);
  const attemptAt = failures.reader("attempt");
  for (let row = 0; row < failures.rows; row++) {
    const earlier = last.get(keyAt(row));
    if (earlier === undefined || attemptAt(row) >= attemptAt(earlier)) last.set(keyAt(row), row);
  }
  const rowKeyAt = keyReader(rows);
  for (let row = 0; row < rows.rows && last.size; row++) last.delete(rowKeyAt(row));
  return Uint32Array.from(last.values());
}

function keyReader(table: Table): (row: number) => string {
  const taskAt = table.reader("task");
  const rolloutAt = table.reader("rollout");
  return (row) => `${taskAt(row)}/${rolloutAt(row)}`;
}

function labelsOf(table: Table, name: string): Codes | null {
  const store = table.column(name)?.store;
  return store instanceof Codes ? store : null;
}

function valuesOf(table: Table, by: string): (string | null)[] {
  return (labelsOf(table, by)?.values ?? [null]) as (string | null)[];
}

function withLabel({ table, rows }: Rollouts, by: string, label: string | null): Rollouts {
  const labels = labelsOf(table, by);
  if (!labels) return { table, rows: label === null ? rows : new Uint32Array(0) };
  const code = labels.find(label);
  return { table, rows: rows.filter((row) => labels.data[row] === code) };
}

function summaryOf(label: string | null, parts: Rollouts[], groups: TaskGroups, equal: EqualTasks | null): Summary {
  const numbers = (name: string) => joined(parts.map(({ table, rows }) => table.numbers(name, rows)));
  const found = gatherScores(numbers("task"), numbers("reward"));
  const { scores } = found;
  return {
    label,
    tasks: found.tasks.length,
    rollouts: parts.reduce((count, { rows }) => count + rows.length, 0),
    scored: scores.length,
    masked: countPositive(numbers("masked")),
    outcomes: countOutcomes(parts),
    mean: scores.length ? meanOf(scores) : null,
    interval: equal && boundedInterval(clusteredInterval(joinEqual(numbers("task"), equal, numbers("reward"))), scores),
    passAtK: passCurve(gatherScores(joined(parts.map(({ table, rows }) => groups.numbers(table, rows))), numbers("reward"))),
    isBest: scores.some((each) => each !== 0 && each !== 1),
    tokens: meanKnown(numbers("total_tokens")),
    outputTokens: meanKnown(numbers("output_tokens")),
    toolErrors: countPositive(numbers("tool_errors")),
    invalidCalls: countPositive(numbers("invalid_tool_calls")),
    seconds: meanKnown(numbers("seconds")),
    phases: PHASES.flatMap((phase) => {
      const mean = meanKnown(numbers(`seconds/${phase}`));
      return mean === null ? [] : [[phase, mean] as [string, number]];
    }),
  };
}

/** The scores by task, those of equal tasks together. */
function joinEqual(tasks: Float64Array, equal: EqualTasks, rewards: Float64Array): TaskScores {
  return gatherScores(tasks.map((task) => equal[task] ?? task), rewards);
}

function countPositive(values: Float64Array): number {
  return values.reduce((count, value) => count + Number(value > 0), 0);
}

function meanKnown(values: Float64Array): number | null {
  const known = values.filter((value) => !Number.isNaN(value));
  return known.length ? meanOf(known) : null;
}

function joined(parts: Float64Array[]): Float64Array {
  const all = new Float64Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function countOutcomes(parts: Rollouts[]): Record<string, number> {
  const outcomes = new Map<string, number>();
  for (const { table, rows } of parts) {
    for (const { value, count } of countLabels(table, rows, "outcome")) {
      const name = value ?? "none";
      outcomes.set(name, (outcomes.get(name) ?? 0) + count);
    }
  }
  return Object.fromEntries(outcomes);
}

/** pass@k for k = 1, 2, 4, … and the largest k of which half of the tasks with a score have as many. */
function passCurve({ tasks, scores, starts }: TaskScores): PassAtK[] {
  const sizes = Uint32Array.from(tasks, (_, task) => starts[task + 1] - starts[task]).filter((size) => size > 0).sort();
  const largest = sizes.length ? Math.min(MOST_K, sizes[Math.floor(sizes.length / 2)]) : 0;
  const ks: number[] = [];
  for (let k = 1; k < largest; k *= 2) ks.push(k);
  if (largest) ks.push(largest);
  return ks.map((k) => {
    let sum = 0;
    let short = 0;
    for (let task = 0; task < tasks.length; task++) {
      const [start, end] = [starts[task], starts[task + 1]];
      if (end - start < k) short += 1;
      else sum += expectedMax(scores, start, end, k);
    }
    return { k, value: sum / (tasks.length - short), short };
  });
}
