/** All runs of the folder, and the choice of two to compare or of more to rank. */

import type { VNode } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";

import { findRuns, samplingOf } from "../columns/run_filter.ts";
import { ago, date, number, percent, plural, score, whole } from "../format.ts";
import { Badge, Empty, ErrorNotice, Loading, Problems } from "../parts/notices.tsx";
import { RunFacts, Tags } from "../parts/run_facts.tsx";
import type { RunEntry } from "../source/answers.ts";
import { useKeys } from "../state/keys.ts";
import { useLoaded } from "../state/load.ts";
import { go, linkTo, route, setParameters } from "../state/route.ts";
import { source, untilVisible } from "../state/run.ts";

const POLL = 1000; // milliseconds from an answer to the next request
const FIRST = 60; // lines that are shown first
const PAUSE = 100; // milliseconds until the others are made

export function RunsPage(): VNode {
  const [round, setRound] = useState(0);
  const [chosen, setChosen] = useState<string[]>([]);
  const [active, setActive] = useState(0);
  const [isWhole, setWhole] = useState(false);
  const { value: all, error, answered } = useLoaded(() => source.runs(), [round]);
  const search = route.value.parameters.get("q") ?? "";
  const runs = useMemo(() => all && findRuns(all, search), [all, search]);
  useEffect(() => {
    if (!source.isLive || (!all && !error)) return undefined;
    const timer = setTimeout(() => void untilVisible().then(() => setRound((count) => count + 1)), POLL);
    return () => clearTimeout(timer);
  }, [answered]);
  useEffect(() => {
    if (!all) return undefined;
    const timer = setTimeout(() => setWhole(true), PAUSE);
    return () => clearTimeout(timer);
  }, [!all]);
  const last = (runs?.length ?? 1) - 1;
  const choose = (id: string) =>
    setChosen((ids) => (ids.includes(id) ? ids.filter((other) => other !== id) : [...ids, id]));
  const hasTable = chosen.length > 1;
  const table = linkTo(["table", ...chosen]);
  const compare = () => hasTable && go(linkTo([chosen.length === 2 ? "compare" : "rank", ...chosen]));
  useKeys(
    [
      { key: "j", help: "Next run", act: () => setActive((now) => Math.min(now + 1, last)) },
      { key: "k", help: "Previous run", act: () => setActive((now) => Math.max(now - 1, 0)) },
      { key: "Enter", help: "Open the run", act: () => runs?.[active] && go(linkTo([runs[active].id])) },
      { key: "x", help: "Choose the run for a comparison", act: () => runs?.[active] && choose(runs[active].id) },
      { key: "c", help: "Compare two chosen runs, or rank more", act: compare },
      { key: "a", help: "All figures of the chosen runs, by environment", act: () => hasTable && go(table) },
      { key: "/", help: "Search runs", act: () => document.getElementById("search")?.focus() },
    ],
    [runs, active, chosen],
  );
  // Made again only for another answer: most requests bring the same one.
  const lines = useMemo(
    () => runs?.slice(0, isWhole ? undefined : FIRST).map((run, at) => <Line key={run.id} run={run} isActive={at === active} isChosen={chosen.includes(run.id)} onChoose={() => choose(run.id)} />),
    [runs, active, chosen, isWhole],
  );
  if (error) return <ErrorNotice error={error} />;
  if (!all || !runs) return <Loading />;
  if (!all.length) return <Empty>No runs were found here.</Empty>;
  return (
    <>
      <div class="bar">
        <h1>{plural(runs.length, "run")}{runs.length < all.length && <span class="muted"> of {whole(all.length)}</span>}</h1>
        <input
          id="search" type="search" class="search" value={search} placeholder="name, model, environment, tag" aria-label="Search runs"
          onInput={(event) => setParameters({ q: event.currentTarget.value })}
          onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
        />
        <span class="gap" />
        {hasTable && <a class="button" href={table}>By environment</a>}
        <button type="button" disabled={chosen.length < 2} onClick={compare}>
          {chosen.length > 2
            ? `Rank ${chosen.length} runs`
            : `Compare ${chosen.length === 2 ? `${titleOf(runs, chosen[0])} with ${titleOf(runs, chosen[1])}` : "two runs"}`}
        </button>
      </div>
      <div class="scroll" tabIndex={0} role="group" aria-label="Runs">
        <table class="list runs">
          <thead>
            <tr>
              <th><span class="visually-hidden">Compare</span></th>
              <th>Run</th>
              <th class="right">Mean</th>
              <th class="wide-only">State</th>
              <th class="wide-only">Model</th>
              <th class="wide-only">Environment</th>
              <th class="right wide-only">Rollouts</th>
              <th class="right wide-only">pass@k</th>
              <th class="right wide-only">Tokens</th>
              <th class="right wide-only">Seconds</th>
              <th class="wide-only">Sampling</th>
              <th class="wide-only">Started (UTC)</th>
            </tr>
          </thead>
          <tbody>
            {lines}
          </tbody>
        </table>
      </div>
    </>
  );
}

