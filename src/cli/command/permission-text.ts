import { hiddenNotice, type PermissionDetail } from "../../protocol/permission-details.ts";
import { isolate } from "../../protocol/visible-text.ts";
import type { Terminal } from "../terminal.ts";

/** All that a permission request asks for, for a person at a terminal. Nothing is shortened here. */
export function permissionText(details: readonly PermissionDetail[], { colours }: Terminal): string {
  const { bold, yellow } = colours;
  const blocks = details.map(({ name, text, hiddenChars }) => {
    const lines = text.replace(/\n$/, "").split("\n");
    const shown = lines.map((line) => `  ${isolate(line)}`).join("\n");
    const cut = hiddenChars > 0 ? `\n  ${yellow(`… and ${hiddenChars} more characters`)}` : "";
    return `${bold(name)}\n${shown}${cut}`;
  });
  const hidden = hiddenNotice(details);
  return [...blocks, ...(hidden === undefined ? [] : [yellow(hidden)])].join("\n");
}
