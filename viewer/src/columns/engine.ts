/** All computations on the columns of one run. The page runs it in a worker, or in its own thread. */

import { decodeBlocks, type Value } from "./block.ts";
import { facetOf, histogramOf, type Facet, type Histogram } from "./facets.ts";
import { groupByTask, orderGroups, type Group, type GroupOrder } from "./groups.ts";
import { orderRows } from "./order.ts";
import { parseQuery, type Problem } from "./query.ts";
import { selectRows } from "./select.ts";
import { summarize, type EqualTasks, type Summary } from "./summary.ts";
import { Table } from "./table.ts";
import { TaskGroups } from "./task_groups.ts";
import { mostRows } from "./task_scores.ts";

export type FileKind = "rows" | "failures";

export interface Sort {
  column: string;
  descending: boolean;
}

export interface SelectRequest {
  kind: FileKind;
  query: string;
  sort: Sort | null;
  /** The offsets of the rows that hold the texts of the query; null if it has none. */
  hits: number[] | null;
}

export interface Selection {
  count: number;
  total: number;
  problems: Problem[];
  texts: string[];
  /** Milliseconds of filtering and sorting. */
  took: number;
}

export interface GroupCount {
  count: number;
  isBest: boolean;
}

export type PlacedGroup = Group & { start: number; length: number };

export interface RowCells {
  kind: FileKind;
  row: number;
  start: number;
  length: number;
  cells: Record<string, Value>;
}

export interface ColumnInfo {
  name: string;
  isLabel: boolean;
}

interface CachedOrder {
  version: number;
  order: Uint32Array;
}

const KEPT_ORDERS = 8;

export class Engine {
  private tables: Record<FileKind, Table> = { rows: new Table(), failures: new Table() };
  private orders = new Map<string, CachedOrder>();
  private selected: { kind: FileKind; rows: Uint32Array } = { kind: "rows", rows: new Uint32Array(0) };
  private groups: Group[] = [];
  private groupedKind: FileKind = "rows";

  /** Put blocks in the place of block `first` and those after it. Returns the numbers of rows and of blocks. */
  append(kind: FileKind, first: number, bytes: Uint8Array): { rows: number; blocks: number } {
    const table = this.tables[kind];
    table.replaceFrom(first, decodeBlocks(bytes));
    return { rows: table.rows, blocks: table.blocks };
  }

  columns(kind: FileKind): ColumnInfo[] {
    const columns = [...this.tables[kind].columns.values()].filter(({ name }) => name !== "length");
    return columns.map(({ name, isLabel }) => ({ name, isLabel }));
  }

  /** Filter and sort. The selection stays until the next one, for `page`, `facets`, `histograms` and `group`. */
  select({ kind, query, sort, hits }: SelectRequest): Selection {
    const began = performance.now();
    const table = this.tables[kind];
    const { terms, texts, problems } = parseQuery(query);
    let rows = selectRows(table, terms, problems);
    if (hits) rows = this.holding(table, rows, hits);
    if (sort) rows = this.sorted(kind, rows, sort);
    this.selected = { kind, rows };
    return { count: rows.length, total: table.rows, problems, texts, took: performance.now() - began };
  }

  /** The number of rows that satisfy a filter without texts. The selection stays. */
  count(kind: FileKind, query: string): number {
    return selectRows(this.tables[kind], parseQuery(query).terms, []).length;
  }

  /** The cells of the selected rows `from` to `from + count`. */
  page(from: number, count: number, columns: string[]): RowCells[] {
    const { kind, rows } = this.selected;
    return [...rows.subarray(from, from + count)].map((row) => this.cellsOf(kind, row, columns));
  }

  /** The position of a row in the selection, or -1. */
  position(row: number): number {
    return this.selected.rows.indexOf(row);
  }

  facets(names: string[]): Facet[] {
    const { kind, rows } = this.selected;
    return names.map((name) => facetOf(this.tables[kind], rows, name)).filter((facet) => facet !== null);
  }

