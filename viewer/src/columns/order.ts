/** Stable orders of the rows of a table by a column. Rows without a value come last in both directions. */

import { Codes, type Column } from "./column.ts";
import type { Packed, Value } from "./block.ts";
import { everyRow } from "./select.ts";

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

/** Return the order of the first `rows` numbers; those that are NaN come last. Equal numbers keep their order. */
export function orderByNumber(data: Packed, rows: number, descending: boolean): Uint32Array {
  if (data instanceof Float64Array) return orderFloats(data.subarray(0, rows), descending);
  return sortByWords(wordsOfIntegers(data, rows, descending), everyRow(rows)).order;
}

/** Words of 32 bits whose order is that of the numbers. */
type Words = Uint32Array<ArrayBuffer>;

function wordsOfIntegers(data: Packed, rows: number, descending: boolean): Words {
  const words = new Uint32Array(rows);
  const flip = descending ? 0x7fffffff : 0x80000000;
  for (let row = 0; row < rows; row++) words[row] = data[row] ^ flip;
  return words;
}

/** The words of the largest number, and of NaN. */
const LAST = 0xfffffffe;
const MISSING = 0xffffffff;

/** Floats are spread evenly over the words. Those with the same word are ordered in the same way once more. */
function orderFloats(data: Float64Array, descending: boolean): Uint32Array {
  let low = Infinity;
  let high = -Infinity;
  for (let row = 0; row < data.length; row++) {
    if (data[row] < low) low = data[row];
    if (data[row] > high) high = data[row];
  }
  const scale = high > low ? LAST / (high - low) : 0;
  if (high > low && !(scale > 0 && scale < Infinity)) return orderByComparison(data, descending);
  const words = new Uint32Array(data.length);
  for (let row = 0; row < data.length; row++) {
    const word = (data[row] - low) * scale;
    words[row] = word !== word ? MISSING : descending ? LAST - Math.floor(word) : word;
  }
  const sorted = sortByWords(words, everyRow(data.length));
  sortTies(sorted, data, descending);
  return sorted.order;
}

/** The order of numbers whose range is too large or too small for floats. */
function orderByComparison(data: Float64Array, descending: boolean): Uint32Array {
  const sign = descending ? -1 : 1;
  const isMissing = (row: number) => Number(Number.isNaN(data[row]));
  return everyRow(data.length).sort((one, other) => isMissing(one) - isMissing(other) || compareValues(data[one], data[other]) * sign);
}

/** The word of each row, and the rows, in an order. Both move together, so that every pass reads one after another. */
interface Keyed {
  words: Words;
  order: Uint32Array<ArrayBuffer>;
}

const DIGITS = [0, 11, 22];
const BUCKETS = 1 << 11;

/** Radix sort, 11 bits at a time from the least significant ones: few enough buckets for the processor's cache. */
function sortByWords(words: Words, order: Keyed["order"]): Keyed {
  const rows = words.length;
  let sorted: Keyed = { words, order };
  let free: Keyed = { words: new Uint32Array(rows), order: new Uint32Array(rows) };
  for (const shift of DIGITS) {
    if (sortByDigit(sorted, free, shift)) [sorted, free] = [free, sorted];
  }
  return sorted;
}

/** Write the rows to `to`, ordered by a digit of their words; return false if all have the same digit. */
function sortByDigit({ words, order }: Keyed, to: Keyed, shift: number): boolean {
  const rows = words.length;
  const ends = new Uint32Array(BUCKETS + 1);
  for (let at = 0; at < rows; at++) ends[((words[at] >>> shift) & (BUCKETS - 1)) + 1] += 1;
  if (ends.includes(rows)) return false;
  for (let digit = 1; digit <= BUCKETS; digit++) ends[digit] += ends[digit - 1];
  const { words: sortedWords, order: sortedOrder } = to;
  for (let at = 0; at < rows; at++) {
    const word = words[at];
    const place = ends[(word >>> shift) & (BUCKETS - 1)]++;
    sortedWords[place] = word;
    sortedOrder[place] = order[at];
  }
  return true;
}

const SHORT = 64;

/** Order the rows with the same word by their numbers, in place. */
function sortTies({ words, order }: Keyed, data: Float64Array, descending: boolean): void {
  let start = 0;
  for (let at = 1; at <= words.length; at++) {
    if (at < words.length && words[at] === words[start]) continue;
    if (at - start > SHORT && words[start] !== MISSING) sortMany(order, start, at, data, descending);
    else if (at - start > 1) sortFew(order, start, at, data, descending);
    start = at;
  }
}

/** Order the rows from `start` to before `end`. */
function sortMany(order: Uint32Array, start: number, end: number, data: Float64Array, descending: boolean): void {
  const tied = order.slice(start, end);
  const numbers = Float64Array.from(tied, (row) => data[row]);
  if (numbers.every((number) => number === numbers[0])) return;
  orderFloats(numbers, descending).forEach((from, to) => (order[start + to] = tied[from]));
}

/** Insertion sort of the same rows. Comparisons with NaN move nothing. */
function sortFew(order: Uint32Array, start: number, end: number, data: Float64Array, descending: boolean): void {
  for (let at = start + 1; at < end; at++) {
    const row = order[at];
    const number = data[row];
    let to = at;
    for (; to > start && (descending ? data[order[to - 1]] < number : data[order[to - 1]] > number); to--) order[to] = order[to - 1];
    order[to] = row;
  }
}
