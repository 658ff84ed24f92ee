/** One item of a transcript. Reasoning, calls and their outputs are folded to a line. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";

import { bytes } from "../format.ts";
import type { Item, Piece } from "./items.ts";
import { JsonTree } from "./json_tree.tsx";
import { LongText } from "./long_text.tsx";

/** Shorter items are shown at once. */
const SHORT = 280;

interface Props {
  item: Item;
  /** True or false for all items; null for the usual state of each. */
  unfolded?: boolean | null;
  isPlain?: boolean;
}

const KNOWN_VOICES = new Set(["user", "assistant", "system", "developer", "reasoning", "call", "output"]);

export function ItemView({ item, unfolded = null, isPlain = false }: Props): VNode {
  const { voice, title, line, size, isFolded } = item;
  const tone = `item voice-${KNOWN_VOICES.has(voice) ? voice : "other"}${item.isError ? " is-error" : ""}`;
  const [isOpen, setOpen] = useState(unfolded ?? (!isFolded || (size < SHORT && voice !== "reasoning")));
  const label = voice === "call" ? `call ${title}` : title;
  if (!isFolded) {
    return (
      <section class={tone}>
        <header>{label}</header>
        <Pieces item={item} isPlain={isPlain} />
      </section>
    );
  }
  return (
    <details class={tone} open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="label">{label}</span>
        {!isOpen && <span class="line">{line}</span>}
        {size > SHORT && <span class="size">{bytes(size)}</span>}
      </summary>
      {isOpen && <Pieces item={item} isPlain={isPlain} />}
    </details>
  );
}

function Pieces({ item, isPlain }: { item: Item; isPlain: boolean }): VNode {
  if (!item.pieces.length) return <p class="muted">(empty)</p>;
  return <>{item.pieces.map((piece, at) => <PieceView key={at} piece={piece} isPlain={isPlain} />)}</>;
}

function PieceView({ piece, isPlain }: { piece: Piece; isPlain: boolean }): VNode {
  if (piece.kind === "image") return <img src={piece.url} alt="Image of the item" />;
  const title = "title" in piece && piece.title ? <p class="piece-title">{piece.title}</p> : null;
  return (
    <>
      {title}
      {piece.kind === "json" ? (
        <JsonTree value={piece.value} open={3} />
      ) : (
        <LongText text={piece.text} markdown={piece.kind === "markdown" && !isPlain} />
      )}
    </>
  );
}
