/** A table of any number of rows. Only those in view are in the page. */

import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";

import type { Sort } from "../columns/engine.ts";
import { px, useWindow } from "./window.ts";

export const ROW_HEIGHT = 28;

export interface GridColumn<Row> {
  name: string;
  title: string;
  /** A width for the grid template, such as "90px" or "1fr". */
  width: string;
  isRight?: boolean;
  /** Whether the rows can be ordered by the column. */
  canSort?: boolean;
  cell: (row: Row) => ComponentChildren;
}

interface Props<Row> {
  label: string;
  columns: GridColumn<Row>[];
  count: number;
  /** The loaded row, or null while it is being read. */
  rowAt: (row: number) => Row | null;
  active: number;
  sort: Sort | null;
  onSort: (column: string) => void;
  onActive: (row: number) => void;
  onOpen: (row: number) => void;
  onWindow: (from: number, to: number) => void;
}

export function Grid<Row>(props: Props<Row>): VNode {
  const { label, columns, count, rowAt, active, onActive, onOpen, onWindow } = props;
  const area = useRef<HTMLDivElement>(null);
  const { from, to, height, topOf, reveal } = useWindow(area, count, ROW_HEIGHT);
  useEffect(() => onWindow(from, to), [from, to, count]);
  useEffect(() => {
    if (active < count) reveal(active);
  }, [active]);
  const template = { gridTemplateColumns: columns.map(({ width }) => width).join(" ") };
  const numbers = Array.from({ length: to - from }, (_, at) => from + at);
  return (
    <div
      class="grid" role="grid" tabIndex={0} aria-label={label} aria-rowcount={count + 1} aria-colcount={columns.length}
      aria-activedescendant={active >= from && active < to ? `row-${active}` : undefined}
    >
      <Heads {...props} template={template} />
      <div class="grid-rows" ref={area} role="rowgroup">
        <div class="spacer" style={{ height: px(height) }} role="presentation">
          {numbers.map((row) => (
            <div
              key={row} id={`row-${row}`} class={`grid-row ${row === active ? "active" : ""}`} role="row"
              aria-rowindex={row + 2} aria-selected={row === active}
              style={{ ...template, top: px(topOf(row)), height: px(ROW_HEIGHT) }}
              onClick={() => (row === active ? onOpen(row) : onActive(row))} onDblClick={() => onOpen(row)}
            >
              <Cells columns={columns} row={rowAt(row)} />
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

function Heads<Row>({ columns, sort, onSort, template }: Props<Row> & { template: Record<string, string> }): VNode {
  return (
    <div class="grid-head" role="rowgroup">
      <div class="grid-row" role="row" aria-rowindex={1} style={template}>
        {columns.map(({ name, title, isRight, canSort = true }) => {
          const isSorted = sort?.column === name;
          const direction = sort?.descending ? "descending" : "ascending";
          return (
            <div key={name} role="columnheader" class={isRight ? "right" : ""} aria-sort={isSorted ? direction : undefined}>
              {canSort ? (
                <button type="button" onClick={() => onSort(name)}>
                  {title}
                  {isSorted && <span aria-hidden="true">{sort.descending ? " ↓" : " ↑"}</span>}
                </button>
              ) : (
                title
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Cells<Row>({ columns, row }: { columns: GridColumn<Row>[]; row: Row | null }): VNode {
  return (
    <>
      {columns.map(({ name, isRight, cell }) => (
        <div key={name} role="gridcell" class={isRight ? "right" : ""}>
          {row === null ? "…" : cell(row)}
        </div>
      ))}
    </>
  );
}

/** The next order after a click on a column: descending, ascending, then that of the file. */
export function nextSort(sort: Sort | null, column: string): Sort | null {
  if (sort?.column !== column) return { column, descending: true };
  return sort.descending ? { column, descending: false } : null;
}

export function sortText(sort: Sort | null): string | null {
  return sort && `${sort.descending ? "-" : ""}${sort.column}`;
}

export function sortOf(text: string | null): Sort | null {
  return text ? { column: text.replace(/^-/, ""), descending: text.startsWith("-") } : null;
}
