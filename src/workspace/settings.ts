import { z } from "zod";
import { LIMITS } from "../protocol/limits.ts";
import { ASK_ALWAYS, PERMISSION_POLICY } from "../protocol/permission-policy.ts";

/** What people decide about a workspace; everything else about it is learnt from its hosts. */

const DAY_MS = 24 * 60 * 60 * 1000;
const AGENT_ID = z.string().min(1).max(100);

/**
 * A container is started for this workspace when it has no host. Image and size are the deployment's; keys of agents
 * are secrets, not settings.
 */
const CONTAINER = z.strictObject({
  /** How long nobody may have needed it before it is ended. */
  sleepAfterMs: z.number().int().min(1000).max(DAY_MS).optional(),
  /** Those of the image that may be used, the default first. */
  agents: z
    .array(AGENT_ID.regex(/^[^,]+$/))
    .min(1)
    .max(50)
    .optional(),
  /** What its directory begins with: the disk of a container is new each time. */
  git: z
    .strictObject({
      url: z.url({ protocol: /^https$/ }).max(1000),
      ref: z
        .string()
        .regex(/^\w[\w./-]*$/)
        .max(200)
        .optional(),
    })
    .optional(),
});
export type ContainerSettings = z.infer<typeof CONTAINER>;

const SETTINGS = z.strictObject({
  name: z.string().trim().min(1).max(200).nullable(),
  /** The agent of a client that asks for none; null leaves it to the hosts. */
  defaultAgent: AGENT_ID.nullable(),
  policy: PERMISSION_POLICY,
  /** Every host sees the same files, so that a session may go on wherever there is one. */
  sharedFiles: z.boolean(),
  /** How long a host may be away before its sessions hear of it. */
  hostGraceMs: z
    .number()
    .int()
    .min(100)
    .max(7 * DAY_MS),
  /** Where the agent's file and terminal requests are served. */
  clientIo: z.enum(["host", "client"]),
  /** Null: hosts are started by others only. */
  container: CONTAINER.nullable(),
});

export type Settings = z.infer<typeof SETTINGS>;

/** Some of the settings; those left out stay as they are. */
export const SETTINGS_CHANGE = SETTINGS.partial().refine(
  (change) => Object.keys(change).length > 0,
  `Name at least one of: ${Object.keys(SETTINGS.shape).join(", ")}`,
);
export type SettingsChange = z.infer<typeof SETTINGS_CHANGE>;

export function defaultSettings(): Settings {
  return {
    name: null,
    defaultAgent: null,
    policy: ASK_ALWAYS,
    sharedFiles: false,
    hostGraceMs: LIMITS.hostGraceMs,
    clientIo: "host",
    container: null,
  };
}
