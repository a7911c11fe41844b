/** Checks messages of the gateway against the SDK's own JSON schema of the protocol. */
import { createRequire } from "node:module";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";

const SCHEMA = createRequire(import.meta.url)("@agentclientprotocol/sdk/schema/v1/schema.json") as object;

// The schema's formats (int64 and the like) and its annotations are none of ajv's.
const ajv = new Ajv2020({ strict: false, validateFormats: false }).addSchema(SCHEMA, "acp");
const validators = new Map<string, ValidateFunction>();

/** What a client gets, by method. */
const REQUESTS: Record<string, string> = {
  "session/request_permission": "RequestPermissionRequest",
  "elicitation/create": "CreateElicitationRequest",
  "fs/read_text_file": "ReadTextFileRequest",
  "fs/write_text_file": "WriteTextFileRequest",
};
const NOTIFICATIONS: Record<string, string> = {
  "session/update": "SessionNotification",
  "$/cancel_request": "CancelRequestNotification",
  "elicitation/complete": "CompleteElicitationNotification",
};
const RESULTS: Record<string, string> = {
  initialize: "InitializeResponse",
  authenticate: "AuthenticateResponse",
  "session/new": "NewSessionResponse",
  "session/load": "LoadSessionResponse",
  "session/resume": "ResumeSessionResponse",
  "session/close": "CloseSessionResponse",
  "session/list": "ListSessionsResponse",
  "session/delete": "DeleteSessionResponse",
  "session/prompt": "PromptResponse",
  "session/set_mode": "SetSessionModeResponse",
  "session/set_config_option": "SetSessionConfigOptionResponse",
};

/**
 * What is wrong with a message to a client; empty if nothing. A response does not say what it answers, so
 * the method is given with it. What the schema does not have is wrong as well: this is for messages that
 * should all be known.
 */
export function faults(message: Record<string, unknown>, answered?: string): string[] {
  const { jsonrpc, id, method, params, result, error } = message;
  const wrong = jsonrpc === "2.0" ? [] : ['jsonrpc is not "2.0"'];
  const extra = Object.keys(message).filter((key) => !MEMBERS.has(key));
  if (extra.length > 0) wrong.push(`members that JSON-RPC does not have: ${extra.join(", ")}`);
  if (typeof method === "string") {
    if ("result" in message || "error" in message) wrong.push("both a call and an answer");
    const names = "id" in message ? REQUESTS : NOTIFICATIONS;
    return [...wrong, ...against(names[method], params, method), ...("id" in message ? idFaults(id) : [])];
  }
  if ("result" in message === "error" in message) wrong.push("neither a result nor an error, or both");
  if ("error" in message) return [...wrong, ...against("Error", error, "error"), ...idFaults(id)];
  const name = answered === undefined ? undefined : RESULTS[answered];
  return [...wrong, ...against(name, result, answered ?? "an unnamed request"), ...idFaults(id)];
}

const MEMBERS: ReadonlySet<string> = new Set(["jsonrpc", "id", "method", "params", "result", "error"]);

function idFaults(id: unknown): string[] {
  return against("RequestId", id, "id");
}

function against(name: string | undefined, value: unknown, what: string): string[] {
  if (name === undefined) return [`${what}: not in the schema`];
  let validate = validators.get(name);
  if (!validate) {
    validate = ajv.compile({ $ref: `acp#/$defs/${name}` });
    validators.set(name, validate);
  }
  if (validate(value)) return [];
  return (validate.errors ?? []).map(({ instancePath, message }) => `${what}${instancePath}: ${message}`);
}
