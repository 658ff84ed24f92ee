/** The rows of replayed attempts: which calls were answered from a record, and where a request differs from it. */

import { plural } from "../format.ts";
import type { ForkFamily, JsonObject } from "../source/answers.ts";
import { isObject } from "./items.ts";

const MISMATCH = /at (.*), character \d+: recorded (nothing|'[^]*'|"[^]*"), now (nothing|'[^]*'|"[^]*")$/;

export interface Mismatch {
  where: string;
  recorded: string;
  said: string;
}

/** The two texts of a failure whose attempt did not repeat the recorded one; null for another row. */
export function mismatchOf(row: JsonObject): Mismatch | null {
  const failure = isObject(row._ng_failure) ? row._ng_failure : {};
  if (failure.code !== "replay_mismatch" || typeof failure.message !== "string") return null;
  const found = MISMATCH.exec(failure.message);
  return found ? { where: found[1]!, recorded: found[2]!, said: found[3]! } : null;
}

/** The number of the policy's calls in a row that were answered from a record. */
export function countReplayed(row: JsonObject): number {
  const fork = isObject(row._ng_fork) ? row._ng_fork : {};
  const replay = isObject(row._ng_replay) ? row._ng_replay : {};
  const count = typeof fork.turn === "number" ? fork.turn : replay.calls_replayed;
  return typeof count === "number" ? count : 0;
}

/** Whether each item of the output was given by a replayed call. An answer ends at the first output of a tool. */
export function replayedItems(row: JsonObject): boolean[] {
  const response = isObject(row.response) ? row.response : {};
  const items = Array.isArray(response.output) ? response.output : [];
  const most = countReplayed(row);
  const hasRecords = items.some((item) => isObject(item) && isObject(item._ng_tokens));
  let calls = 0;
  let isInAnswer = false;
  return items.map((item) => {
    const isAnswer = isObject(item) && item.type !== "function_call_output" && !isGiven(item);
    const isEnd = hasRecords ? isObject(item) && isObject(item._ng_tokens) : !isInAnswer && isAnswer;
    const before = calls;
    if (isEnd) calls += 1;
    isInAnswer = isAnswer;
    return isAnswer && (hasRecords ? before < most : calls <= most && calls > 0);
  });
}

function isGiven(item: JsonObject): boolean {
  return item.role === "user" || item.role === "system" || item.role === "developer";
}

/** The first rollout of a parent's forks, and the first after them. */
export function forksOf({ forks }: ForkFamily, rollout: number): [from: number, to: number] {
  return [rollout * forks, (rollout + 1) * forks];
}

export function describeReplay(replay: JsonObject): string {
  const noise = isObject(replay.noise) ? Object.entries(replay.noise).map(([name, count]) => `${name} ${String(count)}`) : [];
  const parts = [
    `${String(replay.mode)} of ${String(replay.source)}`,
    `${plural(Number(replay.calls_replayed), "call")} replayed, ${String(replay.calls_live)} live`,
    `${plural(Number(replay.observations_compared), "observation")} compared`,
    noise.length ? `noise: ${noise.join(", ")}` : "no noise",
  ];
  if (typeof replay.tools_recorded === "number") {
    const results = `${plural(replay.tools_recorded, "recorded result")} of tools`;
    parts.push(replay.from_snapshot ? `${results}, from a snapshot` : results);
  }
  if (replay.instructions_changed) parts.push("changed instructions, the recorded ones were sent");
  return parts.join(" · ");
}
