/** Which event made attempts fail, and which attempts an event made fail. */

import type { Columns } from "../columns/calls.ts";
import { moment } from "../format.ts";
import type { NodeEvent } from "../source/answers.ts";

/** A lost node and a removed replica end calls. The collector may have the time of a failure before the event has its own. */
const CAUSES = new Set(["lost", "scaled"]);
const SLACK = 1; // second
const MOST_COUNTED = 50;
/** The end of the classes of failures that a lost or removed replica causes. */
const NODE_LOST = /(^|:)node_lost$/;

export function isNodeLost(failure: unknown): boolean {
  return typeof failure === "string" && NODE_LOST.test(failure);
}

/** The event at exactly this time, else the last loss until then: one of the server, if there is any. */
export function causeAt(events: NodeEvent[], at: number, server: string | null): NodeEvent | null {
  const exact = events.find((event) => event.at === at);
  if (exact) return exact;
  const losses = events.filter((event) => CAUSES.has(event.kind) && event.at <= at + SLACK);
  return losses.findLast(({ servers }) => server !== null && servers.includes(server)) ?? losses.at(-1) ?? null;
}

export function hasFailures(event: NodeEvent): boolean {
  return CAUSES.has(event.kind) && event.servers.length > 0;
}

/** The filter of the attempts that failed from the second of an event on, and before that of the next one. */
export function failuresQuery(event: NodeEvent, events: NodeEvent[]): string {
  const next = events.find((other) => other.at > event.at + SLACK && hasFailures(other));
  const until = next ? ` at<${moment(next.at)}` : "";
  return `failure:*node_lost at>=${moment(event.at)}${until}`;
}

/** The number of attempts that failed after each of the last events, by the time of the event. */
export async function countFailures(columns: Columns, events: NodeEvent[]): Promise<Map<number, number>> {
  const counts = new Map<number, number>();
  for (const event of events.filter(hasFailures).slice(-MOST_COUNTED)) {
    counts.set(event.at, await columns.count("failures", failuresQuery(event, events)));
  }
  return counts;
}
