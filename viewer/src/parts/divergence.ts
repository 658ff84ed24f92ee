/** The first difference of several attempts at a task: by item, by character, and by token. */

import type { Json, TokenText, Tokens } from "../source/answers.ts";
import { isObject, type Item } from "./items.ts";
import { textAt } from "./token_lines.ts";

/** Fields that differ although the items are the same. */
const IDENTITIES = new Set(["id", "call_id", "status"]);

/** The content of an item without its identifiers. */
export function itemKey(value: Json): string {
  if (!isObject(value)) return JSON.stringify(value);
  return JSON.stringify(Object.fromEntries(Object.entries(value).filter(([name]) => !IDENTITIES.has(name))));
}

/** The length of the common beginning of lists. */
export function commonLength(lists: ArrayLike<unknown>[]): number {
  const shortest = Math.min(...lists.map((list) => list.length));
  let length = 0;
  while (length < shortest && lists.every((list) => list[length] === lists[0][length])) length += 1;
  return length;
}

export function plainText(item: Item | undefined): string {
  if (!item) return "";
  return item.pieces.map((piece) => ("text" in piece ? piece.text : JSON.stringify(piece))).join("\n");
}

export interface TokenDivergence {
  position: number;
  /** For each attempt the token there; null beyond its end or without a record. */
  tokens: ({ id: number; text: TokenText } | null)[];
}

/** The first position where the first segments differ; null with fewer than two records, or without a difference. */
export function tokenDivergence(records: (Tokens | null)[]): TokenDivergence | null {
  const segments = records.map((record) => record?.segments[0] ?? null);
  const ids = segments.filter((segment) => segment !== null).map((segment) => segment.ids);
  if (ids.length < 2) return null;
  const position = commonLength(ids);
  if (ids.every((list) => list.length === position)) return null;
  const tokens = segments.map((segment) =>
    segment && position < segment.ids.length ? { id: segment.ids[position], text: textAt(segment, position) } : null,
  );
  return { position, tokens };
}
