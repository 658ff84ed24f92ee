/** The tokens of a rollout, as a trainer gets them: segments, log-probabilities, loss mask, seams and their reasons. */

import type { VNode } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";

import type { RowCells } from "../columns/engine.ts";
import { number, plural, whole } from "../format.ts";
import { Empty, ErrorNotice, Loading } from "../parts/notices.tsx";
import { leastLikely, linesOf, shadeOf, shownText, spanAt, textAt, versionsOf, type Shade } from "../parts/token_lines.ts";
import { px, useWindow } from "../parts/window.ts";
import type { TokenSegment, Tokens } from "../source/answers.ts";
import { SourceError } from "../source/source.ts";
import { useKeys } from "../state/keys.ts";
import { useLoaded } from "../state/load.ts";
import { source, type Run } from "../state/run.ts";

const LINE_HEIGHT = 24;
const LISTED = 50;
const SHADES: [Shade, string][] = [
  ["logprob", "log-probability"],
  ["mask", "loss mask"],
  ["policy", "policy version"],
  ["grammar", "grammar"],
];

export function TokensTab({ run, row }: { run: Run; row: RowCells }): VNode {
  const { value, error } = useLoaded((signal) => source.tokens(run.id, row, signal), [run, row.start]);
  if (error instanceof SourceError && error.status === 404) return <Empty>The row has no record of its tokens.</Empty>;
  if (error) return <ErrorNotice error={error} />;
  if (!value) return <Loading />;
  if (!value.segments.length) return <Empty>The record of the row has no segment.</Empty>;
  return <Segments tokens={value} />;
}

function Segments({ tokens }: { tokens: Tokens }): VNode {
  const { segments, masked_calls: masked } = tokens;
  const [chosen, setChosen] = useState(0);
  const [shade, setShade] = useState<Shade>("logprob");
  const [active, setActive] = useState(0);
  const segment = segments[chosen];
  const versions = useMemo(() => versionsOf(segments), [segments]);
  const unlikely = useMemo(() => leastLikely(segment, LISTED), [segment]);
  const shades = SHADES.filter(([name]) => (name === "grammar" ? segments.some(({ grammar }) => grammar) : name !== "policy" || versions.length > 1 || versions[0] !== "null"));
  const choose = (at: number) => (setChosen(at), setActive(0));
  const move = (by: number) => setActive((now) => Math.max(0, Math.min(segment.ids.length - 1, now + by)));
  const nextUnlikely = () => setActive((now) => unlikely[(unlikely.indexOf(now) + 1) % unlikely.length] ?? 0);
  useKeys(
    [
      { key: "n", help: "Next of the least likely tokens", act: nextUnlikely },
      { key: "j", help: "Next token", act: () => move(1) },
      { key: "k", help: "Previous token", act: () => move(-1) },
      { key: "s", help: "Next segment", act: () => choose((chosen + 1) % segments.length) },
      { key: "v", help: "Next colouring", act: () => setShade(shades[(shades.findIndex(([name]) => name === shade) + 1) % shades.length][0]) },
    ],
    [segment, active, shade, chosen],
  );
  return (
    <div class="tokens">
      <div class="bar">
        <div class="choice" role="group" aria-label="Segment">
          {segments.map(({ ids, mask }, at) => (
            <button key={at} type="button" aria-pressed={at === chosen} onClick={() => choose(at)}>
              segment {at + 1} of {segments.length} · {whole(ids.length)} ids · {whole(mask.reduce((sum, bit) => sum + bit, 0))} trained
            </button>
          ))}
        </div>
        <div class="choice" role="group" aria-label="Colour by">
          {shades.map(([name, title]) => (
            <button key={name} type="button" aria-pressed={name === shade} onClick={() => setShade(name)}>
              {title}
            </button>
          ))}
        </div>
      </div>
      {segment.reason && <p class="notice">The segment begins because of: {segment.reason}</p>}
      {masked.map(({ call, reason }) => <p key={call} class="notice">Call {call} is masked: {reason}</p>)}
      <Legend shade={shade} versions={versions} />
      <div class="split">
        <TokenText key={chosen} segment={segment} shade={shade} versions={versions} active={active} onActive={setActive} />
        <aside class="token-facts" aria-label="The chosen token">
          <Facts segment={segment} at={active} />
          <Unlikely segment={segment} positions={unlikely} active={active} onActive={setActive} />
        </aside>
      </div>
    </div>
  );
}

