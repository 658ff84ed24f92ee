/** The columns against an oracle: the same questions, answered from plain objects row by row. */

import { expect, test } from "vitest";

import type { Value } from "../src/columns/block.ts";
import { Engine } from "../src/columns/engine.ts";
import { boundedInterval, expectedMax } from "../src/columns/estimators.ts";
import { orderByNumber } from "../src/columns/order.ts";
import { encodeBlock, joined, Random, randomEngine, randomRows, type Row } from "./fixtures.ts";

const SEEDS = Array.from({ length: 30 }, (_, seed) => seed + 1);

const compare: Record<string, (one: number, other: number) => boolean> = {
  "<": (one, other) => one < other,
  "<=": (one, other) => one <= other,
  ">": (one, other) => one > other,
  ">=": (one, other) => one >= other,
  "=": (one, other) => one === other,
  "!=": (one, other) => one !== other,
};

function randomTerm(random: Random): { text: string; holds: (row: Row) => boolean } {
  const minus = random.next() < 0.2 ? "-" : "";
  const flip = (holds: (row: Row) => boolean) => (minus ? (row: Row) => !holds(row) : holds);
  if (random.next() < 0.5) {
    const name = random.pick(["reward", "seconds", "total_tokens", "rare", "task"]);
    const sign = random.pick(Object.keys(compare));
    const bound = random.pick([0, 1, 0.5, -2, 4000]);
    const text = bound === 4000 ? "4k" : String(bound);
    const holds = (row: Row) => typeof row[name] === "number" && compare[sign](row[name], bound);
    return { text: `${minus}${name}${sign}${text}`, holds: flip(holds) };
  }
  const [text, holds] = random.pick<[string, (row: Row) => boolean]>([
    ["agent:swe*", (row) => String(row.agent ?? "").startsWith("swe")],
    ['agent:"swe two",math', (row) => row.agent === "swe two" || row.agent === "math"],
    ["agent:none", (row) => row.agent === null],
    ["agent:a.b", (row) => row.agent === "a.b"],
    ['agent:"say \\"hi\\""', (row) => row.agent === 'say "hi"'],
    ["outcome!=failed", (row) => row.outcome !== "failed"],
    ["reward:none", (row) => row.reward === null],
    ["task:1,2", (row) => row.task === 1 || row.task === 2],
    ["failure=time*", (row) => row.failure === "timeout"],
  ]);
  return { text: minus + text, holds: flip(holds) };
}

/** The value without the sign of zero, which integers do not hold. */
function plain(value: Value | undefined): Value {
  return typeof value === "number" ? value + 0 : (value ?? null);
}

function all(engine: Engine, columns: string[]) {
  return engine.page(0, 1e6, columns);
}

test.each(SEEDS)("cells, places and filters equal the oracle's (seed %i)", (seed) => {
  const random = new Random(seed);
  const { engine, rows } = randomEngine(random);
  engine.select({ kind: "rows", query: "", sort: null, hits: null });
  let start = 0;
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  all(engine, names).forEach((found, at) => {
    expect(found).toMatchObject({ row: at, start, length: rows[at].length });
    start += Number(rows[at].length);
    for (const name of names) expect(plain(found.cells[name])).toBe(plain(rows[at][name]));
  });
  for (let round = 0; round < 10; round++) {
    const terms = Array.from({ length: 1 + random.below(3) }, () => randomTerm(random));
    const query = terms.map(({ text }) => text).join(" ");
    const selection = engine.select({ kind: "rows", query, sort: null, hits: null });
    const expected = rows.flatMap((row, at) => (terms.every(({ holds }) => holds(row)) ? [at] : []));
    const known = selection.problems.length === 0; // a column may occur in no row at all
    if (known) expect(all(engine, []).map(({ row }) => row), query).toEqual(expected);
    else expect(selection.problems[0].message).toContain("There is no column");
  }
});

test.each(SEEDS)("orders are stable, with missing values last (seed %i)", (seed) => {
  const random = new Random(seed);
  const { engine, rows } = randomEngine(random);
  for (const column of ["reward", "seconds", "total_tokens", "rare", "agent", "length"]) {
    for (const descending of [false, true]) {
      engine.select({ kind: "rows", query: "task<5", sort: { column, descending }, hits: null });
      const chosen = rows.flatMap((row, at) => (Number(row.task) < 5 ? [at] : []));
      const present = chosen.filter((at) => (rows[at][column] ?? null) !== null);
      const missing = chosen.filter((at) => (rows[at][column] ?? null) === null);
      present.sort((one, other) => {
        const [left, right] = [rows[one][column]!, rows[other][column]!];
        return (left < right ? -1 : left > right ? 1 : 0) * (descending ? -1 : 1);
      });
      expect(all(engine, []).map(({ row }) => row), `${column} ${descending}`).toEqual([...present, ...missing]);
    }
  }
});

