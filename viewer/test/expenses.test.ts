/** The table of expenses, of any manifest. */

import { expect, test } from "vitest";

import { expensesIn, spentIn } from "../src/parts/expenses.tsx";

const POLICY = { calls: 4, input: 2000, cached: 80, output: 40, cost: 0.0123 };
const SPENT = {
  tokens: 2040,
  cost: 0.0123,
  seconds: 75,
  models: [{ server: "policy_model", model: "mock", role: "policy", ...POLICY }],
  environments: { mcqa: { tokens: 2040, cost: 0.0123, seconds: 75, servers: { policy_model: POLICY } } },
  agents: {},
};

test("expenses are told by the run, its models and its environments", () => {
  expect(expensesIn(SPENT)).toEqual([
    { kind: "run", name: "", counts: [4, 2000, 80, 40], cost: 0.0123, seconds: 75 },
    { kind: "policy", name: "mock (policy_model)", counts: [4, 2000, 80, 40], cost: 0.0123, seconds: null },
    { kind: "environment", name: "mcqa", counts: [4, 2000, 80, 40], cost: 0.0123, seconds: 75 },
  ]);
});

test("a run without prices has no cost", () => {
  const models = SPENT.models.map((model) => ({ ...model, cost: null }));
  expect(expensesIn({ ...SPENT, models }).map(({ cost }) => cost)).toEqual([null, null, null]);
});

test("the last start that told expenses counts, and other forms are left out", () => {
  expect(spentIn({ starts: [{ spent: { tokens: 1 } }, { spent: SPENT }, { end: null }, 7] })).toEqual(SPENT);
  expect(spentIn({ starts: "none" })).toBeNull();
  expect(spentIn(null)).toBeNull();
  expect(expensesIn({ models: [7, { input: "x" }], agents: [], environments: { a: null } })).toHaveLength(3);
});
