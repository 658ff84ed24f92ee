/** Rows gathered by task and agent. */

import { expectedMax, meanOf } from "./estimators.ts";
import { orderByNumber } from "./order.ts";
import type { Table } from "./table.ts";
import { TaskGroups } from "./task_groups.ts";
import { gatherScores } from "./task_scores.ts";

export interface Group {
  task: number;
  /** The agent whose rollouts these are; null if the run has one. */
  agent: string | null;
  /** The number of its first row. */
  first: number;
  /** The number of selected rows. */
  rows: number;
  /** The rows with a reward. Only they enter the mean and pass@k. */
  scored: number;
  /** The mean reward; null without a score. */
  mean: number | null;
  /** The expected best of k, which is the unbiased pass@k of scores 0 and 1; null with fewer than k scores. */
  passAtK: number | null;
}

export type GroupOrder = keyof Group;

export interface Groups {
  groups: Group[];
  /** Whether a score is neither 0 nor 1, so that k rollouts have a best score and no pass@k. */
  isBest: boolean;
}

/** Gather `rows` by task and agent. The groups keep the order of their first rows. */
export function groupByTask(table: Table, rows: Uint32Array, k: number): Groups {
  const groups = new TaskGroups([table]);
  const found = gatherScores(groups.numbers(table, rows), table.numbers("reward", rows));
  const { scores, starts } = found;
  const gathered = found.tasks.map((group, at) => {
    const [start, end] = [starts[at], starts[at + 1]];
    return {
      task: groups.taskOf(group),
      agent: groups.agentOf(group),
      first: rows[found.firsts[at]],
      rows: found.rows[at],
      scored: end - start,
      mean: end > start ? meanOf(scores, start, end) : null,
      passAtK: end - start >= k ? expectedMax(scores, start, end, k) : null,
    };
  });
  return { groups: gathered, isBest: scores.some((each) => each !== 0 && each !== 1) };
}

/** Return the groups in order, stably; those without the value come last. */
export function orderGroups(groups: Group[], by: GroupOrder, descending: boolean): Group[] {
  const keys = Float64Array.from(groups, (group) => {
    const value = group[by];
    return typeof value === "number" ? value : NaN;
  });
  return Array.from(orderByNumber(keys, keys.length, descending), (at) => groups[at]);
}
