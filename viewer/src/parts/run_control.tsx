/** The hand on a run that goes on. Each button first shows what would change; a second one does it. */

import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";

import { number, plural, whole } from "../format.ts";
import { readControl, sendControl, type ControlAsked, type ControlState } from "../source/control.ts";
import { source, type Run } from "../state/run.ts";

const POLL = 2000;
const SHOWN = 5;

export function RunControl({ run }: { run: Run }): VNode | null {
  const [state, setState] = useState<ControlState | null>(null);
  const isRunning = source.isLive && run.detail.value?.state === "running";
  useEffect(() => {
    if (!isRunning) return setState(null);
    const controller = new AbortController();
    const follow = () => readControl(run.id, controller.signal).then(setState, () => undefined);
    void follow();
    const timer = setInterval(follow, POLL);
    return () => {
      controller.abort();
      clearInterval(timer);
    };
  }, [run, isRunning]);
  return state && <Panel run={run} state={state} onState={setState} />;
}

function Panel({ run, state, onState }: { run: Run; state: ControlState; onState: (state: ControlState) => void }): VNode {
  const [asked, setAsked] = useState<{ asked: ControlAsked; changes: string[] } | null>(null);
  const [told, setTold] = useState<string | null>(null);
  const send = async (verb: ControlAsked["verb"], body: ControlAsked["body"] = {}) => {
    const next = { verb, body };
    try {
      const { changes } = await sendControl(run.id, next, true);
      setTold(changes.length ? null : "Nothing would change.");
      setAsked(changes.length ? { asked: next, changes } : null);
    } catch (error) {
      setAsked(null);
      setTold((error as Error).message);
    }
  };
  const confirm = async () => {
    if (!asked) return;
    try {
      const answer = await sendControl(run.id, asked.asked, false);
      setTold(`Done: ${answer.changes.join("; ")}`);
      onState(answer);
    } catch (error) {
      setTold((error as Error).message);
    }
    setAsked(null);
  };
  const flying = Object.entries(state.in_flight);
  const failed = Object.entries(state.failed);
  const isStarting = state.phase === "running" || state.phase === "paused";
  const spent = state.counts.spent;
  return (
    <section class="control" aria-label="control">
      <h2>Control</h2>
      <p>
        <strong>{state.phase}</strong>, {whole(state.counts.settled)} of {whole(state.counts.planned)} rollouts,{" "}
        {plural(flying.length, "rollout")} in flight of {state.num_samples_in_parallel}
        {failed.length > 0 && `, failed: ${failed.map(([name, count]) => `${name} ${whole(count)}`).join(", ")}`}
        {spent && `, spent: ${whole(spent.tokens)} tokens${spent.cost ? `, cost ${number(spent.cost)}` : ""}`}
      </p>
      <p class="verbs">
        {state.phase === "running" && <button type="button" onClick={() => send("pause")}>Pause</button>}
        {state.phase === "paused" && <button type="button" onClick={() => send("resume")}>Resume</button>}
        {isStarting && <Concurrency state={state} onSet={(body) => send("set", body)} />}
        {isStarting && failed.length > 0 && <button type="button" onClick={() => send("requeue")}>Requeue failed</button>}
        {isStarting && <button type="button" onClick={() => send("drain")}>Drain</button>}
      </p>
      {asked && (
        <div class="notice" role="alertdialog" aria-label="confirm">
          {asked.changes.map((change) => <p key={change}>{change}</p>)}
          <button type="button" onClick={confirm}>Do it</button> <button type="button" onClick={() => setAsked(null)}>Leave it</button>
        </div>
      )}
      {told && <p role="status">{told}</p>}
      {flying.length > 0 && (
        <ul class="flying">
          {flying.slice(0, SHOWN).map(([name, seconds]) => (
            <li key={name}>
              rollout {name}, {number(seconds)} s{" "}
              <button type="button" onClick={() => send("cancel", { rollouts: [name] })}>Cancel</button>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Concurrency({ state, onSet }: { state: ControlState; onSet: (body: ControlAsked["body"]) => void }): VNode {
  const now = state.num_samples_in_parallel;
  const [value, setValue] = useState(String(now));
  const wanted = value === "auto" ? value : Number(value);
  return (
    <form
      class="inline"
      onSubmit={(event) => {
        event.preventDefault();
        onSet({ num_samples_in_parallel: wanted });
      }}
    >
      <label>
        in flight <input size={5} value={value} onInput={(event) => setValue(event.currentTarget.value.trim())} />
      </label>{" "}
      <button type="submit">Set</button>
    </form>
  );
}
