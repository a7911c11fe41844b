import { accessSync, constants, readFileSync, statSync } from "node:fs";
import { basename, delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { CatalogueEntry, Distribution } from "../catalogue.ts";

/** The command that starts an agent on this machine, or how to install what is missing. */
export type Installation =
  | { command: readonly string[]; env: Readonly<Record<string, string>> }
  | { missing: string };

/** Where commands are searched, and whether `npx` and `uvx` may download missing packages. */
export type Machine = {
  /** Directories with executables; the first match counts. */
  path: readonly string[];
  /** Directories with installed npm packages. */
  modules: readonly string[];
  download: boolean;
};

/** Packages installed beside the host come first. The workspace is never searched, because agents write to it. */
export function thisMachine(env: NodeJS.ProcessEnv, download: boolean): Machine {
  const modules = above(fileURLToPath(import.meta.url)).map((directory) => join(directory, "node_modules"));
  const path = [...modules.map((directory) => join(directory, ".bin")), ...(env.PATH ?? "").split(delimiter)];
  return { path: path.filter(Boolean), modules, download };
}

export function findInstallation(
  { distribution = {}, command }: CatalogueEntry,
  machine: Machine,
): Installation {
  if (command) return own(command, machine);
  const candidates = [npm, binary, python].flatMap((find) => find(distribution, machine) ?? []);
  const found = candidates.find((candidate) => "command" in candidate);
  const missing = candidates.flatMap((candidate) => ("missing" in candidate ? candidate.missing : []));
  const remedy = missing.join(", or ") || "no distribution exists for this platform";
  return found ?? { missing: `not installed: ${remedy}` };
}

/** `node` means the Node that runs the host. */
function own([name = "", ...args]: readonly string[], machine: Machine): Installation {
  const file = name === "node" ? process.execPath : find(name, machine);
  return file === undefined
    ? { missing: `not installed: ${name} is not on the PATH` }
    : { command: [file, ...args], env: {} };
}

function npm({ npx }: Distribution, machine: Machine): Installation | undefined {
  if (!npx) return undefined;
  const { package: spec, args, env } = npx;
  const name = spec.replace(/(?<=.)@[^/@]*$/, "");
  const file = find(npx.cmd ?? binOf(name, machine) ?? basename(name), machine);
  if (file !== undefined) return { command: [file, ...args], env };
  const runner = machine.download ? find("npx", machine) : undefined;
  if (runner === undefined)
    return { missing: `npm install -g ${name}, or let the host download it with --npx` };
  const what = npx.cmd === undefined ? [spec] : ["--package", spec, "--", npx.cmd];
  return { command: [runner, "--yes", ...what, ...args], env };
}

/** The host does not unpack archives: people do. */
function binary({ binary: targets }: Distribution, machine: Machine): Installation | undefined {
  const target = targets?.[platform()];
  if (!target) return undefined;
  const name = basename(target.cmd.replaceAll("\\", "/"));
  const file = find(name, machine);
  if (file === undefined) return { missing: `put ${name} of ${target.archive} on the PATH` };
  return { command: [file, ...target.args], env: target.env };
}

function python({ uvx }: Distribution, machine: Machine): Installation | undefined {
  if (!uvx) return undefined;
  const { package: spec, args, env } = uvx;
  const name = spec.split(/[@=<>~![]/, 1).join();
  const file = find(uvx.cmd ?? name, machine);
  if (file !== undefined) return { command: [file, ...args], env };
  const runner = machine.download ? find("uvx", machine) : undefined;
  if (runner === undefined) return { missing: `uv tool install ${name}` };
  const what = uvx.cmd === undefined ? [spec] : ["--from", spec, uvx.cmd];
  return { command: [runner, ...what, ...args], env };
}

/** The name of an installed npm package's first command. */
function binOf(name: string, { modules }: Machine): string | undefined {
  for (const directory of modules) {
    try {
      const { bin } = JSON.parse(readFileSync(join(directory, name, "package.json"), "utf8")) as {
        bin?: unknown;
      };
      return typeof bin === "object" && bin !== null ? Object.keys(bin)[0] : basename(name);
    } catch {
      // The package is not in this directory.
    }
  }
  return undefined;
}

function find(name: string, { path }: Machine): string | undefined {
  const places = name.includes("/") ? [name] : path.map((directory) => join(directory, name));
  return places.find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

function platform(): string {
  const system = process.platform === "win32" ? "windows" : process.platform;
  return `${system}-${process.arch === "arm64" ? "aarch64" : "x86_64"}`;
}

/** All directories that contain a file, the nearest first. */
function above(file: string): string[] {
  const directory = dirname(file);
  return directory === file ? [] : [directory, ...above(directory)];
}
