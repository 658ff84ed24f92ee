/** Failed attempts by cause. */

import type { VNode } from "preact";

import { plural, whole } from "../format.ts";
import { quoted } from "../columns/query.ts";
import { isNodeLost } from "../parts/node_events.ts";
import { Empty, ErrorNotice, Loading } from "../parts/notices.tsx";
import { LongText } from "../parts/long_text.tsx";
import type { FailureGroup, RowSpan } from "../source/answers.ts";
import { useLoaded } from "../state/load.ts";
import { linkTo } from "../state/route.ts";
import { source, type Run } from "../state/run.ts";
import { attemptLink } from "./rollout.tsx";

/** The group of the failures of many classes, which is no class itself (`failure_groups.py`). */
const FURTHER = "(further classes)";

export function FailuresPage({ run }: { run: Run }): VNode {
  const version = run.version.value;
  const { value: groups, error } = useLoaded(() => source.failures(run.id), [run, version]);
  if (error) return <ErrorNotice error={error} />;
  if (!groups || !version) return <Loading />;
  const [held, all] = run.detail.value?.held?.failures ?? [0, 0];
  if (!groups.length) return <Empty>{all ? `The page holds none of the run's ${plural(all, "failed attempt")}.` : "The run has no failures."}</Empty>;
  const count = groups.reduce((sum, group) => sum + group.count, 0);
  const settled = groups.reduce((sum, group) => sum + group.settled, 0);
  return (
    <>
      <h1>{plural(count, "failed attempt")}{held < all && ` of ${whole(all)}`}, by cause</h1>
      {settled > 0 && <p class="notice">{settled === count ? "All of them were" : `${whole(settled)} of them ${settled === 1 ? "was" : "were"}`} attempted again, and the rollouts have rows.</p>}
      {groups.map((group, at) => <Group key={at} run={run} group={group} version={version} />)}
    </>
  );
}

function Group({ run, group, version }: { run: Run; group: FailureGroup; version: number }): VNode {
  const { failure_class: failure, count, settled, message, remedy, server, place, rows, log } = group;
  return (
    <section class="card">
      <h2>
        {failure === FURTHER ? failure : <a href={linkTo([run.id, "rollouts"], { kind: "failures", q: `failure:${quoted(failure)}` })}>{failure}</a>}
        <span class="muted"> {whole(count)}{settled > 0 && `, ${settled === count ? "all" : whole(settled)} with a row by now`}</span>
        {server && <span class="muted"> · {server}</span>}
      </h2>
      <LongText text={message} />
      {place && <p class="muted">raised at {place}</p>}
      {remedy && <p class="remedy">{remedy}</p>}
      {run.detail.value?.nodes && isNodeLost(failure) && (
        <p><a href={linkTo([run.id, "nodes"], { server })}>What has happened to the nodes</a></p>
      )}
      <RowLinks run={run} spans={rows} version={version} />
      {log.map(({ file, lines }) => (
        <details key={file} class="log" open>
          <summary>{file}, before the first of them</summary>
          <LongText text={lines.join("\n")} />
        </details>
      ))}
    </section>
  );
}

interface LinksProps {
  run: Run;
  spans: RowSpan[];
  version: number;
}

/** Links to rows that are given by their place in the file. */
function RowLinks({ run, spans, version }: LinksProps): VNode {
  const read = () => run.columns.rowsAt("failures", spans.map(([start]) => start), ["task", "rollout", "attempt"]);
  const { value: rows } = useLoaded(read, [run, version, spans.length]);
  return (
    <ul class="row-links">
      {(rows ?? []).map((row) => (
        <li key={row.start}>
          <a href={attemptLink(run, row)}>
            {String(row.cells.task)}/{String(row.cells.rollout)}
          </a>
        </li>
      ))}
    </ul>
  );
}
