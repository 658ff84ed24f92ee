/** The panel of an environment (`nemo_gym/serving/panel.py`). It is not trusted: a part that does not fit is JSON. */

import type { VNode } from "preact";

import type { Json, JsonObject } from "../source/answers.ts";
import { isImage, isObject } from "./items.ts";
import { JsonTree } from "./json_tree.tsx";
import { LongText } from "./long_text.tsx";

const MOST_ROWS = 500;

interface PanelContent {
  title: string;
  fields: JsonObject[];
}

/** The panel in a row: in the answer of its verifier, or in the `info` of its last step. */
export function panelOf(row: JsonObject): PanelContent | null {
  const found = isObject(row.panel) ? row.panel : isObject(row.info) && isObject(row.info.panel) ? row.info.panel : null;
  if (!found || !Array.isArray(found.fields)) return null;
  return { title: typeof found.title === "string" ? found.title : "", fields: found.fields.filter(isObject) };
}

export function Panel({ row }: { row: JsonObject }): VNode | null {
  const panel = panelOf(row);
  if (!panel) return null;
  return (
    <section class="panel" aria-label="Panel of the environment">
      <h2>{panel.title || "Panel of the environment"}</h2>
      {panel.fields.map((field, at) => (
        <div key={at} class="panel-field">
          {typeof field.title === "string" && field.title && <p class="piece-title">{field.title}</p>}
          <Content field={field} />
        </div>
      ))}
    </section>
  );
}

function Content({ field }: { field: JsonObject }): VNode {
  const { kind, text, url, columns, rows } = field;
  if (kind === "diff" && typeof text === "string") return <Diff text={text} />;
  if ((kind === "text" || kind === "code") && typeof text === "string") return <LongText text={text} />;
  if (kind === "image" && typeof url === "string" && isImage(url)) return <img src={url} alt="Image of the environment" />;
  if ((kind === "table" || kind === "board") && isTable(rows)) {
    const names = kind === "table" && Array.isArray(columns) ? columns : [];
    return <Cells kind={kind} columns={names} rows={rows} />;
  }
  return <JsonTree value={field} open={2} />;
}

function isTable(rows: Json | undefined): rows is Json[][] {
  return Array.isArray(rows) && rows.every((row) => Array.isArray(row));
}

function Cells({ kind, columns, rows }: { kind: "table" | "board"; columns: Json[]; rows: Json[][] }): VNode {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={kind === "table" ? "Table" : "Board"}>
      <table class={kind === "table" ? "list" : "board"}>
        {columns.length > 0 && <thead><tr>{columns.map((name, at) => <th key={at}>{shown(name)}</th>)}</tr></thead>}
        <tbody>
          {rows.slice(0, MOST_ROWS).map((row, at) => (
            <tr key={at}>{row.map((cell, column) => <td key={column}>{shown(cell)}</td>)}</tr>
          ))}
        </tbody>
      </table>
      {rows.length > MOST_ROWS && <p class="muted">{rows.length - MOST_ROWS} further rows are in the JSON.</p>}
    </div>
  );
}

function Diff({ text }: { text: string }): VNode {
  const lines = text.split("\n", MOST_ROWS + 1);
  if (lines.length > MOST_ROWS) return <LongText text={text} />;
  return (
    <pre class="text">
      {lines.map((line, at) => (
        <span key={at} class={line.startsWith("+") ? "good" : line.startsWith("-") ? "bad" : ""}>{`${line}\n`}</span>
      ))}
    </pre>
  );
}

function shown(cell: Json): string {
  return cell === null ? "" : typeof cell === "object" ? JSON.stringify(cell) : String(cell);
}
