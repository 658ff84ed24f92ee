/** Estimators, the same as in `nemo_gym/metrics/estimators.py`. */

export interface Interval {
  low: number;
  high: number;
}

export function mean(values: ArrayLike<number>): number {
  let sum = 0;
  for (let at = 0; at < values.length; at++) sum += values[at];
  return sum / values.length;
}

/**
 * The expected best score of k = 1 .. `maxK` of a task's samples, drawn without replacement. For scores 0 and 1 it is
 * 1 - C(n - c, k) / C(n, k), the unbiased estimator of pass@k of Chen et al. 2021.
 */
export function expectedMaxCurve(scores: number[], maxK: number): number[] {
  const sorted = [...scores].sort((one, other) => one - other);
  const distinct: number[] = [];
  const atOrBelow: number[] = [];
  sorted.forEach((score, at) => {
    if (at && score === sorted[at - 1]) atOrBelow[atOrBelow.length - 1] = at + 1;
    else distinct.push(score), atOrBelow.push(at + 1);
  });
  let probabilities = distinct.map(() => 1);
  const curve: number[] = [];
  for (let k = 1; k <= Math.min(maxK, scores.length); k++) {
    const left = scores.length - k + 1;
    probabilities = probabilities.map((probability, at) => (probability * (atOrBelow[at] - k + 1)) / left);
    curve.push(distinct.reduce((sum, score, at) => sum + score * (probabilities[at] - (probabilities[at - 1] ?? 0)), 0));
  }
  return curve;
}

/** The 95 % interval of the mean of all samples, clustered by task (Miller 2024); null below two tasks. */
export function clusteredInterval(clusters: Float64Array[]): Interval | null {
  const filled = clusters.filter((cluster) => cluster.length > 0);
  if (filled.length < 2) return null;
  const samples = filled.reduce((count, cluster) => count + cluster.length, 0);
  const center = filled.reduce((sum, cluster) => sum + mean(cluster) * cluster.length, 0) / samples;
  const squares = filled.reduce((sum, cluster) => sum + cluster.reduce((part, value) => part + value - center, 0) ** 2, 0);
  const error = Math.sqrt((filled.length / (filled.length - 1)) * squares) / samples;
  const half = studentT975(filled.length - 1) * error;
  return { low: center - half, high: center + half };
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
