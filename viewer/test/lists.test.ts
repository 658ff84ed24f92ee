/** Lists of runs, titles of tasks, and the seconds of calls. */

import { expect, test } from "vitest";

import { findRuns, samplingOf } from "../src/columns/run_filter.ts";
import { date, seconds, withoutBeginning } from "../src/format.ts";
import { callsOf, secondsByItem, slowestOf, timedCallsIn } from "../src/parts/call_seconds.ts";
import type { JsonObject } from "../src/source/answers.ts";

const run = (title: string, model: string, environment: string, tags: string[] = []) => ({
  title, path: `/results/${title}.jsonl`, state: "complete", models: [model], environments: [environment], sampling: { temperature: 0.7 }, tags,
});
const RUNS = [run("a", "Qwen3-8B", "mcqa"), run("b", "llama", "mcqa", ["nightly"]), run("c", "Qwen3-8B", "lockbox")];

test("every word of a search is in a run's name, model, environment, sampling, state or tags", () => {
  const found = (text: string) => findRuns(RUNS, text).map(({ title }) => title).join("");
  expect(found("")).toEqual("abc");
  expect(found("qwen3 mcqa")).toEqual("a");
  expect(found("NIGHTLY")).toEqual("b");
  expect(found("temperature 0.7 lockbox")).toEqual("c");
  expect(found("absent")).toEqual("");
});

test("sampling is a line of its parameters", () => {
  expect(samplingOf({ temperature: 0.7, stop: ["x"], effort: null })).toEqual('temperature 0.7, stop ["x"], effort null');
  expect(samplingOf({})).toEqual("");
});

test("titles lose what all of them begin with, at a word", () => {
  const beginning = "Solve the following problem. Put the final answer in a box. ";
  const cut = withoutBeginning([`${beginning}What is 2+2?`, `${beginning}What is 3+3?`]);
  expect(cut(`${beginning}What is 2+2?`)).toEqual("…2+2?");
  expect(withoutBeginning(["one title"])("one title")).toEqual("one title");
  expect(withoutBeginning(["a b", "a c"])("a b")).toEqual("a b");
  expect(withoutBeginning([])("x")).toEqual("x");
});

test("a date is in UTC, and another text is none", () => {
  expect(date("2026-11-23T23:14:25+01:00")).toEqual("2026-11-23 22:14");
  expect(date(null)).toEqual("–");
  expect(date("now")).toEqual("–");
});

const CALL = (server: string, path: string, seconds: number) => [server, path, seconds];
const SAID = { type: "message", role: "assistant" };
const ASKED = { type: "function_call", name: "guess" };
const GOT = { type: "function_call_output" };
const rowOf = (output: JsonObject[], calls: unknown): JsonObject => ({ response: { output }, _ng_timing: { calls } }) as unknown as JsonObject;

test("a tool's seconds are at its output, and the model's at the first item of its answer", () => {
  const calls = [CALL("m", "/v1/responses", 1), CALL("shop", "/guess", 2), CALL("shop", "/guess", 3), CALL("m", "/v1/responses", 4)];
  const row = rowOf([{ type: "reasoning" }, ASKED, ASKED, GOT, GOT, SAID], calls);
  expect(secondsByItem(row)).toEqual([1, null, null, 2, 3, 4]);
  expect(callsOf(row).map(({ isModel }) => isModel)).toEqual([true, false, false, true]);
});

test("a call that was never sent has no seconds", () => {
  const refused = { ...GOT, _ng_tool_error: { by: "model", kind: "invalid_json" } };
  const row = rowOf([ASKED, ASKED, refused, GOT, SAID], [CALL("m", "/v1/responses", 1), CALL("s", "/guess", 2), CALL("m", "/v1/responses", 3)]);
  expect(secondsByItem(row)).toEqual([1, null, null, 2, 3]);
});

test("calls that do not match the items are shown at none of them", () => {
  expect(secondsByItem(rowOf([SAID, GOT], [CALL("m", "/v1/responses", 1)]))).toEqual([null, null]);
  expect(secondsByItem(rowOf([SAID], "odd"))).toEqual([null]);
  expect(callsOf(rowOf([], [null, [1], ["m", "/x", "y"]]))).toEqual([]);
  expect(secondsByItem({})).toEqual([]);
});

test("the calls of agents are read from metrics of any form", () => {
  const own = { "mean/call_seconds/tools/a/b": 1.5, "count/timed_calls/tools/a/b": 4, "max/call_seconds/tools/a/b": 2, "mean/call_seconds/model/m": 3, "mean/reward": 1 };
  const found = timedCallsIn([{ agent_ref: { name: "one" }, agent_metrics: own }, { agent_metrics: 3 }, null]);
  expect(found).toEqual([
    { agent: "one", kind: "tool", name: "a/b", count: 4, mean: 1.5, longest: 2 },
    { agent: "one", kind: "model", name: "m", count: 0, mean: 3, longest: 3 },
  ]);
  for (const odd of [null, 3, "x", {}]) expect(timedCallsIn(odd)).toEqual([]);
  expect(slowestOf(found, ({ mean }) => mean)?.name).toEqual("m");
  expect(slowestOf([], Number)).toBeNull();
});

test("seconds below half a millisecond are 0", () => {
  expect([seconds(3.2e-5), seconds(0.0011), seconds(2.5), seconds(null), seconds(undefined)]).toEqual(["0", "0.001", "2.500", "–", "–"]);
});

test("titles that are all one are not cut", () => {
  const title = "Solve the following problem. Put the final answer in a box.";
  expect(withoutBeginning([title, title])(title)).toEqual(title);
});
