/** All attempts at a task side by side: the items that they share, and the first difference. */

import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";

import type { RowCells } from "../columns/engine.ts";
import { number, plural, whole } from "../format.ts";
import { commonLength, itemKey, plainText, tokenDivergence } from "../parts/divergence.ts";
import { boundaryAt, Exact } from "../parts/exact.tsx";
import { FormattedSwitch } from "../parts/formatted_switch.tsx";
import { ItemView } from "../parts/item.tsx";
import { itemsOf, rawItemsOf, rowIn, type Item } from "../parts/items.ts";
import { Lazy } from "../parts/lazy.tsx";
import { Badge, Empty, ErrorNotice, Loading } from "../parts/notices.tsx";
import { shownText } from "../parts/token_lines.ts";
import { useKeys } from "../state/keys.ts";
import { useLoaded } from "../state/load.ts";
import { go, linkTo } from "../state/route.ts";
import { source, type Run } from "../state/run.ts";
import { attemptLink } from "./rollout.tsx";

const STEP = 8;
const AROUND = 60;
const COLUMNS = ["task", "rollout", "attempt", "agent", "reward", "outcome", "failure", "seconds", "total_tokens"];

interface Attempt {
  row: RowCells;
  items: Item[];
  keys: string[];
}

export function TaskPage({ run, task }: { run: Run; task: number }): VNode {
  const version = run.version.value;
  const [most, setMost] = useState(STEP);
  const { value: rows, error } = useLoaded(() => run.columns.attempts(task, COLUMNS), [run, task, version]);
  const shown = rows?.slice(0, most) ?? [];
  const places = shown.map(({ kind, start }) => `${kind} ${start}`).join();
  const { value: attempts, error: unread } = useLoaded(() => Promise.all(shown.map((row) => readAttempt(run, row))), [places]);
  const [active, setActive] = useState(0);
  useKeys(
    [
      { key: "j", help: "Next attempt", act: () => setActive((now) => Math.min(now + 1, shown.length - 1)) },
      { key: "k", help: "Previous attempt", act: () => setActive((now) => Math.max(now - 1, 0)) },
      { key: "Enter", help: "Open the attempt", act: () => shown[active] && go(attemptLink(run, shown[active])) },
      { key: "u", help: "Back to the rollouts", act: () => go(linkTo([run.id, "rollouts"])) },
    ],
    [places, active],
  );
  if (error || unread) return <ErrorNotice error={(error ?? unread)!} />;
  if (!rows || !version) return <Loading />;
  if (!rows.length) return <Empty>{source.isLive ? "The run" : "This page"} has no attempt at task {task}.</Empty>;
  const agents = [...new Set(rows.map(({ cells }) => cells.agent))];
  const scored = rows.filter(({ cells }) => typeof cells.reward === "number").length;
  return (
    <>
      <div class="bar">
        <h1>Task {task}</h1>
        <span class="muted">
          {plural(rows.length, "attempt")}, {whole(scored)} scored, mean reward{" "}
          {agents.map((agent) => `${number(meanReward(rows.filter(({ cells }) => cells.agent === agent)))}${agents.length > 1 ? ` by ${agent ?? "unknown"}` : ""}`).join(", ")}
        </span>
        <span class="gap" />
        <FormattedSwitch />
        {rows.length > most && (
          <button type="button" onClick={() => setMost(most + STEP)}>
            Show more of {whole(rows.length)}
          </button>
        )}
      </div>
      {attempts && attempts.length === shown.length ? <SideBySide run={run} attempts={attempts} active={active} /> : <Loading />}
    </>
  );
}

function meanReward(rows: RowCells[]): number | null {
  const rewards = rows.map(({ cells }) => cells.reward).filter((reward) => typeof reward === "number");
  return rewards.length ? rewards.reduce((sum, one) => sum + one, 0) / rewards.length : null;
}

async function readAttempt(run: Run, row: RowCells): Promise<Attempt> {
  const json = rowIn(await source.row(run.id, row)) ?? {}; // the page of an unreadable row shows its text
  return { row, items: itemsOf(json), keys: rawItemsOf(json).map(itemKey) };
}

