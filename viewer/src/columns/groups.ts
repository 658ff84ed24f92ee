/** Rows gathered by task. */

import { expectedMaxCurve, mean } from "./estimators.ts";
import type { Table } from "./table.ts";

export interface Group {
  task: number;
  /** The number of selected rows. */
  rows: number;
  /** The rows with a reward. Only they enter the mean and pass@k. */
  scored: number;
  /** The mean reward; null without a score. */
  mean: number | null;
  /** The unbiased pass@k; null with fewer than k scores. */
  passAtK: number | null;
}

export type GroupOrder = keyof Group;

/** Gather `rows` by task. The groups keep the order of their first rows. */
export function groupByTask(table: Table, rows: Uint32Array, k: number): Group[] {
  const [places, tasks] = placesOf(table, rows);
  const ends = new Uint32Array(tasks.length + 1);
  for (const place of places) ends[place + 1] += 1;
  for (let at = 1; at < ends.length; at++) ends[at] += ends[at - 1];
  const starts = ends.slice();
  const rewards = new Float64Array(rows.length);
  const rewardAt = readerOf(table, "reward");
  for (let at = 0; at < rows.length; at++) rewards[ends[places[at]]++] = rewardAt(rows[at]);
  return tasks.map((task, at) => {
    const group = rewards.subarray(starts[at], starts[at + 1]);
    return describe(task, group, k);
  });
}

function describe(task: number, rewards: Float64Array, k: number): Group {
  const scores: number[] = [];
  for (const reward of rewards) if (reward === reward) scores.push(reward);
  return {
    task,
    rows: rewards.length,
    scored: scores.length,
    mean: scores.length ? mean(scores) : null,
    passAtK: scores.length >= k ? expectedMaxCurve(scores, k)[k - 1] : null,
  };
}

/** For each row the position of its task, and the tasks. */
function placesOf(table: Table, rows: Uint32Array): [Uint32Array, number[]] {
  const taskAt = readerOf(table, "task");
  const known = new Map<number, number>();
  const tasks: number[] = [];
  const places = new Uint32Array(rows.length);
  for (let at = 0; at < rows.length; at++) {
    const task = taskAt(rows[at]);
    let place = known.get(task);
    if (place === undefined) {
      place = tasks.length;
      known.set(task, place);
      tasks.push(task);
    }
    places[at] = place;
  }
  return [places, tasks];
}

/** A function that reads the numbers of a column; NaN for rows without one. */
export function readerOf(table: Table, name: string): (row: number) => number {
  const column = table.column(name);
  if (!column) return () => NaN;
  const byCode = column.numbersByCode();
  const { data } = column.store;
  return byCode ? (row) => byCode[data[row]] : (row) => data[row];
}

/** Order groups in place, stably; groups without the value come last. */
export function orderGroups(groups: Group[], by: GroupOrder, descending: boolean): Group[] {
  return groups.sort((one, other) => {
    const [left, right] = [one[by], other[by]];
    if (left === null || right === null) return Number(left === null) - Number(right === null);
    return (left - right) * (descending ? -1 : 1);
  });
}