interface LineProps {
  run: RunEntry;
  isActive: boolean;
  isChosen: boolean;
  onChoose: () => void;
}

function Line({ run, isActive, isChosen, onChoose }: LineProps): VNode {
  return (
    <tr class={isActive ? "active" : ""}>
      <td>
        <input
          type="checkbox" checked={isChosen} onChange={onChoose}
          aria-label={`Choose ${run.title} for a comparison`}
        />
      </td>
      <td class="run-name">
        <a href={linkTo([run.id])} title={run.path}>{run.title}</a> <span class="wide-only"><Tags tags={run.tags} /></span>
        <Summary run={run} />
        <Problems problems={run.problems} />
      </td>
      <td class="right">
        {score(run.mean)}
        {run.interval && <span class="muted interval"> [{score(run.interval[0])}, {score(run.interval[1])}]{run.aim && `, until ${run.aim}`}</span>}
      </td>
      <td class="wide-only"><State run={run} /></td>
      <td class="wide-only fact">{run.models.join(", ") || "–"}</td>
      <td class="wide-only fact">{run.environments.join(", ") || "–"}</td>
      <td class="right wide-only"><Counts run={run} /></td>
      <td class="right wide-only"><Best run={run} /></td>
      <td class="right wide-only">{run.tokens === null ? "–" : whole(Math.round(run.tokens))}</td>
      <td class="right wide-only">{number(run.seconds)}</td>
      <td class="muted wide-only fact">{samplingOf(run.sampling)}</td>
      <td class="wide-only" title={run.updated_at === null ? undefined : `changed ${ago(run.updated_at)}`}>{date(run.started_at)}</td>
    </tr>
  );
}

function State({ run }: { run: RunEntry }): VNode {
  return <Badge>{run.state === "stopped" ? "stopped, resumable" : run.state}</Badge>;
}

/** The rollouts with a row, of the planned ones if some are missing, and those that failed. */
function Counts({ run: { rows, planned, failures } }: { run: RunEntry }): VNode {
  const isShort = planned !== null && rows !== planned;
  return (
    <>
      {number(rows)}{isShort && <span class="muted"> of {whole(planned)}</span>}
      {failures ? <span class="bad">, {whole(failures)} failed</span> : ""}
    </>
  );
}

/** All of it but the mean, below the name of a run in a narrow window. */
function Summary({ run }: { run: RunEntry }): VNode {
  return (
    <div class="narrow-only">
      <State run={run} /> <Counts run={run} /> <span class="muted">rollouts{run.pass_at && ", "}</span> {run.pass_at && <Best run={run} />}
      <RunFacts run={run} />
      <p class="muted facts">
        {run.tokens !== null && `${whole(Math.round(run.tokens))} tokens`} {run.seconds !== null && `${number(run.seconds)} s`}
      </p>
    </div>
  );
}

/** pass@k; the best of k for rewards that are neither 0 nor 1. */
function Best({ run }: { run: RunEntry }): VNode {
  if (!run.pass_at) return <>–</>;
  const [k, value] = run.pass_at;
  const left = run.short_tasks ? `Without ${plural(run.short_tasks, "task")} with fewer rewards` : undefined;
  return (
    <span title={left}>
      {run.is_best ? score(value) : percent(value)}{left && "*"} <span class="muted">{run.is_best ? "best" : ""}@{k}</span>
    </span>
  );
}

function titleOf(runs: RunEntry[], id: string): string {
  return runs.find((run) => run.id === id)?.title ?? id;
}
