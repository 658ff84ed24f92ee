/** Runs × environments: figures, paired differences of any two runs, and the keys in which the runs differ. */

import type { VNode } from "preact";

import { percent, plural, score, seconds, signed, whole } from "../format.ts";
import { Empty, ErrorNotice, Loading, Problems } from "../parts/notices.tsx";
import { RunFacts } from "../parts/run_facts.tsx";
import type { RunTable, TableCell, TableRun } from "../source/answers.ts";
import { useLoaded } from "../state/load.ts";
import { linkTo } from "../state/route.ts";
import { source } from "../state/run.ts";

export function TablePage({ ids }: { ids: string[] }): VNode {
  const { value, error } = useLoaded(() => source.table(ids), [ids.join()]);
  if (error) return <ErrorNotice error={error} />;
  if (!value) return <Loading />;
  return (
    <>
      <div class="bar">
        <h1>{plural(value.runs.length, "run")}, {plural(value.environments.length, "environment")}</h1>
        <span class="gap" />
        <a class="button" href={linkTo(["rank", ...ids])}>Rank</a>
      </div>
      <Problems problems={value.problems} />
      {value.runs.map((run) => <RunFacts key={run.id} run={run} before={run.label} />)}
      {value.environments.length > 1 && <Means value={value} />}
      <Environments value={value} />
      {value.pairs.length ? <Pairs value={value} /> : <Empty>No two of the runs have scored the same task.</Empty>}
      <Differences value={value} />
      {value.runs.flatMap(({ notes }) => notes).map((note) => <p key={note} class="muted">{note}</p>)}
    </>
  );
}

