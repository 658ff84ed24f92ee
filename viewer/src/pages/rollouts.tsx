/** All rollouts of a run: filter, facets, and a table of rollouts or of tasks. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";

import type { Facet } from "../columns/facets.ts";
import type { FileKind, GroupCount, Selection } from "../columns/engine.ts";
import type { GroupOrder } from "../columns/groups.ts";
import { parseQuery, quoted } from "../columns/query.ts";
import { percent, whole } from "../format.ts";
import { FilterField, withLabel } from "../parts/filter.tsx";
import { nextSort, sortOf, sortText } from "../parts/grid.tsx";
import { Empty, ErrorNotice, Loading } from "../parts/notices.tsx";
import { useKeys } from "../state/keys.ts";
import { useLoaded } from "../state/load.ts";
import { route, setParameters } from "../state/route.ts";
import type { Run } from "../state/run.ts";
import { useSearch, type Found } from "../state/search.ts";
import { GroupTable } from "./group_table.tsx";
import { RowTable } from "./row_table.tsx";

const FACETS = ["outcome", "agent", "end_reason", "failure", "policy_version"];
const TITLES: Record<string, string> = { end_reason: "end reason", policy_version: "policy version" };

export interface View {
  selection: Selection;
  facets: Facet[];
  groups: GroupCount;
  /** The k of pass@k of the groups. */
  k: number;
  columns: string[];
  /** Differs for each selection. */
  stamp: object;
}

export function RolloutsPage({ run }: { run: Run }): VNode {
  const version = run.version.value;
  const { parameters } = route.value;
  const query = parameters.get("q") ?? "";
  const kind: FileKind = parameters.get("kind") === "failures" ? "failures" : "rows";
  const isGrouped = parameters.get("group") === "task";
  const order = parameters.get("sort");
  const [found, stop] = useSearch(run.id, kind, parseQuery(query).texts);
  const read = () => readView(run, kind, query, order, isGrouped, found.hits);
  const { value: view, error } = useLoaded(read, [version, kind, query, order, isGrouped, found.hits]);
  const [showFacets, setShowFacets] = useState(true);
  useKeys(
    [
      { key: "/", help: "Write a filter", act: () => document.getElementById("filter")?.focus() },
      { key: "g", help: "Rollouts or tasks", act: () => setParameters({ group: isGrouped ? null : "task", sort: null }) },
      { key: "l", help: "Show or hide the labels", act: () => setShowFacets((shown) => !shown) },
    ],
    [isGrouped],
  );
  if (error) return <ErrorNotice error={error} />;
  if (!view || !version) return <Loading />;
  const onSort = (column: string) => setParameters({ sort: sortText(nextSort(sortOf(order), column)) });
  const tableProps = { run, kind, view, sort: sortOf(order), onSort };
  return (
    <div class="rollouts">
      <h1 class="visually-hidden">Rollouts</h1>
      <div class="bar">
        <FilterField query={query} problems={view.selection.problems} onQuery={(q) => setParameters({ q })} />
        <Count view={view} isGrouped={isGrouped} />
        <Choice kind={kind} isGrouped={isGrouped} />
      </div>
      {found.error && <ErrorNotice error={found.error} />}
      {!found.isDone && <Progress found={found} stop={stop} />}
      <div class="split">
        {showFacets && <Facets facets={view.facets} query={query} />}
        {view.selection.count === 0 ? (
          <Empty>{view.selection.total ? "No row satisfies the filter." : "The file has no rows."}</Empty>
        ) : isGrouped ? (
          <GroupTable {...tableProps} />
        ) : (
          <RowTable {...tableProps} excerpts={found.excerpts} />
        )}
      </div>
    </div>
  );
}

async function readView(
  run: Run, kind: FileKind, query: string, order: string | null, isGrouped: boolean, hits: number[] | null,
): Promise<View> {
  const { columns } = run;
  const sort = sortOf(order);
  const selected = columns.select({ kind, query, sort: isGrouped ? null : sort, hits });
  const facets = columns.facets(FACETS);
  const known = columns.columns(kind);
  const k = isGrouped ? Math.max(1, await columns.mostAttempts()) : 1;
  const groupOrder = (sort?.column ?? "task") as GroupOrder;
  const groups = isGrouped ? await columns.group(k, groupOrder, sort?.descending ?? false) : { count: 0, isBest: false };
  const names = (await known).map(({ name }) => name);
  const named = (await facets).filter(({ counts }) => counts.some(({ value }) => value !== null));
  return { selection: await selected, facets: named, groups, k, columns: names, stamp: {} };
}

function Count({ view: { selection, groups }, isGrouped }: { view: View; isGrouped: boolean }): VNode {
  return (
    <span class="count" role="status">
      <strong>{whole(selection.count)}</strong> of {whole(selection.total)}
      {isGrouped && ` in ${whole(groups.count)} tasks`}
      <span class="muted"> ({Math.max(1, Math.round(selection.took))} ms)</span>
    </span>
  );
}

function Choice({ kind, isGrouped }: { kind: FileKind; isGrouped: boolean }): VNode {
  const choices: [string, boolean, Record<string, string | null>][] = [
    ["Rollouts", kind === "rows" && !isGrouped, { kind: null, group: null, sort: null }],
    ["Tasks", kind === "rows" && isGrouped, { kind: null, group: "task", sort: null }],
    ["Failed attempts", kind === "failures", { kind: "failures", group: null, sort: null }],
  ];
  return (
    <div class="choice" role="group" aria-label="Rows of the table">
      {choices.map(([title, isChosen, changes]) => (
        <button key={title} type="button" aria-pressed={isChosen} onClick={() => setParameters(changes)}>
          {title}
        </button>
      ))}
    </div>
  );
}

function Progress({ found, stop }: { found: Found; stop: () => void }): VNode {
  return (
    <p class="progress" role="status">
      Searching the rows: {percent(found.progress)}, {whole(found.hits?.length ?? 0)} found
      <button type="button" class="more" onClick={stop}>
        stop
      </button>
    </p>
  );
}

function Facets({ facets, query }: { facets: Facet[]; query: string }): VNode {
  return (
    <aside class="facets" aria-label="Labels">
      {facets.map(({ name, counts, more }) => (
        <section key={name}>
          <h2>{TITLES[name] ?? name}</h2>
          <ul>
            {counts.map(({ value, count }) => {
              const term = `${name}:${value === null ? "none" : quoted(value)}`;
              const isChosen = ` ${query} `.includes(` ${term} `);
              return (
                <li key={value}>
                  <button type="button" aria-pressed={isChosen} onClick={() => setParameters({ q: withLabel(query, term) })}>
                    <span>{value ?? "none"}</span>
                    <span class="muted">{whole(count)}</span>
                  </button>
                </li>
              );
            })}
          </ul>
          {more > 0 && <p class="muted">and {whole(more)} more</p>}
        </section>
      ))}
    </aside>
  );
}
