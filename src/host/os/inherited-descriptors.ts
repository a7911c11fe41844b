import { closeSync, readdirSync, readFileSync, readlinkSync, realpathSync } from "node:fs";

const STANDARD = 2;
const CLOSE_ON_EXEC = 0o2000000;

/**
 * Closes the descriptors that the program which started the host left open, beyond stdin, stdout and stderr: every agent
 * would inherit them, whatever user or namespace it has. Node itself marks only the first numbers as its own. All
 * descriptors that Node opens are closed in child processes, so an unmarked descriptor is a stranger's. The exception is
 * OpenSSL, which reads certificates on a thread at this moment: if its descriptor were closed here, OpenSSL would close
 * whatever has the number by then. Files of the system tell an agent nothing new.
 *
 * Only Linux tells the mark. On macOS Node gives its children nothing but what it names.
 */
export function closeInheritedDescriptors(): void {
  if (process.platform !== "linux") return;
  for (const fd of listed().filter((fd) => fd > STANDARD && isInheritable(fd))) closeSync(fd);
}

function listed(): number[] {
  try {
    return readdirSync("/proc/self/fd").map(Number);
  } catch {
    // Without /proc no namespace works either, which the host says at start.
    return [];
  }
}

function isInheritable(fd: number): boolean {
  try {
    if (isOfSystem(readlinkSync(`/proc/self/fd/${fd}`))) return false;
    const [, flags] = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "utf8")) ?? [];
    return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
  } catch {
    // The list itself was read through a descriptor that is closed again.
    return false;
  }
}

function isOfSystem(path: string): boolean {
  return /^\/(etc|usr)\//.test(path) || path === certificates(process.env);
}

/** Further certificates that Node reads at start. */
function certificates({ NODE_EXTRA_CA_CERTS: path }: NodeJS.ProcessEnv): string | undefined {
  try {
    return path === undefined ? undefined : realpathSync(path);
  } catch {
    return undefined;
  }
}
