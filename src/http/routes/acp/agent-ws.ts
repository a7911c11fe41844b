import { Hono } from "hono";
import type { AppEnv } from "../../app-env.ts";
import { requireScope } from "../../middleware/authentication.ts";
import { requireUpgrade } from "../../middleware/upgrade.ts";
import { handOver } from "./acp.ts";

/**
 * Where web clients connect that choose their agent on the connection itself: the protocol of `/acp` over a
 * WebSocket, with control frames beside it.
 */
export const agentWs = new Hono<AppEnv>();

agentWs.get("/", requireScope("session:prompt", "session:read"), requireUpgrade, (c) =>
  handOver(c, { control: true }),
);
