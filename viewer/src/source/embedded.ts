/**
 * Answers that the file of the page holds itself.
 *
 * The element `<script type="application/json" id="run">` holds
 *
 *     {"note": text, "answers": {path: answer}}
 *
 * where a path is one of the server's below `/api/`. The answer of `runs/<id>/blocks?kind=…` (without `from`) is
 * `{"b64": bytes of all blocks}`; that of `runs/<id>/figures?kind=…` is the same for the whole run, whose rows the file may
 * not hold, and absent if it holds them all; that of `runs/<id>/rows/<start>-<length>?kind=…` is the row as text; that of
 * `runs/<id>/cards/<start>-<length>?kind=…` is one card; those of `table?runs=…` and `rank?runs=…` name runs in the order of
 * `runs`; all other answers are the server's JSON. Searches read the rows.
 */

import type { Json } from "./answers.ts";
import type { Transport } from "./source.ts";

export interface Embedded {
  /** The content of the file in words, such as "12 of 4,096 rollouts, scrubbed of 3 secrets". */
  note: string;
  answers: Record<string, Json>;
}

const EXCERPT = 60;

/** The answers that the page holds, or null if a server serves it. */
export function embeddedIn(page: Document): Embedded | null {
  const text = page.getElementById("run")?.textContent;
  return text ? (JSON.parse(text) as Embedded) : null;
}

export function transportOf({ answers }: Embedded): Transport {
  return { isLive: false, get: async (path) => answerTo(answers, path) };
}

function answerTo(answers: Record<string, Json>, path: string): Response {
  const [route, query = ""] = path.split("?");
  const parameters = new URLSearchParams(query);
  const kind = parameters.get("kind") ?? "rows";
  if (route.endsWith("/blocks")) return blocksAnswer(answers[`${route}?kind=${kind}`]);
  if (route.endsWith("/figures")) return blocksAnswer(answers[`${route}?kind=${kind}`] ?? answers[`${route.replace(/figures$/, "blocks")}?kind=${kind}`]);
  if (route.endsWith("/cards")) {
    const places = (parameters.get("at") ?? "").split(",");
    const cards = places.map((place) => answers[`${route}/${place}?kind=${kind}`] ?? { title: "", answer: "" });
    return Response.json({ cards });
  }
  if (route.endsWith("/search")) {
    const rows = route.replace(/search$/, "rows/");
    return new Response(searched(answers, rows, kind, parameters.get("q") ?? ""));
  }
  const chosen = parameters.get("runs");
  const answer = answers[chosen ? `${route}?runs=${inOrder(answers, chosen)}` : path];
  if (answer === undefined) {
    const message = "The file does not hold this.";
    return Response.json({ error: { message, remedy: "Open the run with `gym view`." } }, { status: 404 });
  }
  return typeof answer === "string" ? new Response(answer) : Response.json(answer);
}

/** The names of chosen runs, in the order of all runs of the file. */
function inOrder(answers: Record<string, Json>, chosen: string): string {
  const names = new Set(chosen.split(","));
  const { runs } = answers.runs as { runs: { id: string }[] };
  return runs.map(({ id }) => id).filter((id) => names.has(id)).join();
}

export function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function blocksAnswer(answer: Json | undefined): Response {
  const text = answer ? String((answer as { b64: string }).b64) : "";
  const bytes = decodeBase64(text);
  return new Response(bytes, { headers: { "x-blocks-sealed": "0" } });
}

/** The rows that hold a text, as the server streams them. */
function searched(answers: Record<string, Json>, route: string, kind: string, wanted: string): string {
  const lines: string[] = [];
  const needle = wanted.toLowerCase();
  for (const [path, answer] of Object.entries(answers)) {
    if (!path.startsWith(route) || !path.endsWith(`?kind=${kind}`)) continue;
    const text = String(answer);
    const found = text.toLowerCase().indexOf(needle);
    if (found < 0) continue;
    const [start, length] = path.slice(route.length).split("?")[0].split("-").map(Number);
    const from = Math.max(0, found - EXCERPT);
    const excerpt = text.slice(from, found + needle.length + EXCERPT);
    lines.push(JSON.stringify({ start, length, excerpt, at: found - from }));
  }
  lines.push(JSON.stringify({ end: true, hits: lines.length }));
  return lines.join("\n");
}
