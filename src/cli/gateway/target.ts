import { insecureUrlMessage, isSecureUrl } from "../../protocol/secure-url.ts";
import { CliError, EXIT } from "../cli-error.ts";
import { type Config, configPath, type Profile, readConfig } from "./config-file.ts";
import { TokenSource } from "./token-source.ts";

/** Options of the command line. An option overrides its environment variable, which overrides the profile. */
export type TargetOptions = { profile?: string | undefined; insecure?: boolean | undefined } & {
  [key in Exclude<keyof Profile, "insecure">]?: string | undefined;
};

/** A gateway, and the workspace and agent to use there. */
export type Target = {
  /** Without a path: `https://host:port`. */
  url: string;
  workspace?: string;
  agent?: string;
  /** Returns the token. `fresh` asks for a new one, because the last was refused or is about to expire. */
  token(options?: { fresh?: boolean }): Promise<string>;
  /** The sources of the address and of the token, as text for people. */
  origin: { url: string; token: string };
};

export const ENVIRONMENT = {
  profile: "ACP_EDGE_PROFILE",
  url: "ACP_EDGE_URL",
  workspace: "ACP_EDGE_WORKSPACE",
  agent: "ACP_EDGE_AGENT",
  token: "ACP_EDGE_TOKEN",
  tokenCommand: "ACP_EDGE_TOKEN_COMMAND",
  tokenFile: "ACP_EDGE_TOKEN_FILE",
  loginFile: "ACP_EDGE_LOGIN_FILE",
} as const satisfies Record<Exclude<keyof TargetOptions, "insecure">, string>;

/** The variable that stands for `--insecure`. */
export const INSECURE_VARIABLE = "ACP_EDGE_INSECURE";

/** Resolves the gateway for any command: from options, then the environment, then the configuration file. */
export function resolveTarget(
  options: TargetOptions,
  env: NodeJS.ProcessEnv,
  config: Config = readConfig(env),
): Target {
  const { name, profile } = chosenProfile(config, options.profile ?? env.ACP_EDGE_PROFILE, env);
  const layers: Layer[] = [
    { origin: "the command line", values: options },
    { origin: "the environment", values: fromEnvironment(env) },
    { origin: `profile ${name}`, values: profile },
  ];
  const given = layers.find(({ values }) => values.url);
  if (!given?.values.url)
    throw new CliError(
      "no gateway is configured: use --url, ACP_EDGE_URL or `acp-edge config set url URL`",
      EXIT.usage,
    );
  const url = gatewayUrl(given.values.url);
  if (!isSecureUrl(url) && !isInsecureAllowed(url, options, env, profile))
    throw new CliError(insecureUrlMessage(url), EXIT.usage);
  // The query of the address counts as a part of the layer that has the address.
  const inAddress = { origin: given.origin, values: namedIn(given.values.url) };
  const all = layers.toSpliced(layers.indexOf(given) + 1, 0, inAddress);
  const source = tokenLayer(all, url, profile);
  const tokens = new TokenSource(source?.values ?? {});
  const [workspace, agent] = [pick(all, "workspace"), pick(all, "agent")];
  return {
    url,
    ...(workspace !== undefined && { workspace }),
    ...(agent !== undefined && { agent }),
    token: (request) => tokens.get(request),
    origin: { url: given.origin, token: source ? `${tokens.kind} of ${source.origin}` : "nowhere" },
  };
}

/** Normalizes the address of a gateway. The address of its WebSocket is accepted too. */
export function gatewayUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const protocol = url?.protocol.replace(/^ws/, "http");
  if (!url || (protocol !== "http:" && protocol !== "https:"))
    throw new CliError(
      `${text} is not the address of a gateway, such as https://acp.example.com`,
      EXIT.usage,
    );
  const path = url.pathname.replace(/(?<!\/)\/+$/, "").replace(/\/acp$/, "");
  return `${protocol}//${url.host}${path}`;
}

/** The members of a target that an address can name in its query, as the gateway reads the address of a WebSocket. */
const QUERY = ["workspace", "agent", "token"] as const;

function namedIn(address: string): TargetOptions {
  const query = new URL(address).searchParams;
  const unknown = [...query.keys()].find((name) => !QUERY.some((known) => known === name));
  if (unknown !== undefined)
    throw new CliError(`an address names a ${QUERY.join(", ")}, and no ${unknown}`, EXIT.usage);
  return Object.fromEntries(QUERY.map((name) => [name, query.get(name) ?? undefined]));
}

/** The address of the ACP WebSocket. */
export function acpUrl({ url, workspace, agent }: Pick<Target, "url" | "workspace" | "agent">): string {
  const address = new URL(`${url.replace(/^http/, "ws")}/acp`);
  if (workspace !== undefined) address.searchParams.set("workspace", workspace);
  if (agent !== undefined) address.searchParams.set("agent", agent);
  return address.href;
}

type Layer = { origin: string; values: Profile | TargetOptions };

function chosenProfile(
  { profile: inUse, profiles }: Config,
  wanted: string | undefined,
  env: NodeJS.ProcessEnv,
): { name: string; profile: Profile } {
  const name = wanted || inUse;
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (!profile && wanted)
    throw new CliError(`there is no profile ${JSON.stringify(name)} in ${configPath(env)}`, EXIT.usage);
  return { name, profile: profile ?? {} };
}

function fromEnvironment(env: NodeJS.ProcessEnv): TargetOptions {
  return Object.fromEntries(
    Object.entries(ENVIRONMENT).map(([key, variable]) => [key, env[variable] || undefined]),
  );
}

/** A profile allows its own gateway only. */
function isInsecureAllowed(
  url: string,
  options: TargetOptions,
  env: NodeJS.ProcessEnv,
  profile: Profile,
): boolean {
  if (options.insecure || ["1", "true"].includes(env[INSECURE_VARIABLE] ?? "")) return true;
  return profile.insecure === "true" && profile.url !== undefined && isSameGateway(profile.url, url);
}

function isSameGateway(one: string, other: string): boolean {
  return new URL(gatewayUrl(one)).origin === new URL(gatewayUrl(other)).origin;
}

function pick(layers: readonly Layer[], key: Exclude<keyof Profile, "insecure">): string | undefined {
  return layers.find(({ values }) => values[key])?.values[key];
}

/** A profile's token is never sent to another gateway than the profile's own. */
function tokenLayer(layers: readonly Layer[], url: string, profile: Profile): Layer | undefined {
  const layer = layers.find(
    ({ values }) => values.token || values.tokenCommand || values.tokenFile || values.loginFile,
  );
  if (layer?.values !== profile || profile.url === undefined) return layer;
  return isSameGateway(profile.url, url) ? layer : undefined;
}
