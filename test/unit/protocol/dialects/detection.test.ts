import { describe, expect, test } from "vitest";
import { type DialectName, readOffer } from "../../../../src/protocol/dialects/index.ts";
import * as container from "../../../fixtures/dialects/container-data-model.ts";
import * as localServers from "../../../fixtures/dialects/local-mcp-servers.ts";
import * as webGateway from "../../../fixtures/dialects/web-gateway.ts";
import type { Json } from "../../../fixtures/json.ts";
import { json, paramsOf } from "./fixtures.ts";

describe("the dialect of initialize params", () => {
  test.each<[unknown, DialectName | null]>([
    [paramsOf(container.initialize), "container"],
    [paramsOf(webGateway.initialize), "web-gateway"],
    [paramsOf(localServers.initialize), null],
    [{ protocolVersion: 1 }, null],
    [{ protocolVersion: 1, clientCapabilities: {} }, null],
    [{ protocolVersion: 1, capabilities: {} }, "web-gateway"],
    [{ protocolVersion: 1, capabilities: {}, clientCapabilities: {} }, null],
    [{ protocolVersion: 2, capabilities: {} }, null],
    [{ protocolVersion: 1, clientCapabilities: { filesRead: false } }, "container"],
    [{ protocolVersion: "1" }, "web-gateway"],
    [{ protocolVersion: "1", clientCapabilities: { editWorkspace: true } }, "container"],
    [{ protocolVersion: "0.3.1" }, "container"],
    [{ protocolVersion: "0.9", capabilities: { fs: {} } }, "web-gateway"],
    // This version is refused later, as any version that is no integer.
    [{ protocolVersion: "2", capabilities: {} }, null],
    [{ protocolVersion: "1.0" }, null],
    [{ protocolVersion: "latest" }, null],
    [{ protocolVersion: 1.5, capabilities: {} }, null],
    [{ capabilities: {} }, null],
    [null, null],
    [[], null],
  ])("%j is %s", (params, name) => {
    expect(readOffer(params).dialect).toBe(name);
  });
});

describe("initialize", () => {
  const canonical = {
    protocolVersion: 1,
    agentInfo: { name: "Claude Code", version: "1.0.0" },
    agentCapabilities: { loadSession: true, modes: ["ask", "code", "architect"] },
    authMethods: [],
  };

  test("translates the web gateway's example both ways", () => {
    const offered = paramsOf(webGateway.initialize);
    expect(readOffer(offered).offer).toEqual({
      protocolVersion: 1,
      clientInfo: { name: "SAM Web Client", version: "1.0.0" },
      clientCapabilities: { terminal: true, fs: { readTextFile: true, writeTextFile: true } },
    });
    const answer = readOffer(offered).answered(canonical, {});
    expect(answer).toMatchObject(json(webGateway.initializeResult).result as object);
    expect(answer).toMatchObject({ agentCapabilities: canonical.agentCapabilities, authMethods: [] });
  });

  test("echoes the version to the web gateway in the type that the client sent", () => {
    for (const protocolVersion of ["1", "0.9", 1])
      expect(readOffer({ protocolVersion, capabilities: {} }).answered(canonical, {})).toMatchObject({
        protocolVersion,
      });
  });

  test("translates the container data model's example both ways", () => {
    const offered = paramsOf(container.initialize);
    expect(readOffer(offered).offer).toEqual({
      protocolVersion: 1,
      clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } },
    });
    const agentInfo = { name: "Claude Code Container", version: "1.0.0" };
    const answer = readOffer(offered).answered({ ...canonical, agentInfo }, {});
    expect(answer).toMatchObject(json(container.initializeResult).result as object);
    expect(answer).toMatchObject({ agentCapabilities: { loadSession: true, githubIntegration: false } });
  });

  test("keeps, in the container data model, what an agent says about itself", () => {
    const agentCapabilities = { githubIntegration: true, editWorkspace: false };
    expect(readOffer({ protocolVersion: "0.1" }).answered({ agentCapabilities }, {})).toMatchObject({
      agentCapabilities: { githubIntegration: true, editWorkspace: false, filesRead: true },
    });
  });

  test("offers, in the container data model, the files that the client names", () => {
    const fs = (clientCapabilities: object) =>
      (readOffer({ protocolVersion: "0.1", clientCapabilities }).offer as Json).clientCapabilities;
    expect(fs({ filesRead: true })).toEqual({ fs: { readTextFile: true, writeTextFile: false } });
    expect(fs({ editWorkspace: true, terminal: true })).toEqual({
      terminal: true,
      fs: { readTextFile: false, writeTextFile: true },
    });
  });
});

test("the web gateway's capabilities name the modes last known of the agent, unless the agent names its own", () => {
  const { answered } = readOffer(paramsOf(webGateway.initialize));
  const modes = ["ask", "code"];
  expect(answered({ agentCapabilities: {} }, { modes })).toMatchObject({ capabilities: { modes } });
  expect(answered({ agentCapabilities: { modes: ["own"] } }, { modes })).toMatchObject({
    capabilities: { modes: ["own"] },
  });
});
