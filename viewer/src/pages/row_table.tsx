/** The table of the selected rollouts. */

import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { FileKind, RowCells, Sort } from "../columns/engine.ts";
import { parseQuery } from "../columns/query.ts";
import { moment, number } from "../format.ts";
import { Grid, type GridColumn } from "../parts/grid.tsx";
import { Badge } from "../parts/notices.tsx";
import { useCards, type CardPlace } from "../state/cards.ts";
import { useKeys } from "../state/keys.ts";
import { go, linkTo, route } from "../state/route.ts";
import type { Run } from "../state/run.ts";
import { attemptLink } from "./rollout.tsx";
import type { View } from "./rollouts.tsx";

interface Props {
  run: Run;
  kind: FileKind;
  view: View;
  sort: Sort | null;
  onSort: (column: string) => void;
  /** The part of a row that holds the searched text, by the offset of the row. */
  excerpts: Map<number, string>;
}

type Column = GridColumn<RowCells>;

const SHOWN: Record<string, Omit<Column, "name" | "cell">> = {
  task: { title: "task", width: "48px", isRight: true },
  rollout: { title: "k", width: "32px", isRight: true },
  reward: { title: "reward", width: "64px", isRight: true },
  outcome: { title: "outcome", width: "104px" },
  failure: { title: "failure", width: "minmax(110px, 1fr)" },
  end_reason: { title: "end reason", width: "112px" },
  seconds: { title: "s", width: "60px", isRight: true },
  total_tokens: { title: "tokens", width: "64px", isRight: true },
  tool_calls: { title: "calls", width: "48px", isRight: true },
};
/** Columns that are shown if the filter or the order names them, with another title or width than the usual one. */
const NAMED: typeof SHOWN = {
  created_at: { title: "at (UTC)", width: "168px" },
  policy_version: { title: "policy", width: "90px" },
};
const ONLY_FAILURES = new Set(["failure"]);
/** Columns that leave room for the others in a narrow window. */
const ONLY_WIDE = new Set(["outcome", "end_reason", "seconds", "total_tokens", "tool_calls"]);
const NARROW = 900; // pixels
/** Columns that say nothing if all rows have the same: the labels beside the table have them. */
const ONLY_VARIED = new Set(["outcome", "end_reason"]);
const MOST_OWN = 3;
/** Numbers of the gym; the other ones are those of the environment. */
const OF_GYM = /^(attempt|masked|mask_sample|created_at|policy_version|agent|tool_errors|invalid_tool_calls|.*_tokens|seconds\/.*|reward_components\/.*)$/;

/** The last row that was opened, by run, so that the way back leads to it. */
const visited = new Map<string, number>();

export function RowTable({ run, kind, view, sort, onSort, excerpts }: Props): VNode {
  const [active, setActive] = useState(visited.get(run.id) ?? 0);
  const names = shownNames(view, kind, sort);
  const { rowAt, load } = useRows(run, view, names);
  const cards = useCards(run, kind);
  const last = view.selection.count - 1;
  const row = Math.min(active, last);
  const move = (by: number) => setActive((now) => Math.max(0, Math.min(last, Math.min(now, last) + by)));
  const open = (at: number) => {
    const found = rowAt(at);
    if (!found) return;
    visited.set(run.id, at);
    go(attemptLink(run, found));
  };
  useKeys(
    [
      { key: "j", help: "Next row", act: () => move(1) },
      { key: "k", help: "Previous row", act: () => move(-1) },
      { key: "ArrowDown", help: "Next row", act: () => move(1) },
      { key: "ArrowUp", help: "Previous row", act: () => move(-1) },
      { key: "PageDown", help: "Twenty rows down", act: () => move(20) },
      { key: "PageUp", help: "Twenty rows up", act: () => move(-20) },
      { key: "Home", help: "First row", act: () => setActive(0) },
      { key: "End", help: "Last row", act: () => setActive(last) },
      { key: "Enter", help: "Open the rollout", act: () => open(row) },
      { key: "c", help: "Compare all attempts at the task", act: () => openTask(run, rowAt(row)) },
    ],
    [row, last, view.stamp, rowAt],
  );
  const onWindow = (from: number, to: number) => load(from, to, (rows) => cards.want(rows.map(placeOf)));
  const titleOf = (row: RowCells) => cards.of(placeOf(row))?.title;
  const answerOf = (row: RowCells) => {
    const excerpt = excerpts.get(row.start);
    return excerpt ? <span class="excerpt">{excerpt}</span> : <div class="tail"><bdi>{cards.of(placeOf(row))?.answer}</bdi></div>;
  };
  const columns: Column[] = [
    ...names.map((name) => columnOf(run, name)),
    ...(excerpts.size && isNarrow() ? [] : [{ name: "title", title: "title", width: "minmax(100px, 4fr)", canSort: false, cell: titleOf }]),
    ...(excerpts.size || !isNarrow() ? [{ name: "answer", title: excerpts.size ? "found" : "answer", width: "minmax(80px, 3fr)", canSort: false, cell: answerOf }] : []),
  ];
  return (
    <Grid
      label="Rollouts" columns={columns} count={view.selection.count} rowAt={rowAt} active={row} sort={sort}
      onSort={onSort} onActive={setActive} onOpen={open} onWindow={onWindow}
    />
  );
}

