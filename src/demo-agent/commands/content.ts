/** Commands that send content other than text. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Command, DemoTurn } from "../demo-turn.ts";
import { png, wav } from "../media.ts";

const UNITS: Record<string, number> = { "": 1, b: 1, kb: 1024, mb: 1024 * 1024 };

export const contentCommands: Command[] = [
  {
    name: "image",
    hint: "[SIZE]",
    description: "A PNG image of about SIZE in base64, such as 100kb or 3mb",
    run: (turn, size) =>
      turn.show({ type: "image", mimeType: "image/png", data: png(parseSize(size || "10kb")) }),
  },
  {
    name: "audio",
    description: "A quarter of a second of sound",
    run: (turn) => turn.show({ type: "audio", mimeType: "audio/wav", data: wav() }),
  },
  {
    name: "resource",
    description: "Embedded resources, one of text and one of bytes",
    run: resource,
  },
  {
    name: "link",
    description: "A link to a resource",
    run: (turn) =>
      turn.show({
        type: "resource_link",
        name: "README.md",
        title: "Read me",
        uri: fileUri(turn, "README.md"),
        mimeType: "text/markdown",
        size: 1234,
      }),
  },
];

function resource(turn: DemoTurn): void {
  turn.show({
    type: "resource",
    resource: {
      uri: fileUri(turn, "notes.md"),
      mimeType: "text/markdown",
      text: "# Notes\n\nNothing yet.\n",
    },
  });
  turn.show({
    type: "resource",
    resource: {
      uri: fileUri(turn, "bytes.bin"),
      mimeType: "application/octet-stream",
      blob: Buffer.from([0, 1, 2, 253, 254, 255]).toString("base64"),
    },
  });
}

function fileUri(turn: DemoTurn, name: string): string {
  return pathToFileURL(join(turn.session.record.cwd, name)).href;
}

function parseSize(text: string): number {
  const [, digits = "0", unit = ""] = /^([\d.]+)\s*([kmb]*)$/i.exec(text) ?? [];
  return Number(digits) * (UNITS[unit.toLowerCase()] ?? 1);
}
