/**
 * A text for reading: its formulas are set, and JSON is indented. Nothing else is changed: there is no Markdown, which
 * would drop characters. The source of a formula is kept beside it, and the indentation is no text of the page.
 */

import type { ComponentChildren, VNode } from "preact";
import { useEffect, useMemo } from "preact/hooks";

import { Exact } from "./exact.tsx";
import { formulasIn, jsonBreaks } from "./formula_places.ts";
import { loadSetter, mathOf, setter } from "./math.tsx";

/** Further formulas of a text are shown as they are. */
const MOST_FORMULAS = 300;

export function Formatted({ text }: { text: string }): VNode {
  const breaks = useMemo(() => jsonBreaks(text), [text]);
  return breaks ? <Indented text={text} breaks={breaks} /> : <WithFormulas text={text} />;
}

function Indented({ text, breaks }: { text: string; breaks: { at: number; depth: number }[] }): VNode {
  const parts: ComponentChildren[] = breaks.map(({ at, depth }, number) => [
    <Exact text={text.slice(breaks[number - 1]?.at ?? 0, at)} continues />,
    <span class="added" data-shown={`\n${"  ".repeat(depth)}`} />,
  ]);
  return <>{parts}<Exact text={text.slice(breaks.at(-1)?.at ?? 0)} /></>;
}

function WithFormulas({ text }: { text: string }): VNode {
  const places = useMemo(() => formulasIn(text, MOST_FORMULAS), [text]);
  useEffect(() => {
    if (places.length) loadSetter();
  }, [places]);
  const parts: VNode[] = [];
  let from = 0;
  for (const { start, end, tex, isBlock } of places) {
    const source = text.slice(start, end);
    parts.push(<Exact text={text.slice(from, start)} continues />, <Formula source={source} tex={tex} isBlock={isBlock} />);
    from = end;
  }
  return <>{parts}<Exact text={text.slice(from)} /></>;
}

function Formula({ source, tex, isBlock }: { source: string; tex: string; isBlock: boolean }): VNode {
  const katex = setter.value;
  const math = useMemo(() => katex && mathOf(katex, tex, isBlock), [katex, tex, isBlock]);
  if (!math) return <Exact text={source} continues />;
  return <span class={isBlock ? "formula block" : "formula"} data-source={source} title={source}>{math}</span>;
}
