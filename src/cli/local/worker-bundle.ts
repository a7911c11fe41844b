import { join } from "node:path";
import { type BuildOptions, build, context, stop } from "esbuild";

/** Resolves modules like `wrangler deploy`: with the conditions of workerd, and without the runtime's own modules. */
function buildOptions(projectDir: string, entry: string) {
  return {
    entryPoints: [join(projectDir, entry)],
    absWorkingDir: projectDir,
    bundle: true,
    format: "esm",
    platform: "neutral",
    target: "es2024",
    mainFields: ["module", "main"],
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*", "node:*"],
    loader: { ".html": "text", ".txt": "text", ".sql": "text" },
    define: { "process.env.NODE_ENV": '"production"' },
    write: false,
    logLevel: "silent",
  } satisfies BuildOptions;
}

export async function bundleWorker(projectDir: string, entry: string): Promise<string> {
  const result = await build(buildOptions(projectDir, entry));
  await stop();
  return result.outputFiles[0]?.text ?? "";
}

/** Calls `onBuild` with each successful build, including the first. A failed build calls `onError`. */
export async function watchWorker(
  projectDir: string,
  entry: string,
  onBuild: (code: string) => void,
  onError: (message: string) => void,
): Promise<void> {
  const watcher = await context({
    ...buildOptions(projectDir, entry),
    plugins: [
      {
        name: "report",
        setup({ onEnd }) {
          onEnd((result) => {
            const code = result.outputFiles?.[0]?.text;
            if (result.errors.length === 0 && code !== undefined) onBuild(code);
            for (const { text, location } of result.errors)
              onError(`${location?.file}:${location?.line} ${text}`);
          });
        },
      },
    ],
  });
  await watcher.watch();
}
