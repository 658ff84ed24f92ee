/** What a run is: its model, environments, sampling, date and tags, as a line. */

import type { VNode } from "preact";

import { samplingOf } from "../columns/run_filter.ts";
import { date } from "../format.ts";
import type { JsonObject } from "../source/answers.ts";

export interface Facts {
  models: string[];
  environments: string[];
  sampling: JsonObject;
  tags: string[];
  started_at: string | null;
}

export function RunFacts({ run, before }: { run: Facts; before?: string }): VNode | null {
  const words = [
    run.models.join(", "),
    run.environments.join(", "),
    samplingOf(run.sampling),
    run.started_at === null ? "" : `started ${date(run.started_at)} UTC`,
  ].filter(Boolean);
  if (!words.length && !run.tags.length) return null;
  return (
    <p class="muted facts">
      {before && <strong>{before}: </strong>}
      {words.join(" · ")} <Tags tags={run.tags} />
    </p>
  );
}

export function Tags({ tags }: { tags: string[] }): VNode {
  return <>{tags.map((tag) => <span key={tag} class="tag">{tag}</span>)}</>;
}
