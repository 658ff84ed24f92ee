/** A run at a glance: the figures of each agent, distributions, and the pages that are worth a look. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";

import type { Histogram } from "../columns/facets.ts";
import type { EqualTasks, Summary } from "../columns/summary.ts";
import { percent, plural, whole } from "../format.ts";
import { Expenses } from "../parts/expenses.tsx";
import { HistogramBars } from "../parts/histogram.tsx";
import { Empty, ErrorNotice, Loading } from "../parts/notices.tsx";
import { RunControl } from "../parts/run_control.tsx";
import { RunFacts } from "../parts/run_facts.tsx";
import { useLoaded } from "../state/load.ts";
import { linkTo } from "../state/route.ts";
import { source, type Run } from "../state/run.ts";
import { SummaryTable } from "./summary_table.tsx";
import { TimeTable } from "./time_table.tsx";

const DISTRIBUTIONS: [name: string, title: string][] = [
  ["reward", "Reward"],
  ["seconds", "Seconds"],
  ["total_tokens", "Tokens"],
  ["tool_calls", "Tool calls"],
];
/** Columns that say where a row is, or that are shown above. */
const NOT_SHOWN = new Set(["task", "rollout", "attempt", "masked", "mask_sample", "created_at", ...DISTRIBUTIONS.map(([name]) => name)]);

interface Overview {
  agents: Summary[];
  /** By policy version; empty if no row has one. */
  versions: Summary[];
  histograms: Histogram[];
}

async function read({ figures: columns }: Run, equal: EqualTasks | null): Promise<Overview> {
  const known = (await columns.columns("rows")).filter(({ isLabel, name }) => !isLabel && !NOT_SHOWN.has(name));
  void columns.select({ kind: "rows", query: "", sort: null, hits: null });
  const names = [...DISTRIBUTIONS.map(([name]) => name), ...known.map(({ name }) => name).sort()];
  const [agents, histograms] = await Promise.all([columns.summary("agent", equal), columns.histograms(names)]);
  const [policies] = await columns.facets(["policy_version"]);
  const versions = policies?.counts.some(({ value }) => value !== null) ? await columns.summary("policy_version", equal) : [];
  return { agents, versions, histograms };
}

export function OverviewPage({ run }: { run: Run }): VNode {
  const version = run.version.value;
  const [isAll, setAll] = useState(false);
  const { value: equal, error: unread } = useLoaded(() => source.equalTasks(run.id), [run, version]);
  const { value, error } = useLoaded(() => read(run, equal), [version, equal]);
  if (error) return <ErrorNotice error={error} />;
  if (!value || !version) return <Loading />;
  if (!value.agents.length) {
    const isReading = run.indexed.value < 1;
    return (
      <>
        <RunControl run={run} />
        <Empty>{isReading ? `Reading the file: ${percent(run.indexed.value)}` : "The run has no rollouts yet."}</Empty>
      </>
    );
  }
  const isEarly = !equal && !unread;
  const main = DISTRIBUTIONS.flatMap(([name, title]) =>
    value.histograms.filter((histogram) => histogram.name === name).map((histogram) => ({ histogram, title })),
  );
  const others = value.histograms.filter(({ name }) => !DISTRIBUTIONS.some(([known]) => known === name));
  return (
    <>
      <h1 class="visually-hidden">Overview</h1>
      {run.detail.value && <RunFacts run={run.detail.value} />}
      {unread && <ErrorNotice error={unread} />}
      {run.detail.value?.notes?.map((note) => <p key={note} class="notice">{note}</p>)}
      <RunControl run={run} />
      <Figures run={run} agents={value.agents} />
      <Estimate sentences={run.detail.value?.estimate ?? []} />
      <SummaryTable run={run} title="agent" column="agent" summaries={value.agents} isEarly={isEarly} />
      {value.versions.length > 0 && (
        <SummaryTable run={run} title="policy version" column="policy_version" summaries={value.versions} isEarly={isEarly} />
      )}
      <TimeTable agents={value.agents} metrics={run.detail.value?.metrics ?? null} />
      <section>
        <h2>Distributions</h2>
        <div class="histograms">
          {main.map(({ histogram, title }) => <HistogramBars key={title} histogram={histogram} title={title} />)}
          {isAll && others.map((histogram) => <HistogramBars key={histogram.name} histogram={histogram} title={histogram.name} />)}
        </div>
        {others.length > 0 && (
          <button type="button" class="more" aria-expanded={isAll} onClick={() => setAll(!isAll)}>
            {isAll ? "show fewer columns" : `show ${plural(others.length, "other column")}`}
          </button>
        )}
      </section>
      <Expenses run={run} />
      <Looks run={run} agents={value.agents} />
    </>
  );
}

