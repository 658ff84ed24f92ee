/** Keys of the pages. A page registers its keys while it is shown; the help lists them. */

import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";

export interface Key {
  key: string;
  help: string;
  act: () => void;
}

export const keys = signal<Key[][]>([]);

function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement;
  return target.matches("input, textarea, select, [contenteditable]");
}

window.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
  const target = event.target as HTMLElement;
  if (event.key === "Enter" && target.matches("a, button, summary")) return;
  const found = keys.value.flat().findLast(({ key }) => key === event.key);
  if (!found) return;
  event.preventDefault();
  found.act();
});

/** Register keys while the component is shown. */
export function useKeys(own: Key[], dependencies: unknown[]): void {
  useLayoutEffect(() => {
    keys.value = [...keys.peek(), own];
    return () => {
      keys.value = keys.peek().filter((other) => other !== own);
    };
  }, dependencies);
}
