/** The selected rollouts, gathered by task and agent. */

import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { PlacedGroup, Sort } from "../columns/engine.ts";
import { percent, score, whole } from "../format.ts";
import { Grid, type GridColumn } from "../parts/grid.tsx";
import { useCards, type Cards } from "../state/cards.ts";
import { useKeys } from "../state/keys.ts";
import { go, linkTo } from "../state/route.ts";
import type { Run } from "../state/run.ts";
import { isNarrow } from "./row_table.tsx";
import type { View } from "./rollouts.tsx";

interface Props {
  run: Run;
  view: View;
  sort: Sort | null;
  onSort: (column: string) => void;
}

export function GroupTable({ run, view, sort, onSort }: Props): VNode {
  const [active, setActive] = useState(0);
  const [page, setPage] = useState<{ from: number; groups: PlacedGroup[] }>({ from: 0, groups: [] });
  const range = useRef<[number, number] | null>(null);
  const cards = useCards(run, "rows");
  const load = (from: number, to: number) => {
    range.current = [from, to];
    void run.columns.groupPage(from, to - from).then((groups) => {
      if (range.current?.[0] !== from) return;
      setPage({ from, groups });
      cards.want(groups);
    });
  };
  useEffect(() => {
    if (range.current) load(...range.current);
  }, [view.stamp]);
  const last = view.groups.count - 1;
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
  const hasAgents = page.groups.some(({ agent }) => agent !== null);
  return (
    <Grid
      label="Tasks" columns={columnsFor(run, view, hasAgents, cards)} count={view.groups.count} rowAt={rowAt} active={row} sort={sort}
      onSort={onSort} onActive={setActive} onOpen={open} onWindow={load}
    />
  );
}

/** In a narrow window: the task, its mean, and its title. */
function columnsFor(run: Run, { k, groups: { isBest } }: View, hasAgents: boolean, cards: Cards): GridColumn<PlacedGroup>[] {
  const isWide = !isNarrow();
  const wide = (column: GridColumn<PlacedGroup>) => (isWide ? [column] : []);
  const write = isBest ? score : percent;
  return [
    { name: "task", title: "task", width: "56px", isRight: true, cell: ({ task }) => <a href={linkTo([run.id, "task", task])} tabIndex={-1}>{task}</a> },
    { name: "mean", title: isWide ? "mean reward" : "mean", width: isWide ? "100px" : "56px", isRight: true, cell: ({ mean }) => score(mean) },
    { name: "passAtK", title: `${isBest ? "best" : "pass"}@${k}`, width: "84px", isRight: true, cell: ({ passAtK }) => write(passAtK) },
    ...wide({ name: "rows", title: "rollouts", width: "70px", isRight: true, cell: ({ rows }) => whole(rows) }),
    ...wide({ name: "scored", title: "scored", width: "64px", isRight: true, cell: ({ scored }) => whole(scored) }),
    ...(hasAgents ? wide({ name: "agent", title: "agent", width: "minmax(120px, 1fr)", canSort: false, cell: ({ agent }) => agent }) : []),
    { name: "title", title: "title", width: "minmax(120px, 3fr)", canSort: false, cell: (group) => cards.of(group)?.title },
  ];
}
