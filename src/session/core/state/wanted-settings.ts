import { isRecord } from "../../../protocol/json-value.ts";
import type { AgentSettings, Choice } from "./agent-settings.ts";
import { type BoundedList, type Item, idOf } from "./bounded-values.ts";
import { STATE_BUDGET } from "./state-budget.ts";

/** The settings of an agent that have to hold in its next process, which may begin with others. */

/** A mode, a model or an option with its value. */
export type Setting =
  | { readonly kind: "mode" | "model"; readonly value: string }
  | { readonly kind: "option"; readonly id: string; readonly value: string | boolean };

/**
 * The settings of the process before, from the start of a process until they hold again. `asked` and `held` name the
 * settings that this process was asked for, and those it has accepted.
 */
export type WantedSettings = { settings: readonly Setting[]; asked: string[]; held: string[] };

const SETTERS = { mode: "session/set_mode", model: "session/set_model", option: "session/set_config_option" };

/** Whether a request sets a mode, a model or an option. */
export function isSetter(method: string | undefined): boolean {
  return method !== undefined && Object.values(SETTERS).includes(method);
}

/** The settings as they are known. A model comes first: others may depend on it. */
export function wantedIn(report: AgentSettings): WantedSettings | undefined {
  const { modes, models } = report;
  const settings = [...choiceIn("model", models), ...choiceIn("mode", modes), ...optionsIn(report)];
  return settings.length === 0 ? undefined : { settings, asked: [], held: [] };
}

function choiceIn(kind: "mode" | "model", choice: Choice | null): Setting[] {
  return choice?.current == null ? [] : [{ kind, value: choice.current }];
}

function optionsIn({ modes, models, configOptions }: AgentSettings): Setting[] {
  if (!configOptions) return [];
  const items = configOptions.items.filter(({ category, currentValue }) => {
    const twin = category === "mode" ? modes : category === "model" ? models : null;
    // Two forms of one setting that disagree: the older form has the setting, and its value was checked.
    return twin?.current == null || twin.current === currentValue;
  });
  const options = items.flatMap((item) => optionIn(item, configOptions));
  const isModel = ({ id }: { id: string }) =>
    items.some((item) => item.id === id && item.category === "model");
  return [...options.filter(isModel), ...options.filter((option) => !isModel(option))];
}

/** An option whose value the state has whole: a list that was too long has the beginnings of long texts. */
function optionIn({ id, currentValue: value }: Item, { truncated }: BoundedList) {
  const isWhole = (text: string) => !truncated || text.length < STATE_BUDGET.labelChars;
  if (typeof id !== "string" || !isWhole(id)) return [];
  if (typeof value === "boolean" || (typeof value === "string" && isWhole(value)))
    return [{ kind: "option", id, value } as const];
  return [];
}

/** The name by which `asked` and `held` know a setting. */
export function nameOf(setting: Setting): string {
  return setting.kind === "option" ? `option ${setting.id}` : setting.kind;
}

/** The name of the setting that a request sets. */
export function settingName(method: string, params: unknown): string | undefined {
  if (method === SETTERS.mode) return "mode";
  if (method === SETTERS.model) return "model";
  if (method !== SETTERS.option || !isRecord(params)) return undefined;
  const id = idOf(params.configId);
  return id === undefined ? undefined : `option ${id}`;
}

/** Notes that the process was asked for a setting, or has accepted it. A log from elsewhere may name any setting. */
export function noteSetting(
  wanted: WantedSettings | undefined,
  list: "asked" | "held",
  name: string | undefined,
): void {
  if (!wanted || name === undefined || wanted[list].includes(name)) return;
  if (wanted.settings.some((setting) => nameOf(setting) === name)) wanted[list].push(name);
}

/** The request for a setting. */
export function setterOf(setting: Setting): { method: string; params: Record<string, unknown> } {
  const { value } = setting;
  switch (setting.kind) {
    case "mode":
      return { method: SETTERS.mode, params: { modeId: value } };
    case "model":
      return { method: SETTERS.model, params: { modelId: value } };
    case "option":
      return {
        method: SETTERS.option,
        params: {
          configId: setting.id,
          ...(typeof value === "boolean" && { type: "boolean" }),
          value,
        },
      };
  }
}

