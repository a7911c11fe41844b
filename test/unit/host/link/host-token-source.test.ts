import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { UnsecuredJWT } from "jose";
import { describe, expect, test } from "vitest";
import { hostTokenSource } from "../../../../src/host/link/host-token-source.ts";
import { temporaryDirectory } from "../../../fixtures/temporary-directory.ts";

describe("a host's token", () => {
  test("comes from the command line rather than from the environment", () => {
    expect(hostTokenSource({ command: "echo option" }, { token: "environment" })()).toBe("option");
    expect(hostTokenSource({}, { token: "environment" })()).toBe("environment");
    expect(() => hostTokenSource({}, {})).toThrow("ACP_EDGE_HOST_TOKEN is missing");
  });

  test("is read from its file each time, and survives an empty file", () => {
    const file = join(temporaryDirectory(), "token");
    expect(() => hostTokenSource({ file })).toThrow("ENOENT");
    writeFileSync(file, "one\n");
    const token = hostTokenSource({ file });
    writeFileSync(file, "two\n");
    expect(token()).toBe("two");
    writeFileSync(file, "");
    expect(token()).toBe("two");
  });

  test.each([
    ["is requested again before it expires", "30 seconds", 3],
    ["is kept while it is valid", "1 hour", 1],
  ])("printed by a command %s", (_, lifetime, runs) => {
    const jwt = new UnsecuredJWT({}).setExpirationTime(lifetime).encode();
    const counter = join(temporaryDirectory(), "count");
    const token = hostTokenSource({ command: `echo x >> ${counter}; echo ${jwt}` });
    token();
    expect(token()).toBe(jwt);
    expect(hostTokenSource({ command: `wc -l < ${counter}` })()).toBe(String(runs));
  });

  test("printed by a command is requested again when it is refused, once for all sockets", () => {
    const expiry = new Date(Date.now() + 3_600_000);
    const jwt = (jti: string) => new UnsecuredJWT({ jti }).setExpirationTime(expiry).encode();
    const file = join(temporaryDirectory(), "token");
    writeFileSync(file, jwt("one"));
    const token = hostTokenSource({ command: `cat ${file}` });
    writeFileSync(file, jwt("two"));
    expect(token()).toBe(jwt("one"));
    expect(token(jwt("one"))).toBe(jwt("two"));
    writeFileSync(file, jwt("three"));
    expect(token(jwt("one"))).toBe(jwt("two"));
  });
});
