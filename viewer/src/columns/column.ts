/** One growing column of numbers or labels. Numbers stay packed, and few different values are held as codes. */

import type { BlockColumn, Packed, Value } from "./block.ts";

/** Columns with more different values than this hold numbers instead of codes. */
const MOST_CODES = 1 << 12;

type Integers = Int8Array | Int16Array | Int32Array;
const WIDTHS = [Int8Array, Int16Array, Int32Array] as const;

function grown<T extends Packed>(data: T, rows: number): T {
  if (rows <= data.length) return data;
  const larger = new (data.constructor as new (length: number) => T)(Math.max(rows, data.length * 2, 1024));
  larger.set(data as never);
  return larger;
}

/** The narrowest integers that hold -1 - `bound` to `bound`. */
function integersFor(bound: number, rows: number): Packed {
  if (bound < 1 << 7) return new Int8Array(rows);
  if (bound < 1 << 15) return new Int16Array(rows);
  return bound < 2 ** 31 ? new Int32Array(rows) : new Float64Array(rows);
}

function isNarrower(one: Packed, other: Packed): boolean {
  return one.BYTES_PER_ELEMENT < other.BYTES_PER_ELEMENT;
}

/** A column whose rows point to a table of its values. Label columns always have this form. */
export class Codes {
  values: Value[] = [];
  private codes = new Map<Value, number>();
  data: Integers = new Int8Array(0);

  codeOf(value: Value): number {
    let code = this.codes.get(value);
    if (code === undefined) {
      code = this.values.length;
      this.values.push(value);
      this.codes.set(value, code);
      this.widen(code);
    }
    return code;
  }

  find(value: Value): number | undefined {
    return this.codes.get(value);
  }

  ensure(rows: number): void {
    this.data = grown(this.data, rows);
  }

  private widen(code: number): void {
    const needed = WIDTHS.find((width) => code < 2 ** (8 * width.BYTES_PER_ELEMENT - 1))!;
    if (this.data.BYTES_PER_ELEMENT >= needed.BYTES_PER_ELEMENT) return;
    const wider = new needed(this.data.length);
    wider.set(this.data);
    this.data = wider;
  }
}

/** The numbers of a column that has neither gaps nor few values: no row of `Int…` data lacks its number. */
export class Numbers {
  constructor(public data: Packed) {}
}

export class Column {
  store: Codes | Numbers = new Codes();

  constructor(
    readonly name: string,
    readonly isLabel: boolean,
  ) {}

  /** Write the rows `at` to `at + count` from a block; without a column of the block, they have no value. */
  write(at: number, count: number, column: BlockColumn | undefined): void {
    if (!column || column.form === "same") this.writeSame(at, count, column ? column.value : null);
    else if (column.form === "coded") this.writeCoded(at, count, column.values, column.data);
    else this.writeNumbers(at, count, column.data);
  }

  /** The value of a row: a number, a label or null. */
  at(row: number): Value {
    const { store } = this;
    if (store instanceof Codes) return store.values[store.data[row]];
    const value = store.data[row];
    return value === value ? value : null;
  }

  /** The number of a row; NaN if it has none. */
  numberAt(row: number): number {
    const value = this.at(row);
    return typeof value === "number" ? value : NaN;
  }

  /** The numbers by code, or undefined for a column without codes. Labels and gaps are NaN. */
  numbersByCode(): Float64Array | undefined {
    const { store } = this;
    if (!(store instanceof Codes)) return undefined;
    return Float64Array.from(store.values, (value) => (typeof value === "number" ? value : NaN));
  }

  private writeSame(at: number, count: number, value: Value): void {
    if (this.store instanceof Numbers) {
      this.widenFor(value === null ? new Float64Array(0) : integersFor(Math.abs(Number(value)), 0), at);
      this.store.data = grown(this.store.data, at + count);
      this.store.data.fill(value === null ? NaN : Number(value), at, at + count);
      return;
    }
    const code = this.store.codeOf(value);
    this.store.ensure(at + count);
    this.store.data.fill(code, at, at + count);
  }

  private writeCoded(at: number, count: number, values: Value[], data: Packed): void {
    if (this.store instanceof Numbers) {
      const numbers = Float64Array.from(data, (code) => Number(values[code] ?? NaN));
      this.writeNumbers(at, count, numbers);
      return;
    }
    const { store } = this;
    const codes = values.map((value) => store.codeOf(value));
    store.ensure(at + count);
    const target = store.data;
    for (let row = 0; row < count; row++) target[at + row] = codes[data[row]];
    this.leaveCodes(at + count);
  }

  private writeNumbers(at: number, count: number, data: Packed): void {
    if (this.store instanceof Codes) {
      if (at > 0 && this.writeAsCodes(at, count, data)) return;
      this.becomeNumbers(at);
    }
    const store = this.store as Numbers;
    this.widenFor(data, at);
    store.data = grown(store.data, at + count);
    store.data.set(data.subarray(0, count) as never, at);
  }

  /** Write integers as codes while the column has few values, and return whether that was possible. */
  private writeAsCodes(at: number, count: number, data: Packed): boolean {
    const store = this.store as Codes;
    if (data instanceof Float64Array || new Set<number>(data).size + store.values.length > MOST_CODES) return false;
    if (!store.values.some((value) => value === null || !Number.isInteger(value))) return false;
    store.ensure(at + count);
    for (let row = 0; row < count; row++) {
      const code = store.codeOf(data[row]); // may replace store.data by wider integers
      store.data[at + row] = code;
    }
    return true;
  }

  private leaveCodes(rows: number): void {
    const { store } = this;
    if (!this.isLabel && store instanceof Codes && store.values.length > MOST_CODES) this.becomeNumbers(rows);
  }

  private becomeNumbers(rows: number): void {
    const byCode = this.numbersByCode()!;
    const codes = this.store.data;
    const whole = byCode.every(Number.isInteger);
    const bound = byCode.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const data = whole ? integersFor(bound, rows) : new Float64Array(rows);
    for (let row = 0; row < rows; row++) data[row] = byCode[codes[row]];
    this.store = new Numbers(data);
  }

  private widenFor(data: Packed, rows: number): void {
    const store = this.store as Numbers;
    if (!isNarrower(store.data, data)) return;
    const wider = new (data.constructor as new (length: number) => Packed)(Math.max(rows, store.data.length));
    wider.set(store.data.subarray(0, rows) as never);
    store.data = wider;
  }
}
