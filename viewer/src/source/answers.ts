/** The answers of the server. */

import type { FileKind } from "../columns/engine.ts";
import type { Interval } from "../columns/estimators.ts";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export interface RunEntry {
  id: string;
  title: string;
  path: string;
  state: "running" | "stopped" | "complete" | "partial";
  rows: number;
  failures: number;
  planned: number | null;
  started_at: string | null;
  /** Seconds since 1970. */
  updated_at: number;
}

export interface RunFile {
  name: string;
  role: string;
  bytes: number;
  authoritative: boolean;
}

export interface RunDetail extends RunEntry {
  files: RunFile[];
  manifest: JsonObject | null;
  metrics: Json;
}

export interface Blocks {
  bytes: Uint8Array;
  /** Blocks before this number never change in this generation of the file. */
  sealed: number;
  /** Rises when the file was replaced by another one. */
  generation: number;
  indexedBytes: number;
  totalBytes: number;
}

export interface Card {
  title: string;
  answer: string;
}

export type TokenText = string | { b64: string } | null;

export interface TokenSpan {
  call: number;
  part: "prompt" | "kept" | "sampled";
  start: number;
  end: number;
  policy_version?: Json;
}

export interface TokenSegment {
  ids: number[];
  /** The text of each token; absent if no text is known. */
  texts?: TokenText[];
  logprobs: (number | null)[];
  mask: number[];
  spans: TokenSpan[];
  reason: string | null;
  grammar: number[] | null;
}

export interface Tokens {
  segments: TokenSegment[];
  masked_calls: { call: number; reason: string }[];
}

export interface SearchHit {
  start: number;
  length: number;
  excerpt: string;
  at: number;
}

export interface SearchProgress {
  scanned: number;
  of: number;
}

export type SearchEvent = SearchHit | SearchProgress | { end: true; hits: number };

export type RowSpan = [start: number, length: number];

export interface FailureGroup {
  failure: string;
  count: number;
  message: string;
  remedy: string | null;
  peer: string | null;
  rows: RowSpan[];
}

export interface Flag {
  name: string;
  rule: string;
  rows: RowSpan[];
  count: number;
}

export interface ChangedTask {
  task: number;
  title: string;
  before: number | null;
  after: number | null;
  difference: number | null;
}

export interface Comparison {
  before: number | null;
  after: number | null;
  difference: number | null;
  interval: [number, number] | Interval | null;
  paired: number;
  changed: ChangedTask[];
  only_before: Json[];
  only_after: Json[];
}

export interface Place {
  kind: FileKind;
  start: number;
  length: number;
}
