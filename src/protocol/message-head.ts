import { ErrorCode, errorResponse } from "./errors.ts";

/**
 * The outline of a message that cannot be read whole: the message is too long or too complex, or is not valid text. The
 * outline tells who would wait for ever: without an error in the place of an answer its asker, and without an answer the
 * sender of a request.
 */
export type MessageHead = { readonly kind: "request" | "response"; readonly idText: string };

/**
 * Reads the short members before and after the body of a message. `end` is the end of a text of which only the beginning
 * is at hand. Undefined if both together do not tell.
 */
export function readHead(beginning: string, end = beginning): MessageHead | undefined {
  const first = membersBefore(beginning.slice(0, HEAD_CHARS));
  const last = membersAfter(end.slice(-HEAD_CHARS));
  // Of a member that is repeated, the last one counts, as it does for JSON.parse.
  const idText = last.id ?? first.id;
  if (idText === undefined) return undefined;
  if (first.method !== undefined || last.method !== undefined || first.body === "params")
    return { kind: "request", idText };
  return first.body === undefined ? undefined : { kind: "response", idText };
}

/** An error in the place of an answer that cannot be read. */
export function unreadableAnswer(idText: string, reason: string, code: number = ErrorCode.internal): string {
  const message = `The agent's answer cannot be read: ${reason}`;
  return errorResponse(idText, {
    ...{ code, message, data: { detailCode: UNREADABLE_ANSWER } },
  });
}

export const UNREADABLE_ANSWER = "unreadable_answer";

type Members = { id?: string | undefined; method?: string | undefined; body?: string | undefined };

function membersBefore(text: string): Members {
  const { 0: all = "", 1: body } = FIRST.exec(text) ?? [];
  return { ...membersIn(all), body };
}

function membersAfter(text: string): Members {
  return membersIn(LAST.exec(text)?.[0] ?? "");
}

function membersIn(text: string): Members {
  const members: Members = {};
  for (const [, name, value] of text.matchAll(EACH))
    if (name === "id" || (name === "method" && value?.startsWith('"'))) members[name] = value;
  return members;
}

const MEMBER = String.raw`"(?:jsonrpc|id|method)"\s*:\s*(?:-?\d+|"(?:[^"\\]|\\.)*")\s*`;

// The parts are constants, and the texts are short.
// oxlint-disable-next-line security/detect-non-literal-regexp
const FIRST = new RegExp(String.raw`^\s*\{\s*(?:${MEMBER}[,}]\s*)*(?:"(result|error|params)"\s*:)?`);
// A single brace closes the message itself: these members are of nothing inside it. The text has `HEAD_CHARS` at most, so
// a quadratic search stays short.
// oxlint-disable-next-line security/detect-non-literal-regexp, regexp/no-super-linear-move
const LAST = new RegExp(String.raw`(?:,\s*${MEMBER})+\}\s*$`);
const EACH = /"(id|method|jsonrpc)"\s*:\s*(-?\d+|"(?:[^"\\]|\\.)*")/g;

const HEAD_CHARS = 1024;