  histograms(names: string[]): Histogram[] {
    const { kind, rows } = this.selected;
    return names.map((name) => histogramOf(this.tables[kind], rows, name)).filter((one) => one !== null);
  }

  /** Gather the selection by task and agent, and return the number of groups, and whether k rollouts have no pass@k. */
  group(k: number, by: GroupOrder | null, descending: boolean): GroupCount {
    const { kind, rows } = this.selected;
    const { groups, isBest } = groupByTask(this.tables[kind], rows, k);
    this.groups = by ? orderGroups(groups, by, descending) : groups;
    this.groupedKind = kind;
    return { count: groups.length, isBest };
  }

  /** The groups `from` to `from + count`, each with the place of its first row. */
  groupPage(from: number, count: number): PlacedGroup[] {
    const table = this.tables[this.groupedKind];
    return this.groups.slice(from, from + count).map((group) => ({ ...group, ...table.placeOf(group.first) }));
  }

  /** The figures by a column of labels; without `equal`, which tasks are equal, they have no intervals. */
  summary(by: string, equal: EqualTasks | null): Summary[] {
    return summarize(this.tables.rows, this.tables.failures, by, equal);
  }

  /** The largest number of rows of a task by one agent. */
  mostAttempts(): number {
    return mostRows(new TaskGroups([this.tables.rows]).numbers(this.tables.rows));
  }

  /** All attempts at a task, rows before failures, in order of rollout and attempt. */
  attempts(task: number, columns: string[]): RowCells[] {
    const found: RowCells[] = [];
    for (const kind of ["rows", "failures"] as const) {
      const taskAt = this.tables[kind].reader("task");
      const ofKind: RowCells[] = [];
      for (let row = 0; row < this.tables[kind].rows; row++) {
        if (taskAt(row) === task) ofKind.push(this.cellsOf(kind, row, [...columns, "rollout", "attempt"]));
      }
      const key = ({ cells }: RowCells) => Number(cells.rollout) * 1e6 + Number(cells.attempt ?? 0);
      found.push(...ofKind.sort((one, other) => key(one) - key(other)));
    }
    return found;
  }

  /** The rows that begin at these offsets; those that are not in the table are left out. */
  rowsAt(kind: FileKind, starts: number[], columns: string[]): RowCells[] {
    const rows = starts.map((start) => this.tables[kind].rowAt(start)).filter((row) => row >= 0);
    return rows.map((row) => this.cellsOf(kind, row, columns));
  }

  private holding(table: Table, rows: Uint32Array, hits: number[]): Uint32Array {
    const starts = table.starts();
    const wanted = new Set(hits);
    return rows.filter((row) => wanted.has(starts[row]));
  }

  private sorted(kind: FileKind, rows: Uint32Array, { column: name, descending }: Sort): Uint32Array {
    const table = this.tables[kind];
    const column = table.column(name);
    if (!column) return rows;
    const key = `${kind} ${descending} ${name}`;
    let cached = this.orders.get(key);
    if (cached?.version !== table.version) {
      cached = { version: table.version, order: orderRows(column, table.rows, descending) };
    }
    this.orders.delete(key); // the last one used is the last one of the map
    this.orders.set(key, cached!);
    if (this.orders.size > KEPT_ORDERS) this.orders.delete(this.orders.keys().next().value!);
    const { order } = cached!;
    if (rows.length === table.rows) return order;
    const chosen = new Uint8Array(table.rows);
    for (let at = 0; at < rows.length; at++) chosen[rows[at]] = 1;
    const sorted = new Uint32Array(rows.length + 1);
    let next = 0;
    for (let at = 0; at < order.length; at++) {
      sorted[next] = order[at]; // kept only if `next` moves on: faster than a branch
      next += chosen[order[at]];
    }
    return sorted.subarray(0, rows.length);
  }

  private cellsOf(kind: FileKind, row: number, columns: string[]): RowCells {
    const table = this.tables[kind];
    const cells = Object.fromEntries(columns.map((name) => [name, table.column(name)?.at(row) ?? null]));
    return { kind, row, ...table.placeOf(row), cells };
  }
}
