import { once } from "node:events";
import { connect, createServer } from "node:net";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { ndJsonStream } from "@agentclientprotocol/sdk";
import { descendants } from "../../src/cli/local/process-tree.ts";
import { startGateway } from "../e2e/gateway.ts";
import { end, start } from "./children.ts";
import { agentCommand, agentEnv, type Contender, overWebSocket, type Transport } from "./contender.ts";

const COMMAND = fileURLToPath(new URL("../../src/cli/command/main.ts", import.meta.url));
const STDIO_TO_WS = fileURLToPath(import.meta.resolve("stdio-to-ws/dist/main.js"));
const LOOPBACK = fileURLToPath(new URL("loopback.ts", import.meta.url));
const SDK_SERVER = fileURLToPath(new URL("sdk-server.ts", import.meta.url));

/** A pipe between the client and the agent. */
const direct: Contender = {
  name: "direct",
  start: async (agentState) => ({
    connect: async () => overPipes(agentCommand, agentEnv(agentState)),
    stop: async () => {},
  }),
};

function overPipes(command: readonly [string, ...string[]], env: NodeJS.ProcessEnv): Transport {
  const child = start(command, { env, stdio: ["pipe", "pipe", "ignore"] });
  const stream = ndJsonStream(
    Writable.toWeb(child.stdin as Writable) as WritableStream<Uint8Array>,
    Readable.toWeb(child.stdout as Readable) as ReadableStream<Uint8Array>,
  );
  return { stream, compressed: () => false, close: () => end(child) };
}

/**
 * The npm package unchanged. It prints every message even when told to be quiet; its output goes to /dev/null, where
 * that costs least.
 */
const stdioToWs: Contender = {
  name: "stdio-to-ws",
  start: async (agentState) => {
    const port = await freePort();
    const agent = agentCommand.map((word) => `"${word}"`).join(" ");
    const child = start(
      [process.execPath, "--import", LOOPBACK, STDIO_TO_WS, "--quiet", "--port", String(port), agent],
      { env: agentEnv(agentState), stdio: "ignore" },
    );
    await accepting(port);
    return { connect: async () => overWebSocket(`ws://127.0.0.1:${port}`), stop: () => end(child) };
  },
};

/** The SDK's own remote server with a process behind each connection. */
const sdkServer: Contender = {
  name: "sdk-server",
  start: async (agentState) => {
    const child = start([process.execPath, SDK_SERVER, ...agentCommand], {
      env: agentEnv(agentState),
      stdio: ["ignore", "pipe", "inherit"],
    });
    const lines = createInterface({ input: child.stdout as Readable });
    const [port] = (await once(lines, "line")) as [string];
    return { connect: async () => overWebSocket(`ws://127.0.0.1:${port}/acp`), stop: () => end(child) };
  },
};

/** The gateway on workerd and its host, started as a user starts them. It replays from its own log. */
const acpEdge: Contender = {
  name: "acp-edge",
  start: async () => {
    const gateway = await startGateway();
    return {
      connect: async () => overWebSocket(`${gateway.wsUrl}?token=${gateway.token}`),
      stop: async () => {
        await gateway[Symbol.asyncDispose]();
      },
      log: gateway.log,
    };
  },
};

/** The gateway behind `acp-edge connect`, which an editor starts as its agent. */
const bridge: Contender = {
  name: "connect",
  start: async () => {
    const gateway = await startGateway();
    return {
      connect: async () =>
        overPipes([process.execPath, COMMAND, "connect", gateway.wsUrl], {
          ...process.env,
          ACP_EDGE_TOKEN: gateway.token,
        }),
      stop: async () => {
        await gateway[Symbol.asyncDispose]();
      },
      log: gateway.log,
    };
  },
};

/** `direct` comes first because the others are compared with it. */
export const contenders: readonly Contender[] = [direct, stdioToWs, sdkServer, acpEdge, bridge];

/** A gateway that still runs when the benchmark ends, perhaps not ready yet. Its runner ends all its processes. */
process.once("exit", () => {
  for (const { pid, command } of descendants(process.pid)) {
    if (command.includes("src/cli/start.ts")) process.kill(pid, "SIGTERM");
  }
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

async function accepting(port: number, withinMs = 10_000): Promise<void> {
  for (const deadline = Date.now() + withinMs; ; ) {
    const socket = connect(port, "127.0.0.1");
    try {
      await once(socket, "connect");
      return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await sleep(50);
    } finally {
      socket.destroy();
    }
  }
}
