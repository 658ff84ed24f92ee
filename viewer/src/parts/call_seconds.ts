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
