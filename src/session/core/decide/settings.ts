import { notification } from "../../../protocol/errors.ts";
import { gatewayNotice } from "../../../protocol/extensions.ts";
import { wholeOptions } from "../read/current-setup.ts";
import type { AgentSettings } from "../state/agent-settings.ts";
import type { BoundedList } from "../state/bounded-values.ts";
import type { SessionState } from "../state/state.ts";
import {
  currentOf,
  lostSettings,
  nameOf,
  nextSetting,
  type Setting,
  setterOf,
  withoutLost,
} from "../state/wanted-settings.ts";
import type { Batch } from "./batch.ts";
import { drainQueue, isRestoring } from "./queue.ts";

/** Modes, models and options: they hold when the process is started again, and every client knows them. */

/**
 * Asks a process that has just opened the session for the settings of the process before, one after the other: a model
 * may change the options. Prompts wait meanwhile.
 */
export function restoreSettings(batch: Batch): void {
  const { report, wanted, context } = batch.state;
  const next = wanted && nextSetting(report, wanted);
  if (!next) return endRestoring(batch);
  const { method, params } = setterOf(next);
  const request = { jsonrpc: "2.0", id: batch.nextSeq, method };
  const raw = JSON.stringify({ ...request, params: { sessionId: context.acpSessionId, ...params } });
  batch.frame("gateway", "out", raw);
}

/** The agent does not answer. Clients learn which settings do not hold, and their prompts go on. */
export function giveUpRestoring(batch: Batch): void {
  if (isRestoring(batch.state)) endRestoring(batch);
}

/** Every client learns which settings do not hold before the next prompt runs. */
function endRestoring(batch: Batch): void {
  const { report, wanted } = batch.state;
  if (wanted) {
    const lost = lostSettings(report, wanted);
    if (lost.length > 0) tellLost(batch, lost, withoutLost(report, wanted));
    batch.fact("gateway", "agent.settings.restored", { lost: lost.length });
  }
  drainQueue(batch);
}

/** `left` are the settings as clients show them from now on. */
function tellLost(batch: Batch, lost: readonly Setting[], left: ShownSettings): void {
  const { report, sessionId } = batch.state;
  const known = lost.filter((setting) => currentOf(report, setting) !== setting.value);
  if (known.some(({ kind }) => kind === "mode")) tellMode(batch);
  if (lost.some(({ kind }) => kind === "option")) tellOptions(batch, left.configOptions);
  const parts = lost.map((setting) => {
    const now = currentOf(report, setting);
    const present = known.includes(setting) && now !== undefined ? ` (now ${now})` : "";
    return `${nameOf(setting)} ${setting.value}${present}`.slice(0, SETTING_CHARS);
  });
  const more = parts.length > SETTINGS ? ` and ${parts.length - SETTINGS} more` : "";
  const message = `The agent was started again and did not take over: ${parts.slice(0, SETTINGS).join(", ")}${more}`;
  batch.frame("gateway", "in", gatewayNotice(sessionId, "session.settings_lost", message));
}

/** Settings that a notice names, and the length of each. */
const SETTINGS = 10;
const SETTING_CHARS = 200;

/** The settings that clients show, before an answer of the agent. */
export type ShownSettings = Pick<AgentSettings, "modes" | "models" | "configOptions">;

export function shownSettings({ report: { modes, models, configOptions } }: SessionState): ShownSettings {
  return { modes, models, configOptions };
}

/**
 * Tells clients of settings that an answer has changed, except the one that asked. An agent need not send an update to
 * the others. One that has done so before its answer has changed the settings by that, and nothing is told twice.
 */
export function tellChanges(batch: Batch, before: ShownSettings, except?: string): void {
  const { modes, models, configOptions } = batch.state.report;
  if (modes?.current !== before.modes?.current) tellMode(batch, except);
  const isOther = configOptions !== before.configOptions;
  if (isOther && JSON.stringify(configOptions) !== JSON.stringify(before.configOptions))
    tellOptions(batch, configOptions, except);
  else if (models?.current !== before.models?.current && models?.current != null)
    tellModel(batch, models.current, except);
}

function tellMode(batch: Batch, except?: string): void {
  const { modes } = batch.state.report;
  if (modes?.current != null)
    update(batch, { sessionUpdate: "current_mode_update", currentModeId: modes.current }, except);
}

function tellOptions(batch: Batch, list: BoundedList | null, except?: string): void {
  const configOptions = wholeOptions(list, (seq) => batch.findFrame(seq));
  if (configOptions) update(batch, { sessionUpdate: "config_option_update", configOptions }, except);
}

/** ACP has no update for the older form of models. */
function tellModel(batch: Batch, model: string, except?: string): void {
  const notice = gatewayNotice(batch.state.sessionId, "session.model", `The model is now ${model}`);
  batch.frame("gateway", "in", notice, except === undefined ? {} : { except });
}

function update(batch: Batch, content: Record<string, unknown>, except?: string): void {
  const { sessionId } = batch.state;
  const raw = notification("session/update", { sessionId, update: content });
  batch.frame("gateway", "in", raw, except === undefined ? {} : { except });
}
