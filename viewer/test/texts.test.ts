/** Parts that turn untrusted texts into something to show, and rules that hold for the whole source. */

import { expect, test } from "vitest";

import { parseNumber, parseQuery, quoted } from "../src/columns/query.ts";
import { firstLine, number, bytes, percent } from "../src/format.ts";
import { commonLength, itemKey, tokenDivergence } from "../src/parts/divergence.ts";
import { itemOf, itemsOf } from "../src/parts/items.ts";
import { panelOf } from "../src/parts/panel.tsx";
import { countReplayed, describeReplay, forksOf, mismatchOf, replayedItems } from "../src/parts/replayed.ts";
import { leastLikely, linesOf, shownText } from "../src/parts/token_lines.ts";
import { scrollFor, windowOf } from "../src/parts/window.ts";
import type { Json, TokenSegment } from "../src/source/answers.ts";
import { transportOf } from "../src/source/embedded.ts";
import { Source } from "../src/source/source.ts";
import { Random } from "./fixtures.ts";

const files = Object.entries(
  import.meta.glob<string>("../src/**/*.{ts,tsx,css}", { query: "?raw", import: "default", eager: true }),
);

test("no source file makes HTML from text, runs text, or is longer than 400 lines", () => {
  expect(files.length).toBeGreaterThan(40);
  for (const [name, text] of files) {
    expect(text, name).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc/);
    expect(text.split("\n").length, name).toBeLessThanOrEqual(401);
  }
});

test("the columns import nothing from other folders", () => {
  for (const [name, text] of files.filter(([file]) => file.includes("/columns/"))) {
    expect(text, name).not.toContain('from "../');
  }
});

test("filters are read term by term", () => {
  const { terms, texts, problems } = parseQuery('reward<1 -env:swe*,"two words" tokens>=4k word "a \\"b\\" c"');
  expect(terms.map(({ name, comparison, values, negated }) => [name, comparison, values, negated])).toEqual([
    ["reward", "<", ["1"], false],
    ["agent", ":", ["swe*", "two words"], true],
    ["total_tokens", ">=", ["4k"], false],
  ]);
  expect(texts).toEqual(["word", 'a "b" c']);
  expect(problems).toEqual([]);
});

test("problems have their place", () => {
  expect(parseQuery("task:1 reward<").problems).toEqual([
    { at: 7, length: 7, message: 'A value is missing after "reward<".' },
  ]);
  expect(parseQuery('x "open').problems[0]).toMatchObject({ at: 2, length: 5 });
});

test("numbers have suffixes", () => {
  for (const [text, value] of [["4k", 4000], ["2M", 2e6], ["-0.5", -0.5], ["1e-3", 0.001], [".5", 0.5], ["1_000", 1000]] as const) {
    expect(parseNumber(text)).toBe(value);
  }
  for (const text of ["", "k", "1.2.3", "4kk", "0x10", "NaN"]) expect(parseNumber(text)).toBeUndefined();
});

test("times in UTC are seconds", () => {
  expect(parseNumber("2026-05-01")).toBe(Date.UTC(2026, 4, 1) / 1000);
  expect(parseNumber("2026-05-01T18:30")).toBe(Date.UTC(2026, 4, 1, 18, 30) / 1000);
  expect(parseNumber("2026-05-01T18:30:07")).toBe(Date.UTC(2026, 4, 1, 18, 30, 7) / 1000);
  for (const text of ["2026-02-30", "2026-13-01", "2026-05-01T25:00", "2026-5-1"]) expect(parseNumber(text)).toBeUndefined();
});

test("a quoted value is read as it was", () => {
  for (const value of ["plain", "two words", 'with "quotes"', "a,b", "back\\slash", "none", ""]) {
    const { terms } = parseQuery(`agent:${quoted(value)}`);
    if (value) expect(terms[0].values, value).toEqual([value]);
  }
});

test("numbers are short", () => {
  expect([0, 1234, 0.5, 123.456, 1e-9, null, NaN].map((value) => number(value))).toEqual(
    ["0", "1,234", "0.500", "123.5", "1.00e-9", "–", "–"],
  );
  expect([bytes(999), bytes(20_000_000), percent(0.125)]).toEqual(["999 B", "20.0 MB", "12.5 %"]);
  expect(firstLine("  one\ntwo")).toBe("one");
});

test("the output of a failed call looks like one, in words too", () => {
  const output = { type: "function_call_output", call_id: "c", output: '{"error":"ValueError: boom"}' };
  expect(itemOf(output)).toMatchObject({ title: "output", isFolded: true });
  expect(itemOf(output).isError).toBeUndefined();
  const mark = { tool: "guess", by: "environment", kind: "raised", cause: "ValueError: boom", place: "app.py:48" };
  const failed = itemOf({ ...output, _ng_tool_error: mark });
  expect(failed).toMatchObject({ title: "✕ failed output: the environment", isError: true });
  expect(failed.pieces.at(-1)).toEqual({ kind: "text", text: "ValueError: boom (app.py:48)", title: "cause" });
  const invalid = itemOf({ ...output, _ng_tool_error: { by: "model", cause: "no JSON" } });
  expect(invalid).toMatchObject({ title: "✕ failed output: invalid call", isError: true });
  expect(itemOf({ ...output, _ng_tool_error: "odd" }).title).toBe("output");
});

