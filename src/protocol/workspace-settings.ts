import { z } from "zod";
import { CLOSE_MEANING } from "./close-meaning.ts";
import { GIT_CREDENTIALS_REFUSED, hasGitCredentials } from "./git-url.ts";
import { OPENING_SETTINGS } from "./opening-rules.ts";
import { PERMISSION_POLICY } from "./permission-policy.ts";

/** `replay`: those that an agent replays; `stream`: all that come right after each other; `off`: none. */
export const DUPLICATE_CHUNKS = ["replay", "stream", "off"] as const;
export type DuplicateChunks = (typeof DUPLICATE_CHUNKS)[number];

/** The decisions of people about a workspace. Everything else about a workspace is reported by its hosts. */

const DAY_MS = 24 * 60 * 60 * 1000;
const AGENT_ID = z.string().min(1).max(100);

/**
 * A workspace with these settings starts a container when it has no host. The deployment chooses image and size;
 * the keys of agents are secrets, not settings.
 */
const CONTAINER = z.strictObject({
  /** The container ends when it has not been needed for this long. */
  sleepAfterMs: z.number().int().min(1000).max(DAY_MS).optional(),
  /** The agents of the image that may be used, the default first. */
  agents: z
    .array(AGENT_ID.regex(/^[^,]+$/))
    .min(1)
    .max(50)
    .optional(),
  /** The repository to clone into its directory: the disk of a container is new with each start. */
  git: z
    .strictObject({
      url: z
        .url({ protocol: /^https$/, abort: true })
        .max(1000)
        .refine((url) => !hasGitCredentials(url), GIT_CREDENTIALS_REFUSED),
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
  /** The agent for clients that name none; null leaves the choice to the hosts. */
  defaultAgent: AGENT_ID.nullable(),
  policy: PERMISSION_POLICY,
  /** All hosts see the same files, so a session may continue on any of them. */
  sharedFiles: z.boolean(),
  /** How long a host may be away before its sessions are told. */
  hostGraceMs: z
    .number()
    .int()
    .min(100)
    .max(7 * DAY_MS),
  /** Where the agent's file and terminal requests are served. */
  clientIo: z.enum(["host", "client"]),
  /** The meaning of a client's `session/close`. */
  closeMeans: CLOSE_MEANING,
  /** Null: the workspace starts no container. */
  container: CONTAINER.nullable(),
  /** A client of `/agent/ws` that leaves closes its sessions, unless another client is attached to them. */
  closeWithLastClient: z.boolean(),
  /** Which text chunks that repeat the chunk before them are kept from clients. */
  duplicateChunks: z.enum(DUPLICATE_CHUNKS),
  /** The agent's name for clients of the container data model; null leaves them the agent's own. */
  clientAgentName: z.string().trim().min(1).max(200).nullable(),
  ...OPENING_SETTINGS,
});
export type Settings = z.infer<typeof SETTINGS>;

/** Some of the settings; the others stay as they are. */
export const SETTINGS_CHANGE = SETTINGS.partial().refine(
  (change) => Object.keys(change).length > 0,
  `Name at least one of: ${Object.keys(SETTINGS.shape).join(", ")}`,
);
export type SettingsChange = z.infer<typeof SETTINGS_CHANGE>;
