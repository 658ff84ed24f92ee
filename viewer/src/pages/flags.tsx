/** Signs of reward hacking and of broken data. A flag is a reason to look, never a verdict. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";

import { whole } from "../format.ts";
import { looksFine } from "../parts/looks_fine.tsx";
import { Empty, ErrorNotice, Loading } from "../parts/notices.tsx";
import { kept } from "../state/kept.ts";
import { useLoaded } from "../state/load.ts";
import { source, type Run } from "../state/run.ts";
import { RowLinks } from "./failures.tsx";

const SHOWN = 100;
const stored = kept<string[]>("flags-off", []);

export function FlagsPage({ run }: { run: Run }): VNode {
  const version = run.version.value;
  const [off, setOff] = useState(stored.read);
  const { value: flags, error } = useLoaded((signal) => source.flags(run.id, signal), [run, version > 0]);
  if (error) return <ErrorNotice error={error} />;
  if (!flags || !version) return <Loading />;
  const found = flags.filter(({ count }) => count > 0);
  const toggle = (name: string) => {
    const next = off.includes(name) ? off.filter((other) => other !== name) : [...off, name];
    setOff(next);
    stored.write(next);
  };
  return (
    <>
      <h1>Flags</h1>
      <p class="muted">A flag is a reason to look at a rollout. It is not a verdict, and no reward depends on it.</p>
      {!found.length && <Empty>None of the {flags.length} rules applies to a rollout of this run.</Empty>}
      {[...found, ...flags.filter(({ count }) => !count)].map(({ name, rule, rows, count }) => {
        const isOn = !off.includes(name);
        return (
          <section key={name} class="card">
            <h2>
              <label>
                <input type="checkbox" checked={isOn} onChange={() => toggle(name)} /> {name}
              </label>
              <span class="muted"> {whole(count)}</span>
            </h2>
            <p class="muted">{rule}</p>
            {isOn && count > 0 && (
              <RowLinks
                run={run} kind="rows" spans={rows.slice(0, SHOWN)} version={version}
                note={({ cells }) => (looksFine(`${run.detail.value?.path} ${cells.task}/${cells.rollout}`) ? " fine" : "")}
              />
            )}
            {isOn && count > SHOWN && <p class="muted">The first {SHOWN} are shown.</p>}
          </section>
        );
      })}
    </>
  );
}
