/** The items of a row as the page shows them. The row is not trusted: every field may be missing or of another type. */

import { firstLine } from "../format.ts";
import type { Json, JsonObject } from "../source/answers.ts";

export type Piece =
  | { kind: "text"; text: string; title?: string }
  | { kind: "image"; url: string }
  | { kind: "json"; value: Json; title?: string };

export interface Item {
  type: string;
  /** Who wrote it: a role for messages, else "reasoning", "call", "output" or "other". */
  voice: string;
  title: string;
  /** One line that stands for the folded item. */
  line: string;
  pieces: Piece[];
  isFolded: boolean;
  /** The number of characters, roughly. */
  size: number;
  /** Whether it is the output of a call that failed. */
  isError?: boolean;
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value, null, 2);
}

/** Deeper rows are shown as text: the page's own functions would end at their depth. */
const DEEPEST = 500;

/** The row that a text is; null for other JSON, for what is not JSON, and for very deep JSON. */
export function rowIn(text: string): JsonObject | null {
  try {
    const value = JSON.parse(text) as Json;
    return isObject(value) && !isDeep(value) ? value : null;
  } catch {
    return null;
  }
}

function isDeep(value: Json): boolean {
  let level = [value];
  for (let depth = 0; depth < DEEPEST && level.length; depth++) {
    const next: Json[] = [];
    for (const one of level) {
      for (const part of Object.values(one ?? {})) if (typeof part === "object" && part !== null) next.push(part);
    }
    level = next;
  }
  return level.length > 0;
}

export function itemsOf(row: JsonObject): Item[] {
  return rawItemsOf(row).map(itemOf);
}

/** The items of a row's input and output, in order, as they are in the row. */
export function rawItemsOf(row: JsonObject): Json[] {
  const request = isObject(row.responses_create_params) ? row.responses_create_params : {};
  const response = isObject(row.response) ? row.response : {};
  const input = typeof request.input === "string" ? { role: "user", content: request.input } : request.input;
  return [input, response.output].flatMap((found) => (Array.isArray(found) ? found : isNothing(found) ? [] : [found]));
}

function isNothing(value: Json | undefined): boolean {
  return value === undefined || value === null;
}

export function itemOf(value: Json): Item {
  if (!isObject(value)) return described("unknown", "other", "unknown item", [{ kind: "json", value }], false);
  const type = typeof value.type === "string" ? value.type : "role" in value ? "message" : "unknown";
  const reader = Object.hasOwn(READERS, type) ? READERS[type] : otherItem; // a type may be "constructor"
  return reader(value, type);
}

/** Fields of a message in which other gyms keep more of what was sampled. */
const FURTHER = ["reasoning_content", "reasoning", "refusal", "tool_calls", "function_call"];

type Reader = (value: JsonObject, type: string) => Item;

const READERS: Record<string, Reader> = {
  message: (value, type) => {
    const role = textOf(value.role) || "message";
    const further = FURTHER.filter((name) => !isNothing(value[name])).map((name) => pieceOf(value[name], name));
    return described(type, role, role, [...piecesOf(value.content), ...further], false);
  },
  reasoning: (value, type) => {
    const pieces = [...piecesOf(value.summary), ...piecesOf(value.content)];
    if (value.encrypted_content) pieces.push({ kind: "text", text: `${textOf(value.encrypted_content).length} characters of encrypted reasoning` });
    return described(type, "reasoning", "reasoning", pieces, true);
  },
  function_call: callItem,
  custom_tool_call: callItem,
  mcp_call: callItem,
  function_call_output: outputItem,
  custom_tool_call_output: outputItem,
  local_shell_call_output: outputItem,
  computer_call_output: outputItem,
  code_interpreter_call: (value, type) => {
    const pieces: Piece[] = [{ kind: "text", text: textOf(value.code) }];
    if (value.outputs) pieces.push({ kind: "json", value: value.outputs, title: "outputs" });
    return described(type, "call", "code interpreter", pieces, true);
  },
  image_generation_call: (value, type) => {
    const url = `data:image/png;base64,${textOf(value.result)}`;
    const pieces: Piece[] = value.result ? [imagePiece(url)] : [{ kind: "json", value }];
    return described(type, "call", "image generation", pieces, true);
  },
};

function callItem(value: JsonObject, type: string): Item {
  const name = textOf(value.name) || "tool";
  const pieces: Piece[] = [pieceOf(value.arguments ?? value.input ?? "")];
  if (!isNothing(value.output)) pieces.push(pieceOf(value.output, "output"));
  if (value.error) pieces.push({ kind: "json", value: value.error, title: "error" });
  const title = type === "mcp_call" && value.server_label ? `${textOf(value.server_label)} / ${name}` : name;
  return described(type, "call", title, pieces, true);
}

function outputItem(value: JsonObject, type: string): Item {
  const pieces = piecesOf(value.output);
  const error = value._ng_tool_error;
  if (!isObject(error)) return described(type, "output", "output", pieces, true);
  const place = error.place ? ` (${textOf(error.place)})` : "";
  const cause: Piece = { kind: "text", text: `${textOf(error.cause)}${place}`, title: "cause" };
  const title = `✕ failed output: ${error.by === "model" ? "invalid call" : "the environment"}`;
  return { ...described(type, "output", title, [...pieces, cause], true), isError: true };
}

function otherItem(value: JsonObject, type: string): Item {
  return described(type, "other", type.replaceAll("_", " "), [{ kind: "json", value }], true);
}

/** The pieces of a content: text, or a list of parts. */
function piecesOf(content: Json | undefined): Piece[] {
  if (content === undefined || content === null) return [];
  return (Array.isArray(content) ? content : [content]).map((part) => (isObject(part) ? partOf(part) : pieceOf(part)));
}

function pieceOf(value: Json, title?: string): Piece {
  return typeof value === "string" ? { kind: "text", text: value, title } : { kind: "json", value, title };
}

const TEXTS = new Set<Json>(["input_text", "output_text", "text", "summary_text", "reasoning_text"]);

function partOf(part: JsonObject): Piece {
  if (TEXTS.has(part.type) && typeof part.text === "string") return { kind: "text", text: part.text };
  if (part.type === "refusal" && !isNothing(part.refusal)) return pieceOf(part.refusal, "refusal");
  if (part.type === "input_image" || part.type === "image_url" || part.type === "computer_screenshot") {
    const url = isObject(part.image_url) ? part.image_url.url : part.image_url;
    if (typeof url === "string") return imagePiece(url);
  }
  return { kind: "json", value: part, title: typeof part.type === "string" ? part.type : undefined };
}

const IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*$/;

/** Whether an address is an image that is part of the row. */
export function isImage(url: string): boolean {
  return IMAGE.test(url);
}

/** Images elsewhere are shown as their address. */
function imagePiece(url: string): Piece {
  return isImage(url) ? { kind: "image", url } : { kind: "text", text: url, title: "image, not loaded" };
}

function described(type: string, voice: string, title: string, pieces: Piece[], isFolded: boolean): Item {
  let size = 0;
  for (const piece of pieces) size += "text" in piece ? piece.text.length : 200;
  const [first] = pieces;
  const line = !first ? "" : "text" in first ? firstLine(first.text.slice(0, 2000).replace(/\s+/g, " ")) : first.kind;
  return { type, voice, title, line, pieces, isFolded, size };
}
