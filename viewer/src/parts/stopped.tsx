/** The state of a run that ended before its plan: its rows so far, and the way to the others. */

import type { VNode } from "preact";

import { plural, whole } from "../format.ts";
import type { Run } from "../state/run.ts";

export function Stopped({ run }: { run: Run }): VNode | null {
  const detail = run.detail.value;
  if (detail?.state !== "stopped" || !run.version.value) return null;
  const planned = detail.planned === null ? "" : ` of ${whole(detail.planned)} planned`;
  return (
    <div class="notice" role="status">
      <p>
        {detail.end === null
          ? "The run ended without a closing: it was killed, or its machine stopped."
          : `The run was stopped before its end (${detail.end}).`}{" "}
        There are {plural(run.count("rows"), "scored rollout")}{planned}, and {plural(run.count("failures"), "failed attempt")}.
        All of them are whole.
      </p>
      <p>
        The same command with <code>+resume_from_cache=true</code> (<code>gym</code>: <code>--resume</code>) attempts the
        rollouts that are missing.
      </p>
    </div>
  );
}
