/** A part of a long page that is made when it comes near the view, and takes an estimated height until then. */

import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

const NEAR = "600px";

const waiting = new Map<Element, () => void>();
const observer = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) if (entry.isIntersecting) waiting.get(entry.target)?.();
  },
  { rootMargin: NEAR },
);

interface Props {
  height: number;
  /** Make the part at once. */
  now?: boolean;
  children: () => ComponentChildren;
}

export function Lazy({ height, now = false, children }: Props): VNode {
  const place = useRef<HTMLDivElement>(null);
  const [isMade, setMade] = useState(now);
  useEffect(() => {
    const element = place.current;
    if (isMade || !element) return undefined;
    waiting.set(element, () => setMade(true));
    observer.observe(element);
    return () => {
      observer.unobserve(element);
      waiting.delete(element);
    };
  }, [isMade]);
  if (isMade) return <>{children()}</>;
  return <div ref={place} style={{ height: `${height}px` }} />;
}
