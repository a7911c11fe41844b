/**
 * Bounds of the session's state. A snapshot writes the whole state as one row, so all bounds together stay below
 * `rowChars` for any well-behaved agent. The numbers are part of the fold and cannot be configured: with other numbers
 * a log would give another state. A change of any number raises STATE_VERSION.
 */
export const STATE_BUDGET = {
  /** Idempotency keys of prompts, and the length of a key. */
  promptKeys: 100,
  promptKeyChars: 200,
  /** The last chunk that an agent replayed, kept to recognise a repetition. */
  replayedChars: 4 * 1024,
  /** A detail of a tool call, a plan, a `_meta`. A longer value stays in the log alone. */
  detailChars: 4 * 1024,

  /** Tool calls, and the characters of their ids and details. */
  toolCalls: 300,
  toolCallsChars: 96 * 1024,

  /** Lists that the agent sends whole. A longer list is reduced to names and descriptions, as many as fit. */
  commandsChars: 64 * 1024,
  configOptionsChars: 32 * 1024,
  modelsChars: 24 * 1024,
  modesChars: 8 * 1024,
  planChars: 16 * 1024,

  /** Plans that have an id. */
  plans: 8,

  /** Ids; titles, descriptions and the like; single words. */
  idChars: 1024,
  labelChars: 200,
  /** Sub-agents whose sessions are known, and the length of an id: an agent has a few at a time. */
  children: 100,
  childIdChars: 200,
  pathChars: 4096,
  wordChars: 64,

  /** Errors and reasons. */
  reasonChars: 1000,

  /** People that the log names, and the length of a name. */
  people: 50,
  personChars: 200,

  /** Turns that have ended, turns in all, and the beginning of a prompt and a reply. */
  endedTurns: 50,
  turns: 150,
  previewChars: 200,

  /** Days of which the use is kept. */
  usageDays: 31,

  /** Open requests of the agent whose options, forms and addresses are kept. */
  permissions: 16,

  /** Updates that wait for the answer that opens the agent session. */
  earlyUpdates: 100,

  /** Terminals that clients serve, and the length of a terminal's id. */
  clientTerminals: 100,
  terminalIdChars: 200,

  /** Terminals that tool calls show, the end of each one's output, and all outputs together. */
  shownTerminals: 32,
  outputChars: 16 * 1024,
  outputsChars: 48 * 1024,
} as const;
