/** What a run has spent in all of its starts: by model with its role, environment and agent. */

import type { VNode } from "preact";

import { number, whole } from "../format.ts";
import type { Json, JsonObject } from "../source/answers.ts";
import type { Run } from "../state/run.ts";

interface Expense {
  kind: string;
  name: string;
  counts: number[];
  cost: number | null;
  seconds: number | null;
}

const COUNTS = ["calls", "input", "cached", "output"];

export function Expenses({ run }: { run: Run }): VNode | null {
  const spent = spentIn(run.detail.value?.manifest ?? null);
  if (!spent) return null;
  const rows = expensesIn(spent);
  const hasCost = rows.some(({ cost }) => cost !== null);
  return (
    <section class="expenses">
      <h2>Spent</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Spent">
        <table class="list">
          <thead>
            <tr>
              <th>by</th>
              <th>name</th>
              {COUNTS.map((name) => <th key={name} class="right">{name}</th>)}
              {hasCost && <th class="right">cost</th>}
              <th class="right">seconds</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ kind, name, counts, cost, seconds }) => (
              <tr key={`${kind} ${name}`}>
                <td>{kind}</td>
                <td>{name}</td>
                {counts.map((count, place) => <td key={COUNTS[place]} class="right">{whole(count)}</td>)}
                {hasCost && <td class="right">{cost === null ? "–" : cost.toFixed(4)}</td>}
                <td class="right">{number(seconds)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="note">All attempts of all starts, failed ones too.</p>
    </section>
  );
}

/** The expenses that the last start with any has told. */
export function spentIn(manifest: JsonObject | null): JsonObject | null {
  const starts = Array.isArray(manifest?.starts) ? manifest.starts : [];
  const told = starts.map((start) => objectIn(objectIn(start)?.spent ?? null)).filter((spent) => spent !== null);
  return told.at(-1) ?? null;
}

/** The rows of the table. Members of another form are left out. */
export function expensesIn(spent: JsonObject): Expense[] {
  const models = (Array.isArray(spent.models) ? spent.models : []).map(objectIn).filter((each) => each !== null);
  const hasPrices = models.some(({ cost }) => typeof cost === "number");
  const rows = [sumUp("run", "", models, hasPrices ? numberIn(spent.cost) : null, numberIn(spent.seconds))];
  for (const model of models) {
    rows.push(sumUp(String(model.role), `${model.model} (${model.server})`, [model], numberIn(model.cost), null));
  }
  for (const kind of ["environment", "agent"]) {
    for (const [name, part] of Object.entries(objectIn(spent[`${kind}s`] ?? null) ?? {})) {
      const known = objectIn(part) ?? {};
      const servers = Object.values(objectIn(known.servers ?? null) ?? {}).map(objectIn).filter((each) => each !== null);
      rows.push(sumUp(kind, name, servers, hasPrices ? numberIn(known.cost) : null, numberIn(known.seconds)));
    }
  }
  return rows;
}

function sumUp(kind: string, name: string, servers: JsonObject[], cost: number | null, seconds: number | null): Expense {
  const counts = COUNTS.map((key) => servers.reduce((sum, server) => sum + (numberIn(server[key]) ?? 0), 0));
  return { kind, name, counts, cost, seconds };
}

function objectIn(value: Json | undefined): JsonObject | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : null;
}

function numberIn(value: Json | undefined): number | null {
  return typeof value === "number" ? value : null;
}
