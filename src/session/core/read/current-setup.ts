import { type Frame, paramsOf, resultOf } from "../../../protocol/frame.ts";
import { isRecord, type JsonObject, recordOf } from "../../../protocol/json-value.ts";
import type { FrameEvent } from "../events/event.ts";
import type { AgentSettings } from "../state/agent-settings.ts";
import type { BoundedList, Item } from "../state/bounded-values.ts";
import { STATE_BUDGET } from "../state/state-budget.ts";

/** Finds a frame of the log by its sequence number; undefined if only the archive has it. */
export type FindFrame = (seq: number) => Pick<FrameEvent, "frame"> | undefined;

/**
 * The answer to a session/load or session/resume: the members of the agent's own answer as they are now. A list that is
 * too long for the state is read from the log. One that cannot be had whole is left out, because a part of it would be
 * wrong.
 */
export function currentSetup({ modes, models, configOptions }: AgentSettings, find: FindFrame): JsonObject {
  const setup: Record<string, unknown> = {};
  const availableModes = modes && whole(modes.available, find, ({ modes: told }) => told.availableModes);
  if (modes?.current != null && availableModes)
    setup.modes = { currentModeId: modes.current, availableModes };
  const availableModels = models && whole(models.available, find, (told) => told.models.availableModels);
  if (models?.current != null && availableModels)
    setup.models = { currentModelId: models.current, availableModels };
  const options = wholeOptions(configOptions, find);
  if (options) setup.configOptions = options;
  return setup;
}

/** The options with their present values. */
export function wholeOptions(list: BoundedList | null, find: FindFrame): readonly Item[] | undefined {
  const options = list && whole(list, find, ({ configOptions }) => configOptions);
  if (!list?.truncated || !options) return options ?? undefined;
  // A mode or model that was set in its older form has changed an option since the list was sent.
  const values = new Map(list.items.map(({ id, currentValue }) => [id, currentValue]));
  return options.map((option) => {
    const value = values.get(option.id);
    return isWhole(value) ? { ...option, currentValue: value } : option;
  });
}

/** The state has the beginnings of long values only. */
function isWhole(value: unknown): boolean {
  return typeof value === "boolean" || (typeof value === "string" && value.length < STATE_BUDGET.labelChars);
}

type Told = { modes: JsonObject; models: JsonObject; configOptions: unknown };

function whole(
  list: BoundedList,
  find: FindFrame,
  read: (told: Told) => unknown,
): readonly Item[] | undefined {
  if (!list.truncated) return list.items;
  const frame = list.seq === undefined ? undefined : find(list.seq)?.frame;
  const found = frame && read(toldIn(frame));
  return Array.isArray(found) ? found.filter(isRecord) : undefined;
}

/** The lists in an answer that opened the session or set an option, or in an update. */
function toldIn(frame: Frame): Told {
  const { modes, models, configOptions } =
    frame.kind === "response" ? resultOf(frame) : recordOf(paramsOf(frame).update);
  return { modes: recordOf(modes), models: recordOf(models), configOptions };
}
