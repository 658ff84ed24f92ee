/** The figures of a run by agent, as `ng_aggregate_rollouts` computes them. */

import { Codes } from "./column.ts";
import { clusteredInterval, expectedMaxCurve, mean, type Interval } from "./estimators.ts";
import { readerOf } from "./groups.ts";
import type { Table } from "./table.ts";

export interface PassAtK {
  k: number;
  value: number;
  /** The tasks with fewer than k scores. They are left out. */
  short: number;
}

export interface AgentSummary {
  agent: string | null;
  tasks: number;
  rollouts: number;
  /** The rollouts with a reward. The other ones are counted, and never averaged. */
  scored: number;
  masked: number;
  outcomes: Record<string, number>;
  mean: number | null;
  interval: Interval | null;
  passAtK: PassAtK[];
}

interface Rollout {
  table: Table;
  row: number;
}

const MOST_K = 1024;

/** Summarize the rollouts of the tables of rows and failures. Of several attempts at one, the scored or last counts. */
export function summarize(rows: Table, failures: Table): AgentSummary[] {
  const agents = new Map<string | null, Map<number, Rollout[]>>();
  for (const rollout of countedRollouts(rows, failures)) {
    const agent = labelAt(rollout, "agent");
    let tasks = agents.get(agent);
    if (!tasks) agents.set(agent, (tasks = new Map()));
    const task = rollout.table.numberAt("task", rollout.row);
    const known = tasks.get(task);
    if (known) known.push(rollout);
    else tasks.set(task, [rollout]);
  }
  const summaries = [...agents].map(([agent, tasks]) => summaryOf(agent, [...tasks.values()]));
  return summaries.sort((one, other) => ((one.agent ?? "") < (other.agent ?? "") ? -1 : 1));
}

/** One row for each rollout: every row of the file of rows, and the last failure of the others. */
function* countedRollouts(rows: Table, failures: Table): Generator<Rollout> {
  const failed = new Map<string, number>();
  const keyAt = keyReader(failures);
  const attemptAt = readerOf(failures, "attempt");
  for (let row = 0; row < failures.rows; row++) {
    const earlier = failed.get(keyAt(row));
    if (earlier === undefined || attemptAt(row) >= attemptAt(earlier)) failed.set(keyAt(row), row);
  }
  const rowKeyAt = keyReader(rows);
  for (let row = 0; row < rows.rows; row++) {
    if (failed.size) failed.delete(rowKeyAt(row));
    yield { table: rows, row };
  }
  for (const row of failed.values()) yield { table: failures, row };
}

function keyReader(table: Table): (row: number) => string {
  const taskAt = readerOf(table, "task");
  const rolloutAt = readerOf(table, "rollout");
  return (row) => `${taskAt(row)}/${rolloutAt(row)}`;
}

function labelAt({ table, row }: Rollout, name: string): string | null {
  const store = table.column(name)?.store;
  return store instanceof Codes ? (store.values[store.data[row]] as string | null) : null;
}

function summaryOf(agent: string | null, tasks: Rollout[][]): AgentSummary {
  const clusters = tasks.map((rollouts) => rollouts.map(rewardOf).filter((reward) => reward === reward));
  const samples = clusters.flat();
  const outcomes: Record<string, number> = {};
  let masked = 0;
  for (const rollout of tasks.flat()) {
    const outcome = labelAt(rollout, "outcome") ?? "none";
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    masked += Number(rollout.table.numberAt("masked", rollout.row) > 0);
  }
  return {
    agent,
    tasks: tasks.length,
    rollouts: tasks.reduce((count, rollouts) => count + rollouts.length, 0),
    scored: samples.length,
    masked,
    outcomes,
    mean: samples.length ? mean(samples) : null,
    interval: clusteredInterval(clusters),
    passAtK: passCurve(clusters),
  };
}

function rewardOf({ table, row }: Rollout): number {
  return table.numberAt("reward", row);
}

/** pass@k for k = 1, 2, 4, … and the largest number of scores of a task. */
function passCurve(clusters: number[][]): PassAtK[] {
  const largest = Math.min(MOST_K, clusters.reduce((most, scores) => Math.max(most, scores.length), 0));
  const ks: number[] = [];
  for (let k = 1; k < largest; k *= 2) ks.push(k);
  if (largest) ks.push(largest);
  const curves = clusters.map((scores) => expectedMaxCurve(scores, largest));
  return ks.map((k) => {
    const values = curves.filter((curve) => curve.length >= k).map((curve) => curve[k - 1]);
    return { k, value: mean(values), short: clusters.length - values.length };
  });
}