/** The setting that the process has to be asked for next. */
export function nextSetting(report: AgentSettings, wanted: WantedSettings): Setting | undefined {
  return wanted.settings.find((setting) => isDue(report, wanted, setting));
}

/** Whether the process is yet to be asked: the setting may be another one, and the agent offers this one. */
function isDue(report: AgentSettings, { asked }: WantedSettings, setting: Setting): boolean {
  return (
    !asked.includes(nameOf(setting)) &&
    isOffered(report, setting) &&
    (differs(report, setting) || isUnconfirmed(report, setting))
  );
}

/** The settings that do not hold in this process, as far as the process has said. */
export function lostSettings(report: AgentSettings, wanted: WantedSettings): Setting[] {
  const { settings, asked, held } = wanted;
  return settings.filter((setting) => {
    if (differs(report, setting)) return true;
    const name = nameOf(setting);
    const isOpen = isDue(report, wanted, setting) || (asked.includes(name) && !held.includes(name));
    return isOpen && !holdsInOtherForm(report, wanted, setting);
  });
}

/** Whether the process has accepted a mode or model in its other form, as an option or in the older form. */
function holdsInOtherForm(
  { configOptions }: AgentSettings,
  { held }: WantedSettings,
  setting: Setting,
): boolean {
  const items = configOptions?.items ?? [];
  if (setting.kind === "option") {
    const category = items.find(({ id }) => id === setting.id)?.category;
    return (category === "mode" || category === "model") && held.includes(category);
  }
  return items.some(
    ({ id, category, currentValue }) =>
      category === setting.kind && currentValue === setting.value && held.includes(`option ${id}`),
  );
}

/**
 * The settings without the values that the process was asked for in vain: nobody knows which values it has instead. The
 * lists of modes and models stay, for a later answer or update that names one.
 */
export function withoutLost(
  report: AgentSettings,
  wanted: WantedSettings,
): Pick<AgentSettings, "modes" | "models" | "configOptions"> {
  const unknown = lostSettings(report, wanted).filter((setting) => !differs(report, setting));
  const isUnknown = (kind: Setting["kind"]) => unknown.some((setting) => setting.kind === kind);
  const ids = unknown.flatMap((setting) => (setting.kind === "option" ? setting.id : []));
  const { modes, models, configOptions } = report;
  return {
    modes: modes && isUnknown("mode") ? { current: null, available: modes.available } : modes,
    models: models && isUnknown("model") ? { current: null, available: models.available } : models,
    configOptions: configOptions && ids.length > 0 ? withoutOptions(configOptions, ids) : configOptions,
  };
}

/** A list that is too long loses its event as well, because the event still has the options with their values. */
function withoutOptions({ items, total, truncated }: BoundedList, ids: readonly string[]): BoundedList {
  const kept = items.filter(({ id }) => typeof id !== "string" || !ids.includes(id));
  return { items: kept, total: total - (items.length - kept.length), truncated };
}

function differs(report: AgentSettings, setting: Setting): boolean {
  const current = currentOf(report, setting);
  return current !== undefined && current !== setting.value;
}

/** The present value of a setting; undefined if the agent does not have such a setting. */
export function currentOf(report: AgentSettings, setting: Setting): unknown {
  switch (setting.kind) {
    case "mode":
      return report.modes?.current ?? undefined;
    case "model":
      return report.models?.current ?? undefined;
    case "option":
      return report.configOptions?.items.find(({ id }) => id === setting.id)?.currentValue;
  }
}

/** Whether the value was chosen in an earlier process, and the opening of this one has not told the value. */
function isUnconfirmed({ modes, models, changedOptions }: AgentSettings, setting: Setting): boolean {
  if (setting.kind === "option") return changedOptions?.includes(setting.id) ?? false;
  return (setting.kind === "mode" ? modes : models)?.changed === true;
}

/** An agent is not asked for a mode or model that is not on its list. Whether an option has the value, the agent says. */
function isOffered({ modes, models }: AgentSettings, setting: Setting): boolean {
  if (setting.kind === "option") return true;
  const list = (setting.kind === "mode" ? modes : models)?.available;
  if (!list || list.truncated || list.items.length === 0) return true;
  const id = setting.kind === "mode" ? "id" : "modelId";
  return list.items.some((item) => item[id] === setting.value);
}