function Figures({ run, agents }: { run: Run; agents: Summary[] }): VNode {
  const sum = (key: "tasks" | "rollouts" | "scored" | "masked") => agents.reduce((total, agent) => total + agent[key], 0);
  const planned = run.detail.value?.planned ?? null;
  const failed = agents.reduce((total, agent) => total + agent.rollouts - agent.scored, 0);
  const figures: [string, string, string?][] = [
    ["Tasks", whole(sum("tasks"))],
    ["Rollouts", whole(sum("rollouts")), planned === null ? undefined : `of ${whole(planned)}`],
    ["Scored", whole(sum("scored")), planned ? percent(sum("scored") / planned) : undefined],
    ["Failed", whole(failed)],
    ["Missing", planned === null ? "–" : whole(Math.max(0, planned - sum("rollouts")))],
    ["Masked", whole(sum("masked"))],
  ];
  const nodes = run.detail.value?.nodes;
  if (nodes) figures.push(["Nodes up", whole(nodes.up), `of ${whole(nodes.count)}`]);
  return (
    <dl class="figures">
      {figures.map(([title, figure, more]) => (
        <div key={title}>
          <dt>{title}</dt>
          <dd>
            {figure} {more && <small>{more}</small>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** The estimate of a run that stops by itself, current while it goes on. */
function Estimate({ sentences: [estimate, ...others] }: { sentences: string[] }): VNode | null {
  if (!estimate) return null;
  return (
    <section class="estimate">
      <h2>Estimate</h2>
      <p><strong>{estimate}</strong></p>
      {others.map((sentence) => <p key={sentence}>{sentence}</p>)}
    </section>
  );
}

function Looks({ run, agents }: { run: Run; agents: Summary[] }): VNode {
  const count = (outcome: string) => agents.reduce((sum, { outcomes }) => sum + (Object.hasOwn(outcomes, outcome) ? outcomes[outcome] : 0), 0);
  const [truncated, failed] = [count("truncated"), count("failed")];
  const filtered = (q: string, sort: string | null = null) => linkTo([run.id, "rollouts"], { q, sort });
  const looks: [string, string][] = [
    [filtered("", "reward"), "Lowest rewards first"],
    [linkTo([run.id, "rollouts"], { group: "task", sort: "mean" }), "Tasks, the hardest first"],
    [filtered("", "-seconds"), "Slowest rollouts"],
    [filtered("", "-total_tokens"), "Longest rollouts, by tokens"],
    [linkTo([run.id, "flags"]), "Signs of reward hacking and of broken data"],
  ];
  const sum = (key: "toolErrors" | "invalidCalls") => agents.reduce((total, agent) => total + agent[key], 0);
  const [broken, invalid] = [sum("toolErrors"), sum("invalidCalls")];
  if (broken) looks.push([filtered("tool_errors>0"), `${plural(broken, "rollout")} with tool calls that failed by the environment's fault`]);
  if (invalid) looks.push([filtered("invalid_tool_calls>0"), `${plural(invalid, "rollout")} with invalid tool calls`]);
  if (truncated) looks.push([filtered("outcome:truncated"), plural(truncated, "truncated rollout")]);
  const nodes = run.detail.value?.nodes;
  if (nodes) looks.push([linkTo([run.id, "nodes"]), nodes.losses ? `Nodes, lost ${plural(nodes.losses, "time")}` : "Nodes"]);
  if (failed) looks.push([linkTo([run.id, "failures"]), `${plural(failed, "failed rollout")}, by cause`]);
  return (
    <section>
      <h2>What to look at</h2>
      <ul class="looks">
        {looks.map(([link, words]) => (
          <li key={link}>
            <a href={link}>{words}</a>
          </li>
        ))}
      </ul>
    </section>
  );
}
