/** Failed attempts and the losses of nodes lead to each other. */

import { expect, test } from "vitest";

import { columnsOf, postHere } from "../src/columns/calls.ts";
import { parseQuery } from "../src/columns/query.ts";
import type { NodeEvent } from "../src/source/answers.ts";
import { causeAt, countFailures, failuresQuery, isNodeLost } from "../src/parts/node_events.ts";
import { encodeBlock } from "./fixtures.ts";

const START = 1_777_660_200; // 2026-05-01T18:30

function event(at: number, kind: string, ...servers: string[]): NodeEvent {
  return { at: START + at, kind, text: "", node: "a", servers };
}

const EVENTS = [
  event(0, "up"),
  event(10.5, "lost", "policy", "math"),
  event(11, "moved", "policy"),
  event(100.25, "lost", "math"),
  event(200, "scaled", "policy"),
];

test("a failure is caused by the last loss of its server until then", () => {
  const cause = (at: number, server: string | null) => EVENTS.indexOf(causeAt(EVENTS, START + at, server)!);
  expect(cause(12, "policy")).toBe(1);
  expect(cause(10, "policy")).toBe(1); // the clocks of two processes differ a little
  expect(cause(150, "policy")).toBe(1);
  expect(cause(150, "math")).toBe(3);
  expect(cause(150, "unknown")).toBe(3);
  expect(cause(150, null)).toBe(3);
  expect(cause(Infinity, "policy")).toBe(4);
  expect(cause(5, "policy")).toBe(-1);
  expect(cause(11, null)).toBe(2); // the event of a link to its log
  expect(causeAt([], START, null)).toBeNull();
});

test("only failures by a lost node have such a cause", () => {
  for (const failure of ["transport:node_lost", "node_lost"]) expect(isNodeLost(failure)).toBe(true);
  for (const failure of ["transport:timeout", "node_lost:x", "xnode_lost", null, 7]) expect(isNodeLost(failure)).toBe(false);
});

test("the attempts of an event are those until the next one", async () => {
  const columns = columnsOf("nodes", postHere);
  const failed = [10.6, 10.7, 99, 100.3, 100.4, 201];
  const rows = failed.map((at, number) => ({
    length: 10, task: number, created_at: START + at, failure: number === 1 ? "model:timeout" : "transport:node_lost",
  }));
  await columns.append("failures", 0, encodeBlock(rows, 0));
  expect(await countFailures(columns, EVENTS)).toEqual(
    new Map([[START + 10.5, 2], [START + 100.25, 2], [START + 200, 1]]),
  );
  for (const one of EVENTS) expect(parseQuery(failuresQuery(one, EVENTS)).problems).toEqual([]);
});
