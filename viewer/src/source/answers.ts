/** The answers of the server. */

import type { FileKind } from "../columns/engine.ts";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export interface RunEntry {
  id: string;
  title: string;
  path: string;
  state: "running" | "stopped" | "complete" | "partial" | "unknown" | "unreadable";
  /** The files of the run that are damaged or not read, each with the reason. */
  problems: string[];
  /** The counts of the run's manifest; null without one. */
  rows: number | null;
  failures: number | null;
  planned: number | null;
  /** How the run ended, in one word; null if it runs, was killed, or has no manifest. */
  end: string | null;
  /** The figures of the run's metrics; the latter two only for a run with one agent. */
  mean: number | null;
  interval: [low: number, high: number] | null;
  /** Whether a reward is neither 0 nor 1, so that `pass_at` is a best reward. */
  is_best: boolean;
  /** Means of a rollout. */
  tokens: number | null;
  seconds: number | null;
  /** What the run's manifest tells; empty without one. */
  models: string[];
  environments: string[];
  sampling: JsonObject;
  tags: string[];
  pass_at: [k: number, share: number] | null;
  /** The tasks with fewer rewards, which `pass_at` leaves out. */
  short_tasks: number;
  /** What a run stops at; its mean and interval are then those of its estimate. */
  aim?: string;
  /** Its estimate, what the interval means, and its cost, in sentences. */
  estimate?: string[];
  started_at: string | null;
  /** Seconds since 1970. */
  updated_at: number | null;
}

export interface RunFile {
  name: string;
  role: string;
  bytes: number;
  authoritative: boolean;
}

/** A run that is the parent of another one, or its forks. */
export interface ForkFamily {
  run: string;
  title: string;
  /** The call after which was forked; a negative one counts from the end. */
  turn: number;
  /** The number of forks of each parent. */
  forks: number;
}

export interface RunDetail extends RunEntry {
  /** The beginning of the names of the run's files. */
  stem: string;
  /** The rollouts that `<stem>_looks_fine.json` marks, such as "3/0". */
  looks_fine: string[];
  /** In a file: what the figures do not tell, such as rows that lack, or scores by several codes. */
  notes?: string[];
  /** In a file: how many rows it holds, and of how many. */
  held?: Record<FileKind, [count: number, of: number]>;
  /** The machines of the run's gym; null for a run on one machine. */
  nodes: { count: number; up: number; losses: number } | null;
  /** Of the runs that are shown: the one whose rollouts this one forked, and those of its forks. */
  parent_run?: ForkFamily | null;
  fork_runs?: ForkFamily[];
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

/** A token's text, its bytes if they are no text, or null if it is not known. */
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
  /** The texts by id, of those that are known. */
  texts?: Record<number, TokenText> | null;
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
  failure_class: string;
  count: number;
  message: string;
  remedy: string | null;
  /** The server or URL that failed. */
  server: string | null;
  /** `file:line` of the author's code that raised. */
  place: string | null;
  rows: RowSpan[];
  /** Failures whose rollout has a row by now: it was attempted again. */
  settled: number;
  /** The last lines of the server's logs before the first of the failures. */
  log: LogPart[];
}

export interface Machine {
  name: string;
  address: string;
  state: string;
  load: number;
  losses: number;
  /** The name of its log. */
  log: string;
  /** Server → the number of its replicas here. */
  replicas: Record<string, number>;
  in_flight: number;
  most_in_flight: number;
  restarts: number;
  generation: number;
}

export interface Replica {
  server: string;
  replica: number;
  node: string;
  state: string;
  generation: number;
  restarts: number;
  log: string;
}

export interface NodeEvent {
  /** Seconds since 1970. */
  at: number;
  kind: string;
  text: string;
  /** Empty for an event of several machines. */
  node: string;
  /** The servers of the replicas that moved, restarted, were lost or removed. */
  servers: string[];
}

export interface Nodes {
  /** The gym runs, has ended, or was killed; or the nodes are those at the end of the run. */
  standing: "current" | "ended" | "silent" | "kept";
  at: number;
  nodes: Machine[];
  replicas: Replica[];
  events: NodeEvent[];
  /** Earlier events that were not kept. */
  left_out: number;
}

export interface LogPart {
  file: string;
  lines: string[];
}

export interface Finding {
  text: string;
  task: number | null;
  /** The row; null if the finding is about a whole task or run. */
  place: RowSpan | null;
}

export interface Flag {
  name: string;
  /** "fault" for broken data, "sign" for a reason to look. */
  severity: string;
  rule: string;
  count: number;
  /** The first findings. */
  findings: Finding[];
}

export interface ChangedTask {
  agent: string;
  task_before: number;
  task_after: number;
  /** The scores of the task's rollouts. */
  before: number[];
  after: number[];
  difference: number;
  question: string;
}

export interface Comparison {
  before: number | null;
  after: number | null;
  difference: number | null;
  interval_95: [number, number] | null;
  /** The number of paired tasks. */
  tasks: number;
  /** Of these, the tasks of which the runs have different numbers of copies: all attempts are at one. */
  joined: number;
  changed: ChangedTask[];
  without_score: [before: number, after: number][];
  only_before: number[];
  only_after: number[];
  /** The agents that are compared and those of one run only, where the runs have others. */
  agents: string[];
  other_agents: string[];
  runs: { notes: string[] }[];
}

export interface RankedModel {
  label: string;
  /** The digest of the identity of the model's run. */
  identity: string | null;
  /** By environment, and `overall` if there are several. */
  means: Record<string, number>;
  intervals: Record<string, [low: number, high: number]>;
  /** `best` and `worst` are the ranks that the differences beyond doubt leave open. */
  rank: { rank: number; best: number; worst: number };
}

export interface ComparedPair {
  environment: string;
  first: string;
  second: string;
  difference: number;
  /** The p-value after the adjustment for all comparisons. */
  adjusted: number;
  tasks: number;
  is_shown: boolean;
}

export interface Ranking {
  models: RankedModel[];
  comparisons: ComparedPair[];
  environments: string[];
  adjustment: string;
  notes: string[];
  /** The text of an SVG. */
  plot: string;
}

/** The figures of a run on an environment. */
export interface TableCell {
  tasks: number;
  scored: number;
  failed: number;
  mean: number | null;
  low: number | null;
  high: number | null;
  /** k → the expected best score of k rollouts: pass@k if `is_pass`. */
  best_at: Record<string, number>;
  /** The largest k that is shown: at least half of the tasks with a score have as many. */
  largest_k: number;
  /** k → the tasks with fewer scores, which `best_at` leaves out. */
  short_tasks: Record<string, number>;
  is_pass: boolean;
  tokens: number | null;
  seconds: number | null;
  phases: Record<string, number>;
}

export interface TableRun {
  id: string;
  label: string;
  started_at: string | null;
  models: string[];
  environments: string[];
  sampling: JsonObject;
  tags: string[];
  cells: Record<string, TableCell>;
  notes: string[];
}

export interface TablePair {
  environment: string;
  before: string;
  after: string;
  difference: number;
  low: number | null;
  high: number | null;
  tasks: number;
}

/** Runs × environments. */
export interface RunTable {
  environments: string[];
  runs: TableRun[];
  pairs: TablePair[];
  /** The keys of the configuration in which the runs differ, with the value of each run. */
  differences: { key: string; values: string[] }[];
  unreadable: number;
  problems: string[];
}

export interface Place {
  kind: FileKind;
  start: number;
  length: number;
}
