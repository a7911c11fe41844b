import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { gitVariables, hasGitCredentials, maskGitUrl } from "../../../src/protocol/git-url.ts";
import { SETTINGS_CHANGE } from "../../../src/protocol/workspace-settings.ts";
import { propertyRuns } from "../../fixtures/property-runs.ts";

const PLAIN = "https://git.example/acme/api.git";
const change = (url: string) => SETTINGS_CHANGE.safeParse({ container: { git: { url } } });

describe("the address of a repository", () => {
  test("may be plain", () => {
    expect(change(PLAIN).success).toBe(true);
    expect(maskGitUrl(PLAIN)).toBe(PLAIN);
  });

  test.each([
    "https://sesame@git.example/a",
    "https://user:sesame@git.example/a",
    "https://:sesame@git.example/a",
    "https://git.example/a?private_token=sesame",
    "https://git.example/a?sesame",
    "https://git.example/a#sesame",
  ])("must not be %s, and says what to do instead", (url) => {
    const read = change(url);
    expect(read.success).toBe(false);
    expect(read.error?.message).toContain("GIT_TOKEN");
    expect(read.error?.message).not.toContain("sesame");
    expect(maskGitUrl(url)).toMatch(/^https:\/\/(redacted@)?git\.example\/a(\?redacted)?$/);
    expect(change(maskGitUrl(url)).success).toBe(false);
  });

  test("shows no credential, whatever it is, and hands none on in itself", () => {
    const text = fc.stringMatching(/^[\w~.:%+-]{6,20}$/).map((secret) => `Q${secret}Q`);
    fc.assert(
      fc.property(text, text, text, (user, password, query) => {
        const url = `https://${encodeURIComponent(user)}:${encodeURIComponent(password)}@git.example/a?t=${encodeURIComponent(query)}`;
        expect(hasGitCredentials(url)).toBe(true);
        for (const shown of [maskGitUrl(url), gitVariables(url, {}).GIT_URL])
          for (const secret of [user, password, query]) {
            expect(shown).not.toContain(secret);
            expect(shown).not.toContain(encodeURIComponent(secret));
          }
        expect(gitVariables(url, {})).toMatchObject({ GIT_TOKEN: password, GIT_USERNAME: user });
      }),
      propertyRuns(400),
    );
  });
});

describe("the variables for a container", () => {
  test("have the workspace's secrets for git and no other", () => {
    const secrets = { GIT_TOKEN: "t", GIT_USERNAME: "bot", OPENAI_API_KEY: "k" };
    expect(gitVariables(PLAIN, secrets)).toEqual({ GIT_URL: PLAIN, GIT_TOKEN: "t", GIT_USERNAME: "bot" });
    expect(gitVariables(PLAIN, { GIT_TOKEN: "t" })).toEqual({ GIT_URL: PLAIN, GIT_TOKEN: "t" });
    expect(gitVariables(PLAIN, { GIT_USERNAME: "bot" })).toEqual({ GIT_URL: PLAIN });
  });

  test("prefer a secret to the credentials of an address that an earlier build stored", () => {
    const url = "https://old:sesame@git.example/a";
    expect(gitVariables(url, { GIT_TOKEN: "new" })).toEqual({
      GIT_URL: "https://git.example/a",
      GIT_TOKEN: "new",
    });
    expect(gitVariables("https://sesame@git.example/a", {})).toEqual({
      GIT_URL: "https://git.example/a",
      GIT_TOKEN: "sesame",
      GIT_USERNAME: "sesame",
    });
  });
});
