import { Hono } from "hono";
import { handOver } from "./acp.ts";
import { type AppEnv, requireScope } from "./auth.ts";
import { requireUpgrade } from "./upgrade.ts";

/**
 * Where web clients connect that choose their agent on the connection itself: the protocol of `/acp` over a
 * WebSocket, with control frames beside it.
 */
export const agentWs = new Hono<AppEnv>();

agentWs.get("/", requireScope("session:prompt", "session:read"), requireUpgrade, (c) =>
  handOver(c, { control: true }),
);
