import { existsSync } from "node:fs";
import { isAbsolute } from "node:path";
import { isRecord, parseJson } from "../../protocol/json-value.ts";
import { SECRET_CHARS_MIN } from "./secret-forms.ts";

/** A value that must not leave the host, with the name that replaces it. */
export type Secret = { name: string; value: string };

const SOUNDS_SECRET =
  /KEY|TOKEN|SECRET|PASS(WORD|WD|PHRASE|CODE)|(^|[_-])(PASS|PWD|PAT|PIN|AUTH|JWT|DSN)($|[_-])|CREDENTIAL|AUTHORI[SZ]ATION|COOKIE|PRIVATE/i;

/** The beginnings of keys that well-known services issue. */
const ISSUED =
  /^(sk-|sk_|pk_live|rk_live|gh[oprsu]_|github_pat_|glpat-|xox[abeoprs]-|AKIA|ASIA|AIza|ya29\.|eyJ[\w-]+\.|npm_|hf_|dop_v1_|-----BEGIN)/;

/** Credentials within a value: `password=…` of a connection string or a query. */
const NAMED_PART =
  /(?:password|passwd|pwd|passphrase|secret|token|api[-_]?key|access[-_]?key|accountkey|sharedaccesskey|sig)=("[^"]*"|'[^']*'|[^;&\s]+)/gi;

const RANDOM_CHARS_MIN = 20;
/** Bits per character. English words and paths are below, random letters and digits above. */
const RANDOM_ENTROPY_MIN = 3.5;

/** Secrets among environment variables: by their name, by their form, and the credentials within a value. */
export function secretsOfEnvironment(
  env: Readonly<Record<string, string>>,
  passed: readonly string[] = [],
): Secret[] {
  return Object.entries(env).flatMap(([name, value]) =>
    isSecretValue(name, value) || (passed.includes(name) && !looksPlain(value))
      ? secretsIn(name, value)
      : partsOf(name, value),
  );
}

/** A value that is a secret, and the secrets within it. */
export function secretsIn(name: string, value: string): Secret[] {
  return [{ name, value }, ...partsOf(name, value)];
}

/**
 * Credentials that a frame gives the agent: settings of MCP servers, a login, settings of the agent in the `_meta` of an
 * opening, an option that holds a key, and an answer to a form. An error message of the agent may quote them.
 */
export function secretsOfFrame(raw: string): Secret[] {
  if (!MAY_HOLD_CREDENTIALS.some((text) => raw.includes(text))) return [];
  const message = parseJson(raw);
  if (!isRecord(message)) return [];
  if (isRecord(message.result)) return leaves(message.result.content).flatMap(namedCredentials);
  if (!isRecord(message.params)) return [];
  const { method, params } = message;
  switch (method) {
    case "authenticate": {
      const { methodId: _, ...given } = params;
      return leaves(given).flatMap(credentials);
    }
    case "session/set_config_option":
      return namedCredentials({ name: String(params.configId), value: String(params.value) });
    default:
      return [
        ...serverSettings(params.mcpServers).flatMap(credentials),
        ...leaves(params._meta).flatMap(namedCredentials),
      ];
  }
}

/** Texts without which a frame holds none, so that most frames are not parsed. */
const MAY_HOLD_CREDENTIALS = ['"mcpServers"', '"authenticate"', '"session/set_config_option"', '"accept"'];

/** Settings of an agent are mostly models, modes and paths, so a value counts by its name or its form alone. */
function namedCredentials({ name, value }: Secret): Secret[] {
  return isSecretValue(name, value) ? secretsIn(name, value) : partsOf(name, value);
}

/** A credential of a server or a login is rarely named well, so any value counts that does not look plain. */
function credentials({ name, value }: Secret): Secret[] {
  // `Authorization: Bearer …`
  const [, scheme, rest] = /^(Bearer|Basic|Token|ApiKey)\s+(\S.*)$/i.exec(value) ?? [];
  if (scheme !== undefined && rest !== undefined) return secretsIn(name, rest);
  return isSecretValue(name, value) || !looksPlain(value) ? secretsIn(name, value) : partsOf(name, value);
}

