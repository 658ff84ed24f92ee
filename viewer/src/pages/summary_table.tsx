/** The figures of a run by a label: counts, the mean reward with its interval, and pass@k. */

import type { VNode } from "preact";

import { quoted } from "../columns/query.ts";
import type { PassAtK, Summary } from "../columns/summary.ts";
import { percent, plural, score, whole } from "../format.ts";
import { linkTo } from "../state/route.ts";
import type { Run } from "../state/run.ts";

interface Props {
  run: Run;
  /** The label in words, such as "policy version". */
  title: string;
  column: string;
  summaries: Summary[];
  /** Whether the intervals are still to come. */
  isEarly: boolean;
}

export function SummaryTable({ run, title, column, summaries, isEarly }: Props): VNode {
  const ks = [...new Set(summaries.flatMap(({ passAtK }) => passAtK.map(({ k }) => k)))].sort((one, other) => one - other);
  const isBest = summaries.some((summary) => summary.isBest);
  return (
    <section>
      <h2>Reward by {title}</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label={`Reward by ${title}`}>
        <table class="list">
          <thead>
            <tr>
              <th>{title[0].toUpperCase() + title.slice(1)}</th>
              <th class="right">Mean</th>
              <th>95 % interval</th>
              {ks.map((k) => <th key={k} class="right">{isBest ? "best" : "pass"}@{k}</th>)}
              <th class="right">Tasks</th>
              <th class="right">Scored</th>
              <th class="right">Not scored</th>
            </tr>
          </thead>
          <tbody>
            {summaries.map((summary) => (
              <tr key={summary.label}>
                <td class="name">
                  <a href={linkTo([run.id, "rollouts"], { q: `${column}:${summary.label ? quoted(summary.label) : "none"}` })}>
                    {summary.label ?? "none"}
                  </a>
                </td>
                <td class="right strong">{score(summary.mean)}</td>
                <td>{summary.interval ? `${score(summary.interval.low)} to ${score(summary.interval.high)}` : isEarly ? "…" : "–"}</td>
                {ks.map((k) => <PassCell key={k} entry={summary.passAtK.find((entry) => entry.k === k)} isBest={isBest} />)}
                <td class="right">{whole(summary.tasks)}</td>
                <td class="right">{whole(summary.scored)}</td>
                <td class="right">{whole(summary.rollouts - summary.scored)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="muted">
        Intervals are clustered by task, equal tasks being one, and end where rewards do. {isBest ? "best@k" : "pass@k"} is the expected best reward of k rollouts
        of a task; tasks with fewer scores are left out of it. Rollouts without a reward are counted, and never averaged.
      </p>
    </section>
  );
}

function PassCell({ entry, isBest }: { entry: PassAtK | undefined; isBest: boolean }): VNode {
  if (!entry) return <td class="right">–</td>;
  const left = entry.short ? `${plural(entry.short, "task")} with fewer scores left out` : undefined;
  return (
    <td class="right" title={left}>
      {isBest ? score(entry.value) : percent(entry.value)}
      {left && <sup aria-label={left}>*</sup>}
    </td>
  );
}
