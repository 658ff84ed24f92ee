/** Runs × environments: figures, paired differences of any two runs, and the keys in which the runs differ. */

import type { VNode } from "preact";

import { number, percent, plural, score, signed, whole } from "../format.ts";
import { Empty, ErrorNotice, Loading, Problems } from "../parts/notices.tsx";
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
      {value.environments.map((name) => <Environment key={name} name={name} runs={value.runs.filter(({ cells }) => Object.hasOwn(cells, name))} />)}
      <Pairs value={value} />
      <Differences value={value} />
      {value.runs.flatMap(({ notes }) => notes).map((note) => <p key={note} class="muted">{note}</p>)}
    </>
  );
}

function Environment({ name, runs }: { name: string; runs: TableRun[] }): VNode {
  const cells = runs.map((run) => run.cells[name]);
  const isPass = cells.every((cell) => cell.is_pass);
  const most = Math.max(1, ...cells.map(({ largest_k }) => largest_k));
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
              {most > 1 && <th class="right">{isPass ? "pass" : "best"}@{most}</th>}
              <th class="right">Tasks</th>
              <th class="right">Failed</th>
              <th class="right">Tokens</th>
              <th class="right">Seconds</th>
              {phases.map((phase) => <th key={phase} class="right wide-only">{phase} s</th>)}
            </tr>
          </thead>
          <tbody>
            {runs.map((run) => <Row key={run.id} run={run} cell={run.cells[name]} most={most} isPass={isPass} phases={phases} />)}
          </tbody>
        </table>
      </div>
    </section>
  );
}

interface RowProps {
  run: TableRun;
  cell: TableCell;
  most: number;
  isPass: boolean;
  phases: string[];
}

function Row({ run, cell, most, isPass, phases }: RowProps): VNode {
  const best = most <= cell.largest_k ? cell.best_at[most] : undefined;
  const short = cell.short_tasks[most];
  return (
    <tr>
      <td><a href={linkTo([run.id])}>{run.label}</a></td>
      <td class="right strong">{score(cell.mean)}</td>
      <td>{cell.low === null || cell.high === null ? "–" : `${score(cell.low)} to ${score(cell.high)}`}</td>
      {most > 1 && (
        <td class="right" title={short ? `Without ${plural(short, "task")} with fewer rewards` : undefined}>
          {best === undefined ? "–" : isPass ? percent(best) : score(best)}
          {best !== undefined && short ? "*" : ""}
        </td>
      )}
      <td class="right">{whole(cell.tasks)}</td>
      <td class={`right ${cell.failed ? "bad" : ""}`}>{whole(cell.failed)}</td>
      <td class="right">{cell.tokens === null ? "–" : whole(Math.round(cell.tokens))}</td>
      <td class="right">{number(cell.seconds)}</td>
      {phases.map((phase) => <td key={phase} class="right wide-only">{number(cell.phases[phase])}</td>)}
    </tr>
  );
}

function Pairs({ value }: { value: RunTable }): VNode {
  if (!value.pairs.length) return <Empty>No two of the runs have scored the same task.</Empty>;
  const idOf = new Map(value.runs.map(({ label, id }) => [label, id]));
  return (
    <section>
      <h2>Paired differences</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Paired differences">
        <table class="list">
          <thead>
            <tr>
              <th>Environment</th>
              <th>Before</th>
              <th>After</th>
              <th class="right">Difference</th>
              <th>95 % interval</th>
              <th class="right">Tasks</th>
            </tr>
          </thead>
          <tbody>
            {value.pairs.map((pair) => (
              <tr key={`${pair.environment} ${pair.before} ${pair.after}`}>
                <td>{pair.environment}</td>
                <td>{pair.before}</td>
                <td>{pair.after}</td>
                <td class={`right strong ${toneOf(pair.low, pair.high)}`}>
                  <a href={linkTo(["compare", idOf.get(pair.before)!, idOf.get(pair.after)!])}>{signed(pair.difference)}</a>
                </td>
                <td>{pair.low === null || pair.high === null ? "–" : `${signed(pair.low)} to ${signed(pair.high)}`}</td>
                <td class="right">{whole(pair.tasks)}</td>
              </tr>
            ))}
          </tbody>
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

function Differences({ value }: { value: RunTable }): VNode {
  if (!value.differences.length) return <p class="muted">The configurations of the runs are equal, or not known.</p>;
  return (
    <section>
      <h2>The runs differ in {plural(value.differences.length, "key")}</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Keys that differ">
        <table class="list">
          <thead>
            <tr><th>Key</th>{value.runs.map(({ id, label }) => <th key={id}>{label}</th>)}</tr>
          </thead>
          <tbody>
            {value.differences.map(({ key, values }) => (
              <tr key={key}>
                <td class="path">{key}</td>
                {values.map((each, at) => <td key={at} class="path value-cell">{each}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
