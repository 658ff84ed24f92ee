/** The scores of a table's tasks, without an object for each task. */

export interface TaskScores {
  /** The tasks, in order of their first rows. */
  tasks: number[];
  /** The position of each task's first row among the gathered ones. */
  firsts: Uint32Array;
  /** The number of rows of each task, with and without a score. */
  rows: Uint32Array;
  /** All scores. Those of task number `at` lie from `starts[at]` to before `starts[at + 1]`, in ascending order. */
  scores: Float64Array;
  starts: Uint32Array;
}

/** Gather the rewards of rows by task. A row without a score has the reward NaN. */
export function gatherScores(tasks: Float64Array, rewards: Float64Array): TaskScores {
  const [places, found] = placesOf(tasks);
  const rows = new Uint32Array(found.length);
  const firsts = new Uint32Array(found.length);
  const starts = new Uint32Array(found.length + 1);
  for (let at = 0; at < places.length; at++) {
    if (!rows[places[at]]) firsts[places[at]] = at;
    rows[places[at]] += 1;
    if (rewards[at] === rewards[at]) starts[places[at] + 1] += 1;
  }
  for (let at = 1; at < starts.length; at++) starts[at] += starts[at - 1];
  const ends = starts.slice();
  const scores = new Float64Array(starts[found.length]);
  for (let at = 0; at < places.length; at++) {
    if (rewards[at] === rewards[at]) scores[ends[places[at]]++] = rewards[at];
  }
  for (let task = 0; task < found.length; task++) sortRange(scores, starts[task], starts[task + 1]);
  return { tasks: found, firsts, rows, scores, starts };
}

const FEW = 32;

/** Sort the numbers from `start` to before `end`: a few of them by insertion, which needs no object. */
function sortRange(numbers: Float64Array, start: number, end: number): void {
  if (end - start > FEW) {
    numbers.subarray(start, end).sort();
    return;
  }
  for (let at = start + 1; at < end; at++) {
    const number = numbers[at];
    let to = at;
    for (; to > start && numbers[to - 1] > number; to--) numbers[to] = numbers[to - 1];
    numbers[to] = number;
  }
}

/** The largest number of rows of a task. */
export function mostRows(tasks: Float64Array): number {
  const [places, found] = placesOf(tasks);
  const counts = new Uint32Array(found.length);
  for (let at = 0; at < places.length; at++) counts[places[at]] += 1;
  return counts.reduce((most, count) => Math.max(most, count), 0);
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
