/** Light or dark: the system's choice until the user makes one. */

import { effect, signal } from "@preact/signals";

import { kept } from "./kept.ts";

export type Theme = "system" | "light" | "dark";

const stored = kept("theme", "system" as Theme);
export const theme = signal<Theme>(stored.read());

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});

/** Light, then dark, then the system's choice. */
export function changeTheme(): void {
  theme.value = ({ system: "light", light: "dark", dark: "system" } as const)[theme.value];
  stored.write(theme.value);
}
