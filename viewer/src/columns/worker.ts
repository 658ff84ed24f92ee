/** The worker: an engine for every run, called by messages. */

import { answer, type Call } from "./calls.ts";

self.onmessage = (message: MessageEvent<Call>) => self.postMessage(answer(message.data));
