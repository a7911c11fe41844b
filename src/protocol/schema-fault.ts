import type { z } from "zod";

/** Faults that a sentence names; the rest of a long list helps nobody. */
const NAMED = 3;

/** What a schema has against a value, as one sentence without line breaks: ACP wants error messages to be concise. */
export function schemaFault({ issues }: z.ZodError): string {
  const named = issues.slice(0, NAMED).map(({ path, message }) => {
    const place = path.map(String).join(".");
    return place === "" ? message : `${place}: ${message}`;
  });
  const more = issues.length - named.length;
  return [...named, ...(more > 0 ? [`and ${more} more`] : [])].join("; ");
}
