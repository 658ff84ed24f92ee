/** `npm run bench`: times of the columns of a million rows, in milliseconds (minimum, median). Nothing is asserted. */

import { test } from "vitest";

import { Engine } from "../src/columns/engine.ts";
import { frame, joined, Random } from "./fixtures.ts";

const ROWS = 1_000_000;
const BLOCK_ROWS = 4096;

/** A block of random numbers, written without rows. */
function blockOf(random: Random, first: number, rows: number, start: number): { bytes: Uint8Array; end: number } {
  const parts: Uint8Array[] = [];
  let at = 0;
  let end = start;
  const write = (name: string, kind: string, data: Int8Array | Int16Array | Int32Array | Float64Array, values?: unknown[]) => {
    const padded = new Uint8Array(Math.ceil(data.byteLength / 8) * 8);
    padded.set(new Uint8Array(data.buffer));
    parts.push(padded);
    at += padded.length;
    return { name, kind, at: at - padded.length, ...(values && { values }) };
  };
  const lengths = Int16Array.from({ length: rows }, () => 3000 + random.below(2000));
  for (const length of lengths) end += length;
  const below = (bound: number) => () => random.below(bound);
  const columns = [
    write("length", "i2", lengths),
    write("task", "i4", Int32Array.from({ length: rows }, (_, row) => (first + row) >> 3)),
    write("rollout", "i1", Int8Array.from({ length: rows }, (_, row) => (first + row) & 7)),
    { name: "attempt", same: 0 },
    write("reward", "i1", Int8Array.from({ length: rows }, below(3)), [0, 1, null]),
    write("seconds", "f8", Float64Array.from({ length: rows }, () => random.next() * 100)),
    write("score", "f8", Float64Array.from({ length: rows }, () => random.next())),
    write("output_tokens", "i2", Int16Array.from({ length: rows }, below(8000))),
    write("total_tokens", "i4", Int32Array.from({ length: rows }, below(100_000))),
    write("tool_calls", "i1", Int8Array.from({ length: rows }, below(30))),
    write("outcome", "i1", Int8Array.from({ length: rows }, below(3)), ["completed", "truncated", "failed"]),
    write("agent", "i1", Int8Array.from({ length: rows }, below(3)), ["swe_a", "swe_b", "math"]),
    write("end_reason", "i1", Int8Array.from({ length: rows }, below(2)), ["final_answer", "max_steps"]),
  ];
  return { bytes: frame({ rows, start, end, tail: 0, columns }, joined(parts)), end };
}

function timed(name: string, times: number, run: () => unknown): void {
  const took: number[] = [];
  let result: unknown;
  for (let round = 0; round < times; round++) {
    const began = performance.now();
    result = run();
    took.push(performance.now() - began);
  }
  took.sort((one, other) => one - other);
  console.log(name.padEnd(56), took[0].toFixed(1).padStart(8), took[times >> 1].toFixed(1).padStart(8), " ", String(result));
}

test.runIf(import.meta.env.MODE === "bench")("a million rows", { timeout: 600_000 }, () => {
  const random = new Random(1);
  const blocks: Uint8Array[] = [];
  for (let first = 0, start = 0; first < ROWS; first += BLOCK_ROWS) {
    const { bytes, end } = blockOf(random, first, Math.min(BLOCK_ROWS, ROWS - first), start);
    blocks.push(bytes);
    start = end;
  }
  const bytes = joined(blocks);
  const engine = new Engine();
  const count = (query: string, column?: string) =>
    engine.select({ kind: "rows", query, sort: column ? { column, descending: true } : null, hits: null }).count;
  timed(`decode ${bytes.length} bytes`, 3, () => engine.append("rows", 0, bytes).rows);
  for (const query of [
    ...["", "reward<1", "agent:swe*", "tokens>50k", "seconds<10", "reward<1 agent:swe* tokens>4k"],
    ...["score>0.5 seconds>50 output_tokens<1k", "-outcome:completed", "task:77", "end:max_steps calls>=20 reward=1"],
    ...["reward:none", "score!=0 -agent:math outcome:failed,truncated"],
  ]) {
    timed(`filter ${query}`, 7, () => count(query));
  }
  for (const column of ["seconds", "total_tokens", "reward", "agent"]) {
    timed(`first order by ${column}`, 3, () => (engine.append("rows", 245, new Uint8Array(0)), count("", column)));
    timed(`filter, and known order by ${column}`, 7, () => count("reward<1 agent:swe*", column));
  }
  count("");
  timed("facets", 7, () => engine.facets(["outcome", "agent", "end_reason"]).length);
  timed("groups by task", 5, () => engine.group(8, null, false));
  timed("groups by task, ordered", 5, () => engine.group(8, "mean", true));
  timed("four histograms", 5, () => engine.histograms(["reward", "seconds", "total_tokens", "tool_calls"]).length);
  timed("summary", 3, () => engine.summary("agent", {}).length);
  timed("a page at row 750,000", 7, () => engine.page(750_000, 40, ["task", "reward", "agent", "seconds"]).length);
  timed("attempts at a task", 5, () => engine.attempts(90_000, ["reward"]).length);
  timed("rows that hold a text", 5, () => engine.select({ kind: "rows", query: "", sort: null, hits: [0, 5] }).count);
});
