/** Where the pages read runs from: a server, or the file that holds the page. Both give the same answers by path. */

import type { FileKind } from "../columns/engine.ts";
import type { EqualTasks } from "../columns/summary.ts";
import type {
  Blocks, Card, Comparison, FailureGroup, Flag, Json, LogPart, Nodes, Place, Ranking, RunDetail, RunEntry, RunTable, SearchEvent, Tokens,
} from "./answers.ts";

/** Gives the answer to a GET request of a path below `/api/`. */
export interface Transport {
  /** Whether the answers may change. */
  readonly isLive: boolean;
  get(path: string, signal?: AbortSignal): Promise<Response>;
}

/** An answer that is an error, with the server's advice. */
export class SourceError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly remedy: string | null,
  ) {
    super(message);
  }
}

const MOST_CARDS = 100;

export class Source {
  private last: { text: string; runs: RunEntry[] } = { text: "", runs: [] };

  constructor(private transport: Transport) {}

  get isLive(): boolean {
    return this.transport.isLive;
  }

  /** The runs. An answer that is the same as the last one is the same list. */
  async runs(): Promise<RunEntry[]> {
    const text = await (await this.get("runs")).text();
    if (text !== this.last.text) this.last = { text, runs: (JSON.parse(text) as { runs: RunEntry[] }).runs };
    return this.last.runs;
  }

  run(id: string): Promise<RunDetail> {
    return this.json(`runs/${id}`);
  }

  /** The blocks from number `from` on. */
  async blocks(id: string, kind: FileKind, from: number): Promise<Blocks> {
    const response = await this.get(`runs/${id}/blocks?kind=${kind}&from=${from}`);
    const number = (name: string) => Number(response.headers.get(name) ?? 0);
    return {
      bytes: new Uint8Array(await response.arrayBuffer()),
      sealed: number("x-blocks-sealed"),
      generation: number("x-generation"),
      indexedBytes: number("x-indexed-bytes"),
      totalBytes: number("x-total-bytes"),
    };
  }

  /** The blocks of the whole run, in a file that may hold some of its rows. */
  async figures(id: string, kind: FileKind): Promise<Uint8Array> {
    return new Uint8Array(await (await this.get(`runs/${id}/figures?kind=${kind}`)).arrayBuffer());
  }

  /** The row as it is in the file. */
  async row(id: string, { kind, start, length }: Place): Promise<string> {
    const response = await this.get(`runs/${id}/rows/${start}-${length}?kind=${kind}`);
    const bytes = await response.arrayBuffer();
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes); // keeps a byte order mark
  }

  /** The cards of at most 100 rows, in their order. */
  async cards(id: string, kind: FileKind, places: { start: number; length: number }[]): Promise<Card[]> {
    const at = places.slice(0, MOST_CARDS).map(({ start, length }) => `${start}-${length}`);
    return (await this.json<{ cards: Card[] }>(`runs/${id}/cards?kind=${kind}&at=${at.join(",")}`)).cards;
  }

  tokens(id: string, { kind, start, length }: Place, signal?: AbortSignal): Promise<Tokens> {
    return this.json(`runs/${id}/tokens/${start}-${length}?kind=${kind}`, signal);
  }

  /** Which tasks of the run are equal. */
  async equalTasks(id: string): Promise<EqualTasks> {
    return (await this.json<{ firsts: EqualTasks }>(`runs/${id}/equal_tasks`)).firsts;
  }

  async failures(id: string): Promise<FailureGroup[]> {
    return (await this.json<{ groups: FailureGroup[] }>(`runs/${id}/failures`)).groups;
  }

  /** The machines of the run's gym; `nodes` is null for a run on one machine. */
  nodes(id: string): Promise<{ nodes: Nodes | null }> {
    return this.json(`runs/${id}/nodes`);
  }

  /** The lines of a log of a machine or replica before a time, or its last lines. */
  log(id: string, file: string, at: number | null): Promise<LogPart> {
    const before = at === null ? "" : `&at=${at}`;
    return this.json(`runs/${id}/log?file=${encodeURIComponent(file)}${before}`);
  }

  async flags(id: string, signal?: AbortSignal): Promise<Flag[]> {
    return (await this.json<{ flags: Flag[] }>(`runs/${id}/flags`, signal)).flags;
  }

  compare(before: string, after: string): Promise<Comparison> {
    return this.json(`compare?before=${before}&after=${after}`);
  }

  table(ids: string[]): Promise<RunTable> {
    return this.json(`table?runs=${ids.join()}`);
  }

  rank(ids: string[]): Promise<Ranking> {
    return this.json(`rank?runs=${ids.join()}`);
  }

  /** Stream the rows that hold a text. Aborting `signal` stops the search. */
  async *search(id: string, kind: FileKind, text: string, signal: AbortSignal): AsyncGenerator<SearchEvent> {
    const response = await this.get(`runs/${id}/search?kind=${kind}&q=${encodeURIComponent(text)}`, signal);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      const lines = (rest + (value ?? "")).split("\n");
      rest = done ? "" : lines.pop()!;
      for (const line of lines) if (line) yield JSON.parse(line) as SearchEvent;
      if (done) return;
    }
  }

  private async json<T>(path: string, signal?: AbortSignal): Promise<T> {
    return (await this.get(path, signal)).json() as Promise<T>;
  }

  private async get(path: string, signal?: AbortSignal): Promise<Response> {
    const response = await this.transport.get(path, signal);
    if (!response.ok) throw await errorOf(response);
    return response;
  }
}

async function errorOf(response: Response): Promise<SourceError> {
  const body = (await response.json().catch(() => null)) as { error?: Record<string, Json> } | null;
  const error = body?.error ?? {};
  const message = typeof error.message === "string" ? error.message : `The server answered ${response.status}.`;
  return new SourceError(message, response.status, typeof error.remedy === "string" ? error.remedy : null);
}
