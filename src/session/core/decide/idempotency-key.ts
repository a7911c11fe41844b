import { MetaKey } from "../../../protocol/extensions.ts";
import { type Frame, paramsOf } from "../../../protocol/frame.ts";
import { recordOf } from "../../../protocol/json-value.ts";
import { STATE_BUDGET } from "../state/state-budget.ts";

/** The key under which a client may repeat a prompt without running it twice. */
export function promptKey(frame: Frame): string | null {
  const key = statedKey(frame);
  return typeof key === "string" && key.length <= STATE_BUDGET.promptKeyChars ? key : null;
}

/** The reason why the prompt's key is not valid, if there is one. */
export function badPromptKey(frame: Frame): string | undefined {
  if (statedKey(frame) == null || promptKey(frame) !== null) return undefined;
  return `_meta["${MetaKey.idempotencyKey}"] must be a string of at most ${STATE_BUDGET.promptKeyChars} characters`;
}

function statedKey(frame: Frame): unknown {
  return recordOf(paramsOf(frame)._meta)[MetaKey.idempotencyKey];
}
