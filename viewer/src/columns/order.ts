/** Stable orders of the rows of a table by a column. Rows without a value come last in both directions. */

import { Codes, type Column } from "./column.ts";
import type { Value } from "./block.ts";

/** Return the numbers of all rows, ordered by the column. Rows with equal values keep the order of the file. */
export function orderRows(column: Column, rows: number, descending: boolean): Uint32Array {
  const { store } = column;
  if (store instanceof Codes) return orderByRank(ranksOf(store.values, descending), store.data, rows);
  const { data } = store;
  return orderByNumber(data, rows, descending);
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

/** Sort by the bits of floats, 16 at a time: the order of their bits is that of the numbers once signs are flipped. */
function orderByNumber(data: ArrayLike<number>, rows: number, descending: boolean): Uint32Array {
  const floats = new Float64Array(1);
  const bits = new Uint32Array(floats.buffer);
  const low = new Uint32Array(rows);
  const high = new Uint32Array(rows);
  for (let row = 0; row < rows; row++) {
    const value = data[row];
    if (value !== value) {
      low[row] = high[row] = 0xffffffff; // no float has these bits once it is flipped
      continue;
    }
    floats[0] = value + 0; // -0 becomes 0
    const negative = bits[1] >>> 31 === 1;
    const flip = negative !== descending ? 0xffffffff : 0;
    low[row] = bits[0] ^ flip;
    high[row] = bits[1] ^ (negative ? flip : descending ? 0x7fffffff : 0x80000000);
  }
  let order = new Uint32Array(rows);
  for (let row = 0; row < rows; row++) order[row] = row;
  for (const [keys, shift] of [[low, 0], [low, 16], [high, 0], [high, 16]] as const) {
    order = sortByDigit(order, keys, shift);
  }
  return order;
}

function sortByDigit(order: Uint32Array<ArrayBuffer>, keys: Uint32Array, shift: number): Uint32Array<ArrayBuffer> {
  const ends = new Uint32Array((1 << 16) + 1);
  for (const row of order) ends[((keys[row] >>> shift) & 0xffff) + 1] += 1;
  if (ends.includes(order.length)) return order; // all rows have the same digit
  for (let digit = 1; digit < ends.length; digit++) ends[digit] += ends[digit - 1];
  const sorted = new Uint32Array(order.length);
  for (const row of order) sorted[ends[(keys[row] >>> shift) & 0xffff]++] = row;
  return sorted;
}
