/** Two runs, paired by task: the tasks that changed come first. */

import type { VNode } from "preact";

import { number, plural, whole } from "../format.ts";
import { Empty, ErrorNotice, Loading } from "../parts/notices.tsx";
import type { ChangedTask, Comparison, Json } from "../source/answers.ts";
import { useLoaded } from "../state/load.ts";
import { linkTo } from "../state/route.ts";
import { source } from "../state/run.ts";

const SHOWN = 1000;

export function ComparePage({ before, after }: { before: string; after: string }): VNode {
  const { value, error } = useLoaded(() => source.compare(before, after), [before, after]);
  const { value: runs } = useLoaded(() => source.runs(), []);
  if (error) return <ErrorNotice error={error} />;
  if (!value) return <Loading />;
  const titleOf = (id: string) => runs?.find((run) => run.id === id)?.title ?? id;
  return (
    <>
      <div class="bar">
        <h1>
          <a href={linkTo([before])}>{titleOf(before)}</a> and <a href={linkTo([after])}>{titleOf(after)}</a>
        </h1>
        <span class="gap" />
        <a class="button" href={linkTo(["compare", after, before])}>Swap</a>
      </div>
      <Figures value={value} />
      <Changed before={before} after={after} changed={value.changed} />
      <Unmatched title={`Tasks only in ${titleOf(before)}`} tasks={value.only_before} />
      <Unmatched title={`Tasks only in ${titleOf(after)}`} tasks={value.only_after} />
    </>
  );
}

function Figures({ value }: { value: Comparison }): VNode {
  const bounds = value.interval && (Array.isArray(value.interval) ? value.interval : [value.interval.low, value.interval.high]);
  const figures: [string, string][] = [
    ["Mean before", number(value.before)],
    ["Mean after", number(value.after)],
    ["Difference", signed(value.difference)],
    ["95 % interval", bounds ? `${signed(bounds[0])} to ${signed(bounds[1])}` : "–"],
    ["Paired tasks", whole(value.paired)],
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

function signed(value: number | null): string {
  return value !== null && value > 0 ? `+${number(value)}` : number(value);
}

function Changed({ before, after, changed }: { before: string; after: string; changed: ChangedTask[] }): VNode {
  if (!changed.length) return <Empty>No task changed.</Empty>;
  const isFlip = ({ difference }: ChangedTask) => Math.abs(difference ?? 0);
  const sorted = [...changed].sort((one, other) => isFlip(other) - isFlip(one));
  return (
    <section>
      <h2>Changed tasks, the largest changes first</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Changed tasks">
        <table class="list">
          <thead>
            <tr>
              <th class="right">Task</th>
              <th class="right">Before</th>
              <th class="right">After</th>
              <th class="right">Difference</th>
              <th>Title</th>
            </tr>
          </thead>
          <tbody>
            {sorted.slice(0, SHOWN).map((task) => (
              <tr key={task.task}>
                <td class="right">{task.task}</td>
                <td class="right"><a href={linkTo([before, "task", task.task])}>{number(task.before)}</a></td>
                <td class="right"><a href={linkTo([after, "task", task.task])}>{number(task.after)}</a></td>
                <td class={`right strong ${(task.difference ?? 0) < 0 ? "bad" : "good"}`}>{signed(task.difference)}</td>
                <td class="title-cell">{task.title}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {sorted.length > SHOWN && <p class="muted">The first {whole(SHOWN)} are shown.</p>}
    </section>
  );
}

function Unmatched({ title, tasks }: { title: string; tasks: Json[] }): VNode {
  if (!tasks.length) return <></>;
  return (
    <details class="card">
      <summary>{title}: {plural(tasks.length, "task")}</summary>
      <ul class="row-links">
        {tasks.slice(0, SHOWN).map((task, at) => <li key={at}>{typeof task === "object" ? JSON.stringify(task) : String(task)}</li>)}
      </ul>
    </details>
  );
}
