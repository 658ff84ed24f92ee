/** The control of a run that goes on: its state, and the verbs of `gym ctl`. A page in a file has neither. */

import { SourceError } from "./source.ts";

export interface ControlState {
  run: string;
  phase: "running" | "paused" | "draining" | "ended";
  num_samples_in_parallel: number | "auto";
  max_attempts: number;
  rollout_timeout_s: number | null;
  counts: { settled: number; planned: number; spent?: { tokens: number; cost: number; seconds: number } };
  /** Rollout, such as "3/0", and the seconds since its attempt began, the longest first. */
  in_flight: Record<string, number>;
  /** Class of failure and the number of rollouts. */
  failed: Record<string, number>;
}

export interface ControlAnswer extends ControlState {
  changes: string[];
}

/** What is asked of a run: a verb with its fields. */
export interface ControlAsked {
  verb: "pause" | "resume" | "drain" | "cancel" | "requeue" | "set";
  body: Record<string, unknown>;
}

/** Return the state of a run; null if it does not go on. */
export async function readControl(id: string, signal: AbortSignal): Promise<ControlState | null> {
  const response = await fetch(`/api/runs/${id}/control`, { signal, credentials: "same-origin", cache: "no-store" });
  return response.ok ? ((await response.json()) as { state: ControlState | null }).state : null;
}

/** Send a request. A dry run says what would change, and changes nothing. */
export async function sendControl(id: string, asked: ControlAsked, isDry: boolean): Promise<ControlAnswer> {
  const response = await fetch(`/api/runs/${id}/control/${asked.verb}`, {
    method: "POST",
    credentials: "same-origin",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...asked.body, dry_run: isDry }),
  });
  const answer = await response.json().catch(() => null);
  if (response.ok) return answer as ControlAnswer;
  const error = (answer as { error?: { message?: string; remedy?: string } } | null)?.error;
  throw new SourceError(error?.message ?? `The server answered ${response.status}.`, response.status, error?.remedy ?? null);
}
