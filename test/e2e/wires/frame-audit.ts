/** Validates all messages between two peers against the schema, in both directions. */
import { extendedFaults } from "../../fixtures/schema.ts";
import type { Message } from "../client.ts";

/** A message between two peers, named as the caller likes. */
export type Exchanged = { by: string; text: string; isDeliberate?: boolean };

/** A message that violates the schema. */
export type Fault = { by: string; fault: string; text: string };

export function audit(frames: Iterable<Exchanged>): Fault[] {
  const found: Fault[] = [];
  const requests: Request[] = [];
  for (const { by, text, isDeliberate = false } of frames) {
    const message = objectOf(text);
    const fault = (what: string) => found.push({ by, fault: what, text: text.slice(0, EXCERPT) });
    if (!message) {
      if (!isDeliberate) fault("is not a JSON object");
      continue;
    }
    const { id, method } = message;
    if (method !== undefined && id !== undefined) requests.push({ by, id, method });
    if (isDeliberate) continue;
    for (const what of extendedFaults(message, answeredBy(requests, by, message))) fault(what);
  }
  return found;
}

/** The faults of `found` that the other faults do not have as well: a message passed on keeps its faults. */
export function withoutPassedOn(found: Fault[], others: Fault[]): Fault[] {
  const known = new Set(others.map(({ fault }) => fault));
  return found.filter(({ fault }) => !known.has(fault));
}

export function describeFaults(found: Fault[]): string[] {
  return [...new Set(found.map(({ by, fault, text }) => `${by}: ${fault}\n    ${text}`))];
}

const EXCERPT = 300;

type Request = { by: string; id: unknown; method: string };

/** The method that a response answers: the other peer sent the request. */
function answeredBy(requests: Request[], by: string, { id, method }: Message): string | undefined {
  if (method !== undefined) return undefined;
  return requests.findLast((request) => request.by !== by && request.id === id)?.method;
}

function objectOf(text: string): Message | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Message) : undefined;
  } catch {
    return undefined;
  }
}
