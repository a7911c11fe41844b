import { MetaKey } from "../../../protocol/extensions.ts";
import { isUuid } from "../../../protocol/ids.ts";
import {
  eachElement,
  eachMember,
  isArrayAt,
  isObjectAt,
  isStringAt,
  skipSpace,
  skipValue,
} from "../../../protocol/json-text.ts";

import type { PersonName } from "../state/people.ts";

/** The name under which a reader sees a connection. */
export type Pseudonym = (connection: string) => string;

/** How a reader sees the log. */
export type LogView = {
  /** The reader sees the conversation only. */
  readonly redact?: boolean | undefined;
  /** The names under which such a reader sees people. */
  readonly personName?: PersonName | undefined;
  /** The reader came by a link and sees no ids of connections. */
  readonly pseudonym?: Pseudonym | undefined;
};

/**
 * The line of an event with pseudonyms in place of the ids of connections: in the route of a frame, in the payload of a
 * fact, and where a client names the connection that it continues. Every other byte stays as it is.
 */
export function withPseudonyms(line: string, pseudonym: Pseudonym): string {
  const text = new Replacement(line);
  const name = (start: number): number => {
    const end = skipValue(line, start);
    const value: unknown = isStringAt(line, start) ? JSON.parse(line.slice(start, end)) : undefined;
    if (typeof value === "string" && isUuid(value))
      text.replace(start, end, JSON.stringify(pseudonym(value)));
    return end;
  };
  const names = (start: number): number =>
    isArrayAt(line, start) ? eachElement(line, start, name) : name(start);
  const within =
    (rules: Rules) =>
    (start: number): number =>
      isObjectAt(line, start)
        ? eachMember(line, start, (key, at) => (rules.get(key) ?? skip)(at))
        : skipValue(line, start);
  const skip = (start: number): number => skipValue(line, start);
  const meta = within(new Map([[MetaKey.as, name]]));
  const message = within(new Map([["params", within(new Map([["_meta", meta]]))]]));
  const payload = within(new Map([...MEMBERS.map((key) => [key, names] as const), ["message", message]]));
  within(new Map([["payload", payload]]))(skipSpace(line, 0));
  return text.result;
}

type Rules = ReadonlyMap<string, (start: number) => number>;

/** The members of a payload that may name connections. */
const MEMBERS = ["connection", "to", "except", "also", "by", "terminalsOf"] as const;

/** Parts of a text that are replaced from left to right. */
class Replacement {
  readonly #text: string;
  #done = "";
  #copied = 0;

  constructor(text: string) {
    this.#text = text;
  }

  replace(start: number, end: number, by: string): void {
    this.#done += this.#text.slice(this.#copied, start) + by;
    this.#copied = end;
  }

  get result(): string {
    return this.#done + this.#text.slice(this.#copied);
  }
}
