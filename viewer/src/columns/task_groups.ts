/** The groups of rows: the rollouts of one task by one agent. Rollouts of two agents are no sample of either's policy. */

import { Codes } from "./column.ts";
import type { Table } from "./table.ts";

export class TaskGroups {
  /** The agents of all tables, by number. */
  private readonly agents: (string | null)[];

  constructor(tables: Table[]) {
    this.agents = [...new Set(tables.flatMap((table) => (codesOf(table)?.values ?? []) as (string | null)[]))];
  }

  /** The group of each row as a number. It is the task if there is one agent. */
  numbers(table: Table, rows?: Uint32Array): Float64Array {
    const numbers = table.numbers("task", rows);
    const codes = codesOf(table);
    if (this.agents.length < 2 || !codes) return numbers;
    const agents = Int32Array.from(codes.values, (agent) => this.agents.indexOf(agent as string | null));
    for (let at = 0; at < numbers.length; at++) {
      numbers[at] = numbers[at] * this.agents.length + agents[codes.data[rows ? rows[at] : at]];
    }
    return numbers;
  }

  taskOf(group: number): number {
    return this.agents.length < 2 ? group : Math.floor(group / this.agents.length);
  }

  /** The agent of a group; null if there is one agent. */
  agentOf(group: number): string | null {
    return this.agents.length < 2 ? null : this.agents[group - this.taskOf(group) * this.agents.length];
  }
}

function codesOf(table: Table): Codes | null {
  const store = table.column("agent")?.store;
  return store instanceof Codes ? store : null;
}