test("any JSON is an item", () => {
  const random = new Random(5);
  const value = (depth: number): Json => {
    if (!depth) return random.pick<Json>(["text", 1, null, [], {}]);
    const types = ["message", "reasoning", "function_call", "function_call_output", "image_generation_call", "__proto__", "constructor", 3, null];
    return random.pick<() => Json>([
      () => random.pick<Json>(["text", 1, null, true, ""]),
      () => [value(depth - 1), value(depth - 1)],
      () => ({ type: random.pick<Json>(types), role: value(depth - 1), content: value(depth - 1), output: value(depth - 1), summary: value(depth - 1) }),
      () => ({ text: value(depth - 1), type: random.pick<Json>(["output_text", "input_image", "refusal"]), image_url: value(depth - 1) }),
    ])();
  };
  for (let round = 0; round < 2000; round++) {
    const item = itemOf(value(3));
    expect(item.pieces.every(({ kind }) => kind)).toBe(true);
    expect(item.line.length).toBeLessThan(200);
  }
});

test("images of other places are not images", () => {
  const shown = (url: string) => itemOf({ role: "user", content: [{ type: "input_image", image_url: url }] }).pieces[0].kind;
  expect(shown("data:image/png;base64,AAAA")).toBe("image");
  for (const url of ["https://a.b/c.png", "data:image/svg+xml;base64,AAAA", "data:text/html,x", "javascript:alert(1)", 'data:image/png;base64,"onerror=']) {
    expect(shown(url), url).toBe("text");
  }
});

test("input as text and as a list", () => {
  expect(itemsOf({ responses_create_params: { input: "hi" }, response: { output: [{ type: "message" }] } }).length).toBe(2);
  expect(itemsOf({ responses_create_params: 3, response: null })).toEqual([]);
});

test("attempts differ where they differ", () => {
  expect(itemKey({ type: "x", id: "1", call_id: "2", status: "y" })).toBe(itemKey({ type: "x", id: "3" }));
  expect(commonLength([[1, 2, 3], [1, 2, 4], [1, 2]])).toBe(2);
  const record = (ids: number[]) => ({ segments: [segmentOf(ids)], masked_calls: [] });
  expect(tokenDivergence([record([1, 2, 3]), null, record([1, 2, 4])])).toEqual({
    position: 2, tokens: [{ id: 3, text: null }, null, { id: 4, text: null }],
  });
  expect(tokenDivergence([record([1]), record([1])])).toBeNull();
  expect(tokenDivergence([record([1]), null])).toBeNull();
});

function segmentOf(ids: number[], texts?: TokenSegment["texts"]): TokenSegment {
  const half = ids.length >> 1;
  return {
    ids, texts, logprobs: ids.map((_, at) => (at < half ? null : -at)), mask: ids.map((_, at) => Number(at >= half)),
    spans: [{ call: 0, part: "prompt", start: 0, end: half }, { call: 0, part: "sampled", start: half, end: ids.length }],
    reason: null, grammar: null,
  };
}

test("lines hold every token once, and begin where a part begins", () => {
  const texts = Array.from({ length: 500 }, (_, at) => (at % 7 ? "word " : "end\n"));
  const lines = linesOf(segmentOf([...texts.keys()], texts));
  expect(lines[0].start).toBe(0);
  lines.forEach(({ end }, at) => expect(end).toBe(lines[at + 1]?.start ?? 500));
  expect(lines.filter(({ span }) => span).map(({ start }) => start)).toEqual([0, 250]);
  expect(leastLikely(segmentOf([5, 6, 7, 8]), 1)).toEqual([3]);
});

test("token texts are exact", () => {
  expect([shownText(" a\n\t", 1), shownText({ b64: "4oI=" }, 1), shownText(null, 7)]).toEqual([" a↵⇥", "\\xe2\\x82", "[7]"]);
});

test("a list of any length shows at most 100 rows, and reveals each of them", () => {
  for (const rows of [0, 1, 50, 1e6, 1e9]) {
    for (const row of [0, 7, rows >> 1, rows - 1].filter((one) => one >= 0 && one < rows)) {
      const start = { rows, rowHeight: 28, viewport: 700, scrollTop: 0 };
      const scrollTop = scrollFor(row, start) ?? 0;
      const { from, to, height, topOf } = windowOf({ ...start, scrollTop });
      expect(height).toBeLessThanOrEqual(15e6);
      expect(to - from).toBeLessThanOrEqual(100);
      expect(row).toBeGreaterThanOrEqual(from);
      expect(row).toBeLessThan(to);
      expect(topOf(row) - scrollTop).toBeGreaterThanOrEqual(-1);
      expect(topOf(row) - scrollTop).toBeLessThanOrEqual(700 - 28 + 1);
    }
  }
});

