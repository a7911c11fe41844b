import { CliError, EXIT } from "../cli-error.ts";

const SECONDS = { s: 1, m: 60, h: 3600, d: 86_400 } as const;

/** Parses a duration such as 30m into seconds. */
export function parseDuration(text: string): number {
  const match = /^(\d{1,9})([smhd])$/.exec(text);
  if (!match) throw new CliError(`${text} is not a duration such as 30m, 12h or 7d`, EXIT.usage);
  return Number(match[1]) * SECONDS[match[2] as keyof typeof SECONDS];
}
