/**
 * The replay of an attempt: the parent and its forks as a tree over two runs, the calls that were answered from a record,
 * and a request that differs from the recorded one as two texts (docs/continue_fork_rewind.md).
 */

import type { VNode } from "preact";

import { number, plural } from "../format.ts";
import { commonLength } from "../parts/divergence.ts";
import { isObject } from "../parts/items.ts";
import { describeReplay, forksOf, mismatchOf, type Mismatch } from "../parts/replayed.ts";
import type { ForkFamily, Json, JsonObject } from "../source/answers.ts";
import { useLoaded } from "../state/load.ts";
import { linkTo } from "../state/route.ts";
import { runOf, type Run } from "../state/run.ts";

export function Replay({ run, row }: { run: Run; row: JsonObject }): VNode | null {
  const replay = isObject(row._ng_replay) ? row._ng_replay : null;
  const fork = isObject(row._ng_fork) ? row._ng_fork : null;
  const mismatch = mismatchOf(row);
  const forkRuns = (!fork && run.detail.value?.fork_runs) || [];
  if (!replay && !fork && !mismatch && !forkRuns.length) return null;
  const known = replay || fork || mismatch;
  return (
    <>
      {known && (
        <section class="panel replay" aria-label="Replay">
          <h2>{fork ? "Fork" : mismatch ? "Not repeated" : "Continued"}</h2>
          {fork && <ForkTree run={run} fork={fork} task={row._ng_task_index} />}
          {replay && <p class="muted">{describeReplay(replay)}</p>}
          {mismatch && <Difference mismatch={mismatch} />}
        </section>
      )}
      {forkRuns.map((family) => (
        <ParentTree key={family.run} family={family} task={Number(row._ng_task_index)} rollout={Number(row._ng_rollout_index)} />
      ))}
    </>
  );
}

/** The parent of a fork, and the forks of its group. The parent is a row of another run, which may not be shown. */
function ForkTree({ run, fork, task }: { run: Run; fork: JsonObject; task: Json | undefined }): VNode {
  const [parentTask, repeat] = Array.isArray(fork.parent) ? fork.parent : [];
  const family = run.detail.value?.parent_run ?? null;
  const name = `task ${String(parentTask)}, rollout ${String(repeat)}`;
  const group = family && forksOf({ ...family, run: run.id }, Number(repeat));
  return (
    <ul>
      <li>
        {family ? <a href={linkTo([family.run, "rollout", Number(parentTask), Number(repeat)])}>{name}</a> : name} (attempt{" "}
        {String(fork.attempt)}), the parent{family && ` in ${family.title}`}
        <ul>
          <li>
            after call {String(fork.turn)}: group {String(fork.group)}
            {group ? (
              <Forks run={run} task={Number(task)} rollouts={group} current={Number(fork.number)} />
            ) : (
              <ul><li><strong>fork {String(fork.number)}, this rollout</strong></li></ul>
            )}
          </li>
        </ul>
      </li>
    </ul>
  );
}

/** The forks of a rollout, which are rows of another run; nothing if it was not forked. */
function ParentTree({ family, task, rollout }: { family: ForkFamily; task: number; rollout: number }): VNode | null {
  return <Forks run={runOf(family.run)} task={task} rollouts={forksOf(family, rollout)} family={family} />;
}

interface ForksProps {
  run: Run;
  task: number;
  rollouts: [from: number, to: number];
  /** The number of the fork that is shown. */
  current?: number;
  /** For the page of the parent. */
  family?: ForkFamily;
}

function Forks({ run, task, rollouts: [from, to], current, family }: ForksProps): VNode | null {
  const version = run.version.value;
  const { value } = useLoaded(() => run.columns.attempts(task, ["rollout", "reward", "outcome"]), [run, task, version]);
  const forks = (value ?? []).filter(({ kind, cells }) => kind === "rows" && Number(cells.rollout) >= from && Number(cells.rollout) < to);
  if (!forks.length) return null;
  const list = (
    <ul>
      {forks.map(({ cells, start }) => {
        const at = Number(cells.rollout) - from;
        const link = <a href={linkTo([run.id, "rollout", task, Number(cells.rollout)])}>fork {at}</a>;
        return (
          <li key={start}>
            {at === current ? <strong>fork {at}, this rollout</strong> : link}, reward {number(cells.reward as number | null)}
          </li>
        );
      })}
    </ul>
  );
  if (!family) return list;
  const place = family.turn < 0 ? `before the last ${plural(-family.turn, "call")}` : `after call ${family.turn}`;
  return (
    <section class="panel replay" aria-label="Forks">
      <h2>{plural(forks.length, "fork")}</h2>
      <ul><li>this rollout, the parent<ul><li>{place}, in {family.title}{list}</li></ul></li></ul>
    </section>
  );
}

function Difference({ mismatch: { where, recorded, said } }: { mismatch: Mismatch }): VNode {
  return (
    <>
      <p>The first difference is at {where}.</p>
      <dl class="difference">
        <dt>recorded</dt>
        <dd><Marked text={recorded} other={said} /></dd>
        <dt>now</dt>
        <dd><Marked text={said} other={recorded} /></dd>
      </dl>
    </>
  );
}

/** A text whose part that differs from the other one is marked. */
function Marked({ text, other }: { text: string; other: string }): VNode {
  const before = commonLength([[...text], [...other]]);
  const rest = [...text].slice(before);
  const after = commonLength([[...rest].reverse(), [...other].slice(before).reverse()]);
  const end = rest.length - after;
  return (
    <code>
      {[...text].slice(0, before).join("")}
      <mark>{rest.slice(0, end).join("")}</mark>
      {rest.slice(end).join("")}
    </code>
  );
}