test.each([3, 1000])("numbers that differ only in their last bits are in order (%i of them)", (count) => {
  const random = new Random(count);
  const data = Float64Array.from({ length: count }, () => random.pick([1, -1]) * (1 + random.below(50) * Number.EPSILON));
  for (const descending of [false, true]) {
    const expected = [...data.keys()].sort((one, other) => (data[one] - data[other]) * (descending ? -1 : 1) || one - other);
    expect([...orderByNumber(data, count, descending)]).toEqual(expected);
  }
});

/** pass@k by drawing every set of k scores. */
function drawn(scores: number[], k: number): number {
  const best: number[] = [];
  const draw = (from: number, left: number, most: number) => {
    if (!left) best.push(most);
    else for (let at = from; at <= scores.length - left; at++) draw(at + 1, left - 1, Math.max(most, scores[at]));
  };
  draw(0, k, -Infinity);
  return best.reduce((sum, value) => sum + value, 0) / best.length;
}

test.each(SEEDS)("groups are of one task and agent, count every row and average only scores (seed %i)", (seed) => {
  const { engine, rows } = randomEngine(new Random(seed));
  engine.select({ kind: "rows", query: "", sort: null, hits: null });
  const { count, isBest } = engine.group(2, "task", false);
  expect(isBest).toBe(rows.some(({ reward }) => reward !== null && reward !== 0 && reward !== 1));
  const hasAgents = new Set(rows.map((row) => row.agent)).size > 1;
  const tasks = [...new Set(rows.map((row) => `${row.task} ${row.agent}`))].map((pair) => parseInt(pair)).sort((one, other) => one - other);
  expect(count).toBe(tasks.length);
  engine.groupPage(0, count).forEach((group, at) => {
    const own = rows.filter((row) => row.task === tasks[at] && (!hasAgents || row.agent === group.agent));
    const [placed] = engine.rowsAt("rows", [group.start], ["task", "agent"]);
    expect(placed.cells.task).toBe(tasks[at]);
    if (hasAgents) expect(placed.cells.agent).toBe(group.agent);
    const scores = own.map((row) => row.reward).filter((reward) => reward !== null) as number[];
    expect(group).toMatchObject({ task: tasks[at], rows: own.length, scored: scores.length });
    if (scores.length) expect(group.mean).toBeCloseTo(scores.reduce((sum, one) => sum + one, 0) / scores.length, 12);
    else expect(group.mean).toBeNull();
    if (scores.length >= 2 && scores.length < 15) expect(group.passAtK).toBeCloseTo(drawn(scores, 2), 12);
    if (scores.length < 2) expect(group.passAtK).toBeNull();
  });
});

test.each(SEEDS)("facets and histograms count every row once (seed %i)", (seed) => {
  const { engine, rows } = randomEngine(new Random(seed));
  engine.select({ kind: "rows", query: "", sort: null, hits: null });
  const [facet] = engine.facets(["agent"]);
  for (const { value, count } of facet.counts) {
    expect(count).toBe(rows.filter((row) => row.agent === value).length);
  }
  for (const histogram of engine.histograms(["seconds", "reward", "rare", "total_tokens"])) {
    const values = rows.map((row) => row[histogram.name] ?? null).filter((value) => value !== null) as number[];
    expect(histogram.missing).toBe(rows.length - values.length);
    expect(histogram.counts.reduce((sum, count) => sum + count, 0)).toBe(values.length);
    expect(histogram.bounds[0]).toBeCloseTo(Math.min(...values), 10);
    expect(histogram.bounds.at(-1)).toBe(Math.max(...values));
  }
});

test("the last block is replaced, and several blocks come in one answer", () => {
  const random = new Random(7);
  const [one, two, three] = [3, 4, 5].map((count) => randomRows(random, count));
  const bytesOf = (rows: Row[]) => rows.reduce((sum, row) => sum + Number(row.length), 0);
  const engine = new Engine();
  engine.append("rows", 0, joined([encodeBlock(one, 0), encodeBlock(two.slice(0, 2), bytesOf(one))]));
  const later = joined([encodeBlock(two, bytesOf(one)), encodeBlock(three, bytesOf(one) + bytesOf(two))]);
  expect(engine.append("rows", 1, later)).toEqual({ rows: 12, blocks: 3 });
  engine.select({ kind: "rows", query: "", sort: { column: "rollout", descending: false }, hits: null });
  engine.select({ kind: "rows", query: "", sort: null, hits: [0, bytesOf(one)] });
  expect(all(engine, ["rollout"]).map(({ row }) => row)).toEqual([0, 3]);
  expect(engine.rowsAt("rows", [bytesOf(one), 1e9], []).map(({ row }) => row)).toEqual([3]);
});

test("a torn block is left for the next answer, and other bytes are refused", () => {
  const block = encodeBlock(randomRows(new Random(1), 3), 0);
  const engine = new Engine();
  expect(engine.append("rows", 0, block.subarray(0, block.length - 1))).toEqual({ rows: 0, blocks: 0 });
  expect(() => engine.append("rows", 0, new Uint8Array(32))).toThrow("No block");
});

