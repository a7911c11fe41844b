const TOKEN = "ACP_EDGE_HOST_TOKEN";
const DESCRIPTOR = "ACP_EDGE_HOST_TOKEN_FD";
/** A shell names descriptors of one digit only, and Node's own channel has one of the first. */
const NUMBER = "9";

/** A short document is a pipe, so the token is never in a file. */
const SCRIPT = `exec ${NUMBER}<<END
$${TOKEN}
END
unset ${TOKEN}
exec "$@"`;

type Environment = Readonly<Record<string, string | undefined>>;

/** The arguments and environment of a program that receives its token by a descriptor. */
export type Handover = { args: string[]; env: Record<string, string> };

/**
 * Programs of the same user can read the environment and the command line that a process was started with, whatever
 * the process does to its own copy. A host that finds its token there therefore replaces itself by a program that
 * receives the token by a descriptor. Returns if there is nothing to hand over; false if this Node cannot do it.
 */
export function handOverToken(argv: readonly string[], env: Environment): boolean {
  const handover = planHandover(argv.slice(1), env);
  if (!handover) return true;
  if (process.platform === "win32" || typeof process.execve !== "function") return false;
  const program = [process.execPath, ...process.execArgv, ...handover.args];
  return process.execve("/bin/sh", ["sh", "-c", SCRIPT, "sh", ...program], handover.env);
}

/** Undefined if neither the command line nor the environment has a token. */
export function planHandover(args: readonly string[], env: Environment): Handover | undefined {
  const { option, rest } = takeToken(args);
  const { [TOKEN]: inherited, ...others } = env;
  const isOverridden = args.some((arg) => /^--token-(file|command|fd)(=|$)/.test(arg));
  const token = option ?? (isOverridden ? undefined : inherited);
  if (option === undefined && inherited === undefined) return undefined;
  const kept = Object.entries(others).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value]],
  );
  return {
    args: rest,
    env: { ...Object.fromEntries(kept), ...(token && { [TOKEN]: token, [DESCRIPTOR]: NUMBER }) },
  };
}

function takeToken(args: readonly string[]): { option: string | undefined; rest: string[] } {
  let option: string | undefined;
  const rest: string[] = [];
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] as string;
    if (arg === "--token") {
      at += 1;
      option = args[at] ?? "";
    } else if (arg.startsWith("--token=")) option = arg.slice("--token=".length);
    else rest.push(arg);
  }
  return { option, rest };
}
