import { setTimeout as pause } from "node:timers/promises";
import type { Command } from "commander";
import type { ReindexProgress } from "../../protocol/reindex.ts";
import { CliError, EXIT } from "../cli-error.ts";
import { ApiClient } from "../gateway/api-client.ts";
import { type GatewayOptions, gatewayCommand } from "./command-options.ts";
import { print, printNote } from "./output.ts";
import { targetOf } from "./resolve.ts";

type ReindexOptions = GatewayOptions & { all?: boolean; follow: boolean; progress?: boolean };

/** Rebuilds the lists of sessions, permissions and workspaces from the sessions themselves. */
export function reindexCommand(): Command {
  return gatewayCommand(
    "reindex",
    "Write the index anew: of the configured workspace (workspace:admin), or of the whole tenant (tenant:admin) if none is configured",
  )
    .option("--all", "the whole tenant, also if a workspace is configured")
    .option("--no-follow", "do not wait for the end")
    .option("--progress", "show how far the last order is, and give none")
    .action(async (options: ReindexOptions) => {
      if (options.all && options.workspace !== undefined)
        throw new CliError("--all and --workspace exclude each other", EXIT.usage);
      const target = targetOf(options);
      const api = new ApiClient(target);
      const workspace = options.all ? undefined : target.workspace;
      let progress = await (options.progress ? api.reindexProgress(workspace) : api.reindex(workspace));
      while (options.follow && !options.progress && progress.state === "running") {
        await pause(POLL_MS);
        progress = await api.reindexProgress(workspace);
      }
      print(options, progress, () => described(progress, workspace));
      if (progress.state === "running") {
        const where = workspace === undefined ? "--all" : `--workspace ${workspace}`;
        printNote(`look later with: acp-edge reindex --progress ${where}`);
      }
      if (progress.failed > 0)
        throw new CliError("some sessions could not be reached: reindex again", EXIT.error);
    });
}

function described(progress: ReindexProgress, workspace: string | undefined): string {
  const { state, sessions, removed, failed, workspaces } = progress;
  const where =
    workspace === undefined
      ? `${counted(workspaces ?? 0, "workspace")} of the tenant`
      : `the workspace ${workspace}`;
  return `${state}: ${counted(sessions, "session")} written in ${where}, ${removed} removed, ${failed} failed`;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

const POLL_MS = 500;
