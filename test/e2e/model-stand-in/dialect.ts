/** How one vendor's API carries a conversation and an answer. */
import type { Item, Plan, Tool } from "./plan.ts";

export type Body = Record<string, unknown>;

export type Dialect = {
  /** The conversation and the tools in a request. */
  read(body: Body): { items: Item[]; tools: Tool[] };
  /** The answer as the events of a stream, up to and after the last text. The stand-in holds between both. */
  stream(plan: Plan, body: Body): { head: string[]; tail: string[] };
  /** The answer as one document. */
  whole(plan: Plan, body: Body): object;
};

/** The tool that a request describes by the schema of its parameters. */
export function toolOf(name: string, schema: unknown): Tool {
  return { name, parameters: Object.keys((schema as { properties?: object } | undefined)?.properties ?? {}) };
}

/** The text of a content that is a string, or a list of parts of which some have a text. */
export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content === undefined ? "" : JSON.stringify(content);
  return content
    .map((part: { text?: unknown }) => (typeof part.text === "string" ? part.text : ""))
    .join("\n");
}

export function event(data: object, name?: string): string {
  return `${name === undefined ? "" : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;
}
