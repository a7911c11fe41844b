import {
  allowInsecureRequests,
  type Configuration,
  discovery,
  initiateDeviceAuthorization,
  None,
  pollDeviceAuthorizationGrant,
  ResponseBodyError,
  refreshTokenGrant,
  type TokenEndpointResponse,
} from "openid-client";
import type { LoginProviders } from "../../protocol/login.ts";
import { isSecureUrl } from "../../protocol/secure-url.ts";
import { CliError, describeError, EXIT } from "../cli-error.ts";
import { type Login, readLogin, writeLogin } from "./login-file.ts";

/** An OpenID provider at which the command can log in. */
export type Provider = LoginProviders["providers"][number] & { commandClientId: string };

/** The page at which a person confirms the login, and the code to compare or to type. */
export type Confirmation = { url: string; code: string; expiresInSeconds: number };

/** Logs in by the device flow (RFC 8628): a person confirms on any device, and the command waits. */
export async function logInByDevice(
  { issuer, commandClientId: clientId, scopes, token: use }: Provider,
  show: (confirmation: Confirmation) => void,
  signal: AbortSignal,
): Promise<Login> {
  return explained(issuer, async () => {
    const config = await configurationOf(issuer, clientId);
    const scope = [...new Set([...scopes, "offline_access"])].join(" ");
    const device = await initiateDeviceAuthorization(config, { scope, prompt: "consent" });
    show({
      url: device.verification_uri_complete ?? device.verification_uri,
      code: device.user_code,
      expiresInSeconds: device.expires_in,
    });
    const tokens = await pollDeviceAuthorizationGrant(config, device, undefined, { signal });
    return loginFrom({ issuer, clientId, use }, tokens);
  });
}

/**
 * Replaces the token of a login file by a new one. A refresh token may work only once, so a login that another process
 * has renewed meanwhile is used as it is.
 */
export async function renewLogin(path: string, expired: string): Promise<string> {
  const login = readLogin(path);
  if (login.token !== expired) return login.token;
  const { issuer, clientId, refreshToken } = login;
  if (refreshToken === undefined)
    throw new CliError("the login has expired: use `acp-edge login`", EXIT.unauthorized);
  try {
    const renewed = await explained(issuer, async () => {
      const tokens = await refreshTokenGrant(await configurationOf(issuer, clientId), refreshToken);
      return loginFrom({ refreshToken, ...login }, tokens);
    });
    writeLogin(path, renewed);
    return renewed.token;
  } catch (error) {
    const current = readLogin(path);
    if (current.token !== expired) return current.token;
    throw error;
  }
}

function loginFrom(
  { issuer, clientId, use, refreshToken: previous }: Omit<Login, "token">,
  { id_token, access_token, refresh_token = previous }: TokenEndpointResponse,
): Login {
  const token = use === "id" ? id_token : access_token;
  if (token === undefined)
    throw new CliError(`${issuer} sent no id token: use \`acp-edge login\` again`, EXIT.unauthorized);
  return {
    issuer,
    clientId,
    use,
    token,
    ...(refresh_token !== undefined && { refreshToken: refresh_token }),
  };
}

function configurationOf(issuer: string, clientId: string): Promise<Configuration> {
  if (!isSecureUrl(issuer))
    throw new CliError(`${issuer} is not encrypted: nobody logs in there`, EXIT.usage);
  const insecure = issuer.startsWith("http:") && { execute: [allowInsecureRequests] };
  return discovery(new URL(issuer), clientId, undefined, None(), { timeout: TIMEOUT_SECONDS, ...insecure });
}

const TIMEOUT_SECONDS = 15;

/** Failures of the provider in the user's terms. */
async function explained<T>(issuer: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CliError) throw error;
    if (error instanceof ResponseBodyError)
      throw new CliError(
        `${issuer} refused the login: ${error.error_description ?? error.error}`,
        EXIT.unauthorized,
      );
    throw new CliError(`the login at ${issuer} failed: ${describeError(error)}`, EXIT.unreachable);
  }
}
