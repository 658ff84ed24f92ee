/** The configuration of a run, its metrics, and its files. */

import type { VNode } from "preact";

import { bytes } from "../format.ts";
import { JsonTree } from "../parts/json_tree.tsx";
import { Loading } from "../parts/notices.tsx";
import type { Run } from "../state/run.ts";

export function ConfigPage({ run }: { run: Run }): VNode {
  const detail = run.detail.value;
  if (!detail) return <Loading />;
  return (
    <>
      <h1>Configuration and files</h1>
      <section>
        <h2>Files</h2>
        <div class="scroll" tabIndex={0} role="group" aria-label="Files">
          <table class="list">
            <thead>
              <tr>
                <th>File</th>
                <th>Content</th>
                <th class="right">Size</th>
                <th>Authoritative</th>
              </tr>
            </thead>
            <tbody>
              {detail.files.map(({ name, role, bytes: size, authoritative }) => (
                <tr key={name}>
                  <td class="path">{name}</td>
                  <td>{role}</td>
                  <td class="right">{bytes(size)}</td>
                  <td>{authoritative ? "yes" : <span class="muted">made from the others</span>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <p class="muted">
          File of rows: <code>{detail.path}</code>. With DuckDB: <code>select * from read_json('{detail.path}')</code>
        </p>
      </section>
      <section>
        <h2>Manifest and configuration</h2>
        {detail.manifest ? <JsonTree value={detail.manifest} open={2} /> : <p class="muted">The run has no manifest.</p>}
      </section>
      <section>
        <h2>Metrics of the file</h2>
        {detail.metrics ? <JsonTree value={detail.metrics} open={1} /> : <p class="muted">The run has no aggregate metrics yet.</p>}
      </section>
    </>
  );
}