function SideBySide({ run, attempts, active }: { run: Run; attempts: Attempt[]; active: number }): VNode {
  const shared = useMemo(() => commonLength(attempts.map(({ keys }) => keys)), [attempts]);
  const isSame = attempts.every(({ keys }) => keys.length === shared);
  const firstTexts = attempts.map(({ items }) => plainText(items[shared]));
  const same = Math.min(...[commonLength(firstTexts)].flatMap((at) => firstTexts.map((text) => boundaryAt(text, at))));
  return (
    <>
      {shared > 0 && (
        <details class="card shared" open={isSame}>
          <summary>
            {plural(shared, "item")} {shared === 1 ? "is" : "are"} the same in {attempts.length === 1 ? "the attempt" : `all ${attempts.length} attempts`}
          </summary>
          {attempts[0].items.slice(0, shared).map((item, at) => (
            <Lazy key={at} height={40}>{() => <ItemView item={item} />}</Lazy>
          ))}
        </details>
      )}
      {isSame && attempts.length > 1 && <p class="notice">All attempts shown have the same items.</p>}
      <TokenSeam run={run} attempts={attempts} />
      <div class="attempts" tabIndex={0} role="group" aria-label="Attempts side by side">
        {attempts.map((attempt, at) => (
          <section key={`${attempt.row.kind} ${attempt.row.start}`} class={`attempt ${at === active ? "active" : ""}`} aria-label={`Attempt ${at + 1}`}>
            <AttemptHead run={run} row={attempt.row} />
            {!isSame && attempts.length > 1 && <FirstDifference text={firstTexts[at]} same={same} isEnd={attempt.items.length <= shared} />}
            {attempt.items.slice(shared).map((item, position) => (
              <Lazy key={position} height={60} now={position < 4}>{() => <ItemView item={item} />}</Lazy>
            ))}
          </section>
        ))}
      </div>
    </>
  );
}

function AttemptHead({ run, row }: { run: Run; row: RowCells }): VNode {
  const { cells } = row;
  return (
    <header>
      <a href={attemptLink(run, row)}>rollout {cells.rollout}</a>
      {cells.agent && <span class="muted">{cells.agent}</span>}
      {row.kind === "failures" && <span class="muted">attempt {cells.attempt ?? 0}</span>}
      <strong>{number(cells.reward as number | null)}</strong>
      <Badge>{String(cells.outcome ?? "none")}</Badge>
      {cells.failure && <span class="bad">{cells.failure}</span>}
      <span class="muted">{number(cells.seconds as number | null)} s</span>
    </header>
  );
}

function FirstDifference({ text, same, isEnd }: { text: string; same: number; isEnd: boolean }): VNode {
  return (
    <p class="difference">
      <span class="muted">first difference</span>
      <code>
        {isEnd ? (
          <mark>ends here</mark>
        ) : (
          <>
            {same > AROUND && "…"}
            <Exact text={text.slice(boundaryAt(text, Math.max(0, same - AROUND)), same)} />
            <mark>{text.length > same ? <Exact text={text.slice(same, boundaryAt(text, same + AROUND))} /> : "∅"}</mark>
          </>
        )}
      </code>
    </p>
  );
}

/** The first position where the token ids of the attempts differ, if they were recorded. */
function TokenSeam({ run, attempts }: { run: Run; attempts: Attempt[] }): VNode | null {
  const key = attempts.map(({ row }) => row.start).join();
  const { value } = useLoaded(async (signal) => {
    const reads = attempts.map(({ row }) => (row.kind === "rows" ? source.tokens(run.id, row, signal).catch(() => null) : null));
    return tokenDivergence(await Promise.all(reads));
  }, [run, key]);
  if (!value) return null;
  return (
    <p class="notice">
      By token, the attempts differ first at position {whole(value.position)}:{" "}
      {value.tokens.map((token, at) => (
        <span key={at}>
          rollout {attempts[at].row.cells.rollout} <code>{token ? shownText(token.text, token.id) : "end"}</code>{" "}
        </span>
      ))}
    </p>
  );
}
