/** `node sdk-server.ts COMMAND…`: the SDK's server with one agent process per connection. Prints its port. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable, Writable } from "node:stream";
import { ndJsonStream, type Stream } from "@agentclientprotocol/sdk";
import { createNodeWebSocketUpgradeHandler } from "@agentclientprotocol/sdk/experimental/node";
import { AcpServer } from "@agentclientprotocol/sdk/experimental/server";
import { WebSocketServer } from "ws";

const [file = "", ...args] = process.argv.slice(2);

function connect(client: Stream): { closed: Promise<void> } {
  const child = spawn(file, args, { stdio: ["pipe", "pipe", "ignore"] });
  const agent = ndJsonStream(
    Writable.toWeb(child.stdin) as WritableStream<Uint8Array>,
    Readable.toWeb(child.stdout) as ReadableStream<Uint8Array>,
  );
  const hangUp = () => child.kill();
  client.readable.pipeTo(agent.writable).then(hangUp, hangUp);
  agent.readable.pipeTo(client.writable).then(hangUp, hangUp);
  return { closed: once(child, "exit").then(() => {}) };
}

const acp = new AcpServer({ createAgent: () => ({ connect }) });
const server = createServer((_request, response) => response.writeHead(404).end());
server.on(
  "upgrade",
  createNodeWebSocketUpgradeHandler(acp, new WebSocketServer({ noServer: true, perMessageDeflate: false })),
);
server.listen(0, "127.0.0.1", () => console.log((server.address() as AddressInfo).port));
