/** Seconds by phase and tokens of each agent, and the seconds of its calls. */

import type { VNode } from "preact";

import { PHASES, type Summary } from "../columns/summary.ts";
import { plural, seconds, whole } from "../format.ts";
import { slowestOf, timedCallsIn, type TimedServer } from "../parts/call_seconds.ts";
import type { Json } from "../source/answers.ts";

interface Props {
  agents: Summary[];
  /** Those of the run's metrics, which a run has when it ends. */
  metrics: Json;
}

export function TimeTable({ agents, metrics }: Props): VNode | null {
  const known = agents.filter((agent) => agent.seconds !== null || agent.tokens !== null);
  if (!known.length) return null;
  const calls = timedCallsIn(metrics);
  const phases = PHASES.filter((phase) => known.some((agent) => agent.phases.some(([name]) => name === phase)));
  return (
    <section>
      <h2>Seconds and tokens of a rollout</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Seconds and tokens of a rollout">
        <table class="list">
          <thead>
            <tr>
              <th>Agent</th>
              <th class="right">Seconds</th>
              {phases.map((phase) => <th key={phase} class="right">{phase} s</th>)}
              <th class="right">Tokens</th>
              <th class="right">Output tokens</th>
            </tr>
          </thead>
          <tbody>
            {known.map((agent) => (
              <tr key={agent.label}>
                <td class="name">{agent.label ?? "none"}</td>
                <td class="right strong">{seconds(agent.seconds)}</td>
                {phases.map((phase) => <td key={phase} class="right">{seconds(agent.phases.find(([name]) => name === phase)?.[1])}</td>)}
                <td class="right">{rounded(agent.tokens)}</td>
                <td class="right">{rounded(agent.outputTokens)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {calls.length > 0 && <Calls calls={calls} slowest={describeSlowest(agents, calls)} />}
    </section>
  );
}

function Calls({ calls, slowest }: { calls: TimedServer[]; slowest: string[] }): VNode {
  return (
    <>
      {slowest.length > 0 && <p>Slowest, waits and starts of workers included: {slowest.join(", ")}.</p>}
      <details>
        <summary>{plural(calls.length, "server or tool", "servers and tools")}, with the seconds of a call</summary>
        <div class="scroll" tabIndex={0} role="group" aria-label="Seconds of a call">
          <table class="list">
            <thead>
              <tr>
                <th>Agent</th>
                <th>Called</th>
                <th class="right">Calls</th>
                <th class="right">Mean</th>
                <th class="right">Longest</th>
              </tr>
            </thead>
            <tbody>
              {calls.map(({ agent, kind, name, count, mean, longest }) => (
                <tr key={`${agent} ${kind} ${name}`}>
                  <td>{agent}</td>
                  <td>{kind} {name}</td>
                  <td class="right">{whole(count)}</td>
                  <td class="right">{seconds(mean)}</td>
                  <td class="right">{seconds(longest)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </>
  );
}

/** The slowest tool and the slowest verifier, as the closing table of a run names them. */
function describeSlowest(agents: Summary[], calls: TimedServer[]): string[] {
  const tool = slowestOf(calls.filter(({ kind }) => kind === "tool"), ({ mean }) => mean);
  const verifiers = agents.flatMap(({ label, phases }) => phases.filter(([name]) => name === "verify").map(([, mean]) => ({ label, mean })));
  const verifier = slowestOf(verifiers, ({ mean }) => mean);
  return [
    ...(tool ? [`tool ${tool.name} of ${tool.agent} (${seconds(tool.mean)} s a call)`] : []),
    ...(verifier ? [`verifier of ${verifier.label ?? "none"} (${seconds(verifier.mean)} s a call)`] : []),
  ];
}

function rounded(tokens: number | null): string {
  return tokens === null ? "–" : whole(Math.round(tokens));
}
