/** One item of a transcript. Reasoning, calls and their outputs are folded to a line. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";

import { bytes, number } from "../format.ts";
import { CopyButton } from "./copy_button.tsx";
import type { Item, Piece } from "./items.ts";
import { JsonTree } from "./json_tree.tsx";
import { LongText } from "./long_text.tsx";

/** Shorter items are shown at once. */
const SHORT = 280;

interface Props {
  item: Item;
  /** True or false for all items; null for the usual state of each. */
  unfolded?: boolean | null;
  /** Of the call that gave the item, if they are known. */
  seconds?: number | null;
  /** Whether its call was answered from the record of an earlier attempt. */
  isReplayed?: boolean;
}

const KNOWN_VOICES = new Set(["user", "assistant", "system", "developer", "reasoning", "call", "output"]);

export function ItemView({ item, unfolded = null, seconds = null, isReplayed = false }: Props): VNode {
  const { voice, title, line, size, isFolded } = item;
  const tone = `item voice-${KNOWN_VOICES.has(voice) ? voice : "other"}${item.isError ? " is-error" : ""}`;
  const [isOpen, setOpen] = useState(unfolded ?? (!isFolded || (size < SHORT && voice !== "reasoning")));
  const label = voice === "call" ? `call ${title}` : title;
  const took = (
    <>
      {isReplayed && <span class="took" title="Answered from the record of an earlier attempt">replayed</span>}
      {seconds !== null && <span class="took" title="Seconds of the call">{number(seconds)} s</span>}
    </>
  );
  if (!isFolded) {
    return (
      <section class={tone}>
        <header>{label}{took}</header>
        <Pieces item={item} />
      </section>
    );
  }
  return (
    <details class={tone} open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="label">{label}</span>
        {!isOpen && <span class="line">{line}</span>}
        {took}
        {size > SHORT && <span class="size">{bytes(size)}</span>}
      </summary>
      {isOpen && <Pieces item={item} />}
    </details>
  );
}

function Pieces({ item }: { item: Item }): VNode {
  if (!item.pieces.length) return <p class="muted">(empty)</p>;
  return <>{item.pieces.map((piece, at) => <PieceView key={at} piece={piece} />)}</>;
}

function PieceView({ piece }: { piece: Piece }): VNode {
  if (piece.kind === "image") return <img src={piece.url} alt="Image of the item" />;
  const title = piece.title ? <p class="piece-title">{piece.title}</p> : null;
  if (piece.kind === "json") return <>{title}<JsonTree value={piece.value} open={3} /></>;
  return (
    <div class="piece">
      {title}
      {piece.text && <CopyButton text={piece.text} />}
      <LongText text={piece.text} />
    </div>
  );
}
