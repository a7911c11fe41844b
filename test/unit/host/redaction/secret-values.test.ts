import { describe, expect, test } from "vitest";
import { secretsOfEnvironment, secretsOfFrame } from "../../../../src/host/redaction/secret-values.ts";

const values = (env: Record<string, string>, passed?: string[]) =>
  secretsOfEnvironment(env, passed).map(({ value }) => value);

describe("secrets of an environment", () => {
  test.each([
    ["GITHUB_PAT", "abcdefgh12345678"],
    ["MY_API_KEY", "some words"],
    ["DB_PASSWORD", "correct-horse"],
    ["HARMLESS", "ghp_0123456789abcdef0123456789abcdef0123"],
    ["HARMLESS", "q8Zr3LmPx7TvKn2WsYb5"],
  ])("%s=%s is one", (name, value) => {
    expect(values({ [name]: value })).toContain(value);
  });

  test.each([
    [
      "DATABASE_URL",
      "postgres://app:s3cret%2Fpass@db:5432/app?sslmode=require",
      ["s3cret%2Fpass", "s3cret/pass"],
    ],
    [
      "SENTRY_DSN",
      "https://0123456789abcdef0123456789abcdef@o1.ingest.example/2",
      ["0123456789abcdef0123456789abcdef"],
    ],
    ["CONNECTION", "Server=db;User=sa;Password=hunter2hunter2;Encrypt=yes", ["hunter2hunter2"]],
    ["REMOTE", "https://ghp_abcdefgh@example.com/x.git", ["ghp_abcdefgh"]],
  ])("%s has one within it", (name, value, parts) => {
    expect(values({ [name]: value })).toEqual(expect.arrayContaining(parts));
    expect(values({ [name]: value })).not.toContain(value);
  });

  test.each([
    ["PATH", "/usr/local/bin:/usr/bin:/bin"],
    ["HOME", "/home/someone"],
    ["EDITOR", "vi"],
    ["GIT_COMMIT", "4d80cf0e5a6cf43519acf9e7404d6affd0de80f9"],
    ["API_URL", "https://api.example.com/v1"],
    ["SSH_AUTH_SOCK", "/tmp"],
    ["npm_config_user_agent", "npm/10.8.2 node/v24.1.0 linux x64 workspaces/false"],
    ["LS_COLORS", "rs=0:di=01;34:ln=01;36:mh=00:pi=40;33"],
  ])("%s=%s is none", (name, value) => {
    expect(values({ [name]: value })).toEqual([]);
  });

  test("are all passed variables that do not look plain", () => {
    const env = { A: "x7!weird value", B: "production", C: "/usr/lib/jvm" };
    expect(values(env, ["A", "B", "C"])).toEqual(["x7!weird value"]);
    expect(values(env)).toEqual([]);
  });
});

describe("secrets of a frame to the agent", () => {
  const of = (method: string, params: object) =>
    secretsOfFrame(JSON.stringify({ jsonrpc: "2.0", id: 1, method, params })).map(({ value }) => value);

  test("are credentials of MCP servers, in either form of settings", () => {
    const mcpServers = [
      {
        name: "a",
        command: "/bin/a",
        env: [
          { name: "DB", value: "hunter2-very" },
          { name: "NODE_ENV", value: "production" },
          { name: "AWS_REGION", value: "us-east-1" },
        ],
      },
      {
        type: "http",
        name: "b",
        url: "https://b",
        headers: [{ name: "Authorization", value: "Bearer abc.def-123" }],
      },
      { name: "c", env: { TOKEN: "token-of-c" } },
    ];
    expect(of("session/new", { cwd: "/", mcpServers })).toEqual([
      "hunter2-very",
      "abc.def-123",
      "token-of-c",
    ]);
  });

  test("are a login, but not its method, and what an opening has in _meta", () => {
    expect(
      of("authenticate", { methodId: "method-with-long-name-1", _meta: { "api-key": "key-of-alice" } }),
    ).toEqual(["key-of-alice"]);
    expect(
      of("session/new", { cwd: "/", mcpServers: [], _meta: { x: { token: "token-in-meta" }, mode: "ask" } }),
    ).toEqual(["token-in-meta"]);
    const model = { claudeCode: { options: { model: "claude-sonnet-4-5", preset: "x7!weird preset" } } };
    expect(of("session/new", { cwd: "/", mcpServers: [], _meta: model })).toEqual([]);
    expect(of("session/set_config_option", { configId: "api_key", value: "key-of-bob" })).toEqual([
      "key-of-bob",
    ]);
    expect(of("session/set_config_option", { configId: "model", value: "claude-sonnet-4-5" })).toEqual([]);
    const answer = {
      result: { action: "accept", content: { password: "pass-of-carol", city: "Reykjavik" } },
    };
    expect(secretsOfFrame(JSON.stringify(answer)).map(({ value }) => value)).toEqual(["pass-of-carol"]);
    expect(of("session/prompt", { prompt: [{ type: "text", text: "my api-key" }] })).toEqual([]);
  });
});
