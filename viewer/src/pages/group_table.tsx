/** The selected rollouts, gathered by task and agent. */

import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { Sort } from "../columns/engine.ts";
import type { Group } from "../columns/groups.ts";
import { percent, score, whole } from "../format.ts";
import { Grid, type GridColumn } from "../parts/grid.tsx";
import { useKeys } from "../state/keys.ts";
import { go, linkTo } from "../state/route.ts";
import type { Run } from "../state/run.ts";
import type { View } from "./rollouts.tsx";

interface Props {
  run: Run;
  view: View;
  sort: Sort | null;
  onSort: (column: string) => void;
}

export function GroupTable({ run, view, sort, onSort }: Props): VNode {
  const [active, setActive] = useState(0);
  const [page, setPage] = useState<{ from: number; groups: Group[] }>({ from: 0, groups: [] });
  const range = useRef<[number, number] | null>(null);
  const load = (from: number, to: number) => {
    range.current = [from, to];
    void run.columns.groupPage(from, to - from).then((groups) => {
      if (range.current?.[0] === from) setPage({ from, groups });
    });
  };
  useEffect(() => {
    if (range.current) load(...range.current);
  }, [view.stamp]);
  const last = view.groups - 1;
  const row = Math.min(active, last);
  const rowAt = (at: number) => page.groups[at - page.from] ?? null;
  const open = (at: number) => {
    const group = rowAt(at);
    if (group) go(linkTo([run.id, "task", group.task]));
  };
  useKeys(
    [
      { key: "j", help: "Next task", act: () => setActive((now) => Math.min(last, now + 1)) },
      { key: "k", help: "Previous task", act: () => setActive((now) => Math.max(0, Math.min(now, last) - 1)) },
      { key: "Enter", help: "Open the attempts at the task", act: () => open(row) },
    ],
    [row, last, page],
  );
  return (
    <Grid
      label="Tasks" columns={columnsFor(run, view.k, page.groups.some(({ agent }) => agent !== null))} count={view.groups} rowAt={rowAt} active={row} sort={sort}
      onSort={onSort} onActive={setActive} onOpen={open} onWindow={load}
    />
  );
}

function columnsFor(run: Run, k: number, hasAgents: boolean): GridColumn<Group>[] {
  return [
    { name: "task", title: "task", width: "110px", isRight: true, cell: ({ task }) => <a href={linkTo([run.id, "task", task])} tabIndex={-1}>{task}</a> },
    ...(hasAgents ? [{ name: "agent", title: "agent", width: "220px", canSort: false, cell: ({ agent }: Group) => agent }] : []),
    { name: "rows", title: "rollouts", width: "110px", isRight: true, cell: ({ rows }) => whole(rows) },
    { name: "scored", title: "scored", width: "110px", isRight: true, cell: ({ scored }) => whole(scored) },
    { name: "mean", title: "mean reward", width: "130px", isRight: true, cell: ({ mean }) => score(mean) },
    { name: "passAtK", title: `pass@${k}`, width: "130px", isRight: true, cell: ({ passAtK }) => percent(passAtK) },
  ];
}
