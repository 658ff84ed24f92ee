/** Signs of reward hacking and of broken data. A flag is a reason to look, never a verdict. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";

import { plural, whole } from "../format.ts";
import { looksFine, SaveMarks } from "../parts/looks_fine.tsx";
import { Empty, ErrorNotice, Loading } from "../parts/notices.tsx";
import { kept } from "../state/kept.ts";
import { useLoaded } from "../state/load.ts";
import type { Finding, Flag } from "../source/answers.ts";
import type { RowCells } from "../columns/engine.ts";
import { linkTo } from "../state/route.ts";
import { source, type Run } from "../state/run.ts";
import { attemptLink } from "./rollout.tsx";

const stored = kept<string[]>("flags-off", []);

export function FlagsPage({ run }: { run: Run }): VNode {
  const version = run.version.value;
  const [off, setOff] = useState(stored.read);
  const { value: flags, error } = useLoaded((signal) => source.flags(run.id, signal), [run, version > 0]);
  if (error) return <ErrorNotice error={error} />;
  if (!flags || !version) return <Loading />;
  const [held, all] = run.detail.value?.held?.rows ?? [0, 0];
  const found = flags.filter(({ count }) => count > 0);
  const toggle = (name: string) => {
    const next = off.includes(name) ? off.filter((other) => other !== name) : [...off, name];
    setOff(next);
    stored.write(next);
  };
  return (
    <>
      <div class="bar">
        <h1>Flags</h1>
        <span class="gap" />
        <SaveMarks run={run} />
      </div>
      <p class="muted">A flag is a reason to look at a rollout. It is not a verdict, and no reward depends on it.</p>
      {held < all && <p class="notice">The rules saw the {whole(held)} of {plural(all, "rollout")} that are in this page.</p>}
      {!found.length && <Empty>None of the {flags.length} rules applies to a rollout of this {held < all ? "page" : "run"}.</Empty>}
      {[...found, ...flags.filter(({ count }) => !count)].map((flag) => (
        <FlagCard key={flag.name} run={run} flag={flag} isOn={!off.includes(flag.name)} onToggle={() => toggle(flag.name)} />
      ))}
    </>
  );
}

interface CardProps {
  run: Run;
  flag: Flag;
  isOn: boolean;
  onToggle: () => void;
}

function FlagCard({ run, flag, isOn, onToggle }: CardProps): VNode {
  const { name, severity, rule, count, findings } = flag;
  return (
    <section class="card">
      <h2>
        <label>
          <input type="checkbox" checked={isOn} onChange={onToggle} /> {name.replaceAll("_", " ")}
        </label>
        <span class="muted">
          {" "}
          {whole(count)} · {severity}
        </span>
      </h2>
      <p class="muted">{rule}</p>
      {isOn && findings.length > 0 && <Findings run={run} findings={findings} />}
      {isOn && count > findings.length && <p class="muted">The first {whole(findings.length)} are shown.</p>}
    </section>
  );
}

function Findings({ run, findings }: { run: Run; findings: Finding[] }): VNode {
  const starts = findings.flatMap(({ place }) => (place ? [place[0]] : []));
  const { value: rows } = useLoaded(() => run.columns.rowsAt("rows", starts, ["task", "rollout", "attempt"]), [run, findings]);
  const known = new Map(rows?.map((row) => [row.start, row]));
  return (
    <ul class="findings">
      {findings.map((finding, at) => (
        <li key={at}>
          <FindingLink run={run} finding={finding} row={finding.place ? known.get(finding.place[0]) : undefined} /> {finding.text}
        </li>
      ))}
    </ul>
  );
}

function FindingLink({ run, finding, row }: { run: Run; finding: Finding; row: RowCells | undefined }): VNode {
  if (!row) {
    return finding.task === null ? <></> : <a href={linkTo([run.id, "task", finding.task])}>task {finding.task}</a>;
  }
  const { task, rollout } = row.cells;
  return (
    <>
      <a href={attemptLink(run, row)}>
        {task}/{rollout}
      </a>
      {looksFine(run, row) && <span class="good"> looks fine</span>}
    </>
  );
}
