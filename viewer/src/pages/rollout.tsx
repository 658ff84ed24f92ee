/** One rollout: its transcript, the reasons for its reward, the raw row, tokens, times and JSON. */

import type { VNode } from "preact";

import type { FileKind, RowCells } from "../columns/engine.ts";
import { bytes, number } from "../format.ts";
import { CopyButton } from "../parts/copy_button.tsx";
import { Exact } from "../parts/exact.tsx";
import { JsonTree } from "../parts/json_tree.tsx";
import { Lines } from "../parts/long_text.tsx";
import { isNodeLost } from "../parts/node_events.ts";
import { Badge, Empty, ErrorNotice, Loading } from "../parts/notices.tsx";
import { Panel } from "../parts/panel.tsx";
import { rowIn } from "../parts/items.ts";
import { Transcript } from "../parts/transcript.tsx";
import type { JsonObject } from "../source/answers.ts";
import { useKeys } from "../state/keys.ts";
import { useLoaded } from "../state/load.ts";
import { go, linkTo, setParameters } from "../state/route.ts";
import { source, type Run } from "../state/run.ts";
import { LooksFine } from "../parts/looks_fine.tsx";
import { Replay } from "./replay.tsx";
import { Reward } from "./reward.tsx";
import { TimingTab } from "./timing.tsx";
import { TokensTab } from "./tokens.tsx";

const TABS = ["chat", "raw", "tokens", "timing", "json"] as const;
type Tab = (typeof TABS)[number];
/** A row that is longer is shown in windowed lines. */
const WHOLE_ROW = 200_000;
const COLUMNS = ["task", "rollout", "attempt", "reward", "outcome", "end_reason", "agent", "failure", "total_tokens", "seconds", "created_at"];

interface Props {
  run: Run;
  task: number;
  rollout: number;
  parameters: URLSearchParams;
}

interface Opened {
  row: RowCells;
  text: string;
  json: JsonObject | null;
}

export function RolloutPage({ run, task, rollout, parameters }: Props): VNode {
  const version = run.version.value;
  const kind = parameters.get("kind");
  const attempt = parameters.get("attempt");
  const at = parameters.get("at"); // of a row without a task
  const { value: attempts, error } = useLoaded(
    () => (at ? run.columns.rowsAt(kind === "failures" ? kind : "rows", [Number(at)], COLUMNS) : run.columns.attempts(task, COLUMNS)),
    [run, task, version, at],
  );
  const row = attempts && (at ? attempts[0] : chosenAttempt(attempts, rollout, kind as FileKind | null, attempt));
  const place = row ? `${row.kind} ${row.start} ${row.length}` : "";
  const tab = (parameters.get("tab") ?? "chat") as Tab;
  const isTokens = tab === "tokens"; // they are read without the row, which may be as long
  const { value: opened, error: unread } = useLoaded(async () => (row && !isTokens ? openRow(run, row) : null), [place, isTokens]);
  const neighbours = neighbourLinks(run, attempts ?? [], row);
  useKeys(
    [
      ...TABS.map((name, at) => ({ key: String(at + 1), help: `Show ${name}`, act: () => setParameters({ tab: at ? name : null }) })),
      { key: "]", help: "Next attempt at the task", act: () => neighbours.next && go(neighbours.next) },
      { key: "[", help: "Previous attempt at the task", act: () => neighbours.previous && go(neighbours.previous) },
      { key: "c", help: "All attempts at the task", act: () => go(linkTo([run.id, "task", task])) },
      { key: "u", help: "Back to the rollouts", act: () => go(linkTo([run.id, "rollouts"])) },
    ],
    [place, neighbours.next, neighbours.previous],
  );
  if (error || unread) return <ErrorNotice error={(error ?? unread)!} />;
  if (!attempts || !version) return <Loading />;
  if (!row) return <Empty>The run has no {at ? `row at byte ${at}` : `rollout ${rollout} of task ${task}`}.</Empty>;
  return (
    <>
      <Summary run={run} row={row} json={opened?.json ?? null} neighbours={neighbours} />
      <div class="tabs" role="tablist" aria-label="Views of the rollout">
        {TABS.map((name) => (
          <button
            key={name} id={`tab-${name}`} type="button" role="tab" aria-selected={name === tab} aria-controls="tab-panel"
            onClick={() => setParameters({ tab: name === "chat" ? null : name })}
          >
            {name === "json" ? "JSON" : name}
          </button>
        ))}
      </div>
      <div id="tab-panel" role="tabpanel" aria-labelledby={`tab-${tab}`} tabIndex={0}>
        {isTokens ? <TokensTab key={place} run={run} row={row} /> : opened ? <TabContent run={run} tab={tab} opened={opened} /> : <Loading />}
      </div>
    </>
  );
}

/** The row of the address: in the file of rows if it is not said, else the last failed attempt. */
function chosenAttempt(
  attempts: RowCells[], rollout: number, kind: FileKind | null, attempt: string | null,
): RowCells | undefined {
  const own = attempts.filter((row) => row.cells.rollout === rollout && (!kind || row.kind === kind));
  const exact = own.find((row) => attempt !== null && String(row.cells.attempt) === attempt);
  return exact ?? own.find((row) => row.kind === "rows") ?? own.at(-1);
}