test("the summary counts failed rollouts, and averages only scores", () => {
  const engine = new Engine();
  const base = { length: 1, attempt: 0, agent: "a", masked: 0 };
  engine.append("rows", 0, encodeBlock([
    { ...base, task: 0, rollout: 0, reward: 1, outcome: "completed" },
    { ...base, task: 0, rollout: 1, reward: 0, outcome: "completed" },
    { ...base, task: 1, rollout: 0, reward: 1, outcome: "truncated" },
  ], 0));
  engine.append("failures", 0, encodeBlock([
    { ...base, task: 1, rollout: 1, outcome: "failed" },
    { ...base, task: 1, rollout: 1, attempt: 1, outcome: "failed" },
    { ...base, task: 0, rollout: 0, outcome: "failed" },
  ], 0));
  const [summary] = engine.summary("agent", {});
  expect(summary).toMatchObject({
    label: "a", tasks: 2, rollouts: 4, scored: 3, outcomes: { completed: 2, truncated: 1, failed: 1 },
    passAtK: [{ k: 1, value: 0.75, short: 0 }, { k: 2, value: 1, short: 1 }],
  });
  expect(summary.mean).toBeCloseTo(2 / 3, 12);
});

test("pass@k is of one agent, and ends where half of the tasks have k scores", () => {
  const engine = new Engine();
  const rewards: Record<string, number[][]> = { a: [[0, 0], [0, 1, 0, 0, 0, 0]], b: [[1, 1], [0, 0]] };
  const rows = Object.entries(rewards).flatMap(([agent, tasks]) =>
    tasks.flatMap((own, task) => own.map((reward, rollout) => ({ length: 1, attempt: 0, agent, task, rollout: 10 * rollout + Number(agent === "b"), reward, policy_version: "7" }))),
  );
  engine.append("rows", 0, encodeBlock(rows, 0));
  const [whole] = engine.summary("policy_version", {});
  expect(whole.tasks).toBe(2);
  expect(whole.passAtK.map(({ k, short }) => [k, short])).toEqual([[1, 0], [2, 0]]);
  expect(whole.passAtK[1].value).toBeCloseTo((0 + 1 / 3 + 1 + 0) / 4, 12);
  expect(engine.mostAttempts()).toBe(6);
});

test("figures by policy version end where rewards do, and version 10 comes after version 9", () => {
  const engine = new Engine();
  const rewards = [0, 0, 1, 1, 1, 1, 1, 0.5];
  const rows = rewards.map((reward, at) => ({ length: 1, task: at >> 1, rollout: at & 1, attempt: 0, reward, policy_version: at < 4 ? "9" : "10" }));
  engine.append("rows", 0, encodeBlock(rows, 0));
  const found = engine.summary("policy_version", {});
  expect(found.map(({ label, mean: average }) => [label, average])).toEqual([["9", 0.5], ["10", 0.875]]);
  expect(found.map(({ interval }) => interval)).toEqual([{ low: 0, high: 1 }, { low: 0, high: 1 }]);
});

test("an interval takes equal tasks for one", () => {
  const rows = [[0, 0], [1, 1], [2, 1]].flatMap(([task, reward]) =>
    [0, 3].map((copy) => ({ length: 1, task: task + copy, rollout: 0, attempt: 0, agent: "a", reward })),
  );
  const repeated = [[0, 0], [1, 1], [2, 1]].flatMap(([task, reward]) =>
    [0, 1].map((rollout) => ({ length: 1, task, rollout, attempt: 0, agent: "a", reward })),
  );
  const summaryOf = (given: Row[], equal: Record<number, number> | null) => {
    const engine = new Engine();
    engine.append("rows", 0, encodeBlock(given.map((row) => ({ ...row, reward: 20 * Number(row.reward) })), 0));
    return engine.summary("agent", equal)[0];
  };
  const found = summaryOf(rows, { 3: 0, 4: 1, 5: 2 });
  expect([found.tasks, found.interval]).toEqual([6, summaryOf(repeated, {}).interval]);
  expect(found.interval).not.toEqual(summaryOf(rows, {}).interval);
  expect(summaryOf(rows, null).interval).toBeNull();
});

test("an interval reaches to the largest reward", () => {
  expect(boundedInterval({ low: -9, high: 9 }, Float64Array.of(-1, 3))).toEqual({ low: -1, high: 3 });
  expect(boundedInterval({ low: 0.2, high: 0.4 }, Float64Array.of(0, 1))).toEqual({ low: 0.2, high: 0.4 });
});

test("the curve of scores equals every draw", () => {
  for (const scores of [[0, 1, 1, 0], [0.5, 0.25, 1, 1, -2], [3]]) {
    const sorted = Float64Array.from(scores).sort();
    for (let k = 1; k <= scores.length; k++) expect(expectedMax(sorted, 0, sorted.length, k)).toBeCloseTo(drawn(scores, k), 12);
  }
});
