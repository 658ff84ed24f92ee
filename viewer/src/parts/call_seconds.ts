/** The seconds of each call of a rollout, at the items that it gave: `_ng_timing.calls` of the row. */

import type { Json, JsonObject } from "../source/answers.ts";
import { isObject } from "./items.ts";

export interface TimedCall {
  server: string;
  path: string;
  seconds: number;
  isModel: boolean;
}

/** The routes at which a model samples, as in `nemo_gym/names.py`. */
const MODEL_ROUTES = new Set(["/v1/responses", "/v1/responses/compact", "/v1/chat/completions", "/v1/messages"]);
/** Failures of calls that were never sent to a tool. */
const NOT_SENT = new Set<Json>(["invalid_json", "invalid_arguments", "unknown_tool"]);

export function callsOf(row: JsonObject): TimedCall[] {
  const timing = isObject(row._ng_timing) ? row._ng_timing : {};
  const calls = Array.isArray(timing.calls) ? timing.calls : [];
  return calls.flatMap((call) => {
    if (!Array.isArray(call) || typeof call[2] !== "number") return [];
    const path = String(call[1]);
    return [{ server: String(call[0]), path, seconds: call[2], isModel: MODEL_ROUTES.has(path) }];
  });
}

/**
 * The seconds of each output item: those of the tool at its output, and those of the model at the first item of its
 * answer. Null for other items, and for all if calls and items do not match one to one.
 */
export function secondsByItem(row: JsonObject): (number | null)[] {
  const response = isObject(row.response) ? row.response : {};
  const items = Array.isArray(response.output) ? response.output : [];
  const calls = callsOf(row);
  const models = calls.filter(({ isModel }) => isModel);
  const tools = calls.filter(({ isModel }) => !isModel);
  let [model, tool, isInAnswer] = [0, 0, false];
  const seconds = items.map((item) => {
    const isOutput = isObject(item) && item.type === "function_call_output";
    const isBegin = !isOutput && !isInAnswer;
    isInAnswer = !isOutput;
    if (isBegin) return models[model++]?.seconds ?? null;
    return isOutput && wasSent(item) ? (tools[tool++]?.seconds ?? null) : null;
  });
  return model === models.length && tool === tools.length ? seconds : items.map(() => null);
}

function wasSent(item: JsonObject): boolean {
  return !(isObject(item._ng_tool_error) && NOT_SENT.has(item._ng_tool_error.kind));
}

/** A model server or a tool in the metrics of a run, with the seconds of its calls. */
export interface TimedServer {
  agent: string;
  kind: "model" | "tool";
  name: string;
  count: number;
  mean: number;
  longest: number;
}

const CALLS = /^mean\/call_seconds\/(model|tools)\/(.+)$/;

/** The calls of all agents in `<stem>_aggregate_metrics.json`, which may have any form. */
export function timedCallsIn(metrics: Json): TimedServer[] {
  return (Array.isArray(metrics) ? metrics : []).flatMap((entry) => {
    if (!isObject(entry) || !isObject(entry.agent_metrics)) return [];
    const own = entry.agent_metrics;
    const agent = isObject(entry.agent_ref) ? String(entry.agent_ref.name ?? "") : "";
    return Object.entries(own).flatMap(([key, mean]): TimedServer[] => {
      const [, kind, name] = CALLS.exec(key) ?? [];
      if (typeof mean !== "number" || !name) return [];
      const [count, longest] = [own[`count/timed_calls/${kind}/${name}`], own[`max/call_seconds/${kind}/${name}`]];
      return [{ agent, kind: kind === "model" ? "model" : "tool", name, count: Number(count ?? 0), mean, longest: Number(longest ?? mean) }];
    });
  });
}

/** The entry with the largest number; null without entries. */
export function slowestOf<T>(entries: T[], key: (entry: T) => number): T | null {
  return entries.reduce<T | null>((slowest, entry) => (slowest === null || key(entry) > key(slowest) ? entry : slowest), null);
}
