/** Why this reward: the fields that the verifier added to the row, and those of the task. */

import type { VNode } from "preact";

import { number } from "../format.ts";
import { JsonTree } from "../parts/json_tree.tsx";
import { LongText } from "../parts/long_text.tsx";
import { panelOf } from "../parts/panel.tsx";
import type { Json, JsonObject } from "../source/answers.ts";

const OWN = new Set(["responses_create_params", "response", "agent_ref", "reward"]);
/** Fields of every row that are shown only if they say something. */
const QUIET = new Set(["failure_kind", "failure_reason", "mask_sample"]);

interface Fields {
  verifier: [string, Json][];
  task: [string, Json][];
}

/** Fields before `reward` came with the task; the verifier wrote those after it. */
export function fieldsOf(row: JsonObject): Fields {
  const names = Object.keys(row);
  const reward = names.indexOf("reward");
  const entries = Object.entries(row).filter(([name, value]) => {
    if (name.startsWith("_ng_failure")) return true;
    if (name === "panel" && panelOf(row)) return false; // shown above the transcript
    return !OWN.has(name) && !name.startsWith("_ng_") && !(QUIET.has(name) && !value);
  });
  const isTask = ([name]: [string, Json]) => reward >= 0 && names.indexOf(name) < reward;
  return { verifier: entries.filter((entry) => !isTask(entry)), task: entries.filter(isTask) };
}

export function Reward({ row }: { row: JsonObject }): VNode {
  const { verifier, task } = fieldsOf(row);
  const reward = row.reward;
  return (
    <aside class="reward" aria-label="Why this reward">
      <h2>Why this reward</h2>
      <p class="reward-value">{typeof reward === "number" ? number(reward) : "no reward"}</p>
      {verifier.length ? <Entries entries={verifier} /> : <p class="muted">The verifier added no fields.</p>}
      {task.length > 0 && (
        <>
          <h2>Fields of the task</h2>
          <Entries entries={task} />
        </>
      )}
    </aside>
  );
}

function Entries({ entries }: { entries: [string, Json][] }): VNode {
  return (
    <dl class="fields">
      {entries.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {typeof value === "string" ? (
              <LongText text={value} />
            ) : value !== null && typeof value === "object" ? (
              <JsonTree value={value} open={0} />
            ) : (
              <span>{typeof value === "number" ? number(value) : String(value)}</span>
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}
