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
  const tasks = Float64Array.from(rows, table.reader("task"));
  const rewards = Float64Array.from(rows, table.reader("reward"));
  const curveOf = rememberedCurves(k);
  return gather(tasks, rewards).map(({ task, values }) => {
    const scores = values.filter((reward) => reward === reward);
    return {
      task,
      rows: values.length,
      scored: scores.length,
      mean: scores.length ? mean(scores) : null,
      passAtK: scores.length >= k ? curveOf(scores)[k - 1] : null,
    };
  });
}

export interface Gathered {
  task: number;
  values: Float64Array;
}

/** The values of each task, in their order. */
export function gather(tasks: Float64Array, values: Float64Array): Gathered[] {
  const [places, found] = placesOf(tasks);
  const ends = new Uint32Array(found.length + 1);
  for (let at = 0; at < places.length; at++) ends[places[at] + 1] += 1;
  for (let at = 1; at < ends.length; at++) ends[at] += ends[at - 1];
  const starts = ends.slice();
  const sorted = new Float64Array(values.length);
  for (let at = 0; at < values.length; at++) sorted[ends[places[at]]++] = values[at];
  return found.map((task, at) => ({ task, values: sorted.subarray(starts[at], starts[at + 1]) }));
}

/** For each row the position of its task, and the tasks. Tasks are usually numbered from 0 on. */
function placesOf(tasks: Float64Array): [Uint32Array, number[]] {
  const found: number[] = [];
  const places = new Uint32Array(tasks.length);
  const small = new Int32Array(tasks.length + 1).fill(-1);
  const large = new Map<number, number>();
  for (let at = 0; at < tasks.length; at++) {
    const task = tasks[at];
    const isSmall = task >= 0 && task < small.length && Number.isInteger(task);
    let place = isSmall ? small[task] : (large.get(task) ?? -1);
    if (place < 0) {
      place = found.length;
      if (isSmall) small[task] = place;
      else large.set(task, place);
      found.push(task);
    }
    places[at] = place;
  }
  return [places, found];
}

const REMEMBERED = 10_000;

/** pass@k for k = 1 .. `maxK`. Many tasks have the same scores, so that curves are remembered. */
export function rememberedCurves(maxK: number): (scores: Float64Array) => number[] {
  const known = new Map<string, number[]>();
  return (scores) => {
    const sorted = scores.slice().sort();
    const key = sorted.join();
    const curve = known.get(key) ?? expectedMaxCurve([...sorted], maxK);
    if (known.size < REMEMBERED) known.set(key, curve);
    return curve;
  };
}

/** Order groups in place, stably; groups without the value come last. */
export function orderGroups(groups: Group[], by: GroupOrder, descending: boolean): Group[] {
  return groups.sort((one, other) => {
    const [left, right] = [one[by], other[by]];
    if (left === null || right === null) return Number(left === null) - Number(right === null);
    return (left - right) * (descending ? -1 : 1);
  });
}