interface TextProps {
  segment: TokenSegment;
  shade: Shade;
  versions: string[];
  active: number;
  onActive: (at: number) => void;
}

function TokenText({ segment, shade, versions, active, onActive }: TextProps): VNode {
  const area = useRef<HTMLDivElement>(null);
  const lines = useMemo(() => linesOf(segment), [segment]);
  const { from, to, height, topOf, reveal } = useWindow(area, lines.length, LINE_HEIGHT);
  const shown = useRef(active);
  if (shown.current !== active) {
    shown.current = active;
    queueMicrotask(() => reveal(lines.findIndex(({ end }) => active < end)));
  }
  const onClick = (event: MouseEvent) => {
    const at = (event.target as HTMLElement).dataset.at;
    if (at) onActive(Number(at));
  };
  return (
    <div class="token-text" ref={area} tabIndex={0} role="group" aria-label="Tokens" onClick={onClick}>
      <div class="spacer" style={{ height: px(height) }}>
        {lines.slice(from, to).map(({ start, end, span }, at) => (
          <div key={start} class={`token-line ${span ? "seam" : ""}`} style={{ top: px(topOf(from + at)), height: px(LINE_HEIGHT) }}>
            <span class="gutter">{span ? `call ${span.call} ${span.part}` : start}</span>
            {Array.from({ length: end - start }, (_, offset) => {
              const position = start + offset;
              const tone = shadeOf(segment, position, spanAt(segment.spans, position), shade, versions);
              return (
                <span key={position} data-at={position} class={`token ${tone} ${position === active ? "active" : ""}`}>
                  {shownText(textAt(segment, position), segment.ids[position])}
                </span>
              );
            })}
          </div>
        ))}
      </div>
    </div>
  );
}

function Facts({ segment, at }: { segment: TokenSegment; at: number }): VNode {
  const span = spanAt(segment.spans, at);
  const logprob = segment.logprobs[at] ?? null;
  const text = textAt(segment, at);
  const facts: [string, string][] = [
    ["position", whole(at)],
    ["id", String(segment.ids[at])],
    ["text", text === null ? "not known" : typeof text === "string" ? JSON.stringify(text) : shownText(text, 0)],
    ["log-probability", logprob === null ? "none" : String(logprob)],
    ["probability", logprob === null ? "none" : `${(100 * Math.exp(logprob)).toPrecision(3)} %`],
    ["loss mask", segment.mask[at] ? "1, trained on" : "0, context"],
    ["call", span ? `${span.call}, ${span.part}` : "none"],
    ["policy version", span?.policy_version === undefined || span.policy_version === null ? "none" : JSON.stringify(span.policy_version)],
    ["grammar", segment.grammar?.[at] ? "sampled under a grammar" : "no"],
  ];
  return (
    <dl class="fields">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

interface UnlikelyProps {
  segment: TokenSegment;
  positions: number[];
  active: number;
  onActive: (at: number) => void;
}

function Unlikely({ segment, positions, active, onActive }: UnlikelyProps): VNode {
  if (!positions.length) return <p class="muted">No log-probability was recorded.</p>;
  return (
    <>
      <h2>Least likely (n)</h2>
      <ol class="unlikely">
        {positions.map((at) => (
          <li key={at}>
            <button type="button" aria-pressed={at === active} onClick={() => onActive(at)}>
              <code>{shownText(textAt(segment, at), segment.ids[at])}</code>
              <span class="muted">{number(segment.logprobs[at])}</span>
            </button>
          </li>
        ))}
      </ol>
    </>
  );
}

function Legend({ shade, versions }: { shade: Shade; versions: string[] }): VNode {
  const entries: [string, string][] =
    shade === "logprob"
      ? [["likely-0", "≥ 90 %"], ["likely-1", "≥ 61 %"], ["likely-2", "≥ 22 %"], ["likely-3", "≥ 5 %"], ["likely-4", "≥ 0.2 %"], ["likely-5", "less"], ["context", "none"]]
      : shade === "policy"
        ? [...versions.map((version, at): [string, string] => [`version-${at % 6}`, version]), ["context", "not sampled"]]
        : [["trained", shade === "mask" ? "trained on" : "sampled under a grammar"], ["context", shade === "mask" ? "context" : "free"]];
  return (
    <p class="legend" aria-label={`Colours: ${plural(entries.length, "kind")}`} role="group">
      {entries.map(([tone, words]) => (
        <span key={words} class={`token ${tone}`}>
          {words}
        </span>
      ))}
    </p>
  );
}
