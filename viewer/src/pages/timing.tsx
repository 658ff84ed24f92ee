/** The time of each phase of a rollout, and the tokens that it used. */

import type { VNode } from "preact";

import { seconds as secondsOf, whole } from "../format.ts";
import { Empty } from "../parts/notices.tsx";
import { callsOf, type TimedCall } from "../parts/call_seconds.ts";
import type { Json, JsonObject } from "../source/answers.ts";

function numbersOf(value: Json | undefined): [string, number][] {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return [];
  return Object.entries(value).filter((entry): entry is [string, number] => typeof entry[1] === "number");
}

/** The phases, with the sums of the calls of the policy loop (`act`) after it. */
function withCalls(timing: [string, number][], calls: TimedCall[]): [string, number][] {
  const sum = (isModel: boolean) => calls.reduce((whole, call) => whole + (call.isModel === isModel ? call.seconds : 0), 0);
  const parts: [string, number][] = [["calls of models", sum(true)], ["calls of tools", sum(false)]];
  return timing.flatMap((phase) => (phase[0] === "act" && calls.length ? [phase, ...parts] : [phase]));
}

export function TimingTab({ row }: { row: JsonObject }): VNode {
  const calls = callsOf(row);
  const timing = withCalls(numbersOf(row._ng_timing), calls);
  const response = row.response as JsonObject | null | undefined;
  const usage = numbersOf(row._ng_usage ?? response?.usage);
  if (!timing.length && !usage.length) return <Empty>The row has neither times nor token counts.</Empty>;
  const total = timing.find(([name]) => name === "total")?.[1] ?? Math.max(...timing.map(([, seconds]) => seconds));
  const longest = Math.max(...calls.map(({ seconds }) => seconds));
  return (
    <>
      {timing.length > 0 && (
        <table class="list timing">
          <caption>Seconds of each phase</caption>
          <tbody>
            {timing.map(([name, seconds]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td class="right">{secondsOf(seconds)}</td>
                <td class="wide">
                  <div class="bar-line" style={{ width: `${total > 0 ? Math.min(100, (100 * seconds) / total) : 0}%` }} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {calls.length > 0 && (
        <table class="list timing">
          <caption>Seconds of each call</caption>
          <tbody>
            {calls.map(({ server, path, seconds, isModel }, at) => (
              <tr key={at}>
                <th scope="row">{isModel ? `model ${server}` : `tool ${path.replace(/^\//, "")}`}</th>
                <td class="right">{secondsOf(seconds)}</td>
                <td class="wide">
                  <div class={`bar-line ${isModel ? "" : "tool"}`} style={{ width: `${longest > 0 ? (100 * seconds) / longest : 0}%` }} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {usage.length > 0 && (
        <table class="list timing">
          <caption>Tokens</caption>
          <tbody>
            {usage.map(([name, count]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td class="right">{whole(count)}</td>
                <td class="wide" />
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}
