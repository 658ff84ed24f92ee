/** The rows that satisfy the column terms of a filter. */

import { Codes, type Column } from "./column.ts";
import type { Value } from "./block.ts";
import { parseNumber, type ColumnTerm, type Problem } from "./query.ts";
import type { Table } from "./table.ts";

type Test = (value: Value) => boolean;

/** Return the numbers of the rows that satisfy all terms, in the order of the file. Adds to `problems`. */
export function selectRows(table: Table, terms: ColumnTerm[], problems: Problem[]): Uint32Array {
  let rows: Uint32Array | null = null;
  for (const term of terms) {
    const column = table.column(term.name);
    if (!column) {
      problems.push(problem(term, `There is no column "${term.name}". Columns: ${names(table)}.`));
      continue;
    }
    const test = testOf(column, term, problems);
    if (test) rows = narrowed(column, test, term.negated, rows, table.rows);
  }
  return rows ?? everyRow(table.rows);
}

function everyRow(count: number): Uint32Array {
  const rows = new Uint32Array(count);
  for (let row = 0; row < count; row++) rows[row] = row;
  return rows;
}

function narrowed(
  column: Column, test: Test, negated: boolean, rows: Uint32Array | null, count: number,
): Uint32Array {
  const found = new Uint32Array(rows ? rows.length : count);
  const { store } = column;
  let next = 0;
  if (store instanceof Codes) {
    const passes = Uint8Array.from(store.values, (value) => Number(test(value) !== negated));
    const { data } = store;
    for (let at = 0; at < found.length; at++) {
      const row = rows ? rows[at] : at;
      found[next] = row; // kept only if `next` moves on: faster than a branch
      next += passes[data[row]];
    }
  } else {
    const { data } = store;
    for (let at = 0; at < found.length; at++) {
      const row = rows ? rows[at] : at;
      const value = data[row];
      if (test(value === value ? value : null) !== negated) found[next++] = row;
    }
  }
  return found.subarray(0, next);
}

function testOf(column: Column, term: ColumnTerm, problems: Problem[]): Test | undefined {
  return column.isLabel ? labelTest(term, problems) : numberTest(term, problems);
}

function labelTest(term: ColumnTerm, problems: Problem[]): Test | undefined {
  if (!":=!=".includes(term.comparison)) {
    problems.push(problem(term, `"${term.name}" holds labels: compare them with ":", as in ${term.name}:text*.`));
    return undefined;
  }
  const patterns = term.values.map(labelPattern);
  const matches: Test = (value) => patterns.some((pattern) => pattern(value));
  return term.comparison === "!=" ? (value) => !matches(value) : matches;
}

function labelPattern(text: string): Test {
  if (text === "none") return (value) => value === null;
  const parts = text.split("*").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const pattern = new RegExp(`^${parts.join(".*")}$`, "is");
  return (value) => value !== null && pattern.test(String(value));
}

function numberTest(term: ColumnTerm, problems: Problem[]): Test | undefined {
  const tests: Test[] = [];
  for (const text of term.values) {
    const number = parseNumber(text);
    if (number !== undefined) tests.push(comparisonWith(term.comparison, number));
    else if (text === "none" && ":=".includes(term.comparison)) tests.push((value) => value === null);
    else if (text === "none" && term.comparison === "!=") tests.push((value) => value !== null);
    else problems.push(problem(term, `"${text}" is not a number: write 12, -0.5, 4k or 2M.`));
  }
  if (tests.length < term.values.length) return undefined;
  if (tests.length === 1) return tests[0];
  const all = term.comparison === "!=";
  return (value) => (all ? tests.every((test) => test(value)) : tests.some((test) => test(value)));
}

/** A missing number satisfies no comparison. */
function comparisonWith(comparison: string, bound: number): Test {
  switch (comparison) {
    case "<":
      return (value) => value !== null && (value as number) < bound;
    case "<=":
      return (value) => value !== null && (value as number) <= bound;
    case ">":
      return (value) => value !== null && (value as number) > bound;
    case ">=":
      return (value) => value !== null && (value as number) >= bound;
    case "!=":
      return (value) => value !== null && value !== bound;
    default:
      return (value) => value === bound;
  }
}

function problem(term: ColumnTerm, message: string): Problem {
  return { at: term.at, length: term.length, message };
}

function names(table: Table): string {
  return [...table.columns.keys()].filter((name) => name !== "length").sort().join(", ");
}
