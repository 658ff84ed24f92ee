/** The machines of a run's gym: as they are now or were at the end of the run, and what has happened to them. */

import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { ago, moment, number, plural, whole } from "../format.ts";
import { LongText } from "../parts/long_text.tsx";
import { causeAt, countFailures, failuresQuery } from "../parts/node_events.ts";
import { Badge, Empty, ErrorNotice, Loading } from "../parts/notices.tsx";
import type { Machine, NodeEvent, Nodes, Replica } from "../source/answers.ts";
import { useLoaded } from "../state/load.ts";
import { linkTo } from "../state/route.ts";
import { source, type Run } from "../state/run.ts";

const SHOWN = 100;

interface Props {
  run: Run;
  parameters: URLSearchParams;
}

export function NodesPage({ run, parameters }: Props): VNode {
  const detail = run.detail.value;
  const { value: nodes, error } = useLoaded(() => source.nodes(run.id), [run, detail]);
  if (error) return <ErrorNotice error={error} />;
  if (!detail || nodes === null) return <Loading />;
  if (!nodes.nodes) return <Empty>The run has no nodes: its servers ran on one machine.</Empty>;
  const at = parameters.get("at");
  const server = parameters.get("server");
  const cause = at || server ? causeAt(nodes.nodes.events, at === null ? Infinity : Number(at), server) : null;
  const log = parameters.get("log");
  return (
    <>
      <h1>Nodes</h1>
      <p class="muted" role="status">{standing(nodes.nodes)}</p>
      <MachineTable run={run} nodes={nodes.nodes} />
      {log && !cause && <Log run={run} file={log} at={null} />}
      <ReplicaTable run={run} replicas={nodes.nodes.replicas} />
      <Events run={run} nodes={nodes.nodes} chosen={cause} log={log} />
    </>
  );
}

function standing({ standing: state, at }: Nodes): string {
  switch (state) {
    case "current":
      return "The gym is running. Loads and requests in flight are some seconds old.";
    case "ended":
      return `The gym has ended: its nodes at ${moment(at)} UTC.`;
    case "kept":
      return `The nodes at the end of the run, ${moment(at)} UTC.`;
    default:
      return `The gym has not written since ${moment(at)} UTC (${ago(at)}): it was killed, or its machine stopped.`;
  }
}

function logLink(run: Run, log: string, at: number | null): string {
  return linkTo([run.id, "nodes"], { log, at: at === null ? null : String(at) });
}

function LogLink({ run, log, of, at = null }: { run: Run; log: string; of: string; at?: number | null }): VNode | null {
  if (!log || !source.isLive) return null; // an exported file has no logs
  return (
    <a href={logLink(run, log, at)}>
      log<span class="visually-hidden"> of {of}</span>
    </a>
  );
}

function MachineTable({ run, nodes }: { run: Run; nodes: Nodes }): VNode {
  const most = Math.min(nodes.nodes.length, SHOWN);
  return (
    <section>
      <div class="scroll" tabIndex={0} role="group" aria-label="Nodes">
        <table class="list">
          <thead>
            <tr>
              <th>Node</th>
              <th>Address</th>
              <th>State</th>
              <th class="right">Load</th>
              <th class="right">In flight</th>
              <th class="right" title="The most requests that were in flight at any look">Most</th>
              <th class="right">Restarts</th>
              <th class="right">Losses</th>
              <th class="right" title="The highest generation of its replicas">Generation</th>
              {source.isLive && <th>Log</th>}
              <th>Replicas</th>
            </tr>
          </thead>
          <tbody>{nodes.nodes.slice(0, SHOWN).map((machine) => <MachineRow key={machine.name} run={run} machine={machine} />)}</tbody>
        </table>
      </div>
      {nodes.nodes.length > most && <p class="muted">{plural(nodes.nodes.length - most, "further node")} not shown.</p>}
    </section>
  );
}

function MachineRow({ run, machine }: { run: Run; machine: Machine }): VNode {
  const replicas = Object.entries(machine.replicas).map(([server, count]) => (count > 1 ? `${server} ×${count}` : server));
  return (
    <tr>
      <td class="strong">{machine.name}</td>
      <td>{machine.address || "–"}</td>
      <td><Badge>{machine.state}</Badge></td>
      <td class="right">{machine.load.toFixed(1)}</td>
      <td class="right">{whole(machine.in_flight)}</td>
      <td class="right">{whole(machine.most_in_flight)}</td>
      <td class={`right ${machine.restarts ? "bad" : ""}`}>{whole(machine.restarts)}</td>
      <td class={`right ${machine.losses ? "bad" : ""}`}>{whole(machine.losses)}</td>
      <td class="right">{machine.generation ? number(machine.generation) : "–"}</td>
      {source.isLive && <td><LogLink run={run} log={machine.log} of={machine.name} /></td>}
      <td class="replicas">{replicas.join(", ") || "–"}</td>
    </tr>
  );
}

