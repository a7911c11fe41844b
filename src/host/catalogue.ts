import { readFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { z } from "zod";
import { reasonOf } from "../node/log.ts";
import { OFFER_LIMITS } from "../protocol/host-wire.ts";
import { schemaFault } from "../protocol/schema-fault.ts";
import { OFFERABLE } from "./agent/client-capabilities.ts";

/**
 * The agents that a host knows. The format is that of the public ACP registry, so that entries, and even its whole
 * `registry.json`, can be used unchanged. The fields after `distribution` are our own.
 */

const VARIABLE = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "not the name of an environment variable");
const LAUNCH = {
  args: z.array(z.string()).default([]),
  env: z.record(VARIABLE, z.string()).default({}),
};
const PACKAGE = z.object({ package: z.string().min(1), cmd: z.string().min(1).optional(), ...LAUNCH });

const CAPABILITY = z.enum(OFFERABLE);

/** An environment variable, or a file in the user's home (`~/…`) that serves instead. */
const NEED = z.union([VARIABLE, z.string().startsWith("~/")]);

const ENTRY = z
  .object({
    id: z
      .string()
      .max(OFFER_LIMITS.idChars)
      .regex(/^[a-z][a-z0-9-]*$/, "lower case letters, digits and hyphens"),
    name: z.string().min(1).max(OFFER_LIMITS.nameChars),
    version: z.string().optional(),
    description: z.string().optional(),
    distribution: z
      .object({
        npx: PACKAGE.optional(),
        uvx: PACKAGE.optional(),
        /** By platform, such as `linux-x86_64`. */
        binary: z
          .record(z.string(), z.object({ archive: z.string(), cmd: z.string().min(1), ...LAUNCH }))
          .optional(),
      })
      .optional(),
    /** A command to run instead of a distribution. Paths that begin with a dot are relative to the catalogue file. */
    command: z.array(z.string()).min(1).optional(),
    /** Variables and files that the agent needs to start. Any one of a group suffices. */
    requires: z.array(z.union([NEED, z.array(NEED).min(1)])).optional(),
    /** Further variables that the agent receives if they are set. */
    accepts: z.array(VARIABLE).optional(),
    /** Other names by which clients know the agent. */
    aliases: z.array(z.string().min(1).max(OFFER_LIMITS.idChars)).max(OFFER_LIMITS.aliases).optional(),
    /**
     * Capabilities that the agent is offered beyond the usual ones (`with`), or is not offered (`without`), and why. An
     * agent that uses one without an offer is served all the same.
     */
    offers: z
      .strictObject({
        with: z.array(CAPABILITY).optional(),
        without: z.array(CAPABILITY).optional(),
        reason: z.string().min(1),
      })
      .optional(),
    notes: z.string().optional(),
  })
  .refine(({ distribution, command }) => distribution || command, "has neither a distribution nor a command");

export type CatalogueEntry = z.output<typeof ENTRY>;
export type Distribution = NonNullable<CatalogueEntry["distribution"]>;
/** A requirement of an agent: a variable or file, or several of which one suffices. */
export type Need = NonNullable<CatalogueEntry["requires"]>[number];

const BUILT_IN = fileURLToPath(new URL("catalogue.json", import.meta.url));

/** The built-in catalogue, extended and overridden by the entries of a file. */
export function readCatalogue(file?: string): CatalogueEntry[] {
  const entries = new Map(readEntries(BUILT_IN).map((entry) => [entry.id, entry]));
  for (const entry of file === undefined ? [] : readEntries(file)) {
    const { command: _, ...known } = entries.get(entry.id) ?? {};
    entries.set(entry.id, { ...known, ...entry });
  }
  return [...entries.values()];
}

function readEntries(file: string): CatalogueEntry[] {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new Error(`the catalogue ${file} cannot be read: ${reasonOf(error)}`);
  }
  const read = z.array(ENTRY).safeParse(entriesIn(content));
  if (!read.success) throw new Error(`the catalogue ${file} is invalid: ${schemaFault(read.error)}`);
  return read.data.map((entry) => ({
    ...entry,
    ...(entry.command && { command: resolvePaths(entry.command, file) }),
  }));
}

/** The entries of a registry, of a list, or of a file with a single entry. */
function entriesIn(content: unknown): unknown {
  if (Array.isArray(content)) return content;
  const { agents } = (content ?? {}) as { agents?: unknown };
  return agents ?? [content];
}

function resolvePaths(command: readonly string[], file: string): string[] {
  return command.map((word) =>
    /^\.\.?\//.test(word) ? fileURLToPath(new URL(word, pathToFileURL(file))) : word,
  );
}
