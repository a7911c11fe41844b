import type { Limits } from "../protocol/limits.ts";
import { ASK_ALWAYS } from "../protocol/permission-policy.ts";
import type { Settings } from "../protocol/workspace-settings.ts";

export function defaultSettings({ hostGraceMs }: Pick<Limits, "hostGraceMs">): Settings {
  return {
    name: null,
    defaultAgent: null,
    policy: ASK_ALWAYS,
    sharedFiles: false,
    hostGraceMs,
    clientIo: "host",
    closeMeans: "auto",
    container: null,
    closeWithLastClient: false,
    clientAgentName: null,
    duplicateChunks: "replay",
    mcpServers: null,
    additionalDirectories: null,
    openingMeta: null,
  };
}
