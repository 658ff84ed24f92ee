/** Two runs, paired by task: the tasks that changed come first. */

import type { VNode } from "preact";

import { meanOf } from "../columns/estimators.ts";
import { plural, score, signed, whole, withoutBeginning } from "../format.ts";
import { Empty, ErrorNotice, Loading } from "../parts/notices.tsx";
import { RunFacts } from "../parts/run_facts.tsx";
import type { ChangedTask, Comparison } from "../source/answers.ts";
import { useLoaded } from "../state/load.ts";
import { linkTo } from "../state/route.ts";
import { source } from "../state/run.ts";
import { Differences, Environments, Pairs } from "./table.tsx";

const SHOWN = 1000;

export function ComparePage({ before, after }: { before: string; after: string }): VNode {
  const { value, error } = useLoaded(() => source.compare(before, after), [before, after]);
  const { value: runs } = useLoaded(() => source.runs(), []);
  const { value: table } = useLoaded(() => source.table([before, after]), [before, after]);
  if (error) return <ErrorNotice error={error} />;
  if (!value) return <Loading />;
  const runOf = (id: string) => runs?.find((run) => run.id === id);
  const titleOf = (id: string) => runOf(id)?.title ?? id;
  return (
    <>
      <div class="bar">
        <h1>
          <a href={linkTo([before])}>{titleOf(before)}</a> and <a href={linkTo([after])}>{titleOf(after)}</a>
        </h1>
        <span class="gap" />
        <a class="button" href={linkTo(["compare", after, before])}>Swap</a>
      </div>
      {[before, after].map(runOf).map((run) => run && <RunFacts key={run.id} run={run} before={run.title} />)}
      {value.tasks === 0 && <p class="notice">{value.without_score.length ? "No task has a score in both runs" : "The runs have no task in common"}, so there is no difference to show.</p>}
      <Figures value={value} />
      {value.agents.length > 0 && <p class="notice">Over {value.agents.join(", ")}, which both runs have; not {value.other_agents.join(", ")}.</p>}
      {value.joined > 0 && <p class="notice">The runs have different numbers of copies of {plural(value.joined, "task")}: the attempts at all copies of such a task are those at one.</p>}
      {value.runs.flatMap(({ notes }) => notes).map((note) => <p key={note} class="muted">{note}</p>)}
      {table && <Environments value={table} />}
      {table && table.environments.length > 1 && table.pairs.length > 0 && <Pairs value={table} />}
      {value.tasks > 0 && <Changed before={before} after={after} changed={value.changed} />}
      {table && <Differences value={table} />}
      <Unmatched title={`Only in ${titleOf(before)}`} run={before} tasks={value.only_before} />
      <Unmatched title={`Only in ${titleOf(after)}`} run={after} tasks={value.only_after} />
      <Unmatched title="Without a score in one of the runs" run={before} tasks={value.without_score.map(([task]) => task)} />
    </>
  );
}

function Figures({ value }: { value: Comparison }): VNode {
  const bounds = value.interval_95;
  const figures: [string, string][] = [
    ["Mean before", score(value.before)],
    ["Mean after", score(value.after)],
    ["Difference", signed(value.difference)],
    ["95 % interval", bounds ? `${signed(bounds[0])} to ${signed(bounds[1])}` : "–"],
    ["Paired tasks", whole(value.tasks)],
    ["Changed tasks", whole(value.changed.length)],
  ];
  return (
    <dl class="figures">
      {figures.map(([title, figure]) => (
        <div key={title}>
          <dt>{title}</dt>
          <dd>{figure}</dd>
        </div>
      ))}
    </dl>
  );
}

function Changed({ before, after, changed }: { before: string; after: string; changed: ChangedTask[] }): VNode {
  if (!changed.length) return <Empty>No task changed.</Empty>;
  const agents = [...new Set(changed.map(({ agent }) => agent))];
  const cuts = new Map(agents.map((agent) => [agent, withoutBeginning(changed.filter((task) => task.agent === agent).map(({ question }) => question))]));
  const sorted = [...changed].sort((one, other) => Math.abs(other.difference) - Math.abs(one.difference));
  return (
    <section>
      <h2>Changed tasks, the largest changes first</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Changed tasks">
        <table class="list">
          <thead>
            <tr>
              <th class="right">Task</th>
              <th class="right">Difference</th>
              <th class="right">Before</th>
              <th class="right">After</th>
              {agents.length > 1 && <th>Agent</th>}
              <th>Title</th>
            </tr>
          </thead>
          <tbody>
            {sorted.slice(0, SHOWN).map((task) => (
              <tr key={`${task.task_before} ${task.agent}`}>
                <td class="right">{task.task_before}</td>
                <td class={`right strong ${task.difference < 0 ? "bad" : "good"}`}>{signed(task.difference)}</td>
                <td class="right"><a href={linkTo([before, "task", task.task_before])}>{score(meanOf(task.before))}</a></td>
                <td class="right"><a href={linkTo([after, "task", task.task_after])}>{score(meanOf(task.after))}</a></td>
                {agents.length > 1 && <td>{task.agent}</td>}
                <td class="title-cell" title={task.question}>{cuts.get(task.agent)!(task.question)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {sorted.length > SHOWN && <p class="muted">The first {whole(SHOWN)} are shown.</p>}
    </section>
  );
}

function Unmatched({ title, run, tasks }: { title: string; run: string; tasks: number[] }): VNode {
  if (!tasks.length) return <></>;
  return (
    <details class="card">
      <summary>{title}: {plural(tasks.length, "task")}</summary>
      <ul class="row-links">
        {tasks.slice(0, SHOWN).map((task) => <li key={task}><a href={linkTo([run, "task", task])}>{task}</a></li>)}
      </ul>
    </details>
  );
}
