/** Tokens and secrets do not travel in clear: plain http and ws are for gateways on this machine. */
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { networkInterfaces } from "node:os";
import { describe, expect, onTestFinished, test } from "vitest";
import { acpEdge, emptyEnvironment, startAcpEdge } from "./command.ts";

/** A server that listens on every address of this machine, and counts who comes. */
async function listener() {
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.destroy();
  }).listen(0, "0.0.0.0");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { port, connections: () => connections, connected: () => once(server, "connection") };
}

/** An address of this machine that others can reach; a machine without a network has none. */
const OUTSIDE = Object.values(networkInterfaces())
  .flatMap((addresses) => addresses ?? [])
  .find(({ family, internal }) => family === "IPv4" && !internal)?.address;

const COMMANDS: [string, (url: string) => string[]][] = [
  ["host", (url) => ["host", "--gateway", url, "--workspace", "w", "--root", ".", "--token", "t"]],
  ["connect", (url) => ["connect", url.replace("http", "ws"), "--token", "t"]],
  ["sessions", (url) => ["sessions", "ls", "--url", url, "--token", "t"]],
  ["run", (url) => ["run", "hello", "--url", url, "--token", "t"]],
  ["login", (url) => ["login", "--url", url]],
];

describe.skipIf(OUTSIDE === undefined)("a gateway on another machine", () => {
  test.each(COMMANDS)("is refused by `%s` without encryption, before anything is sent", async (_, args) => {
    const { port, connections } = await listener();
    const url = `http://${OUTSIDE}:${port}`;
    const { code, stderr } = await acpEdge(args(url), emptyEnvironment(), { input: "token\n" });
    expect(code).toBe(2);
    expect(stderr.trim().split("\n")).toHaveLength(1);
    expect(stderr).toContain(`${url} is not encrypted`);
    expect(stderr).toContain("--insecure");
    expect(connections()).toBe(0);
  });

  test.each(COMMANDS)("is reached by `%s` with --insecure or its variable", async (_, args) => {
    const { port, connected } = await listener();
    const words = args(`http://${OUTSIDE}:${port}`);
    for (const [more, env] of [[["--insecure"], {}] as const, [[], { ACP_EDGE_INSECURE: "1" }] as const]) {
      const reached = connected();
      const running = startAcpEdge([...words, ...more], { ...emptyEnvironment(), ...env });
      running.child.stdin?.end("token\n");
      await reached;
      running.child.kill("SIGKILL");
      await running.ended;
    }
  });

  test("may be the gateway of a profile that says so, and no other gateway", async () => {
    const { port, connections, connected } = await listener();
    const env = emptyEnvironment();
    const url = `http://${OUTSIDE}:${port}`;
    for (const pair of [
      ["url", url],
      ["token", "t"],
      ["insecure", "true"],
    ])
      expect((await acpEdge(["config", "set", ...pair], env)).code).toBe(0);
    expect((await acpEdge(["config", "set", "insecure", "yes"], env)).code).toBe(2);
    const reached = connected();
    expect((await acpEdge(["sessions", "ls"], env)).code).toBe(4);
    await reached;
    const before = connections();
    const other = `http://${OUTSIDE}:${port + 1}`;
    expect((await acpEdge(["sessions", "ls", "--url", other, "--token", "t"], env)).code).toBe(2);
    expect(connections()).toBe(before);
  });
});

test.each(["127.0.0.1", "127.0.0.2", "localhost", "2130706433"])(
  "a gateway on this machine at %s needs no encryption",
  async (host) => {
    const { port, connected } = await listener();
    const reached = connected();
    const env = emptyEnvironment();
    const { code } = await acpEdge(
      ["sessions", "ls", "--url", `http://${host}:${port}`, "--token", "t"],
      env,
    );
    await reached;
    expect(code).toBe(4);
  },
);
