/**
 * The rows of a long list that are in view. All rows have the same height.
 *
 * Browsers end heights near 17 to 33 million pixels. A list that is higher is scaled: the rows in view keep their
 * height, and a pixel of the scroll bar stands for several pixels of the list.
 */

import type { RefObject } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";

const HIGHEST = 15_000_000;
const OVERSCAN = 6;
/** The most rows in the page. */
export const MOST_ROWS = 100;

export interface Window {
  from: number;
  to: number;
  /** The height of the whole list in pixels, at most `HIGHEST`. */
  height: number;
  /** The top of a row in the scrolled area, in pixels. */
  topOf: (row: number) => number;
  /** Scroll so that the row is in view. */
  reveal: (row: number) => void;
}

export interface Geometry {
  rows: number;
  rowHeight: number;
  viewport: number;
  scrollTop: number;
}

/** Compute the window from the position of the scroll bar. */
export function windowOf({ rows, rowHeight, viewport, scrollTop }: Geometry): Omit<Window, "reveal"> & { top: number } {
  const full = rows * rowHeight;
  const height = Math.min(full, HIGHEST);
  const scale = height > viewport ? (full - viewport) / (height - viewport) : 1;
  const top = Math.max(0, Math.min(scrollTop, height - viewport)) * scale;
  const from = Math.max(0, Math.floor(top / rowHeight) - OVERSCAN);
  const to = Math.min(rows, Math.ceil((top + viewport) / rowHeight) + OVERSCAN, from + MOST_ROWS);
  return { from, to, height, top, topOf: (row) => row * rowHeight - top + Math.min(scrollTop, height) };
}

/** The position of the scroll bar that brings a row into view, or null if it is there already. */
export function scrollFor(row: number, { rows, rowHeight, viewport, scrollTop }: Geometry): number | null {
  const full = rows * rowHeight;
  const height = Math.min(full, HIGHEST);
  const scale = height > viewport ? (full - viewport) / (height - viewport) : 1;
  const top = scrollTop * scale;
  const wanted = row * rowHeight;
  if (wanted >= top && wanted + rowHeight <= top + viewport) return null;
  return Math.max(0, wanted < top ? wanted : wanted + rowHeight - viewport) / scale;
}

export function useWindow(area: RefObject<HTMLElement | null>, rows: number, rowHeight: number): Window {
  const [place, setPlace] = useState({ viewport: 600, scrollTop: 0 });
  useEffect(() => {
    const element = area.current!;
    const read = () => setPlace({ viewport: element.clientHeight, scrollTop: element.scrollTop });
    const observer = new ResizeObserver(read);
    observer.observe(element);
    element.addEventListener("scroll", read, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", read);
    };
  }, []);
  const geometry = { rows, rowHeight, ...place };
  const reveal = useCallback(
    (row: number) => {
      const element = area.current!;
      const now = { rows, rowHeight, viewport: element.clientHeight, scrollTop: element.scrollTop };
      const scrollTop = scrollFor(row, now);
      if (scrollTop !== null) element.scrollTop = scrollTop;
    },
    [rows, rowHeight],
  );
  return { ...windowOf(geometry), reveal };
}

/** A length for a style. */
export function px(length: number): string {
  return `${length}px`;
}
