import type { Command } from "commander";
import { type GatewayOptions, gatewayCommand } from "./command-options.ts";
import type { Check } from "./doctor-check.ts";
import type { Step } from "./doctor-steps.ts";
import { printJson, stdout } from "./output.ts";
import { targetOf } from "./resolve.ts";

type DoctorOptions = GatewayOptions & { turn?: boolean | string; security?: boolean };

export function doctorCommand(): Command {
  return gatewayCommand("doctor", "Check each step between this machine and the agent")
    .option("--turn [prompt]", "also run a turn in a temporary session (default prompt: `/help`)")
    .option("--security", "say instead how the deployment, the workspace and this user's token stand")
    .action(async (options: DoctorOptions) => {
      const prompt = options.turn === true ? "/help" : options.turn || undefined;
      const steps: Step[] = [];
      for await (const step of await stepsOf(options, prompt)) {
        steps.push(step);
        if (!options.json) process.stdout.write(`${line(step)}\n`);
      }
      const failed = steps.find((step) => step.status === "failed");
      if (options.json) printJson({ ok: failed === undefined, steps });
      else process.stdout.write(failed ? "" : "\nno check failed\n");
      if (failed) process.exitCode = failed.code;
    });
}

async function stepsOf(options: DoctorOptions, prompt: string | undefined): Promise<AsyncIterable<Step>> {
  if (options.security) {
    const { securitySteps } = await import("./doctor-security.ts");
    return securitySteps(targetOf(options));
  }
  const { Doctor } = await import("./doctor-steps.ts");
  return new Doctor(() => targetOf(options), prompt).steps();
}

function line({ name, status, detail, hint }: Step): string {
  const { green, yellow, red, dim } = stdout.colours;
  const marks: Record<Check["status"] | "skipped", string> = {
    ok: green("✓"),
    warning: yellow("!"),
    failed: red("✗"),
    skipped: dim("-"),
  };
  if (status === "skipped") return dim(`- ${name}`);
  const words = detail.length > 0 ? `: ${detail}` : "";
  return `${marks[status]} ${name}${words}${hint ? `\n    ${hint}` : ""}`;
}