/** Whether the window has room for a few columns only. */
export function isNarrow(): boolean {
  return window.innerWidth < NARROW;
}

/** The usual columns, and those that the filter or the order names. */
function shownNames(view: View, kind: FileKind, sort: Sort | null): string[] {
  const fits = (name: string) => (kind === "failures" || !ONLY_FAILURES.has(name)) && !(isNarrow() && ONLY_WIDE.has(name));
  const same = new Set(view.facets.filter(({ counts }) => counts.length === 1).map(({ name }) => name));
  const usual = Object.keys(SHOWN).filter((name) => fits(name) && !(ONLY_VARIED.has(name) && same.has(name)));
  const named = parseQuery(route.value.parameters.get("q") ?? "").terms.map(({ name }) => name);
  if (sort) named.push(sort.column);
  if (!isNarrow()) named.push(...ownNumbers(view));
  const extra = named.filter((name) => !usual.includes(name) && name !== "agent" && name !== "failure");
  return [...usual, ...new Set(extra)].filter((name) => view.columns.includes(name));
}

/** The first numbers that the environment put into the rows, in their order, which are columns in a wide window. */
function ownNumbers(view: View): string[] {
  return view.columns.filter((name) => !Object.hasOwn(SHOWN, name) && !OF_GYM.test(name)).slice(0, MOST_OWN);
}

function columnOf(run: Run, name: string): Column {
  const titles = { ...SHOWN, ...NAMED };
  const known = Object.hasOwn(titles, name) ? titles[name] : { title: name, width: "84px", isRight: true };
  const cell = (row: RowCells) => {
    const value = row.cells[name];
    if (name === "task") return <a href={attemptLink(run, row)} tabIndex={-1}>{value ?? "–"}</a>;
    if (name === "outcome") return <Badge>{String(value ?? "none")}</Badge>;
    if (name === "created_at" && typeof value === "number") return moment(value);
    return typeof value === "number" ? number(value) : (value ?? "–");
  };
  return { name, ...known, cell };
}

function placeOf({ start, length, cells }: RowCells): CardPlace {
  return { start, length, agent: cells.agent === null ? null : String(cells.agent) };
}

function openTask(run: Run, row: RowCells | null): void {
  if (row && row.cells.task !== null) go(linkTo([run.id, "task", Number(row.cells.task)]));
}

interface Rows {
  rowAt: (row: number) => RowCells | null;
  load: (from: number, to: number, then: (rows: RowCells[]) => void) => void;
}

/** The cells of the rows in view. They are read again when the selection changes. */
function useRows(run: Run, view: View, names: string[]): Rows {
  const [page, setPage] = useState<{ from: number; rows: RowCells[] }>({ from: 0, rows: [] });
  const range = useRef<[number, number, (rows: RowCells[]) => void] | null>(null);
  const columns = [...names, "task", "rollout", "attempt", "agent"];
  const load: Rows["load"] = (from, to, then) => {
    range.current = [from, to, then];
    void run.columns.page(from, to - from, columns).then((rows) => {
      if (range.current?.[0] !== from || range.current[1] !== to) return;
      setPage({ from, rows });
      then(rows);
    });
  };
  useEffect(() => {
    if (range.current) load(...range.current);
  }, [view.stamp, names.join()]);
  return { rowAt: (row) => page.rows[row - page.from] ?? null, load };
}
