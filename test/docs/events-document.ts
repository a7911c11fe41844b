import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import type { FactDefinition, Listing, Visibility } from "../../src/session/core/events/facts/definition.ts";
import { PROCESS_FACTS } from "../../src/session/core/events/facts/process-facts.ts";
import { REQUEST_FACTS } from "../../src/session/core/events/facts/request-facts.ts";
import { SESSION_FACTS } from "../../src/session/core/events/facts/session-facts.ts";
import { TURN_FACTS } from "../../src/session/core/events/facts/turn-facts.ts";

/**
 * Writes `docs/events.md` from the catalogue of facts. `npm run docs:events` writes the file; with `--check` the script
 * fails when the file is not what the catalogue says.
 */

export const FILE = fileURLToPath(new URL("../../docs/events.md", import.meta.url));

const FAMILIES: readonly [string, Readonly<Record<string, FactDefinition>>][] = [
  ["The session", SESSION_FACTS],
  ["Turns and the queue", TURN_FACTS],
  ["Processes and hosts", PROCESS_FACTS],
  ["Requests of the agent", REQUEST_FACTS],
];

const INTRODUCTION = `# Events of a session

This page is generated from \`src/session/core/events/\` by \`npm run docs:events\`. Do not edit it.

Everything that happens in a session is an event in its log. A reader gets each event as one line of JSON in the
envelope of the acpx session model:

\`\`\`json
{"schema":"acpx.event.v1","seq":7,"eventId":"01J…","at":"2026-02-27T10:11:12.345Z","acpxRecordId":"<session id>",
 "acpSessionId":"<the agent's session id>","agentSessionId":null,"turnId":"turn_01J…","requestId":"req_5",
 "source":"gateway","kind":"turn.started","payload":{"turnId":"turn_01J…","prompt":5}}
\`\`\`

There are three sorts of events:

- **Frames** have the kind \`acp.frame\`: a JSON-RPC message as its sender wrote it. The payload has \`direction\` (\`out\`
  towards the agent, \`in\` from it), \`message\`, and the route of the message (\`connection\`, \`to\`, \`re\`, \`stop\` …).
- **Facts** are listed below. The gateway derives them from frames, or a host reports them.
- **Foreign events** came with an import and are of a kind, or in a form, that is not listed here. They are kept and
  shown as they are, and have no effect.

\`seq\` counts from 1 without gaps. A field named \`seq\`, \`request\`, \`answer\`, \`prompt\` or \`frame\` holds such a number.
\`requestId\` is the same in all events that belong to one prompt. A field marked *optional* may be absent.

The column *shown redacted* says whether a reader with a redacted token sees the field: \`yes\`, \`no\`, or \`in part\`,
without what tools were given or returned.
`;

export function eventsDocument(): string {
  const sections = FAMILIES.map(([title, facts]) => {
    const kinds = Object.entries(facts).map(([kind, definition]) => describeKind(kind, definition));
    return `## ${title}\n\n${kinds.join("\n")}`;
  });
  return `${INTRODUCTION}\n${sections.join("\n")}`;
}

function describeKind(kind: string, fact: FactDefinition): string {
  const rows = fieldsOf(fact.payload).map(
    ({ name, type }) => `| \`${name}\` | ${type} | ${redaction(fact.visible[name])} |`,
  );
  const table = ["| field | type | shown redacted |", "|---|---|---|", ...rows].join("\n");
  return `### \`${kind}\`\n\n${fact.meaning}\n\n${traits(fact)}\n\n${table}\n`;
}

function traits({ source, listed, webhook }: FactDefinition): string {
  const parts = [`Written by the ${source.replace(" or ", " or the ")}.`, INDEX[listed]];
  if (webhook) parts.push(`Webhook message: \`${webhook}\`.`);
  return parts.filter((part) => part !== "").join(" ");
}

const INDEX: Readonly<Record<Listing, string>> = {
  now: "The list of sessions shows it at once.",
  "with-requests":
    "The list of sessions shows it at once if the open permission requests or questions have changed.",
  soon: "The list of sessions shows it soon.",
  never: "",
};

function redaction(visibility: Visibility | undefined): string {
  if (visibility === undefined || visibility === "hidden") return "no";
  return visibility === "scalar" || visibility === "whole" || visibility === "open" ? "yes" : "in part";
}

// ---- types of fields ----------------------------------------------------------------------------------

type JsonSchema = {
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  anyOf?: JsonSchema[];
  properties?: Record<string, JsonSchema>;
  required?: string[];
  additionalProperties?: JsonSchema | boolean;
};

function fieldsOf(payload: FactDefinition["payload"]): { name: string; type: string }[] {
  const { properties = {}, required = [] } = z.toJSONSchema(payload) as JsonSchema;
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    type: required.includes(name) ? typeOf(schema) : `${typeOf(schema)}, *optional*`,
  }));
}

function typeOf(schema: JsonSchema): string {
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" or ");
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  if (schema.enum) return schema.enum.map((value) => `\`${JSON.stringify(value)}\``).join(" or ");
  if (schema.properties) {
    const members = Object.entries(schema.properties).map(
      ([name, member]) => `\`${name}\`: ${typeOf(member)}`,
    );
    return `object with ${members.join("; ")}`;
  }
  if (typeof schema.additionalProperties === "object")
    return `object whose members are ${typeOf(schema.additionalProperties)}`;
  return [schema.type ?? "any JSON"].flat().join(" or ");
}

// ---- the command --------------------------------------------------------------------------------------

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (!process.argv.includes("--check")) await writeFile(FILE, eventsDocument());
  else if ((await readFile(FILE, "utf8").catch(() => "")) !== eventsDocument()) {
    console.error("docs/events.md is stale: run `npm run docs:events`");
    process.exitCode = 1;
  }
}