function ReplicaTable({ run, replicas }: { run: Run; replicas: Replica[] }): VNode | null {
  const [shown, setShown] = useState(SHOWN);
  if (!replicas.length) return null;
  return (
    <section>
      <h2>Replicas</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Replicas">
        <table class="list">
          <thead>
            <tr>
              <th>Server</th>
              <th>Node</th>
              <th>State</th>
              <th class="right">Generation</th>
              <th class="right">Restarts</th>
              {source.isLive && <th>Log</th>}
            </tr>
          </thead>
          <tbody>
            {replicas.slice(0, shown).map((each) => (
              <tr key={`${each.server} ${each.replica}`}>
                <td>{each.server} #{each.replica}</td>
                <td>{each.node}</td>
                <td><Badge>{each.state}</Badge></td>
                <td class="right">{whole(each.generation)}</td>
                <td class="right">{whole(each.restarts)}</td>
                {source.isLive && <td><LogLink run={run} log={each.log} of={`${each.server} #${each.replica}`} /></td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <More left={replicas.length - shown} onMore={() => setShown(shown + SHOWN)} />
    </section>
  );
}

interface EventsProps {
  run: Run;
  nodes: Nodes;
  chosen: NodeEvent | null;
  log: string | null;
}

function Events({ run, nodes, chosen, log }: EventsProps): VNode {
  const latest = [...nodes.events].reverse();
  const place = chosen ? latest.indexOf(chosen) + 1 : 0;
  const [shown, setShown] = useState(SHOWN);
  const most = Math.max(shown, Math.ceil(place / SHOWN) * SHOWN);
  const { value: counts } = useLoaded(() => countFailures(run.columns, nodes.events), [run.version.value, nodes.events.length]);
  const logOf = (name: string) => nodes.nodes.find((machine) => machine.name === name)?.log ?? "";
  return (
    <section>
      <h2>What has happened, the latest first</h2>
      {!latest.length && <p class="muted">No node was lost, and no replica has moved.</p>}
      <ol class="events" role="list">
        {latest.slice(0, most).map((event, at) => (
          <Event
            key={`${event.at} ${at}`} run={run} event={event} events={nodes.events} log={logOf(event.node)}
            failures={counts?.get(event.at) ?? 0} isChosen={event === chosen} shownLog={event === chosen ? log : null}
          />
        ))}
      </ol>
      <More left={latest.length - most} onMore={() => setShown(most + SHOWN)} />
      {nodes.left_out > 0 && <p class="muted">{plural(nodes.left_out, "earlier event")} not kept.</p>}
    </section>
  );
}

interface EventProps {
  run: Run;
  event: NodeEvent;
  events: NodeEvent[];
  log: string;
  failures: number;
  isChosen: boolean;
  shownLog: string | null;
}

function Event({ run, event, events, log, failures, isChosen, shownLog }: EventProps): VNode {
  const item = useRef<HTMLLIElement>(null);
  const attempts = linkTo([run.id, "rollouts"], { kind: "failures", q: failuresQuery(event, events) });
  useEffect(() => {
    if (isChosen) item.current?.scrollIntoView({ block: "nearest" });
  }, [isChosen]);
  return (
    <li ref={item} class={isChosen ? "active" : ""} aria-current={isChosen ? "true" : undefined}>
      <time dateTime={`${moment(event.at)}Z`}>{moment(event.at).replace("T", " ")}</time>
      <Badge>{event.kind}</Badge>
      <span class="words">{event.text}</span>
      {failures > 0 && <a href={attempts}>{plural(failures, "failed attempt")}</a>}
      <LogLink run={run} log={log} of={event.node} at={event.at} />
      {shownLog && <Log run={run} file={shownLog} at={event.at} />}
    </li>
  );
}

function Log({ run, file, at }: { run: Run; file: string; at: number | null }): VNode {
  const { value, error } = useLoaded(() => source.log(run.id, file, at), [run, file, at]);
  if (error) return <ErrorNotice error={error} />;
  return (
    <section class="card log" aria-label={`Log ${file}`}>
      <h2>{file}{at === null ? ", its last lines" : ", before this"}</h2>
      {!value ? <Loading /> : value.lines.length ? <LongText text={value.lines.join("\n")} /> : <p class="muted">It has no lines of that time.</p>}
    </section>
  );
}

function More({ left, onMore }: { left: number; onMore: () => void }): VNode | null {
  if (left <= 0) return null;
  return <button type="button" class="more" onClick={onMore}>show {whole(Math.min(left, SHOWN))} of {whole(left)} more</button>;
}
