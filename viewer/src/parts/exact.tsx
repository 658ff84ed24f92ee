/**
 * A text as it is in the row. The page holds each of its characters and no other, so that a selection of it is what was
 * sampled. A style sheet adds the names of characters that cannot be seen (`data-shown`): they are no text of the page.
 */

import type { VNode } from "preact";

/** A picture of several characters, which stay together; or characters without a shape; or spaces at the end of a line. */
const PARTS =
  /\p{Extended_Pictographic}(?:[\ufe0e\ufe0f]|\p{Emoji_Modifier})?(?:\u200d\p{Extended_Pictographic}(?:\ufe0f|\p{Emoji_Modifier})?)*|((?:(?![\t\n ])[\p{Cc}\p{Cf}\p{Cs}\p{Zs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800])+)|((?<![\t ])[\t ]+(?=\r?\n|$))/gu;
const CONTROLS =
  "NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US".split(" ");
const DELETE = 0x7f;

/** `continues`: something follows on the line, so that spaces at the end of the text do not end it. */
export function Exact({ text, continues = false }: { text: string; continues?: boolean }): VNode {
  const parts: (string | VNode)[] = [];
  let from = 0;
  for (const { 0: part, 1: unseen, 2: trailing, index } of text.matchAll(PARTS)) {
    const isInside = continues && index + part.length === text.length;
    if (unseen === undefined && (trailing === undefined || isInside)) continue;
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
  return text.replace(PARTS, (part, unseen?: string) => (unseen ? [...unseen].map((one) => `⟨${nameOf(one)}⟩`).join("") : part));
}

/** The abbreviation of a control character, the number of another one. */
function nameOf(character: string): string {
  const code = character.codePointAt(0)!;
  if (code < CONTROLS.length) return CONTROLS[code];
  return code === DELETE ? "DEL" : `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** The largest position up to `at` that is not within a character. */
export function boundaryAt(text: string, at: number): number {
  const isWithin = at > 0 && /[\udc00-\udfff]/.test(text[at] ?? "") && /[\ud800-\udbff]/.test(text[at - 1]);
  return isWithin ? at - 1 : at;
}
