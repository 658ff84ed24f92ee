/** Stable orders of the rows of a table by a column. Rows without a value come last in both directions. */

import { Codes, type Column } from "./column.ts";
import type { Packed, Value } from "./block.ts";

/** Return the numbers of all rows, ordered by the column. Rows with equal values keep the order of the file. */
export function orderRows(column: Column, rows: number, descending: boolean): Uint32Array {
  const { store } = column;
  if (store instanceof Codes) return orderByRank(ranksOf(store.values, descending), store.data, rows);
  return orderByNumber(store.data, rows, descending);
}

/** The rank of each code: 0 for the first value. Values that are missing have the last rank. */
function ranksOf(values: Value[], descending: boolean): Uint32Array {
  const order = values.map((_, code) => code).filter((code) => values[code] !== null);
  order.sort((one, other) => compareValues(values[one]!, values[other]!) * (descending ? -1 : 1));
  const ranks = new Uint32Array(values.length).fill(order.length);
  order.forEach((code, rank) => (ranks[code] = rank));
  return ranks;
}

export function compareValues(one: number | string, other: number | string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

function orderByRank(ranks: Uint32Array, codes: ArrayLike<number>, rows: number): Uint32Array {
  const ends = new Uint32Array(ranks.length + 2);
  for (let row = 0; row < rows; row++) ends[ranks[codes[row]] + 1] += 1;
  for (let rank = 1; rank < ends.length; rank++) ends[rank] += ends[rank - 1];
  const order = new Uint32Array(rows);
  for (let row = 0; row < rows; row++) order[ends[ranks[codes[row]]]++] = row;
  return order;
}

/** Words of 32 bits whose order is that of the numbers. The most significant word is the last one. */
function wordsOf(data: Packed, rows: number, descending: boolean): Uint32Array<ArrayBuffer>[] {
  if (data instanceof Float64Array) return wordsOfFloats(data, rows, descending);
  const words = new Uint32Array(rows);
  const flip = descending ? 0x7fffffff : 0x80000000;
  for (let row = 0; row < rows; row++) words[row] = data[row] ^ flip;
  return [words];
}

/** The bits of floats are in order once the sign of positive and all bits of negative numbers are flipped. */
function wordsOfFloats(data: Float64Array, rows: number, descending: boolean): Uint32Array<ArrayBuffer>[] {
  const float = new Float64Array(1);
  const bits = new Uint32Array(float.buffer);
  const low = new Uint32Array(rows);
  const high = new Uint32Array(rows);
  for (let row = 0; row < rows; row++) {
    float[0] = data[row] + 0; // -0 becomes 0
    if (float[0] !== float[0]) {
      low[row] = high[row] = 0xffffffff; // the largest: no other number has these bits once they are flipped
      continue;
    }
    const isNegative = bits[1] >>> 31 === 1;
    const flip = isNegative !== descending ? 0xffffffff : 0;
    low[row] = bits[0] ^ flip;
    high[row] = bits[1] ^ (isNegative ? flip : descending ? 0x7fffffff : 0x80000000);
  }
  return [low, high];
}

const DIGITS = [0, 11, 22];
const BUCKETS = 1 << 11;

/** Radix sort, 11 bits at a time from the least significant ones: few enough buckets for the processor's cache. */
function orderByNumber(data: Packed, rows: number, descending: boolean): Uint32Array {
  let order = new Uint32Array(rows);
  for (let row = 0; row < rows; row++) order[row] = row;
  for (const words of wordsOf(data, rows, descending)) {
    for (const shift of DIGITS) order = sortByDigit(order, words, shift);
  }
  return order;
}

function sortByDigit(order: Uint32Array<ArrayBuffer>, words: Uint32Array, shift: number): Uint32Array<ArrayBuffer> {
  const rows = order.length;
  const ends = new Uint32Array(BUCKETS + 1);
  for (let row = 0; row < rows; row++) ends[((words[row] >>> shift) & (BUCKETS - 1)) + 1] += 1;
  if (ends.includes(rows)) return order; // all rows have the same digit
  for (let digit = 1; digit <= BUCKETS; digit++) ends[digit] += ends[digit - 1];
  const sorted = new Uint32Array(rows);
  for (let at = 0; at < rows; at++) {
    const row = order[at];
    sorted[ends[(words[row] >>> shift) & (BUCKETS - 1)]++] = row;
  }
  return sorted;
}
