import { z } from "zod";
import { CLOSE_MEANING } from "../../../../protocol/close-meaning.ts";
import { OPENING_RULES } from "../../../../protocol/opening-rules.ts";
import { DUPLICATE_CHUNKS } from "../../../../protocol/workspace-settings.ts";
import { fact, hidden, NUMBER_OR_NULL, SEQ, SYNTHETIC, shown, TEXT, TEXT_OR_NULL } from "./definition.ts";

const ON_HOST = { run: TEXT_OR_NULL, host: TEXT_OR_NULL };

/** The agent's processes, called runs, and the hosts they are on. */
export const PROCESS_FACTS = {
  "runtime.connected": fact({
    meaning:
      "The host's socket for a new process arrived. `processRequest` is the event that asked for the process. `clientIo` is the workspace's setting: the side that serves files and terminals; absent: the host. `opening` says what clients may bring along when they open a session; absent: everything. `closeMeans` is the meaning of a client's session/close from here on; absent: `auto`. `duplicateChunks` says which repeated chunks are kept from clients; absent: replayed ones. Earlier builds wrote `io`, which the host had said of itself and which nothing follows.",
    source: "gateway",
    listed: "never",
    payload: {
      run: TEXT,
      agent: TEXT,
      host: TEXT,
      root: TEXT,
      processRequest: NUMBER_OR_NULL,
      delivered: NUMBER_OR_NULL,
      clientIo: z.enum(["host", "client"]).optional(),
      opening: OPENING_RULES.optional(),
      closeMeans: CLOSE_MEANING.optional(),
      duplicateChunks: z.enum(DUPLICATE_CHUNKS).optional(),
      io: z.enum(["host", "client"]).optional(),
    },
    visible: {
      ...shown("agent", "processRequest", "delivered", "clientIo", "closeMeans", "io"),
      ...hidden("run", "host", "root"),
      opening: "open",
      duplicateChunks: "scalar",
    },
  }),
  "runtime.reconnected": fact({
    meaning: "The host's socket for a known process is back.",
    source: "gateway",
    listed: "soon",
    payload: ON_HOST,
    visible: hidden("run", "host"),
  }),
  "runtime.disconnected": fact({
    meaning: "The host's socket was lost; the process may be alive.",
    source: "gateway",
    listed: "never",
    payload: { run: TEXT_OR_NULL, reason: TEXT_OR_NULL },
    visible: { run: "hidden", reason: "scalar" },
  }),
  "runtime.paused": fact({
    meaning: "The host has been away for so long that clients are told; the session waits for it.",
    source: "gateway",
    listed: "soon",
    payload: { ...ON_HOST, reason: TEXT_OR_NULL },
    visible: { ...hidden("run", "host"), reason: "scalar" },
  }),
  "runtime.reconnect_attempt": fact({
    meaning:
      'The session asks for a process after `delayMs`; with `process: "same"` the process it has is to open the session again.',
    source: "gateway",
    listed: "never",
    payload: {
      attempt: NUMBER_OR_NULL,
      delayMs: NUMBER_OR_NULL,
      reason: TEXT.optional(),
      process: z.literal("same").optional(),
    },
    visible: shown("attempt", "delayMs", "reason", "process"),
  }),
  "runtime.opening_refused": fact({
    meaning:
      "The client wants to bring along something that the workspace's `setting` does not allow. The process is told to end, and everything that waits for it fails.",
    source: "gateway",
    listed: "soon",
    freesPlacement: true,
    stopsProcess: "the workspace does not allow the opening",
    payload: { setting: TEXT, message: TEXT },
    visible: shown("setting", "message"),
  }),
  "runtime.noise": fact({
    meaning: "The agent wrote something that is not one JSON-RPC message.",
    source: "host",
    listed: "never",
    payload: { text: TEXT },
    visible: { text: "hidden" },
  }),
  "terminal.output": fact({
    meaning:
      "The host reported a piece of the output of a terminal that it serves. `toolCallId` is the tool call that shows the terminal, if one does already, and `announcedAt` the event that told clients of the terminal.",
    source: "host",
    listed: "never",
    payload: { terminalId: TEXT, toolCallId: TEXT_OR_NULL, data: TEXT, announcedAt: SEQ.optional() },
    visible: { ...shown("terminalId", "toolCallId", "announcedAt"), data: "hidden" },
  }),
  "terminal.ended": fact({
    meaning: "The command in a terminal that the host serves ended.",
    source: "host",
    listed: "never",
    payload: {
      terminalId: TEXT,
      toolCallId: TEXT_OR_NULL,
      exitCode: NUMBER_OR_NULL,
      signal: TEXT_OR_NULL,
      announcedAt: SEQ.optional(),
    },
    visible: shown("terminalId", "toolCallId", "exitCode", "signal", "announcedAt"),
  }),
  "queue.owner.started": fact({
    meaning: "The process runs.",
    source: "host",
    listed: "never",
    payload: { run: TEXT_OR_NULL, pid: NUMBER_OR_NULL, command: TEXT_OR_NULL },
    visible: hidden("run", "pid", "command"),
  }),
  "queue.owner.stopped": fact({
    meaning:
      "The process ended: on request (`expected`), with its host (`lost`), or on its own. Its unanswered requests fail.",
    source: "host or gateway",
    listed: "soon",
    freesPlacement: true,
    payload: {
      run: TEXT_OR_NULL,
      pid: NUMBER_OR_NULL.optional(),
      code: NUMBER_OR_NULL,
      signal: TEXT_OR_NULL,
      error: TEXT.optional(),
      stderr: TEXT.optional(),
      reason: TEXT_OR_NULL,
      expected: z.boolean().nullable(),
      lost: z.literal(true).optional(),
      synthetic: SYNTHETIC,
    },
    visible: {
      ...shown("code", "signal", "reason", "expected", "lost", "synthetic"),
      ...hidden("run", "pid", "error", "stderr"),
    },
  }),
  "queue.owner.draining": fact({
    meaning: "The host is draining: no further turn begins in the process.",
    source: "gateway",
    listed: "never",
    payload: ON_HOST,
    visible: hidden("run", "host"),
  }),
  "queue.owner.drained": fact({
    meaning: "The process is told to end because its host is draining; the queue waits for the next process.",
    source: "gateway",
    listed: "never",
    stopsProcess: "the host is being drained",
    payload: ON_HOST,
    visible: hidden("run", "host"),
  }),
  "queue.owner.lease_renewed": fact({
    meaning: "The process had work; it is checked again at `until`, in milliseconds since the epoch.",
    source: "gateway",
    listed: "never",
    payload: { run: TEXT_OR_NULL, until: z.number() },
    visible: { run: "hidden", until: "scalar" },
  }),
  "queue.owner.idle_expired": fact({
    meaning: "The process had no work for `idleMs` and is told to end; the next prompt starts another.",
    source: "gateway",
    listed: "soon",
    stopsProcess: "idle",
    payload: { run: TEXT_OR_NULL, idleMs: NUMBER_OR_NULL },
    visible: { run: "hidden", idleMs: "scalar" },
  }),
  error: fact({
    meaning:
      "Something went wrong. With `violation` the agent broke a rule in event `frame` and goes on (`last`: further cases of this turn are only counted); with `item` the gateway skipped that item of the run, which it could not record; with the `detailCode` `frame_skipped` it skipped a client's frame, with `webhook_message_skipped` a webhook message that the workspace could not take; with `message_dropped` a host could not send a message of the agent; otherwise `origin` failed.",
    source: "host or gateway",
    listed: "soon",
    freesPlacement: true,
    webhook: "agent.failed",
    payload: {
      origin: TEXT_OR_NULL,
      code: NUMBER_OR_NULL,
      detailCode: TEXT_OR_NULL,
      message: TEXT_OR_NULL,
      stderr: TEXT.optional(),
      violation: TEXT.optional(),
      frame: SEQ.optional(),
      last: z.literal(true).optional(),
      item: z.number().optional(),
    },
    visible: {
      ...shown("origin", "code", "detailCode", "message", "violation", "frame", "last", "item"),
      stderr: "hidden",
    },
  }),
};
