/** Calls of engines as messages, so that they run in a worker or in this thread. */

import { Engine } from "./engine.ts";

type Methods = { [Name in keyof Engine]: Engine[Name] extends (...args: never[]) => unknown ? Name : never };
export type Method = Methods[keyof Engine];
export type Columns = {
  [Name in Method]: (...args: Parameters<Engine[Name]>) => Promise<ReturnType<Engine[Name]>>;
};

export interface Call {
  id: number;
  run: string;
  method: Method;
  args: unknown[];
}

export interface Answer {
  id: number;
  value?: unknown;
  error?: string;
}

const engines = new Map<string, Engine>();

/** Call the engine of a run. An error of the engine becomes an answer. */
export function answer({ id, run, method, args }: Call): Answer {
  let engine = engines.get(run);
  if (!engine) engines.set(run, (engine = new Engine()));
  try {
    const call = engine[method] as (...args: unknown[]) => unknown;
    return { id, value: call.apply(engine, args) };
  } catch (error) {
    return { id, error: error instanceof Error ? error.message : String(error) };
  }
}

type Post = (call: Call, settle: (answer: Answer) => void) => void;

/** The engine of a run, behind `post`. */
export function columnsOf(run: string, post: Post): Columns {
  let calls = 0;
  const call = (method: Method) => (...args: unknown[]) =>
    new Promise((resolve, reject) => {
      calls += 1;
      post({ id: calls, run, method, args }, ({ value, error }) => {
        if (error === undefined) resolve(value);
        else reject(new Error(error));
      });
    });
  const methods = Object.getOwnPropertyNames(Engine.prototype).filter((name) => name !== "constructor");
  return Object.fromEntries(methods.map((name) => [name, call(name as Method)])) as unknown as Columns;
}

/** Engines in this thread. */
export const postHere: Post = (call, settle) => queueMicrotask(() => settle(answer(call)));

/** Engines in a worker. */
export function postTo(worker: Worker): Post {
  const waiting = new Map<string, (answer: Answer) => void>();
  let sent = 0;
  worker.onmessage = (message: MessageEvent<Answer & { key: number }>) => {
    const key = String(message.data.id);
    waiting.get(key)?.(message.data);
    waiting.delete(key);
  };
  return (call, settle) => {
    sent += 1;
    waiting.set(String(sent), settle);
    worker.postMessage({ ...call, id: sent });
  };
}
