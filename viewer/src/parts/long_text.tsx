/** Texts of any length: the beginning at first, and all of it on demand, with only the lines in view in the page. */

import type { VNode } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";

import { bytes } from "../format.ts";
import { formatted } from "../state/formatted.ts";
import { boundaryAt, Exact } from "./exact.tsx";
import { Formatted } from "./formatted.tsx";
import { px, useWindow } from "./window.ts";

const SHOWN = 6000;
/** Longer texts are shown as lines of a window. */
const WHOLE = 200_000;
const LINE_HEIGHT = 18;
const LINE_CHARS = 160;

export function LongText({ text }: { text: string }): VNode {
  const [all, setAll] = useState(false);
  if (all && text.length > WHOLE) return <Lines text={text} label="Text" />;
  const shown = all || text.length <= SHOWN * 1.2 ? text : text.slice(0, boundaryAt(text, SHOWN));
  return (
    <>
      <pre class="text exact">{formatted.value ? <Formatted text={shown} /> : <Exact text={shown} />}</pre>
      {shown.length < text.length && (
        <button type="button" class="more" onClick={() => setAll(true)}>
          show all ({bytes(text.length)})
        </button>
      )}
    </>
  );
}

/** A text in lines of one height. Long lines are broken; joined, the lines are the text. */
export function Lines({ text, label }: { text: string; label: string }): VNode {
  const starts = useMemo(() => lineStarts(text), [text]);
  const area = useRef<HTMLDivElement>(null);
  const { from, to, height, topOf } = useWindow(area, starts.length, LINE_HEIGHT);
  const lines = [];
  for (let line = from; line < to; line++) {
    const content = text.slice(starts[line], starts[line + 1] ?? text.length).replace(/\n$/, "");
    lines.push(
      <div key={line} class="line" style={{ top: px(topOf(line)) }}>
        <Exact text={content} />
      </div>,
    );
  }
  return (
    <div class="lines" ref={area} tabIndex={0} role="group" aria-label={label}>
      <div class="spacer" style={{ height: px(height) }}>
        {lines}
      </div>
    </div>
  );
}

/** The positions where lines begin: after line breaks, and inside of long lines. */
export function lineStarts(text: string): number[] {
  const starts: number[] = [];
  let at = 0;
  while (at < text.length) {
    starts.push(at);
    const found = text.indexOf("\n", at);
    const end = found < 0 ? text.length : found + 1;
    for (at += LINE_CHARS; at < end; at += LINE_CHARS) {
      at = boundaryAt(text, at);
      starts.push(at);
    }
    at = end;
  }
  return starts.length ? starts : [0];
}
