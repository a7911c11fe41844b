/** Messages as text frames of a WebSocket. */
import { once } from "node:events";
import { WebSocket } from "ws";
import type { Wire, WireEvents } from "./wire.ts";

export async function socketWire(url: string, { onMessage, onRefusal }: WireEvents): Promise<Wire> {
  const socket = new WebSocket(url, { maxPayload: 64 * 1024 * 1024 });
  await once(socket, "open");
  const closed = once(socket, "close");
  socket.on("message", (data, isBinary) => {
    if (isBinary) onRefusal("a binary frame");
    else onMessage(data as Buffer);
  });
  return {
    isOrdered: true,
    send: (text) => socket.send(text),
    async end() {
      socket.close(1000);
      const [code] = await closed;
      return String(code);
    },
  };
}
