/** Values that a component reads asynchronously. */

import { useEffect, useState } from "preact/hooks";

export interface Loaded<T> {
  value: T | null;
  error: Error | null;
  /** Differs for each answer. */
  answered: object;
}

/**
 * Read a value, and again whenever a dependency changes. The earlier value stays until the new one is there, and an
 * answer that comes after a newer request is dropped.
 */
export function useLoaded<T>(read: (signal: AbortSignal) => Promise<T>, dependencies: unknown[]): Loaded<T> {
  const [loaded, setLoaded] = useState<Loaded<T>>({ value: null, error: null, answered: {} });
  useEffect(() => {
    const controller = new AbortController();
    read(controller.signal).then(
      (value) => controller.signal.aborted || setLoaded({ value, error: null, answered: {} }),
      (error: Error) => controller.signal.aborted || setLoaded({ value: null, error, answered: {} }),
    );
    return () => controller.abort();
  }, dependencies);
  return loaded;
}
