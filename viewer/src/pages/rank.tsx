/** Models ranked by their runs: the plot, the table, and the differences that are beyond doubt. */

import type { VNode } from "preact";

import { plural, score } from "../format.ts";
import { Empty, ErrorNotice, Loading } from "../parts/notices.tsx";
import type { ComparedPair, RankedModel, Ranking } from "../source/answers.ts";
import { useLoaded } from "../state/load.ts";
import { source } from "../state/run.ts";

export function RankPage({ ids }: { ids: string[] }): VNode {
  const { value, error } = useLoaded(() => source.rank(ids), [ids.join()]);
  if (error) return <ErrorNotice error={error} />;
  if (!value) return <Loading />;
  return (
    <>
      <h1>{plural(value.models.length, "model")}</h1>
      <img class="ranks" alt="Means with 95 % intervals" src={`data:image/svg+xml,${encodeURIComponent(value.plot)}`} />
      <Models value={value} />
      <Shown value={value} />
      {value.notes.map((note) => <p key={note} class="muted">{note}</p>)}
    </>
  );
}

function Models({ value }: { value: Ranking }): VNode {
  const columns = [...(value.environments.length > 1 ? ["overall"] : []), ...value.environments];
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="Models">
      <table class="list">
        <thead>
          <tr>
            <th>Model</th>
            <th class="right">Rank</th>
            <th class="right">Ranks left open</th>
            {columns.map((name) => <th key={name} class="right">{name}</th>)}
            <th>Run's identity</th>
          </tr>
        </thead>
        <tbody>
          {value.models.map((model) => (
            <tr key={model.label}>
              <td>{model.label}</td>
              <td class="right">{model.rank.rank}</td>
              <td class="right">{model.rank.best} to {model.rank.worst}</td>
              {columns.map((name) => <Mean key={name} model={model} name={name} />)}
              <td class="muted">{model.identity ?? "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Mean({ model, name }: { model: RankedModel; name: string }): VNode {
  const bounds = Object.hasOwn(model.intervals, name) ? model.intervals[name] : null;
  return (
    <td class="right">
      {score(model.means[name])}{bounds && <span class="muted"> [{score(bounds[0])}, {score(bounds[1])}]</span>}
    </td>
  );
}

function Shown({ value }: { value: Ranking }): VNode {
  const shown = value.comparisons.filter((pair) => pair.is_shown);
  if (!shown.length) return <Empty>No difference is beyond doubt.</Empty>;
  return (
    <section>
      <h2>
        {shown.length} of {plural(value.comparisons.length, "difference")} beyond doubt, after the adjustment {value.adjustment}
      </h2>
      <ul>{shown.map((pair) => <li key={`${pair.environment} ${pair.first} ${pair.second}`}>{sentenceOf(pair)}</li>)}</ul>
    </section>
  );
}

function sentenceOf({ environment, first, second, difference, adjusted }: ComparedPair): string {
  const [better, worse] = difference > 0 ? [first, second] : [second, first];
  return `${environment}: ${better} is better than ${worse} by ${score(Math.abs(difference))} (p = ${adjusted.toPrecision(2)})`;
}
