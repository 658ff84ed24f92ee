/** The columns of one file of rows. */

import type { Block, BlockColumn } from "./block.ts";
import { Column } from "./column.ts";

const LABELS = new Set(["outcome", "agent", "end_reason", "failure", "policy_version"]);

interface Extent {
  /** The first row of the block. */
  row: number;
  /** The offset of this row in the file. */
  start: number;
}

export interface RowPlace {
  start: number;
  length: number;
}

export class Table {
  rows = 0;
  /** Rises whenever rows are added or replaced, so that orders and selections can be cached. */
  version = 0;
  readonly columns = new Map<string, Column>();
  private extents: Extent[] = [];

  /** Put `blocks` in the place of block number `first` and those after it. */
  replaceFrom(first: number, blocks: Block[]): void {
    if (first < this.extents.length) {
      this.rows = this.extents[first].row;
      this.extents.length = first;
    }
    if (first > this.extents.length) throw new Error(`Block ${this.extents.length} is missing.`);
    for (const block of blocks) this.append(block);
    this.version += 1;
  }

  get blocks(): number {
    return this.extents.length;
  }

  column(name: string): Column | undefined {
    return this.columns.get(name);
  }

  /** A function that reads the numbers of a column; NaN for rows without one. */
  reader(name: string): (row: number) => number {
    const column = this.columns.get(name);
    if (!column) return () => NaN;
    const byCode = column.numbersByCode();
    const { data } = column.store;
    return byCode ? (row) => byCode[data[row]] : (row) => data[row];
  }

  /** The numbers of a column in the given rows, or in all; NaN for rows without one. */
  numbers(name: string, rows?: Uint32Array): Float64Array {
    const valueAt = this.reader(name);
    const numbers = new Float64Array(rows ? rows.length : this.rows);
    for (let at = 0; at < numbers.length; at++) numbers[at] = valueAt(rows ? rows[at] : at);
    return numbers;
  }

  numberAt(name: string, row: number): number {
    return this.columns.get(name)?.numberAt(row) ?? NaN;
  }

  /** Where the bytes of a row lie in the file. */
  placeOf(row: number): RowPlace {
    const extent = this.extents[lastAtMost(this.extents, (one) => one.row, row)];
    let start = extent.start;
    for (let before = extent.row; before < row; before++) start += this.numberAt("length", before);
    return { start, length: this.numberAt("length", row) };
  }

  /** The number of the row that begins at an offset, or -1. */
  rowAt(start: number): number {
    const block = lastAtMost(this.extents, (one) => one.start, start);
    if (block < 0) return -1;
    const end = this.extents[block + 1]?.row ?? this.rows;
    let at = this.extents[block].start;
    for (let row = this.extents[block].row; row < end; row++) {
      if (at === start) return row;
      at += this.numberAt("length", row);
    }
    return -1;
  }

  /** The offsets of all rows. */
  starts(): Float64Array {
    const starts = new Float64Array(this.rows);
    const lengthAt = this.reader("length");
    this.extents.forEach((extent, block) => {
      const end = this.extents[block + 1]?.row ?? this.rows;
      let at = extent.start;
      for (let row = extent.row; row < end; row++) {
        starts[row] = at;
        at += lengthAt(row);
      }
    });
    return starts;
  }

  private append(block: Block): void {
    const given = new Map(block.columns.map((column) => [column.name, column]));
    for (const column of block.columns) this.ensureColumn(column);
    for (const column of this.columns.values()) column.write(this.rows, block.rows, given.get(column.name));
    this.extents.push({ row: this.rows, start: block.start });
    this.rows += block.rows;
  }

  private ensureColumn({ name }: BlockColumn): void {
    if (this.columns.has(name)) return;
    const column = new Column(name, LABELS.has(name));
    if (this.rows) column.write(0, this.rows, undefined);
    this.columns.set(name, column);
  }
}

/** The index of the last entry whose key is at most `bound`, or -1. Keys ascend. */
function lastAtMost<T>(entries: T[], key: (entry: T) => number, bound: number): number {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(entries[middle]) <= bound) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
