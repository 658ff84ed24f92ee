/** All runs of the folder, and the choice of two to compare or of more to rank. */

import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";

import { findRuns, samplingOf } from "../columns/run_filter.ts";
import { ago, date, number, percent, plural, score, whole } from "../format.ts";
import { Badge, Empty, ErrorNotice, Loading, Problems } from "../parts/notices.tsx";
import type { RunEntry } from "../source/answers.ts";
import { useKeys } from "../state/keys.ts";
import { useLoaded } from "../state/load.ts";
import { go, linkTo, route, setParameters } from "../state/route.ts";
import { source } from "../state/run.ts";

const POLL = 2000;

export function RunsPage(): VNode {
  const [round, setRound] = useState(0);
  const [chosen, setChosen] = useState<string[]>([]);
  const [active, setActive] = useState(0);
  const { value: all, error } = useLoaded(() => source.runs(), [round]);
  const search = route.value.parameters.get("q") ?? "";
  const runs = all && findRuns(all, search);
  useEffect(() => {
    if (!source.isLive) return undefined;
    const timer = setInterval(() => document.hidden || setRound((count) => count + 1), POLL);
    return () => clearInterval(timer);
  }, []);
  const last = (runs?.length ?? 1) - 1;
  const choose = (id: string) =>
    setChosen((ids) => (ids.includes(id) ? ids.filter((other) => other !== id) : [...ids, id].slice(source.isLive ? 0 : -2)));  // an exported file has the comparisons of two
  const hasTable = source.isLive && chosen.length > 1;
  const table = linkTo(["table", ...chosen]);
  const compare = () => chosen.length > 1 && go(linkTo([chosen.length === 2 ? "compare" : "rank", ...chosen]));
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
        <table class="list">
          <thead>
            <tr>
              <th><span class="visually-hidden">Compare</span></th>
              <th>Run</th>
              <th class="right">Mean</th>
              <th>State</th>
              <th>Model</th>
              <th>Environment</th>
              <th class="right">Rollouts</th>
              <th class="right">Failures</th>
              <th class="right">pass@k</th>
              <th class="right">Tokens</th>
              <th class="right">Seconds</th>
              <th>Sampling</th>
              <th>Started (UTC)</th>
              <th>Changed</th>
              <th>File</th>
            </tr>
          </thead>
          <tbody>
            {runs.map((run, at) => (
              <tr key={run.id} class={at === active ? "active" : ""}>
                <td>
                  <input
                    type="checkbox" checked={chosen.includes(run.id)} onChange={() => choose(run.id)}
                    aria-label={`Choose ${run.title} for a comparison`}
                  />
                </td>
                <td class="run-name">
                  <a href={linkTo([run.id])}>{run.title}</a> {run.tags.map((tag) => <span key={tag} class="tag">{tag}</span>)}
                  <Problems problems={run.problems} />
                </td>
                <td class="right">{score(run.mean)}{run.interval && <span class="muted"> [{score(run.interval[0])}, {score(run.interval[1])}]{run.aim && `, until ${run.aim}`}</span>}</td>
                <td><Badge>{run.state === "stopped" ? "stopped, resumable" : run.state}</Badge></td>
                <td>{run.models.join(", ") || "–"}</td>
                <td>{run.environments.join(", ") || "–"}</td>
                <td class="right">{number(run.rows)}{run.planned !== null && <span class="muted"> of {whole(run.planned)}</span>}</td>
                <td class={`right ${run.failures ? "bad" : ""}`}>{number(run.failures)}</td>
                <td class="right"><Best run={run} /></td>
                <td class="right">{run.tokens === null ? "–" : whole(Math.round(run.tokens))}</td>
                <td class="right">{number(run.seconds)}</td>
                <td class="muted">{samplingOf(run.sampling)}</td>
                <td>{date(run.started_at)}</td>
                <td>{run.updated_at === null ? "–" : ago(run.updated_at)}</td>
                <td class="muted path">{run.path}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** pass@k; the best of k for rewards that are neither 0 nor 1. */
function Best({ run }: { run: RunEntry }): VNode {
  if (!run.pass_at) return <>–</>;
  const [k, value] = run.pass_at;
  return <>{run.is_best ? score(value) : percent(value)} <span class="muted">{run.is_best ? "best" : ""}@{k}</span></>;
}

function titleOf(runs: RunEntry[], id: string): string {
  return runs.find((run) => run.id === id)?.title ?? id;
}
