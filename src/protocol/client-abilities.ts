import { recordOf } from "./json-value.ts";

/** The abilities of a client beyond the baseline of ACP: they decide in which form the client gets a message. */
export const CLIENT_ABILITIES = [
  "elicitation.form",
  "elicitation.url",
  "boolean-options",
  "notices",
  "compaction",
  "plan-operations",
  "terminal-output",
] as const;

export type ClientAbility = (typeof CLIENT_ABILITIES)[number];

/** The abilities that a client offers, from the parameters of its `initialize`. ACP marks support by `{}` or `true`. */
export function abilitiesOf(params: unknown): ClientAbility[] {
  const { elicitation, session, plan, _meta } = recordOf(recordOf(params).clientCapabilities);
  const { form, url } = recordOf(elicitation);
  const { configOptions, notices, compaction } = recordOf(session);
  const offered: Record<ClientAbility, unknown> = {
    "elicitation.form": form,
    "elicitation.url": url,
    "boolean-options": recordOf(configOptions).boolean,
    notices,
    compaction,
    "plan-operations": plan,
    "terminal-output": recordOf(_meta).terminal_output,
  };
  return CLIENT_ABILITIES.filter((ability) => isOffered(offered[ability]));
}

function isOffered(value: unknown): boolean {
  return value === true || (typeof value === "object" && value !== null);
}
