import { z } from "zod";
import { members, scalars } from "../../../../protocol/allow-list.ts";
import { BROUGHT_MEMBERS } from "../../state/brought-members.ts";
import { PERSON } from "../visible-parts.ts";
import { fact, hidden, NUMBER_OR_NULL, SEQ, SYNTHETIC, shown, TEXT, TEXT_OR_NULL } from "./definition.ts";

const IDENTITY = {
  tenant: TEXT,
  owner: TEXT,
  workspace: TEXT,
  agent: TEXT,
  cwd: TEXT,
  /** The client's session/new; null while the client has only logged in. */
  request: NUMBER_OR_NULL,
};
/** Whoever changes the session: `by` is a connection or a route. */
const CHANGER = { by: TEXT_OR_NULL, subject: TEXT_OR_NULL };
const SHOWN_CHANGER = { by: "hidden", subject: PERSON } as const;
const SHOWN_IDENTITY = {
  ...shown("workspace", "agent", "request"),
  tenant: "hidden",
  owner: PERSON,
  cwd: "hidden",
} as const;

/** The life of the session itself, and of the agent's session behind it. */
export const SESSION_FACTS = {
  "session.anticipated": fact({
    meaning: "A client needs an agent process before it opens the session, to log in.",
    source: "gateway",
    listed: "never",
    payload: IDENTITY,
    visible: SHOWN_IDENTITY,
  }),
  "session.requested": fact({
    meaning: "A client asked for the session with the session/new that `request` names.",
    source: "gateway",
    listed: "soon",
    payload: IDENTITY,
    visible: SHOWN_IDENTITY,
  }),
  "session.imported": fact({
    meaning:
      "The events before this one came from elsewhere; `from` says from where, the other fields whose the session is now.",
    source: "gateway",
    listed: "now",
    payload: {
      from: z.object({
        format: z.enum(["acpx", "record", "fork"]),
        acpxRecordId: TEXT,
        lastSeq: SEQ,
        /** Of a copy: whether it has all events of the original. */
        whole: z.boolean().optional(),
        tenant: TEXT_OR_NULL,
        owner: TEXT_OR_NULL,
        workspace: TEXT_OR_NULL,
      }),
      ...IDENTITY,
      /** The agent begins a new session: whoever imported the log may not choose the agent session to continue. */
      anew: z.literal(true).optional(),
    },
    visible: {
      anew: "scalar",
      from: members(scalars("format", "acpxRecordId", "lastSeq", "whole")),
      ...SHOWN_IDENTITY,
    },
  }),
  "session.created": fact({
    meaning: "The agent opened the first agent session.",
    source: "gateway",
    listed: "now",
    opensAgentSession: true,
    payload: {
      acpSessionId: TEXT_OR_NULL,
      previous: TEXT_OR_NULL.optional(),
      synthetic: SYNTHETIC,
      agentCommand: TEXT_OR_NULL.optional(),
      cwd: TEXT_OR_NULL.optional(),
      name: TEXT_OR_NULL.optional(),
    },
    visible: { ...shown("synthetic", "name"), ...hidden("acpSessionId", "previous", "agentCommand", "cwd") },
  }),
  "session.rebound": fact({
    meaning: "The agent opened another agent session in place of `previous`, which it cannot continue.",
    source: "gateway",
    listed: "soon",
    opensAgentSession: true,
    payload: { acpSessionId: TEXT_OR_NULL, previous: TEXT_OR_NULL },
    visible: hidden("acpSessionId", "previous"),
  }),
  "session.loaded": fact({
    meaning:
      "A new process continued the agent session (`acpSessionId`, `method`), or a client attached (`connection`, `request`, `replay`, `role`); `brings` names the members of its request that the next process gets.",
    source: "gateway",
    listed: "soon",
    opensAgentSession: true,
    payload: {
      acpSessionId: TEXT_OR_NULL.optional(),
      method: TEXT.optional(),
      connection: TEXT.optional(),
      request: SEQ.optional(),
      replay: z.boolean().optional(),
      role: z.enum(["controller", "observer"]).optional(),
      brings: z.array(z.enum(BROUGHT_MEMBERS)).optional(),
    },
    visible: {
      ...shown("method", "connection", "request", "replay", "role"),
      ...hidden("acpSessionId", "brings"),
    },
  }),
  "session.members_refused": fact({
    meaning:
      "The process that is to open the session says that the workspace does not allow these `members`, which clients brought before. The session forgets them, and every client is told.",
    source: "gateway",
    listed: "never",
    payload: { members: z.array(z.enum(BROUGHT_MEMBERS)) },
    visible: hidden("members"),
  }),
  "session.update_released": fact({
    meaning:
      "Clients get the update `frame`, which the agent sent before it answered the request to open the agent session.",
    source: "gateway",
    listed: "never",
    payload: { frame: SEQ },
    visible: shown("frame"),
  }),
  "session.detached": fact({
    meaning:
      "A client left the session before the agent had answered its `requests`. The requests go on, and the answers are for nobody.",
    source: "gateway",
    listed: "never",
    payload: { connection: TEXT, requests: z.array(SEQ) },
    visible: { connection: "scalar", requests: "hidden" },
  }),
  "session.agent_session_id.updated": fact({
    meaning: "The agent told the id that its harness has for the session.",
    source: "gateway",
    listed: "never",
    payload: { agentSessionId: TEXT_OR_NULL, previous: TEXT_OR_NULL.optional(), synthetic: SYNTHETIC },
    visible: { ...hidden("agentSessionId", "previous"), synthetic: "scalar" },
  }),
  "session.closed": fact({
    meaning: "The session was closed; a client that loads or resumes it opens it again.",
    source: "gateway",
    listed: "soon",
    freesPlacement: true,
    stopsProcess: "closed",
    payload: { by: TEXT_OR_NULL, synthetic: SYNTHETIC },
    visible: { by: "hidden", synthetic: "scalar" },
  }),
  "session.titled": fact({
    meaning: "A person gave the session a title, which holds whatever title the agent tells.",
    source: "gateway",
    listed: "now",
    payload: { title: TEXT, ...CHANGER },
    visible: { title: "scalar", ...SHOWN_CHANGER },
  }),
  "session.archived": fact({
    meaning: "A person put the session away: lists leave it out unless they are asked for archived sessions.",
    source: "gateway",
    listed: "now",
    payload: CHANGER,
    visible: SHOWN_CHANGER,
  }),
  "session.unarchived": fact({
    meaning: "Lists have the session again.",
    source: "gateway",
    listed: "now",
    payload: CHANGER,
    visible: SHOWN_CHANGER,
  }),
  "agent.login": fact({
    meaning:
      "The agent accepted a login or logout of this connection; the connection's other sessions are told.",
    source: "gateway",
    listed: "never",
    payload: { request: SEQ, method: TEXT, connection: TEXT },
    visible: shown("request", "method", "connection"),
  }),
  "agent.settings.restored": fact({
    meaning:
      "A new process was asked for the mode, model and options of the process before; `lost` of them do not hold, and every client was told.",
    source: "gateway",
    listed: "never",
    payload: { lost: z.number().int().nonnegative() },
    visible: shown("lost"),
  }),
  "log.archived": fact({
    meaning:
      "Events `first` to `last`, with `chars` characters of frames, were moved to the archive under `key`.",
    source: "gateway",
    listed: "never",
    payload: { first: SEQ, last: SEQ, key: TEXT, chars: z.number().int().nonnegative() },
    visible: { ...shown("first", "last", "chars"), key: "hidden" },
  }),
};
