/** Blocks as the Python side writes them, and random tables with rows as plain objects beside them. */

import type { Value } from "../src/columns/block.ts";
import { Engine } from "../src/columns/engine.ts";

export type Row = Record<string, Value>;

/** Numbers that repeat for a seed. */
export class Random {
  private state: number;

  constructor(seed: number) {
    this.state = seed * 2654435769;
  }

  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  below(bound: number): number {
    return Math.floor(this.next() * bound);
  }

  pick<T>(choices: T[]): T {
    return choices[this.below(choices.length)];
  }
}

const ARRAYS = { i1: Int8Array, i2: Int16Array, i4: Int32Array, f8: Float64Array };

function smallest(numbers: number[]): keyof typeof ARRAYS {
  const largest = Math.max(...numbers.map((number) => (number < 0 ? -1 - number : number)), 0);
  return largest < 128 ? "i1" : largest < 32768 ? "i2" : largest < 2 ** 31 ? "i4" : "f8";
}

/** Encode rows as a block that begins at `start`. The choice of forms follows `row_index.py`. */
export function encodeBlock(rows: Row[], start: number): Uint8Array {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const body: number[] = [];
  const append = (kind: keyof typeof ARRAYS, numbers: number[]) => {
    const at = body.length;
    body.push(...new Uint8Array(ARRAYS[kind].from(numbers).buffer));
    while (body.length % 8) body.push(0);
    return { kind, at };
  };
  const columns = names.map((name) => {
    const values = rows.map((row) => row[name] ?? null);
    const different = [...new Set(values)];
    if (different.length === 1) return { name, same: values[0] };
    const numbers = values.map((value) => (value === null ? NaN : Number(value)));
    if (values.every((value) => typeof value === "number" && Number.isInteger(value))) {
      return { name, ...append(smallest(numbers), numbers) };
    }
    if (values.some((value) => typeof value === "string") || different.length < 128) {
      const codes = values.map((value) => different.indexOf(value));
      return { name, values: different, ...append(smallest(codes), codes) };
    }
    return { name, ...append("f8", numbers) };
  });
  const end = start + rows.reduce((sum, row) => sum + Number(row.length), 0);
  return frame({ rows: rows.length, start, end, tail: 0, columns }, Uint8Array.from(body));
}

/** A block with this head and body. */
export function frame(head: object, body: Uint8Array): Uint8Array {
  let text = new TextEncoder().encode(JSON.stringify(head));
  text = joined([text, new Uint8Array((8 - (text.length % 8)) % 8).fill(32)]);
  const block = joined([new Uint8Array(16), text, body]);
  const view = new DataView(block.buffer);
  view.setUint32(0, 0x3149474e, true);
  view.setUint32(4, text.length, true);
  view.setUint32(8, body.length, true);
  return block;
}

export function joined(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** Random rows. Columns change their kind, appear and vanish between blocks. */
export function randomRows(random: Random, count: number): Row[] {
  const wide = random.pick([1, 200, 40_000, 3e9]);
  const gaps = random.next() < 0.5;
  const fractions = random.next() < 0.5;
  return Array.from({ length: count }, (_, at) => ({
    length: 10 + random.below(random.pick([1, 300])),
    task: random.below(9),
    rollout: at,
    attempt: 0,
    reward: gaps && random.next() < 0.2 ? null : fractions ? random.below(5) / 4 : random.below(2),
    seconds: random.next() < 0.1 ? null : random.next() * 10 - 5,
    total_tokens: random.below(wide) - (random.next() < 0.1 ? wide : 0),
    ...(random.next() < 0.9 ? { rare: random.pick([-0, 0, 1.5, 1e300, -2]) } : {}),
    outcome: random.pick(["completed", "failed", "truncated"]),
    agent: random.pick(["swe_one", "swe two", "math", 'say "hi"', "a.b", null]),
    failure: random.next() < 0.8 ? null : random.pick(["timeout", "judge"]),
  }));
}

/** An engine with random blocks, and its rows. */
export function randomEngine(random: Random): { engine: Engine; rows: Row[] } {
  const engine = new Engine();
  const rows: Row[] = [];
  let start = 0;
  for (let block = 0; block < 1 + random.below(4); block++) {
    const more = randomRows(random, 1 + random.below(60));
    engine.append("rows", block, encodeBlock(more, start));
    rows.push(...more);
    start += more.reduce((sum, row) => sum + Number(row.length), 0);
  }
  return { engine, rows };
}
