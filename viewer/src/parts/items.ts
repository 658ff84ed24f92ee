/** The items of a row as the page shows them. The row is not trusted: every field may be missing or of another type. */

import { firstLine } from "../format.ts";
import type { Json, JsonObject } from "../source/answers.ts";

export type Piece =
  | { kind: "markdown"; text: string }
  | { kind: "text"; text: string; title?: string }
  | { kind: "code"; text: string; title?: string }
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

/** JSON text, indented if it is JSON. */
function indented(text: string): string {
  if (text.length > 1e6) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

export function itemsOf(row: JsonObject): Item[] {
  const request = isObject(row.responses_create_params) ? row.responses_create_params : {};
  const response = isObject(row.response) ? row.response : {};
  const input = typeof request.input === "string" ? [{ role: "user", content: request.input }] : request.input;
  const lists = [input, response.output].map((list) => (Array.isArray(list) ? list : []));
  return lists.flat().map(itemOf);
}

export function itemOf(value: Json): Item {
  if (!isObject(value)) return described("unknown", "other", "unknown item", [{ kind: "json", value }], false);
  const type = typeof value.type === "string" ? value.type : "role" in value ? "message" : "unknown";
  const reader = Object.hasOwn(READERS, type) ? READERS[type] : otherItem; // a type may be "constructor"
  return reader(value, type);
}

type Reader = (value: JsonObject, type: string) => Item;

const READERS: Record<string, Reader> = {
  message: (value, type) => {
    const role = textOf(value.role) || "message";
    return described(type, role, role, piecesOf(value.content, role === "assistant"), false);
  },
  reasoning: (value, type) => {
    const pieces = [...piecesOf(value.summary, true), ...piecesOf(value.content, true)];
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
    const pieces: Piece[] = [{ kind: "code", text: textOf(value.code) }];
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
  const pieces: Piece[] = [{ kind: "code", text: indented(textOf(value.arguments ?? value.input)) }];
  if (value.output !== undefined && value.output !== null) pieces.push({ kind: "text", text: textOf(value.output), title: "output" });
  if (value.error) pieces.push({ kind: "json", value: value.error, title: "error" });
  const title = type === "mcp_call" && value.server_label ? `${textOf(value.server_label)} / ${name}` : name;
  return described(type, "call", title, pieces, true);
}

function outputItem(value: JsonObject, type: string): Item {
  const output = value.output;
  const pieces = typeof output === "string" ? [{ kind: "code" as const, text: indented(output) }] : piecesOf(output, false);
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
function piecesOf(content: Json | undefined, isMarkdown: boolean): Piece[] {
  if (content === undefined || content === null) return [];
  const written = (text: string): Piece => (isMarkdown ? { kind: "markdown", text } : { kind: "text", text });
  if (typeof content === "string") return [written(content)];
  if (!Array.isArray(content)) return isObject(content) ? [partOf(content, written)] : [{ kind: "json", value: content }];
  return content.map((part) => (isObject(part) ? partOf(part, written) : { kind: "text", text: textOf(part) }));
}

const TEXTS = new Set(["input_text", "output_text", "text", "summary_text", "reasoning_text"]);

function partOf(part: JsonObject, written: (text: string) => Piece): Piece {
  if (TEXTS.has(String(part.type)) && typeof part.text === "string") return written(part.text);
  if (part.type === "refusal") return { kind: "text", text: textOf(part.refusal), title: "refusal" };
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