async function openRow(run: Run, row: RowCells): Promise<Opened> {
  const text = await source.row(run.id, row);
  return { row, text, json: rowIn(text) };
}

interface Neighbours {
  previous: string | null;
  next: string | null;
}

function neighbourLinks(run: Run, attempts: RowCells[], row: RowCells | null | undefined): Neighbours {
  const at = row ? attempts.indexOf(row) : -1;
  const link = (one: RowCells | undefined) => (at >= 0 && one ? attemptLink(run, one) : null);
  return { previous: link(attempts[at - 1]), next: link(attempts[at + 1]) };
}

/** The page of a row. A row that cannot be read has no task: its place leads to it. */
export function attemptLink(run: Run, { kind, cells, start }: RowCells): string {
  if (cells.task === null) return linkTo([run.id, "rollout", "-", "-"], { at: String(start), kind: kind === "failures" ? kind : null });
  const which: Record<string, string> = kind === "failures" ? { kind, attempt: String(cells.attempt ?? 0) } : {};
  return linkTo([run.id, "rollout", Number(cells.task), Number(cells.rollout)], which);
}

/** The page of the nodes at the loss that made an attempt fail; null for other attempts, and for runs on one machine. */
function lossLink(run: Run, { cells }: RowCells, json: JsonObject | null): string | null {
  if (!run.detail.value?.nodes || !isNodeLost(cells.failure)) return null;
  const failure = json?._ng_failure;
  const peer = failure && typeof failure === "object" && !Array.isArray(failure) ? failure.peer : null;
  const at = cells.created_at === null ? null : String(cells.created_at);
  return linkTo([run.id, "nodes"], { at, server: typeof peer === "string" ? peer : null });
}

interface SummaryProps {
  run: Run;
  row: RowCells;
  json: JsonObject | null;
  neighbours: Neighbours;
}

function Summary({ run, row, json, neighbours }: SummaryProps): VNode {
  const { cells } = row;
  const loss = lossLink(run, row, json);
  return (
    <div class="bar summary">
      <h1>
        {cells.task === null ? (
          `Row at byte ${row.start}`
        ) : (
          <><a href={linkTo([run.id, "task", Number(cells.task)])}>Task {cells.task}</a>, rollout {cells.rollout}</>
        )}
        {row.kind === "failures" && `, attempt ${cells.attempt ?? 0}`}
      </h1>
      <Badge>{String(cells.outcome ?? "none")}</Badge>
      <span>
        reward <strong>{number(cells.reward as number | null)}</strong>
      </span>
      {cells.failure && <span class="bad">{cells.failure}</span>}
      {loss && <a href={loss}>the loss of the node</a>}
      <span class="muted">
        {cells.agent}
        {modelOf(json) && ` · ${modelOf(json)}`}
        {cells.end_reason && ` · ${cells.end_reason}`}
        {cells.seconds !== null && ` · ${number(cells.seconds as number)} s`}
        {cells.total_tokens !== null && ` · ${number(cells.total_tokens as number)} tokens`}
        {` · ${bytes(row.length)}`}
      </span>
      <span class="gap" />
      <LooksFine run={run} row={row} />
      <a class="button" aria-disabled={!neighbours.previous} href={neighbours.previous ?? undefined} title="Previous attempt ([)">←<span class="visually-hidden"> Previous attempt</span></a>
      <a class="button" aria-disabled={!neighbours.next} href={neighbours.next ?? undefined} title="Next attempt (])">→<span class="visually-hidden"> Next attempt</span></a>
    </div>
  );
}

function modelOf(row: JsonObject | null): string | null {
  const response = row?.response;
  const model = response && typeof response === "object" && !Array.isArray(response) ? response.model : null;
  return typeof model === "string" && model ? model : null;
}

function TabContent({ run, tab, opened }: { run: Run; tab: Tab; opened: Opened }): VNode {
  const { row, text, json } = opened;
  if (tab === "raw" || !json) return <Raw text={text} isBroken={!json} />;
  if (tab === "timing") return <TimingTab row={json} />;
  if (tab === "json") return <JsonTree value={json} open={2} />;
  return (
    <div class="chat">
      <div>
        <Replay run={run} row={json} />
        <Panel row={json} />
        <Transcript key={row.start} row={json} />
      </div>
      <Reward row={json} />
    </div>
  );
}

function Raw({ text, isBroken }: { text: string; isBroken: boolean }): VNode {
  const line = text.replace(/\r?\n$/, "");
  return (
    <>
      {isBroken && <p class="notice error" role="alert">The row cannot be read as a JSON object.</p>}
      <p class="muted">
        The row as it is in the file, {bytes(new TextEncoder().encode(text).length)}.{" "}
        <CopyButton text={text} />
      </p>
      {line.length > WHOLE_ROW ? <Lines text={line} label="Raw row" /> : <pre class="text raw exact" id="raw-row"><Exact text={line} /></pre>}
    </>
  );
}

