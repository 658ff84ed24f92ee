/** Tokens of a segment arranged in lines, and the texts that stand for them. */

import { named } from "./exact.tsx";
import { decodeBase64 } from "../source/embedded.ts";
import type { TokenSegment, TokenSpan, TokenText } from "../source/answers.ts";

const MOST_CHARS = 110;
const MOST_TOKENS = 40;

export interface TokenLine {
  start: number;
  end: number;
  /** The span that begins with this line. */
  span: TokenSpan | null;
}

/** Break a segment into lines: after line breaks, before each span, and where a line is full. */
export function linesOf(segment: TokenSegment): TokenLine[] {
  const { ids, spans } = segment;
  const known = new Map<number, string>();
  const shownAt = (at: number) => {
    let shown = known.get(ids[at]);
    if (shown === undefined) known.set(ids[at], (shown = shownText(textAt(segment, at), ids[at])));
    return shown;
  };
  const beginning = new Map(spans.map((span) => [span.start, span]));
  const lines: TokenLine[] = [];
  let start = 0;
  let chars = 0;
  for (let at = 0; at < ids.length; at++) {
    const shown = shownAt(at);
    const isFull = chars + shown.length > MOST_CHARS || at - start >= MOST_TOKENS;
    if (at > start && (isFull || beginning.has(at))) {
      lines.push({ start, end: at, span: beginning.get(start) ?? null });
      start = at;
      chars = 0;
    }
    chars = shown.includes("↵") ? MOST_CHARS : chars + shown.length;
  }
  if (ids.length) lines.push({ start, end: ids.length, span: beginning.get(start) ?? null });
  return lines;
}

export function textAt({ ids, texts }: TokenSegment, at: number): TokenText {
  return texts?.[ids[at]] ?? null;
}

/** The text that is shown for a token. Characters that cannot be seen and bytes that are no text are made visible. */
export function shownText(text: TokenText, id: number): string {
  if (text === null) return `[${id}]`;
  if (typeof text !== "string") return [...decodeBase64(text.b64)].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
  return named(text).replaceAll("\n", "↵").replaceAll("\t", "⇥");
}

export type Shade = "logprob" | "mask" | "policy" | "grammar";

const STEPS = [-0.1, -0.5, -1.5, -3, -6];

/** The class of a token's colour. */
export function shadeOf(segment: TokenSegment, at: number, span: TokenSpan | undefined, shade: Shade, versions: string[]): string {
  if (shade === "mask") return segment.mask[at] ? "trained" : "context";
  if (shade === "grammar") return segment.grammar?.[at] ? "trained" : "context";
  if (shade === "policy") {
    const isSampled = span?.part === "sampled";
    return isSampled ? `version-${versions.indexOf(JSON.stringify(span.policy_version ?? null)) % 6}` : "context";
  }
  const logprob = segment.logprobs[at];
  if (logprob === null || logprob === undefined) return "context";
  const step = STEPS.findIndex((bound) => logprob >= bound);
  return `likely-${step < 0 ? STEPS.length : step}`;
}

/** The policy versions of all sampled spans, in order of their first use. */
export function versionsOf(segments: TokenSegment[]): string[] {
  const spans = segments.flatMap((segment) => segment.spans).filter(({ part }) => part === "sampled");
  return [...new Set(spans.map((span) => JSON.stringify(span.policy_version ?? null)))];
}

/** The span of a position. Spans are in order and without gaps. */
export function spanAt(spans: TokenSpan[], at: number): TokenSpan | undefined {
  return spans.find(({ start, end }) => start <= at && at < end);
}

/** The positions of the least likely sampled tokens, the least likely first. */
export function leastLikely({ logprobs, mask }: TokenSegment, most: number): number[] {
  const found: number[] = [];
  for (let at = 0; at < logprobs.length; at++) {
    const logprob = logprobs[at];
    if (logprob === null || !mask[at] || (found.length === most && logprob >= logprobs[found[most - 1]]!)) continue;
    let place = found.length;
    while (place > 0 && logprobs[found[place - 1]]! > logprob) place -= 1;
    found.splice(place, 0, at);
    found.length = Math.min(found.length, most);
  }
  return found;
}
