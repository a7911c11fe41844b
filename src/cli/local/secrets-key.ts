import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { KEY_FILES, keysDirectory } from "../state-keys.ts";

/** Loads the key that encrypts the secrets of a state directory, and creates it on first use. */
export async function loadSecretsKey(stateDir: string): Promise<string> {
  const path = join(keysDirectory(stateDir), KEY_FILES.secrets);
  try {
    return (await readFile(path, "utf8")).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    const key = randomBytes(32).toString("base64url");
    await writeFile(path, key, { mode: 0o600, flag: "wx" });
    return key;
  }
}
