import stable from "@agentclientprotocol/sdk/schema/v1/schema.json" with { type: "json" };
import unstable from "@agentclientprotocol/sdk/schema/v1/schema.unstable.json" with { type: "json" };
import { describe, expect, test } from "vitest";
import { CAPABILITY_DECISIONS, clientCapabilities } from "../../../../src/host/agent/client-capabilities.ts";
import type { Machine } from "../../../../src/host/agent/installation.ts";
import { offeredAgents } from "../../../../src/host/agent/offered-agents.ts";
import { readCatalogue } from "../../../../src/host/catalogue.ts";
import { abilitiesOf, CLIENT_ABILITIES } from "../../../../src/protocol/client-abilities.ts";
import { catalogueFile } from "./registry-entry.ts";

type Schema = {
  $ref?: string;
  allOf?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  properties?: Record<string, Schema>;
};

/** The paths of all capabilities that a schema gives clients: members that have no members of their own. */
function capabilityPaths(schema: { $defs: Record<string, unknown> }): string[] {
  const membersOf = ({
    $ref,
    allOf = [],
    anyOf = [],
    oneOf = [],
    properties = {},
  }: Schema): [string, Schema][] => [
    ...Object.entries(properties).filter(([name]) => name !== "_meta"),
    ...($ref === undefined ? [] : membersOf(schema.$defs[$ref.replace("#/$defs/", "")] as Schema)),
    ...[...allOf, ...anyOf, ...oneOf].flatMap(membersOf),
  ];
  const leaves = (node: Schema, path: string[]): string[] => {
    const members = membersOf(node);
    if (members.length === 0) return [path.join(".")];
    return members.flatMap(([name, member]) => leaves(member, [...path, name]));
  };
  return leaves(schema.$defs.ClientCapabilities as Schema, []);
}

const PATHS = [...new Set([...capabilityPaths(stable), ...capabilityPaths(unstable)])];
const CONVENTIONS = ["_meta.terminal_output"];

describe("the capabilities that agents are offered", () => {
  test("are decided for each capability of the schema, and for no other", () => {
    expect(PATHS).toContain("session.configOptions.boolean");
    expect([...PATHS, ...CONVENTIONS].sort()).toEqual(Object.keys(CAPABILITY_DECISIONS).sort());
  });

  test("are all but those that cannot be honoured", () => {
    expect(clientCapabilities("host")).toEqual({
      fs: { readTextFile: true, writeTextFile: true },
      session: { configOptions: { boolean: {} }, notices: {}, compaction: {} },
      plan: {},
      elicitation: { form: {}, url: {} },
      _meta: { terminal_output: true },
    });
  });

  test("are everything that the gateway distinguishes clients by", () => {
    expect(abilitiesOf({ clientCapabilities: clientCapabilities("host") })).toEqual(CLIENT_ABILITIES);
  });

  test("include terminals where clients serve them, or where the agent needs them", () => {
    expect(clientCapabilities("client")).toEqual({ ...clientCapabilities("host"), terminal: true });
    expect(clientCapabilities("host", { with: ["terminal"] })).toHaveProperty("terminal", true);
  });

  test("can be narrowed for an agent, except for files and terminals that only clients have", () => {
    const without = ["fs.readTextFile", "terminal", "plan"] as const;
    expect(clientCapabilities("host", { without })).toMatchObject({ fs: { writeTextFile: true } });
    expect(clientCapabilities("host", { without })).not.toHaveProperty("fs.readTextFile");
    const { plan: _, ...rest } = clientCapabilities("client");
    expect(clientCapabilities("client", { without })).toEqual(rest);
  });
});

describe("the catalogue", () => {
  const BARE: Machine = { path: [], modules: [], download: false };
  const offerTo = (id: string) =>
    clientCapabilities(
      "host",
      offeredAgents({ agent: ["x"] }, BARE).find((agent) => agent.id === id)?.offers,
    );

  test("offers Gemini no files, and terminals to agents without a shell", () => {
    expect(offerTo("gemini")).not.toHaveProperty("fs");
    expect(offerTo("claude-acp")).not.toHaveProperty("terminal");
    for (const id of ["demo", "custom"]) expect(offerTo(id)).toHaveProperty("terminal", true);
  });

  test("gives the reason for each change", () => {
    const changed = readCatalogue().filter(({ offers }) => offers);
    expect(changed.map(({ id }) => id)).toEqual(["gemini", "demo"]);
    for (const { offers } of changed) expect(offers?.reason).toMatch(/^[A-Z].*\.$/);
  });

  test.each([
    [{ without: ["fs.readTextFile"] }, "reason"],
    [{ with: ["auth.terminal"], reason: "r" }, "with"],
    [{ without: ["fs.delete"], reason: "r" }, "without"],
    [{ widthout: ["plan"], reason: "r" }, "widthout"],
  ])("names the mistake in an entry's offers: %j", (offers, message) => {
    const entry = { id: "x", name: "X", command: ["x"], offers };
    expect(() => readCatalogue(catalogueFile(entry))).toThrow(message);
  });
});
