/** The frame of all pages: head line, sections of a run, help; and the page of the address. */

import { effect } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { percent } from "./format.ts";
import { ComparePage } from "./pages/compare.tsx";
import { ConfigPage } from "./pages/config.tsx";
import { FailuresPage } from "./pages/failures.tsx";
import { FlagsPage } from "./pages/flags.tsx";
import { NodesPage } from "./pages/nodes.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { RankPage } from "./pages/rank.tsx";
import { RolloutPage } from "./pages/rollout.tsx";
import { RolloutsPage } from "./pages/rollouts.tsx";
import { RunsPage } from "./pages/runs.tsx";
import { TablePage } from "./pages/table.tsx";
import { TaskPage } from "./pages/task.tsx";
import { Badge, Empty, Problems } from "./parts/notices.tsx";
import { Stopped } from "./parts/stopped.tsx";
import { keys, useKeys } from "./state/keys.ts";
import { go, linkTo, route } from "./state/route.ts";
import { embedded, runOf, type Run } from "./state/run.ts";
import { changeTheme, theme } from "./state/theme.ts";

const SECTIONS = [
  ["", "Overview"],
  ["rollouts", "Rollouts"],
  ["failures", "Failures"],
  ["nodes", "Nodes"],
  ["flags", "Flags"],
  ["config", "Configuration"],
] as const;

effect(() => {
  const words = route.value.path.slice(1).join(" ");
  document.title = words ? `${words} – rollouts` : "Rollouts";
});

export function App(): VNode {
  const { path } = route.value;
  const isRun = path.length > 0 && !["compare", "rank", "table"].includes(path[0]);
  const run = isRun ? runOf(path[0]) : null;
  const detail = run?.detail.value;
  const [help, setHelp] = useState(false);
  useKeys(
    [
      { key: "?", help: "Show or hide this list", act: () => setHelp((shown) => !shown) },
      { key: "t", help: "Light, dark, or as the system", act: changeTheme },
      { key: "o", help: "Overview of the run", act: () => run && go(linkTo([run.id])) },
      { key: "r", help: "Rollouts of the run", act: () => run && go(linkTo([run.id, "rollouts"])) },
      { key: "f", help: "Failures of the run", act: () => run && go(linkTo([run.id, "failures"])) },
      ...(run?.detail.value?.nodes ? [{ key: "n", help: "Nodes of the run", act: () => go(linkTo([run.id, "nodes"])) }] : []),
    ],
    [run, !run?.detail.value?.nodes],
  );
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        Skip to the content
      </a>
      <Head run={run} onHelp={() => setHelp(true)} />
      {embedded && <aside class="embedded-note">{embedded.note}</aside>}
      {run?.problem.value && <p class="notice error" role="alert">{run.problem.value}</p>}
      {detail && <div class="run-problems"><Problems problems={detail.problems} /></div>}
      <main id="main" tabIndex={-1}>
        {run && path.length === 1 && <Stopped run={run} />}
        <Page run={run} />
      </main>
      {help && <Help onClose={() => setHelp(false)} />}
    </>
  );
}

function Page({ run }: { run: Run | null }): VNode {
  const { path, parameters } = route.value;
  if (!path.length) return <RunsPage />;
  if (path[0] === "table") return <TablePage key={path.join()} ids={path.slice(1)} />;
  if (path[0] === "rank") return <RankPage key={path.join()} ids={path.slice(1)} />;
  if (!run) return <ComparePage key={path.join()} before={path[1] ?? ""} after={path[2] ?? ""} />;
  const key = run.id;
  switch (path[1]) {
    case undefined:
      return <OverviewPage key={key} run={run} />;
    case "rollouts":
      return <RolloutsPage key={key} run={run} />;
    case "task":
      return <TaskPage key={`${key} ${path[2]}`} run={run} task={Number(path[2])} />;
    case "rollout":
      return <RolloutPage run={run} task={Number(path[2])} rollout={Number(path[3])} parameters={parameters} />;
    case "failures":
      return <FailuresPage key={key} run={run} />;
    case "nodes":
      return <NodesPage key={key} run={run} parameters={parameters} />;
    case "flags":
      return <FlagsPage key={key} run={run} />;
    case "config":
      return <ConfigPage key={key} run={run} />;
    default:
      return <Empty>There is no page at this address.</Empty>;
  }
}

function Head({ run, onHelp }: { run: Run | null; onHelp: () => void }): VNode {
  const { path } = route.value;
  const detail = run?.detail.value;
  const section = path[1] === "task" || path[1] === "rollout" ? "rollouts" : (path[1] ?? "");
  return (
    <header class="head">
      <a class="home" href="#/" aria-label="All runs">
        Runs
      </a>
      {run && <span class="title">{detail?.title ?? run.id}</span>}
      {detail && <Badge>{detail.state}</Badge>}
      {run && run.indexed.value < 1 && <span class="muted" role="status">indexing {percent(run.indexed.value)}</span>}
      {run && (
        <nav aria-label="Pages of the run">
          {SECTIONS.filter(([name]) => name !== "nodes" || detail?.nodes).map(([name, title]) => (
            <a key={name} href={linkTo(name ? [run.id, name] : [run.id])} aria-current={name === section ? "page" : undefined}>
              {title}
            </a>
          ))}
        </nav>
      )}
      <span class="gap" />
      <button type="button" class="quiet" onClick={changeTheme} title="Light, dark, or as the system (t)">
        {{ system: "Auto", light: "Light", dark: "Dark" }[theme.value]}
        <span class="visually-hidden"> colours; change</span>
      </button>
      <button type="button" class="quiet" onClick={onHelp} aria-label="Keys" title="Keys (?)">
        ?
      </button>
    </header>
  );
}

function Help({ onClose }: { onClose: () => void }): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={onClose} aria-label="Keys">
      <h2>Keys of this page</h2>
      <dl class="keys">
        {keys.value.flat().map(({ key, help }) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{help}</dd>
          </div>
        ))}
      </dl>
      <p>
        <button type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </p>
    </dialog>
  );
}
