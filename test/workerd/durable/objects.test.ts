import { describe, expect, test } from "vitest";
import {
  connectionObject,
  containerObject,
  jurisdictionRecord,
  sessionObject,
  socketHolder,
  tenantObject,
  unrestrictedTenant,
  workspaceObject,
} from "../../../src/durable/objects.ts";

/** The local runtime has no jurisdictions, so a namespace here says which object would be used. */
function namespace(binding: string, jurisdiction = "") {
  return {
    jurisdiction: (name: string) => namespace(binding, `${name}:`),
    getByName: (name: string, options?: { locationHint?: string }) =>
      [binding, jurisdiction + name, ...(options?.locationHint ? [options.locationHint] : [])].join(" "),
  };
}

function environment(regions?: object): Env {
  return {
    ACP_SESSION_DO: namespace("session"),
    WORKSPACE_STATE_DO: namespace("workspace"),
    ACP_CONNECTION_DO: namespace("connection"),
    TENANT_DO: namespace("tenant"),
    AGENT_CONTAINER: namespace("container"),
    ...(regions && { REGIONS: JSON.stringify(regions) }),
  } as unknown as Env;
}

/** Every object of a tenant, by every function that finds one. */
const objectsOf = (env: Env) => [
  sessionObject(env, "acme", "s", "w"),
  workspaceObject(env, "acme", "w"),
  connectionObject(env, "acme", "c"),
  tenantObject(env, "acme"),
  containerObject(env, "acme", "w"),
  socketHolder(env, "acme", { class: "session", name: "acme/s" }),
  socketHolder(env, "acme", { class: "workspace", name: "acme/w" }),
  socketHolder(env, "acme", { class: "connection", name: "c" }),
];

describe("the objects of a tenant", () => {
  test("are where the platform puts them, without a region", () => {
    expect(objectsOf(environment())).toEqual([
      "session acme/s",
      "workspace acme/w",
      "connection c",
      "tenant acme",
      "container acme/w",
      "session acme/s",
      "workspace acme/w",
      "connection c",
    ]);
  });

  test("are all in the tenant's jurisdiction, near the location of the tenant or the workspace", () => {
    const regions = { acme: { jurisdiction: "eu", location: "weur" }, "acme/w": { location: "eeur" } };
    expect(objectsOf(environment(regions))).toEqual([
      "session eu:acme/s eeur",
      "workspace eu:acme/w eeur",
      "connection eu:c weur",
      "tenant eu:acme weur",
      "container eu:acme/w eeur",
      "session eu:acme/s weur",
      "workspace eu:acme/w weur",
      "connection eu:c weur",
    ]);
  });

  test("have the jurisdiction on record in an object that every configuration finds", () => {
    for (const env of [environment(), environment({ acme: { jurisdiction: "eu" } })]) {
      expect(jurisdictionRecord(env, "acme")).toBe("tenant acme/jurisdiction");
      expect(unrestrictedTenant(env, "acme")).toBe("tenant acme");
    }
  });
});
