/** Whether texts are formatted. At first they are shown as they were sampled. */

import { signal } from "@preact/signals";

import { kept } from "./kept.ts";

const stored = kept("formatted", false);
export const formatted = signal(stored.read());

export function changeFormatted(): void {
  formatted.value = !formatted.value;
  stored.write(formatted.value);
}
