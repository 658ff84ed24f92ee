/** Counts of labels, and histograms of numbers. */

import { Codes } from "./column.ts";
import type { Table } from "./table.ts";

export interface Facet {
  name: string;
  /** The most frequent labels; null is the absence of one. */
  counts: { value: string | null; count: number }[];
  /** The number of labels beyond those. */
  more: number;
}

const SHOWN = 12;

export function facetOf(table: Table, rows: Uint32Array, name: string): Facet | null {
  if (!table.column(name)) return null;
  const present = countLabels(table, rows, name).sort((one, other) => other.count - one.count);
  return { name, counts: present.slice(0, SHOWN), more: Math.max(0, present.length - SHOWN) };
}

/** The labels of the rows, and the number of rows with each. */
export function countLabels(table: Table, rows: Uint32Array, name: string): Facet["counts"] {
  const store = table.column(name)?.store;
  if (!(store instanceof Codes)) return [];
  const counted = new Uint32Array(store.values.length);
  const { data } = store;
  for (let at = 0; at < rows.length; at++) counted[data[rows[at]]] += 1;
  const counts = store.values.map((value, code) => ({ value: value as string | null, count: counted[code] }));
  return counts.filter(({ count }) => count > 0);
}

export interface Histogram {
  name: string;
  /** The bounds of the bins: one more than there are bins. The last bin includes its upper bound. */
  bounds: number[];
  counts: number[];
  missing: number;
}

export function histogramOf(table: Table, rows: Uint32Array, name: string, bins = 24): Histogram | null {
  const values = table.numbers(name, rows);
  let low = Infinity;
  let high = -Infinity;
  let missing = 0;
  for (let at = 0; at < values.length; at++) {
    const value = values[at];
    if (value !== value) missing += 1;
    else {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low > high) return null;
  if (low === high) return { name, bounds: [low, high], counts: [rows.length - missing], missing };
  const counts = new Array<number>(bins).fill(0);
  const width = high / bins - low / bins; // the difference alone may be beyond the range of floats
  for (let at = 0; at < values.length; at++) {
    const value = values[at];
    if (value === value) counts[Math.min(bins - 1, Math.max(0, Math.floor(value / width - low / width)))] += 1;
  }
  const bounds = Array.from({ length: bins + 1 }, (_, at) => (at === bins ? high : low + at * width));
  return { name, bounds, counts, missing };
}
