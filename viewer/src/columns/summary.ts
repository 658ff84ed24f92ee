/** The figures of a run by agent, as `ng_aggregate_rollouts` computes them. */

import { Codes } from "./column.ts";
import { clusteredInterval, mean, type Interval } from "./estimators.ts";
import { countLabels } from "./facets.ts";
import { gather, rememberedCurves } from "./groups.ts";
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

interface Rollouts {
  /** The rows that count, of one table. */
  rows: Uint32Array;
  table: Table;
}

const MOST_K = 1024;

/** Summarize the rollouts of the tables of rows and failures. Of several attempts at one, the scored or last counts. */
export function summarize(rows: Table, failures: Table): AgentSummary[] {
  const all = Uint32Array.from({ length: rows.rows }, (_, row) => row);
  const counted = [{ table: rows, rows: all }, { table: failures, rows: lastFailures(rows, failures) }];
  const agents = new Set(counted.flatMap(({ table, rows: own }) => (own.length ? agentsOf(table) : [])));
  const summaries = [...agents].map((agent) => summaryOf(agent, counted.map((rollouts) => ofAgent(rollouts, agent))));
  const filled = summaries.filter(({ rollouts }) => rollouts > 0);
  return filled.sort((one, other) => ((one.agent ?? "") < (other.agent ?? "") ? -1 : 1));
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

function agentsOf(table: Table): (string | null)[] {
  return (labelsOf(table, "agent")?.values ?? [null]) as (string | null)[];
}

function ofAgent({ table, rows }: Rollouts, agent: string | null): Rollouts {
  const labels = labelsOf(table, "agent");
  if (!labels) return { table, rows: agent === null ? rows : new Uint32Array(0) };
  const code = labels.find(agent);
  return { table, rows: rows.filter((row) => labels.data[row] === code) };
}

function summaryOf(agent: string | null, parts: Rollouts[]): AgentSummary {
  const numbers = (name: string) => joined(parts.map(({ table, rows }) => Float64Array.from(rows, table.reader(name))));
  const tasks = gather(numbers("task"), numbers("reward"));
  const clusters = tasks.map(({ values }) => values.filter((reward) => reward === reward));
  const samples = joined(clusters);
  return {
    agent,
    tasks: tasks.length,
    rollouts: parts.reduce((count, { rows }) => count + rows.length, 0),
    scored: samples.length,
    masked: numbers("masked").reduce((count, masked) => count + Number(masked > 0), 0),
    outcomes: countOutcomes(parts),
    mean: samples.length ? mean(samples) : null,
    interval: clusteredInterval(clusters),
    passAtK: passCurve(clusters),
  };
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

/** pass@k for k = 1, 2, 4, … and the largest number of scores of a task. */
function passCurve(clusters: Float64Array[]): PassAtK[] {
  const largest = Math.min(MOST_K, clusters.reduce((most, scores) => Math.max(most, scores.length), 0));
  const ks: number[] = [];
  for (let k = 1; k < largest; k *= 2) ks.push(k);
  if (largest) ks.push(largest);
  const curves = clusters.map(rememberedCurves(largest));
  return ks.map((k) => {
    const values = curves.filter((curve) => curve.length >= k).map((curve) => curve[k - 1]);
    return { k, value: mean(values), short: clusters.length - values.length };
  });
}
