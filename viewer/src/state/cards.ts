/** The cards of the rows in view, read when a table stands still. */

import { useEffect, useRef, useState } from "preact/hooks";

import type { FileKind } from "../columns/engine.ts";
import { withoutBeginning } from "../format.ts";
import type { Card } from "../source/answers.ts";
import { source, type Run } from "./run.ts";

const PAUSE = 120; // milliseconds without scrolling

export interface CardPlace {
  start: number;
  length: number;
  /** Titles of one agent lose the beginning that all of them have. */
  agent: string | null;
}

export interface Cards {
  of: (place: CardPlace) => Card | undefined;
  want: (places: CardPlace[]) => void;
}

export function useCards(run: Run, kind: FileKind): Cards {
  const known = useRef(new Map<string, Card>());
  const titles = useRef(new Map<string | null, Set<string>>());
  const cuts = useRef(new Map<string | null, (title: string) => string>());
  const timer = useRef(0);
  const [, setRound] = useState(0);
  const keyOf = ({ start }: CardPlace) => `${kind} ${start}`;
  const want = (places: CardPlace[]) => {
    clearTimeout(timer.current);
    timer.current = window.setTimeout(async () => {
      const missing = places.filter((place) => !known.current.has(keyOf(place)));
      if (!missing.length) return;
      const cards = await source.cards(run.id, kind, missing).catch(() => []);
      cards.forEach((card, at) => {
        const { agent } = missing[at];
        known.current.set(keyOf(missing[at]), card);
        titles.current.set(agent, (titles.current.get(agent) ?? new Set()).add(card.title));
      });
      for (const [agent, own] of titles.current) cuts.current.set(agent, withoutBeginning([...own]));
      setRound((round) => round + 1);
    }, PAUSE);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  const of = (place: CardPlace) => {
    const card = known.current.get(keyOf(place));
    return card && { ...card, title: (cuts.current.get(place.agent) ?? String)(card.title) };
  };
  return { of, want };
}
