/** The field of the filter, with its problems in place. */

import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { Problem } from "../columns/query.ts";

const PAUSE = 150; // milliseconds without typing

interface Props {
  query: string;
  problems: Problem[];
  onQuery: (query: string) => void;
}

export function FilterField({ query, problems, onQuery }: Props): VNode {
  const [text, setText] = useState(query);
  const sent = useRef(query);
  useEffect(() => {
    if (query !== sent.current) setText(query);
    sent.current = query;
  }, [query]);
  useEffect(() => {
    if (text === sent.current) return undefined;
    const timer = setTimeout(() => {
      sent.current = text;
      onQuery(text);
    }, PAUSE);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div class="filter">
      <input
        id="filter" type="search" value={text} spellcheck={false} autocomplete="off"
        placeholder={'reward<1 agent:swe* tokens>4k "permission denied"'} aria-label="Filter"
        aria-describedby={problems.length ? "filter-problems" : undefined} aria-invalid={problems.length > 0}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
      />
      {problems.length > 0 && (
        <div id="filter-problems" role="status">
          {problems.map((problem) => <Marked key={`${problem.at} ${problem.message}`} text={text} problem={problem} />)}
        </div>
      )}
    </div>
  );
}

function Marked({ text, problem: { at, length, message } }: { text: string; problem: Problem }): VNode {
  return (
    <p class="problem">
      <code>
        {text.slice(Math.max(0, at - 20), at)}
        <mark>{text.slice(at, at + length) || " "}</mark>
        {text.slice(at + length, at + length + 20)}
      </code>
      <span>
        At {at + 1}: {message}
      </span>
    </p>
  );
}

/** Add a label to the filter, or take it away if the filter has it. */
export function withLabel(query: string, term: string): string {
  const terms = query.trim();
  const padded = ` ${terms} `;
  if (padded.includes(` ${term} `)) return padded.replace(` ${term} `, " ").trim();
  return terms ? `${terms} ${term}` : term;
}
