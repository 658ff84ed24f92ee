/** Settings that the browser keeps. A browser that keeps nothing (a file, a private window) uses the defaults. */

export interface Kept<T> {
  read(): T;
  write(value: T): void;
}

export function kept<T>(name: string, otherwise: T): Kept<T> {
  const key = `nemo-gym-viewer/${name}`;
  return {
    read() {
      try {
        return (JSON.parse(localStorage.getItem(key) ?? "null") as T | null) ?? otherwise;
      } catch {
        return otherwise;
      }
    },
    write(value) {
      try {
        localStorage.setItem(key, JSON.stringify(value));
      } catch {
        // The setting holds until the page is closed.
      }
    },
  };
}
