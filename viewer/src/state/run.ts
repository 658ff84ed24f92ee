/** The run that the pages show: its details, and its columns, which follow the files while rows are added. */

import { signal, type Signal } from "@preact/signals";

import { columnsOf, postHere, postTo, type Columns } from "../columns/calls.ts";
import type { FileKind } from "../columns/engine.ts";
import type { Blocks, RunDetail } from "../source/answers.ts";
import { embeddedIn, transportOf } from "../source/embedded.ts";
import { http } from "../source/http.ts";
import { Source } from "../source/source.ts";

const RUNNING_POLL = 1000;
const POLL = 5000;

export const embedded = embeddedIn(document);
export const source = new Source(embedded ? transportOf(embedded) : http);

const post = embedded
  ? postHere
  : postTo(new Worker(new URL("../columns/worker.ts", import.meta.url), { type: "module" }));

interface FileState {
  generation: number;
  sealed: number;
  rows: number;
}

const UNREAD: FileState = { generation: 0, sealed: 0, rows: 0 };

/** One run, which is followed from its first use on. */
export class Run {
  readonly columns: Columns;
  /** The columns of the whole run. A file may hold some of its rows. */
  readonly figures: Columns;
  readonly detail: Signal<RunDetail | null> = signal(null);
  readonly problem: Signal<string | null> = signal(null);
  /** Rises with each answer that changed rows. 0: no rows have been read yet. */
  readonly version = signal(0);
  /** The share of the files that is indexed, from 0 to 1. */
  readonly indexed = signal(1);
  private files: Record<FileKind, FileState> = { rows: UNREAD, failures: UNREAD };

  constructor(readonly id: string) {
    this.columns = columnsOf(id, post);
    this.figures = source.isLive ? this.columns : columnsOf(`${id} figures`, post);
    void this.follow();
  }

  /** The rows of a file that were read so far. */
  count(kind: FileKind): number {
    return this.files[kind].rows;
  }

  private async follow(): Promise<void> {
    for (;;) {
      try {
        await Promise.all([source.run(this.id).then((detail) => (this.detail.value = detail)), this.read()]);
        this.problem.value = null;
      } catch (error) {
        this.problem.value = (error as Error).message;
      }
      if (!source.isLive) return;
      const isBusy = this.indexed.value < 1 || this.detail.value?.state === "running";
      await new Promise((resolve) => setTimeout(resolve, isBusy ? RUNNING_POLL : POLL));
      await untilVisible();
    }
  }

  private async read(): Promise<void> {
    const progress = { done: 0, total: 0 };
    for (const kind of ["rows", "failures"] as const) {
      if (!source.isLive) await this.figures.append(kind, 0, await source.figures(this.id, kind));
      const before = this.files[kind];
      let isMore = true;
      while (isMore) {
        const blocks = await source.blocks(this.id, kind, this.files[kind].sealed);
        isMore = await this.take(kind, blocks);
        progress.done += isMore ? 0 : blocks.indexedBytes;
        progress.total += isMore ? 0 : blocks.totalBytes;
        if (isMore || this.files[kind].rows !== before.rows) this.version.value += 1;
      }
    }
    this.indexed.value = progress.total ? Math.min(1, progress.done / progress.total) : 1;
    if (!this.version.value) this.version.value = 1;
  }

  /** Add blocks to the columns, and return whether the server has more of them. */
  private async take(kind: FileKind, blocks: Blocks): Promise<boolean> {
    const file = this.files[kind];
    if (blocks.generation !== file.generation && file.sealed > 0) {
      this.files[kind] = { ...UNREAD, generation: blocks.generation };
      await this.columns.append(kind, 0, new Uint8Array(0));
      return true;
    }
    const { rows, blocks: known } = await this.columns.append(kind, file.sealed, blocks.bytes);
    this.files[kind] = { generation: blocks.generation, sealed: Math.min(blocks.sealed, known), rows };
    return blocks.sealed > known && blocks.bytes.length > 0;
  }
}

/** Wait until the page is in view. */
export function untilVisible(): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    const check = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", check);
      resolve();
    };
    document.addEventListener("visibilitychange", check);
  });
}

const runs = new Map<string, Run>();

export function runOf(id: string): Run {
  let run = runs.get(id);
  if (!run) runs.set(id, (run = new Run(id)));
  return run;
}
