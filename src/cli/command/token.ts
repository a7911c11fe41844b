import { Command } from "commander";
import type { JWK } from "jose";
import { hostTokenProblem, isScope, SCOPES, type Scope } from "../../protocol/caller.ts";
import { CliError, describeError, EXIT } from "../cli-error.ts";
import { claimsOf } from "../gateway/token-source.ts";
import {
  CLIENT_CLAIMS,
  HOST_CLAIMS,
  keyPath,
  makeKey,
  readKey,
  signerOf,
  type TokenClaims,
} from "../token-signer.ts";
import { outputCommand } from "./command-options.ts";
import { type OutputOptions, print, printNote } from "./output.ts";

/** Tokens for a self-hosted gateway. The owner of the private key decides who may do what. */
export function tokenCommand(): Command {
  return new Command("token")
    .description("Create tokens for your own gateway")
    .addCommand(signing("client", "Create a token for people and editors", CLIENT_CLAIMS, "30 days"))
    .addCommand(signing("host", "Create a token for `acp-edge host`", HOST_CLAIMS, "365 days"))
    .addCommand(keys());
}

type SignOptions = OutputOptions & {
  key?: string;
  state: string;
  workspace: string[];
  subject: string;
  tenant: string;
  scopes: string;
  lifetime: string;
  name?: string;
  issuer?: string;
  audience?: string;
};

function signing(name: string, summary: string, claims: TokenClaims, lifetime: string): Command {
  return outputCommand(name, summary)
    .option("--key <file>", "private key as a JWK, for example from `acp-edge token keys`")
    .option("--state <dir>", "state directory of `npm start`; its key is used without --key", ".acp-edge")
    .option("--workspace <id...>", "workspaces that the token allows, `*` for all", claims.workspaces)
    .option("--subject <name>", "bearer of the token", claims.sub)
    .option("--tenant <name>", "tenant", claims.tenant)
    .option("--scopes <list>", "scopes of the token, separated by commas", claims.scopes.join(","))
    .option("--lifetime <span>", "how long the token is valid, such as `12 hours`", lifetime)
    .option("--name <host>", "name of the only host that may use the token, for a host token")
    .option("--issuer <name>", "the gateway's AUTH_ISSUER")
    .option("--audience <name>", "the gateway's AUTH_AUDIENCE")
    .action(async (options: SignOptions) => {
      const signer = await signerOf(await privateKey(options), options);
      const claims: TokenClaims = {
        sub: options.subject,
        tenant: options.tenant,
        workspaces: options.workspace,
        scopes: scopesIn(options.scopes),
        ...(options.name !== undefined && { host: options.name }),
      };
      const problem = hostTokenProblem(claims.scopes, claims.workspaces);
      if (problem !== undefined)
        throw new CliError(`a gateway would refuse this token: ${problem}`, EXIT.usage);
      if (claims.scopes.includes("host") && claims.host === undefined)
        printNote(
          "without --name the token is valid for hosts of every name; a new name is audited as unusual",
        );
      const token = await signer.sign(claims, options.lifetime).catch((error: unknown) => {
        throw new CliError(`--lifetime ${options.lifetime}: ${describeError(error)}`, EXIT.usage);
      });
      print(options, { token, claims: claimsOf(token) }, () => token);
    });
}

/** A gateway ignores unknown scopes, so a misspelt scope is refused here. */
function scopesIn(list: string): Scope[] {
  const words = list.split(",").filter((scope) => scope !== "");
  const unknown = words.find((word) => !isScope(word));
  if (unknown !== undefined)
    throw new CliError(`--scopes: there is no scope ${unknown}, only ${SCOPES.join(", ")}`, EXIT.usage);
  return words.filter(isScope);
}

async function privateKey({ key, state }: SignOptions): Promise<JWK> {
  const path = key ?? keyPath(state);
  const jwk = await readKey(path).catch((error: unknown) => {
    throw new CliError(describeError(error), EXIT.usage);
  });
  if (!jwk)
    throw new CliError(
      `there is no key at ${path}: create one with \`acp-edge token keys FILE\``,
      EXIT.usage,
    );
  if (jwk.d === undefined) throw new CliError(`${path} is not a private key`, EXIT.usage);
  return jwk;
}

function keys(): Command {
  return outputCommand("keys", "Create a key pair and print its AUTH_JWKS for the gateway's configuration")
    .argument("<file>", "file for the private key; an existing key is kept")
    .action(async (file: string, options: OutputOptions) => {
      const known = await readKey(file);
      const { jwks } = await signerOf(known ?? (await makeKey(file)));
      printNote(known ? `${file} existed already` : `${file} contains the private key: keep it secret`);
      print(options, { file, created: !known, jwks: JSON.parse(jwks) }, () => jwks);
    });
}
