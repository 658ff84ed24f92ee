/**
 * A text as it is in the row. The page holds each of its characters and no other, so that a selection of it is what was
 * sampled. A style sheet adds the names of characters that cannot be seen (`data-shown`): they are no text of the page.
 */

import type { VNode } from "preact";

/** A picture of several characters, which stay together; or characters without a shape; or spaces at the end of a line. */
const PARTS =
  /\p{Extended_Pictographic}(?:[\ufe0e\ufe0f]|\p{Emoji_Modifier})?(?:\u200d\p{Extended_Pictographic}(?:\ufe0f|\p{Emoji_Modifier})?)*|((?:(?![\t\n ])[\p{Cc}\p{Cf}\p{Cs}\p{Zs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800])+)|((?<![\t ])[\t ]+(?=\r?\n|$))/gu;
const DELETE = 0x7f;

export function Exact({ text }: { text: string }): VNode {
  const parts: (string | VNode)[] = [];
  let from = 0;
  for (const { 0: part, 1: unseen, 2: trailing, index } of text.matchAll(PARTS)) {
    if (unseen === undefined && trailing === undefined) continue;
    parts.push(text.slice(from, index));
    from = index + part.length;
    const names = unseen && [...unseen].map(nameOf).join(" ");
    parts.push(names ? <span class="unseen" data-shown={names}>{unseen}</span> : <span class="trailing">{trailing}</span>);
  }
  parts.push(text.slice(from));
  return <>{parts}</>;
}

/** The text with names in the place of characters that cannot be seen. */
export function named(text: string): string {
  return text.replace(PARTS, (part, unseen?: string) => (unseen ? [...unseen].map(nameOf).join("") : part));
}

/** A control character as its picture, another one as its number. */
function nameOf(character: string): string {
  const code = character.codePointAt(0)!;
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === DELETE ? "␡" : `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** The largest position up to `at` that is not within a character. */
export function boundaryAt(text: string, at: number): number {
  const isWithin = at > 0 && /[\udc00-\udfff]/.test(text[at] ?? "") && /[\ud800-\udbff]/.test(text[at - 1]);
  return isWithin ? at - 1 : at;
}