/** Runs × environments: the means with their intervals. */
function Means({ value }: { value: RunTable }): VNode {
  return (
    <section>
      <h2>Means</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Means">
        <table class="list">
          <thead>
            <tr><th>Run</th>{value.environments.map((name) => <th key={name} class="right">{name}</th>)}</tr>
          </thead>
          <tbody>
            {value.runs.map((run) => (
              <tr key={run.id}>
                <td class="name"><a href={linkTo([run.id])}>{run.label}</a></td>
                {value.environments.map((name) => <MeanCell key={name} cell={Object.hasOwn(run.cells, name) ? run.cells[name] : null} />)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function MeanCell({ cell }: { cell: TableCell | null }): VNode {
  if (!cell) return <td class="right">–</td>;
  return (
    <td class="right">
      <strong>{score(cell.mean)}</strong>
      {cell.low !== null && cell.high !== null && <span class="muted interval"> [{score(cell.low)}, {score(cell.high)}]</span>}
    </td>
  );
}

export function Environments({ value }: { value: RunTable }): VNode {
  return (
    <>
      {value.environments.map((name) => <Environment key={name} name={name} runs={value.runs.filter(({ cells }) => Object.hasOwn(cells, name))} />)}
    </>
  );
}

function Environment({ name, runs }: { name: string; runs: TableRun[] }): VNode {
  const cells = runs.map((run) => run.cells[name]);
  const isPass = cells.every((cell) => cell.is_pass);
  const ks = [...new Set(cells.map(({ largest_k }) => largest_k))].filter((k) => k > 1).sort((one, other) => one - other);
  const phases = [...new Set(cells.flatMap((cell) => Object.keys(cell.phases)))];
  return (
    <section>
      <h2>{name}</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label={name}>
        <table class="list">
          <thead>
            <tr>
              <th>Run</th>
              <th class="right">Mean</th>
              <th>95 % interval</th>
              {ks.map((k) => <th key={k} class="right">{isPass ? "pass" : "best"}@{k}</th>)}
              <th class="right">Failed</th>
              <th class="right">Tokens</th>
              <th class="right">Seconds</th>
              {phases.map((phase) => <th key={phase} class="right">{phase} s</th>)}
              <th class="right">Tasks</th>
            </tr>
          </thead>
          <tbody>
            {runs.map((run) => <Row key={run.id} run={run} cell={run.cells[name]} ks={ks} isPass={isPass} phases={phases} />)}
          </tbody>
        </table>
      </div>
    </section>
  );
}

interface RowProps {
  run: TableRun;
  cell: TableCell;
  ks: number[];
  isPass: boolean;
  phases: string[];
}

function Row({ run, cell, ks, isPass, phases }: RowProps): VNode {
  return (
    <tr>
      <td class="name"><a href={linkTo([run.id])}>{run.label}</a></td>
      <td class="right strong">{score(cell.mean)}</td>
      <td>{cell.low === null || cell.high === null ? "–" : `${score(cell.low)} to ${score(cell.high)}`}</td>
      {ks.map((k) => <BestCell key={k} cell={cell} k={k} isPass={isPass} />)}
      <td class={`right ${cell.failed ? "bad" : ""}`}>{whole(cell.failed)}</td>
      <td class="right">{cell.tokens === null ? "–" : whole(Math.round(cell.tokens))}</td>
      <td class="right">{seconds(cell.seconds)}</td>
      {phases.map((phase) => <td key={phase} class="right">{seconds(cell.phases[phase])}</td>)}
      <td class="right">{whole(cell.tasks)}</td>
    </tr>
  );
}

function BestCell({ cell, k, isPass }: { cell: TableCell; k: number; isPass: boolean }): VNode {
  const best = k <= cell.largest_k ? cell.best_at[k] : undefined;
  const short = cell.short_tasks[k];
  if (best === undefined) return <td class="right">–</td>;
  return (
    <td class="right" title={short ? `Without ${plural(short, "task")} with fewer rewards` : undefined}>
      {isPass ? percent(best) : score(best)}{short ? "*" : ""}
    </td>
  );
}

export function Pairs({ value }: { value: RunTable }): VNode {
  const idOf = new Map(value.runs.map(({ label, id }) => [label, id]));
  return (
    <section>
      <h2>Paired differences</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Paired differences">
        <table class="list">
          <thead>
            <tr>
              <th>Before</th>
              <th>After</th>
              <th class="right">Difference</th>
              <th>95 % interval</th>
              <th class="right">Tasks</th>
            </tr>
          </thead>
          {value.environments.map((name) => {
            const own = value.pairs.filter(({ environment }) => environment === name);
            return own.length > 0 && (
              <tbody key={name}>
                <tr><th colSpan={5} scope="rowgroup">{name}</th></tr>
                {own.map((pair) => (
                  <tr key={`${pair.before} ${pair.after}`}>
                    <td class="name">{pair.before}</td>
                    <td class="name">{pair.after}</td>
                    <td class={`right strong ${toneOf(pair.low, pair.high)}`}>
                      <a href={linkTo(["compare", idOf.get(pair.before)!, idOf.get(pair.after)!])}>{signed(pair.difference)}</a>
                    </td>
                    <td>{pair.low === null || pair.high === null ? "–" : `${signed(pair.low)} to ${signed(pair.high)}`}</td>
                    <td class="right">{whole(pair.tasks)}</td>
                  </tr>
                ))}
              </tbody>
            );
          })}
        </table>
      </div>
    </section>
  );
}

/** Colour for a difference whose interval leaves no doubt about its sign. */
function toneOf(low: number | null, high: number | null): string {
  if (low === null || high === null) return "";
  return low > 0 ? "good" : high < 0 ? "bad" : "";
}

export function Differences({ value }: { value: RunTable }): VNode {
  if (!value.differences.length) return <p class="muted">The configurations of the runs are equal, or not known.</p>;
  return (
    <section>
      <h2>The runs differ in {plural(value.differences.length, "key")}</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Keys that differ">
        <table class="list differences">
          <thead>
            <tr><th>Key</th>{value.runs.map(({ id, label }) => <th key={id}>{label}</th>)}</tr>
          </thead>
          <tbody>
            {value.differences.map(({ key, values }) => (
              <tr key={key}>
                <td class="path">{key}</td>
                {values.map((each, at) => <td key={at} class="path value-cell" title={each} data-run={value.runs[at].label}>{each}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