test("an exported file answers like the server", async () => {
  const source = new Source(transportOf({
    note: "two rows",
    answers: {
      runs: { runs: [{ id: "r0" }] } as Json,
      "runs/r0/rows/0-9?kind=rows": '{"a": "Needle"}\n',
      "runs/r0/cards/0-9?kind=rows": { title: "t", answer: "a" },
      "runs/r0/blocks?kind=rows": { b64: btoa("abc") },
    },
  }));
  expect(source.isLive).toBe(false);
  expect(await source.runs()).toEqual([{ id: "r0" }]);
  expect(await source.row("r0", { kind: "rows", start: 0, length: 9 })).toBe('{"a": "Needle"}\n');
  expect(await source.cards("r0", "rows", [{ start: 0, length: 9 }])).toEqual([{ title: "t", answer: "a" }]);
  expect([...(await source.blocks("r0", "rows", 0)).bytes]).toEqual([97, 98, 99]);
  const events = [];
  for await (const event of source.search("r0", "rows", "needle", new AbortController().signal)) events.push(event);
  expect(events).toEqual([{ start: 0, length: 9, excerpt: '{"a": "Needle"}\n', at: 7 }, { end: true, hits: 1 }]);
  await expect(source.failures("r0")).rejects.toMatchObject({ status: 404 });
});

test("a panel is found in the answer of a verifier and in the info of a last step, and only there", () => {
  const panel = { title: "end", fields: [{ kind: "text", text: "x" }, "no field", null] };
  const shown = { title: "end", fields: [panel.fields[0]] };
  expect(panelOf({ panel })).toEqual(shown);
  expect(panelOf({ info: { panel } })).toEqual(shown);
  expect(panelOf({ panel: { fields: [] } })).toEqual({ title: "", fields: [] });
  for (const row of [{}, { panel: "text" }, { panel: { fields: "x" } }, { info: null }, { info: [panel] }]) {
    expect(panelOf(row as never)).toBeNull();
  }
});

test("a mismatch is two texts, and other failures are none", () => {
  const message =
    "call 4 of the replayed attempt differs from the recorded one at turn 8 (output), character 31: " +
    `recorded 'Ran 7 tests in 0.010s', now "it's\n0.000s"`;
  const row = { _ng_failure: { code: "replay_mismatch", message } };
  expect(mismatchOf(row)).toEqual({
    where: "turn 8 (output)", recorded: "'Ran 7 tests in 0.010s'", said: `"it's\n0.000s"`,
  });
  expect(mismatchOf({ _ng_failure: { code: "session_lost", message } })).toBeNull();
  expect(mismatchOf({ _ng_failure: { code: "replay_mismatch", message: "ended after 2 of 3" } })).toBeNull();
});

test("the items of replayed calls are marked, with and without token records", () => {
  const call = { type: "function_call", name: "look" };
  const output = { type: "function_call_output", output: "seen" };
  const said = { type: "message", role: "assistant", content: "done" };
  const plain = [call, output, call, output, said];
  const rows = [plain, plain.map((item) => (item === output ? item : { ...item, _ng_tokens: {} }))];
  for (const items of rows) {
    const replay = { _ng_replay: { calls_replayed: 2 }, response: { output: items } };
    expect(replayedItems(replay)).toEqual([true, false, true, false, false]);
    expect(replayedItems({ response: { output: items } })).toEqual(items.map(() => false));
    expect(replayedItems({ ...replay, _ng_fork: { turn: 1 } })).toEqual([true, false, false, false, false]);
  }
  expect(countReplayed({ _ng_fork: { turn: 0 }, _ng_replay: { calls_replayed: 3 } })).toBe(0);
});

test("the forks of a rollout are consecutive rollouts of another run", () => {
  const family = { run: "r1", title: "forks", turn: 2, forks: 4 };
  expect([0, 1, 5].map((rollout) => forksOf(family, rollout))).toEqual([[0, 4], [4, 8], [20, 24]]);
});

test("recorded results of tools are counted", () => {
  const replay = { mode: "continue", source: "0.0.a0", calls_replayed: 2, calls_live: 1, observations_compared: 3 };
  expect(describeReplay(replay)).not.toContain("tools");
  expect(describeReplay({ ...replay, tools_recorded: 1 })).toMatch(/1 recorded result of tools$/);
  expect(describeReplay({ ...replay, tools_recorded: 2, from_snapshot: true })).toMatch(/2 recorded results of tools, from a snapshot$/);
});