function serverSettings(servers: unknown): Secret[] {
  const all = Array.isArray(servers) ? servers : isRecord(servers) ? Object.values(servers) : [];
  return all.flatMap((server) =>
    isRecord(server) ? [server.env, server.headers].flatMap((settings) => settingsIn(settings)) : [],
  );
}

/** Settings are a list of names and values; some clients send an object. */
function settingsIn(settings: unknown): Secret[] {
  if (!Array.isArray(settings)) return leaves(settings);
  return settings.flatMap((setting) =>
    isRecord(setting) && typeof setting.name === "string" && typeof setting.value === "string"
      ? [{ name: setting.name, value: setting.value }]
      : [],
  );
}

/** All texts of a value with the name of their member. */
function leaves(value: unknown): Secret[] {
  const found: Secret[] = [];
  const open: [string, unknown][] = [["", value]];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [name, inner] = next;
    if (typeof inner === "string") found.push({ name, value: inner });
    else if (Array.isArray(inner)) for (const element of inner) open.push([name, element]);
    else if (isRecord(inner)) for (const member of Object.entries(inner)) open.push(member);
  }
  return found;
}

function isSecretValue(name: string, value: string): boolean {
  if (ISSUED.test(value)) return true;
  // `SSH_AUTH_SOCK` and `…_KEY_FILE` name a file, whose path is no secret.
  if (SOUNDS_SECRET.test(name) && !isUrl(value)) return !(isAbsolute(value) && existsSync(value));
  return looksRandom(value);
}

function looksRandom(value: string): boolean {
  const isToken =
    value.length >= RANDOM_CHARS_MIN &&
    /^[\w+=.~-][\w+/=.~-]*$/.test(value) &&
    /\d/.test(value) &&
    /[a-z]/.test(value) &&
    /[A-Z]/.test(value);
  return isToken && entropy(value) >= RANDOM_ENTROPY_MIN;
}

/** A path, an address, a number, a version or words: redacting it would make texts unreadable. */
function looksPlain(value: string): boolean {
  return (
    value.length < SECRET_CHARS_MIN ||
    isUrl(value) ||
    /^[~.]{0,2}\/[\w./@ -]*$/.test(value) ||
    /^[\d.,:]+$/.test(value) ||
    value.split(/[ ._:,-]/).every((word) => PLAIN_WORD.test(word)) ||
    /^[a-z.-]+(:\d+)?$/i.test(value)
  );
}

/** A word, a number, or a short mark such as `v2` and `4o`: the parts of `us-east-1` and of names of models. */
const PLAIN_WORD = /^(?:[A-Za-z]*|\d+|[A-Za-z]{1,2}\d{1,3}|\d{1,3}[A-Za-z]{1,2})$/;

function isUrl(value: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(value);
}

function partsOf(name: string, value: string): Secret[] {
  const parts = [...value.matchAll(NAMED_PART)].map(([, part = ""]) => part.replace(/^["']|["']$/g, ""));
  if (isUrl(value)) parts.push(...userInfo(value));
  if (value.includes("\n"))
    parts.push(
      ...value
        .split("\n")
        .map((line) => line.trim())
        .filter(looksRandom),
    );
  return parts.map((part) => ({ name, value: part }));
}

/** The password of a URL; or its user, if there is no password: then the user is a key. */
function userInfo(text: string): string[] {
  const [, user = "", password = ""] = /^[^:]+:\/\/([^:@/?#]*)(?::([^@/?#]*))?@/.exec(text) ?? [];
  const secret = password || (user.length >= RANDOM_CHARS_MIN || ISSUED.test(user) ? user : "");
  return secret === "" ? [] : [secret, percentDecoded(secret)];
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function entropy(text: string): number {
  const counts = new Map<string, number>();
  for (const char of text) counts.set(char, (counts.get(char) ?? 0) + 1);
  let bits = 0;
  for (const count of counts.values()) bits -= (count / text.length) * Math.log2(count / text.length);
  return bits;
}
