/** Estimators, the same as in `nemo_gym/metrics/estimators.py`. */

import type { TaskScores } from "./task_scores.ts";

export interface Interval {
  low: number;
  high: number;
}

/** The mean of the values from `start` to before `end`. */
export function meanOf(values: ArrayLike<number>, start = 0, end = values.length): number {
  let sum = 0;
  for (let at = start; at < end; at++) sum += values[at];
  return sum / (end - start);
}

/**
 * The expected best of `k` of a task's scores, drawn without replacement. The scores lie from `start` to before `end`, in
 * ascending order. For scores 0 and 1 it is 1 - C(n - c, k) / C(n, k), the unbiased estimator of pass@k of Chen et al.
 * 2021.
 */
export function expectedMax(scores: Float64Array, start: number, end: number, k: number): number {
  const weights = weightsOf(end - start, k);
  let sum = 0;
  for (let at = start; at < end; at++) sum += scores[at] * weights[at - start];
  return sum;
}

const known = new Map<number, Float64Array>();
const MOST_K = 2 ** 20;

/** The probability that each of n ascending scores is the best of k: C(at, k - 1) / C(n, k) for the one at `at`. */
function weightsOf(n: number, k: number): Float64Array {
  const key = n * MOST_K + k;
  let weights = known.get(key);
  if (!weights) {
    weights = new Float64Array(n);
    weights[n - 1] = k / n;
    for (let at = n - 1; at >= k; at--) weights[at - 1] = (weights[at] * (at - k + 1)) / at;
    known.set(key, weights);
  }
  return weights;
}

/** The 95 % interval of the mean of all scores, clustered by task (Miller 2024); null below two tasks with a score or without a spread of the tasks. */
export function clusteredInterval({ scores, starts }: TaskScores): Interval | null {
  const center = meanOf(scores);
  let tasks = 0;
  let squares = 0;
  for (let task = 0; task + 1 < starts.length; task++) {
    if (starts[task] === starts[task + 1]) continue;
    let deviation = 0;
    for (let at = starts[task]; at < starts[task + 1]; at++) deviation += scores[at] - center;
    tasks += 1;
    squares += deviation ** 2;
  }
  if (tasks < 2) return null;
  const error = Math.sqrt((tasks / (tasks - 1)) * squares) / scores.length;
  if (error <= 1e-13 * Math.max(1, Math.abs(center))) return null; // of rounding
  const half = studentT975(tasks - 1) * error;
  return { low: center - half, high: center + half };
}

/** The part of an interval where means of rewards can be: between the samples, or 0 and 1 if these are farther apart. */
export function boundedInterval(interval: Interval | null, samples: Float64Array): Interval | null {
  if (!interval) return null;
  let [least, most] = [0, 1];
  for (const sample of samples) {
    least = Math.min(least, sample);
    most = Math.max(most, sample);
  }
  return { low: Math.max(interval.low, least), high: Math.min(interval.high, most) };
}

/** The 97.5 % quantile of Student's t distribution, accurate to 0.2 % (Abramowitz and Stegun 1964, 26.7.5). */
export function studentT975(degrees: number): number {
  if (degrees === 1) return Math.tan(Math.PI * 0.475);
  if (degrees === 2) return 0.95 / Math.sqrt(2 * 0.975 * 0.025);
  const z = 1.959963984540054;
  const corrections = [
    (z ** 3 + z) / 4,
    (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96,
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384,
    (79 * z ** 9 + 776 * z ** 7 + 1482 * z ** 5 - 1920 * z ** 3 - 945 * z) / 92160,
  ];
  return corrections.reduce((sum, correction, at) => sum + correction / degrees ** (at + 1), z);
}
