/** The rows that satisfy the column terms of a filter. */

import { Codes, type Column } from "./column.ts";
import type { Packed, Value } from "./block.ts";
import { parseNumber, type ColumnTerm, type Problem } from "./query.ts";
import type { Table } from "./table.ts";

type Test = (value: Value) => boolean;

/** The numbers from `low` to `high`, or with `isInverted` all others. */
interface Range {
  low: number;
  high: number;
  isInverted: boolean;
}

interface Condition {
  test: Test;
  /** The numbers that pass, if they are a range. */
  range?: Range;
}

/** Return the numbers of the rows that satisfy all terms, in the order of the file. Adds to `problems`. */
export function selectRows(table: Table, terms: ColumnTerm[], problems: Problem[]): Uint32Array {
  let rows: Uint32Array | null = null;
  for (const term of terms) {
    const column = table.column(term.name);
    if (!column) {
      problems.push(problem(term, `There is no column "${term.name}". Columns: ${names(table)}.`));
      continue;
    }
    const condition = conditionOf(column, term, problems);
    if (condition) rows = narrowed(column, condition, term.negated, rows, table.rows);
  }
  return rows ?? everyRow(table.rows);
}

export function everyRow(count: number): Uint32Array<ArrayBuffer> {
  const rows = new Uint32Array(count);
  for (let row = 0; row < count; row++) rows[row] = row;
  return rows;
}

function narrowed(
  column: Column, condition: Condition, negated: boolean, rows: Uint32Array | null, count: number,
): Uint32Array {
  const found = new Uint32Array(rows ? rows.length : count);
  const { store } = column;
  if (!(store instanceof Codes) && condition.range) return inRange(store.data, condition.range, negated, rows, found);
  const { data } = store;
  const { test } = condition;
  const passes = store instanceof Codes ? Uint8Array.from(store.values, (value) => Number(test(value) !== negated)) : null;
  let next = 0;
  for (let at = 0; at < found.length; at++) {
    const row = rows ? rows[at] : at;
    const value = data[row];
    found[next] = row; // kept only if `next` moves on: faster than a branch
    if (passes) next += passes[value];
    else if (test(value === value ? value : null) !== negated) next += 1;
  }
  return found.subarray(0, next);
}

/** The rows whose numbers are in a range. A call for each number would take four times as long. */
function inRange(
  data: Packed, { low, high, isInverted }: Range, negated: boolean, rows: Uint32Array | null, found: Uint32Array,
): Uint32Array {
  let next = 0;
  for (let at = 0; at < found.length; at++) {
    const row = rows ? rows[at] : at;
    const value = data[row];
    found[next] = row;
    next += ((value >= low && value <= high) !== isInverted && value === value) !== negated ? 1 : 0;
  }
  return found.subarray(0, next);
}

function conditionOf(column: Column, term: ColumnTerm, problems: Problem[]): Condition | undefined {
  return column.isLabel ? labelCondition(term, problems) : numberCondition(term, problems);
}

function labelCondition(term: ColumnTerm, problems: Problem[]): Condition | undefined {
  if (!":=!=".includes(term.comparison)) {
    problems.push(problem(term, `"${term.name}" holds labels: compare them with ":", as in ${term.name}:text*.`));
    return undefined;
  }
  const patterns = term.values.map(labelPattern);
  const matches: Test = (value) => patterns.some((pattern) => pattern(value));
  return { test: term.comparison === "!=" ? (value) => !matches(value) : matches };
}

function labelPattern(text: string): Test {
  if (text === "none") return (value) => value === null;
  const parts = text.split("*").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const pattern = new RegExp(`^${parts.join(".*")}$`, "is");
  return (value) => value !== null && pattern.test(String(value));
}

function numberCondition(term: ColumnTerm, problems: Problem[]): Condition | undefined {
  const conditions: Condition[] = [];
  for (const text of term.values) {
    const number = parseNumber(text);
    if (number !== undefined) conditions.push(comparedWith(term.comparison, number));
    else if (text === "none" && ":=".includes(term.comparison)) conditions.push({ test: (value) => value === null });
    else if (text === "none" && term.comparison === "!=") conditions.push({ test: (value) => value !== null });
    else problems.push(problem(term, `"${text}" is not a number: write 12, -0.5, 4k, 2M or a time such as 2026-05-01T18:30.`));
  }
  if (conditions.length < term.values.length) return undefined;
  if (conditions.length === 1) return conditions[0];
  const tests = conditions.map(({ test }) => test);
  const all = term.comparison === "!=";
  return { test: (value) => (all ? tests.every((test) => test(value)) : tests.some((test) => test(value))) };
}

/** A missing number satisfies no comparison. */
function comparedWith(comparison: string, bound: number): Condition {
  const isUpper = comparison === "<=" || comparison === ">";
  const isLower = comparison === ">=" || comparison === "<";
  const low = isUpper ? -Infinity : bound;
  const high = isLower ? Infinity : bound;
  const isInverted = ["<", ">", "!="].includes(comparison);
  const test: Test = (value) => typeof value === "number" && (value >= low && value <= high) !== isInverted;
  return { test, range: { low, high, isInverted } };
}

function problem(term: ColumnTerm, message: string): Problem {
  return { at: term.at, length: term.length, message };
}

function names(table: Table): string {
  return [...table.columns.keys()].filter((name) => name !== "length").sort().join(", ");
}
