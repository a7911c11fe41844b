import { BlockList } from "node:net";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { reachOf } from "../../../src/protocol/network-address.ts";
import { insecureUrlMessage, isSecureUrl } from "../../../src/protocol/secure-url.ts";
import {
  readWebhookTargets,
  WEBHOOK_TARGETS,
  webhookTargetRefusal,
} from "../../../src/protocol/webhook-targets.ts";
import { propertyRuns } from "../../fixtures/property-runs.ts";

const LOOPBACK = [
  "127.0.0.1",
  "127.0.0.1.",
  "127.255.3.4",
  "2130706433",
  "0x7f000001",
  "0x7f.1",
  "0177.0.0.1",
  "127.1",
  "１２７.０.０.１",
  "localhost",
  "LOCALHOST.",
  "[::1]",
  "[0:0:0:0:0:0:0:1]",
  "[::ffff:127.0.0.1]",
  "[::ffff:7f00:1]",
];
const INTERNAL = [
  "0.0.0.0",
  "0",
  "10.1.2.3",
  "167772161",
  "012.0.0.1",
  "100.64.0.1",
  "169.254.169.254",
  "0xa9fea9fe",
  "172.16.0.1",
  "172.31.255.255",
  "192.168.1.1",
  "192.0.2.1",
  "198.19.0.1",
  "224.0.0.1",
  "255.255.255.255",
  "[::]",
  "[fe80::1]",
  "[fd00:ec2::254]",
  "[fec0::1]",
  "[ff02::1]",
  "[::ffff:169.254.169.254]",
  "[::169.254.169.254]",
  "[64:ff9b::a9fe:a9fe]",
  "[64:ff9b:1::1]",
  "[2002:7f00:1::]",
  "[2001:0:1::1]",
  "[2001:db8::1]",
  "[100::1]",
  "metadata",
  "metadata.google.internal",
  "metadata.google.internal.",
  "printer.local",
  "x.localhost",
  "router.home.arpa",
  "db.lan",
];
const PUBLIC = [
  "example.com",
  "example.com.",
  "127.example.com",
  "localhost.example.com",
  "internal.example",
  "8.8.8.8",
  "172.32.0.1",
  "100.128.0.1",
  "198.20.0.1",
  "[2606:4700::1111]",
  "[2a00:1450:4001::1]",
];

describe("the reach of an address", () => {
  const reach = (host: string) => reachOf(new URL(`https://${host}/`).hostname);
  test.each(LOOPBACK)("%s stays on this machine", (host) => expect(reach(host)).toBe("loopback"));
  test.each(INTERNAL)("%s is of a local network", (host) => expect(reach(host)).toBe("internal"));
  test.each(PUBLIC)("%s is public", (host) => expect(reach(host)).toBe("public"));

  /** The registries of special addresses, as Node's own matcher reads them. */
  const special = new BlockList();
  for (const range of [
    ...["0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"],
    ...["192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"],
    ...["198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"],
  ])
    special.addSubnet(range.split("/")[0] as string, Number(range.split("/")[1]), "ipv4");
  for (const range of ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"])
    special.addSubnet(range.split("/")[0] as string, Number(range.split("/")[1]), "ipv6");
  const global = new BlockList();
  global.addSubnet("2000::", 3, "ipv6");

  test("is public exactly where the registries of IPv4 say nothing, also when IPv6 maps it", () => {
    const first = fc.constantFrom(0, 9, 10, 11, 100, 127, 169, 172, 192, 198, 203, 224, 255);
    const byte = fc.oneof(fc.nat(255), fc.constantFrom(0, 2, 16, 18, 31, 51, 64, 88, 99, 100, 113, 168, 254));
    fc.assert(
      fc.property(fc.oneof(first, fc.nat(255)), byte, byte, fc.nat(255), (a, b, c, d) => {
        const address = `${a}.${b}.${c}.${d}`;
        expect(reach(address) === "public").toBe(!special.check(address, "ipv4"));
        expect(reach(`[::ffff:${address}]`)).toBe(reach(address));
        expect(reach(String(((a * 256 + b) * 256 + c) * 256 + d))).toBe(reach(address));
      }),
      propertyRuns(4000),
    );
  });

  test("is public exactly in the assigned part of IPv6", () => {
    const group = fc.oneof(fc.nat(0xffff), fc.constantFrom(0, 1, 0xdb8, 0x1ff, 0x200, 0xffff));
    const first = fc.oneof(group, fc.constantFrom(0x2000, 0x2001, 0x2002, 0x3fff, 0x2a00, 0xfe80, 0xfd00));
    fc.assert(
      fc.property(first, fc.array(group, { minLength: 7, maxLength: 7 }), (head, rest) => {
        const address = [head, ...rest].map((part) => part.toString(16)).join(":");
        fc.pre(!/^(0:){5}ffff:/.test(address));
        const isPublic = global.check(address, "ipv6") && !special.check(address, "ipv6");
        expect(reach(`[${address}]`) === "public").toBe(isPublic);
      }),
      propertyRuns(4000),
    );
  });
});

describe("a secure URL", () => {
  test.each([
    ...LOOPBACK.flatMap((host) => [`http://${host}:8790/x`, `ws://${host}/acp`]),
    "https://acp.example.com",
    "wss://10.0.0.1/acp",
  ])("%s", (url) => expect(isSecureUrl(url)).toBe(true));

  test.each([...INTERNAL, ...PUBLIC])("is not plain http or ws to %s", (host) => {
    expect(isSecureUrl(`http://${host}/`)).toBe(false);
    expect(isSecureUrl(`ws://${host}/`)).toBe(false);
  });

  test("is asked for in one line, without the path, which may have a token", () => {
    const message = insecureUrlMessage("http://10.0.0.1:7000/acp?token=sesame");
    expect(message).toContain("http://10.0.0.1:7000 is not encrypted");
    expect(message).not.toMatch(/sesame|\n/);
  });
});

describe("the target of a webhook", () => {
  const allowed = (host: string) =>
    WEBHOOK_TARGETS.filter((targets) => webhookTargetRefusal(`https://${host}/`, targets) === undefined);

  test.each(PUBLIC)("%s is allowed by default", (host) => {
    expect(allowed(host)).toEqual(["public", "loopback", "any"]);
    expect(webhookTargetRefusal(`http://${host}/`, "any")).toContain("https");
  });
  test.each(LOOPBACK)("%s is allowed where the operator says so", (host) => {
    expect(allowed(host)).toEqual(["loopback", "any"]);
    expect(webhookTargetRefusal(`http://${host}/`, "loopback")).toBeUndefined();
  });
  test.each(INTERNAL)("%s is allowed only where every address is", (host) => {
    expect(allowed(host)).toEqual(["any"]);
  });

  test("is read from the operator's variable, which has three values", () => {
    expect(readWebhookTargets(undefined)).toBe("public");
    expect(readWebhookTargets("")).toBe("public");
    expect(readWebhookTargets("loopback")).toBe("loopback");
    expect(() => readWebhookTargets("everything")).toThrow("public, loopback, any");
  });
});
