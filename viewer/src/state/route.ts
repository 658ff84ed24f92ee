/** The address of a page, in the part of the URL after `#`, so that links also work in a file. */

import { signal } from "@preact/signals";

export interface Route {
  /** The parts of the path: `#/r0/task/3` has ["r0", "task", "3"]. */
  path: string[];
  parameters: URLSearchParams;
}

export function parseRoute(hash: string): Route {
  const [path, query = ""] = hash.replace(/^#?\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean);
  return { path: parts.map(decoded), parameters: new URLSearchParams(query) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function linkTo(path: (string | number)[], parameters: Record<string, string | null> = {}): string {
  const filled = Object.entries(parameters).filter(([, value]) => value !== null && value !== "");
  const query = new URLSearchParams(filled as [string, string][]).toString();
  return `#/${path.map((part) => encodeURIComponent(String(part))).join("/")}${query ? `?${query}` : ""}`;
}

export const route = signal<Route>(parseRoute(location.hash));

window.addEventListener("hashchange", () => (route.value = parseRoute(location.hash)));

export function go(link: string): void {
  location.hash = link;
}

/** Change parameters of the address without a new entry in the history. */
export function setParameters(changes: Record<string, string | null>): void {
  const { path, parameters } = route.value;
  const link = linkTo(path, { ...Object.fromEntries(parameters), ...changes });
  history.replaceState(null, "", link);
  route.value = parseRoute(link);
}
