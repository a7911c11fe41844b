import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Concealed,
  conceal,
  hasMcpServers,
  longestValue,
  mayHaveCredentials,
  measureValues,
  referencesIn,
  reveal,
} from "../../../src/protocol/concealment.ts";

function concealed(raw: string): Concealed {
  let count = 0;
  return conceal(raw, () => `r${count++}`);
}
const restored = ({ raw, values }: Concealed) => reveal(raw, (reference) => values[reference]);

/** Words that occur nowhere else in a message. */
const secret = fc.string({ minLength: 1 }).map((text) => `«${text}»`);
const settings = fc.oneof(
  fc.array(fc.record({ name: fc.string(), value: secret }), { maxLength: 3 }),
  fc.dictionary(fc.string(), secret, { maxKeys: 3 }),
);
const server = fc.record(
  {
    type: fc.constantFrom("stdio", "http", "sse"),
    name: fc.string(),
    command: fc.string(),
    args: fc.array(fc.string()),
    env: settings,
    headers: settings,
    url: fc.webUrl(),
    _meta: fc.dictionary(fc.string(), fc.jsonValue()),
  },
  { requiredKeys: [] },
);
const message = fc
  .record({
    servers: fc.oneof(fc.array(server, { maxLength: 4 }), fc.dictionary(fc.string(), server, { maxKeys: 3 })),
    other: fc.dictionary(fc.string(), fc.jsonValue()),
    space: fc.constantFrom(undefined, 1, "\t"),
  })
  .map(({ servers, other, space }) =>
    JSON.stringify(
      { jsonrpc: "2.0", id: 1, method: "session/new", params: { ...other, mcpServers: servers, cwd: "/" } },
      null,
      space,
    ),
  );

describe("credentials of MCP servers", () => {
  test("are removed from a message and restored byte for byte", () => {
    fc.assert(
      fc.property(message, (raw) => {
        const hidden = concealed(raw);
        expect(hidden.raw).not.toContain("«");
        expect(() => JSON.parse(hidden.raw)).not.toThrow();
        expect(referencesIn(hidden.raw)).toEqual(Object.keys(hidden.values));
        expect(restored(hidden)).toBe(raw);
      }),
    );
  });

  test("leave a message without them as it is", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue(), (value, params) => {
        const raw = JSON.stringify({ ...value, params });
        const parsed = JSON.parse(raw) as Record<string, unknown>;
        fc.pre(!hasMcpServers(parsed) && !("result" in parsed));
        expect(concealed(raw)).toEqual({ raw, values: {} });
      }),
    );
  });

  test("leave other values of a server as they are", () => {
    const raw = `{"params":{"mcpServers":[{"env":[7,"x",{"name":"A"}],"args":["a"],"headers":null},3,null]},"mcpServers":[{"env":[{"value":"b"}]}]}`;
    expect(concealed(raw)).toEqual({ raw, values: {} });
    expect(concealed('{"params":{"mcpServers":"none"}}').values).toEqual({});
  });

  test("are found under escaped and duplicate keys, whatever their values", () => {
    const raw = String.raw`{"params":{"mcpServers":[{"\u0065nv":[{"value":"a","value":12},{"value":{"b":["c"]}}]}]}}`;
    const hidden = concealed(raw);
    expect(Object.values(hidden.values)).toEqual(['"a"', "12", '{"b":["c"]}']);
    expect(restored(hidden)).toBe(raw);
  });

  test("are put back in their places only", () => {
    const { raw, values } = concealed('{"params":{"mcpServers":[{"env":[{"name":"A","value":"key"}]}]}}');
    const copied = raw.replace('"A"', '"[secret:r0]"').replace("}]}}", '}],"args":["[secret:r0]"]}}');
    expect(reveal(copied, (reference) => values[reference]).match(/key/g)).toHaveLength(1);
  });

  test("are restored as they were when they look like a reference, and reveal nothing", () => {
    const raw = '{"params":{"mcpServers":[{"env":[{"name":"A","value":"[secret:r0]"}]}]}}';
    const { raw: logged, values } = conceal(raw, () => "fresh");
    expect(reveal(logged, (reference) => ({ r0: '"of another"', ...values })[reference])).toBe(raw);
  });

  test("leave an empty text when they are lost", () => {
    const { raw } = concealed('{"params":{"mcpServers":[{"headers":[{"name":"A","value":"key"}]}]}}');
    expect(reveal(raw, () => undefined)).toBe(
      '{"params":{"mcpServers":[{"headers":[{"name":"A","value":""}]}]}}',
    );
  });

  test("are measured by their size", () => {
    expect(longestValue('{"params":{"mcpServers":[{"env":[{"value":"abc"},{"value":""}]}]}}')).toBe(5);
    expect(longestValue("{}")).toBe(0);
    const many = Array.from({ length: 200_000 }, () => ({ value: "a" }));
    expect(longestValue(JSON.stringify({ params: { mcpServers: [{ env: many }] } }))).toBe(3);
  });
});

describe("other credentials", () => {
  const SECRET = "«secret»";
  const request = (method: string, params: object) =>
    JSON.stringify({ jsonrpc: "2.0", id: 1, params, method });
  const response = (result: unknown) => JSON.stringify({ jsonrpc: "2.0", id: "s:4", result });

  test.each([
    [
      "everything but the method of a login",
      request("authenticate", {
        methodId: "key",
        apiKey: SECRET,
        _meta: { "api-key": SECRET, more: { deep: [SECRET] } },
      }),
    ],
    [
      "everything but the name and the type of a provider",
      request("providers/set", {
        ...{ providerId: "main", apiType: "anthropic", baseUrl: `https://${SECRET}@a.example` },
        ...{ headers: { Authorization: SECRET }, apiKey: SECRET, _meta: { a: SECRET } },
      }),
    ],
    ["what a logout has in _meta", request("logout", { _meta: { token: SECRET } })],
    ...["session/new", "session/load", "session/resume", "session/fork"].map((method) => [
      `_meta of ${method}`,
      request(method, {
        cwd: "/",
        sessionId: "s",
        _meta: { "acp-edge/after": 3, agent: { key: SECRET }, list: [SECRET], text: SECRET },
      }),
    ]),
    ["_meta that is no object", request("session/new", { cwd: "/", _meta: SECRET })],
    [
      "the content of an answer to a form",
      response({ action: "accept", content: { password: SECRET, again: [SECRET] }, _meta: { a: SECRET } }),
    ],
    ["content that is a list", response({ action: "accept", content: [SECRET] })],
    [
      "an option that is called a key",
      request("session/set_config_option", { sessionId: "s", configId: "apiKey", value: SECRET }),
    ],
    [
      "an option whose value is a key",
      request("session/set_config_option", { sessionId: "s", configId: "x", value: `sk-${SECRET}` }),
    ],
  ])("are removed and restored byte for byte: %s", (_, raw) => {
    const hidden = concealed(raw);
    expect(hidden.raw).not.toContain("secret»");
    expect(hidden.raw).not.toBe(raw);
    expect(restored(hidden)).toBe(raw);
    expect(mayHaveCredentials(JSON.parse(raw) as Record<string, unknown>)).toBe(true);
    expect(measureValues(raw).count).toBe(referencesIn(hidden.raw).length);
  });

  test("leave what the gateway and readers need", () => {
    const login = concealed(request("authenticate", { methodId: "key", _meta: { "acp-edge/x": 1, y: 2 } }));
    expect(JSON.parse(login.raw)).toMatchObject({
      params: { methodId: "key", _meta: { "acp-edge/x": 1, y: "[secret:r0:scalar]" } },
    });
    for (const raw of [
      request("session/prompt", { sessionId: "s", prompt: [], _meta: { a: 1 } }),
      request("session/set_config_option", { sessionId: "s", configId: "model", value: "fast" }),
      response({ outcome: { outcome: "selected", optionId: "allow" } }),
      response({ content: "text of a file" }),
      response({ action: "decline" }),
    ])
      expect(concealed(raw).raw).toBe(raw);
  });

  test.each([
    ...[
      "api_key",
      "apiKey",
      "APIKey",
      "apikey",
      "openai-api-key",
      "token",
      "githubToken",
      "auth.token",
      "TOKEN_2",
    ],
    ...["secret", "clientSecret", "password", "db_passwd", "credentials", "Authorization", "key1"],
  ])("are the value of an option called %s", (configId) => {
    const raw = request("session/set_config_option", { sessionId: "s", configId, value: SECRET });
    expect(concealed(raw).raw).not.toContain(SECRET);
  });

  test.each([
    "max_thinking_tokens",
    "maxTokens",
    "keybindings",
    "keyboard",
    "author",
    "authors",
    "monkey",
    "model",
  ])("are not the value of an option called %s", (configId) => {
    const raw = request("session/set_config_option", { sessionId: "s", configId, value: "plain" });
    expect(concealed(raw)).toEqual({ raw, values: {} });
  });

  test("are in the answer to a form by the method of its request, and in no other answer", () => {
    const answers = [{ content: { a: SECRET } }, { content: [SECRET] }, { content: SECRET }];
    for (const raw of answers.map(response)) {
      const value = JSON.parse(raw) as Record<string, unknown>;
      expect(mayHaveCredentials(value, "elicitation/create")).toBe(true);
      const hidden = conceal(raw, () => "r", "elicitation/create");
      expect(hidden.raw).not.toContain(SECRET);
      expect(reveal(hidden.raw, (name) => hidden.values[name], "elicitation/create")).toBe(raw);
      for (const method of ["fs/read_text_file", "mcp/message", undefined]) {
        expect(mayHaveCredentials(value, method)).toBe(false);
        expect(conceal(raw, () => "r", method)).toEqual({ raw, values: {} });
      }
    }
  });

  test("leave an empty value of their type when they are lost", () => {
    const { raw } = concealed(request("session/new", { _meta: { a: "x", b: { c: 1 }, d: [1], e: 5 } }));
    expect(JSON.parse(reveal(raw, () => undefined))).toMatchObject({
      params: { _meta: { a: "", b: {}, d: [], e: null } },
    });
  });
});

describe("the parameters of a vendor's method", () => {
  const call = (params: object) => JSON.stringify({ jsonrpc: "2.0", id: 1, method: "_vendor/login", params });

  test.each([
    [{ apiKey: "v8" }],
    [{ sessionId: "s", deep: [{ auth_token: "v8" }] }],
    [{ list: ["sk-v8"], note: "ghp_v8" }],
    [{ credentials: { user: "v8", pass: ["v8"] } }],
  ])("are concealed where they are called a key or look like one: %j", (params) => {
    const raw = call(params);
    expect(mayHaveCredentials(JSON.parse(raw))).toBe(true);
    const hidden = concealed(raw);
    expect(hidden.raw).not.toContain("v8");
    expect(restored(hidden)).toBe(raw);
  });

  test("are left alone otherwise", () => {
    const raw = call({ sessionId: "s", text: "keys of a piano", max_tokens: 5, items: [1, { a: null }] });
    expect(concealed(raw).raw).toBe(raw);
  });

  test("do not turn a reference that a client wrote into a value", () => {
    const raw = call({ note: "[secret:r7]", items: ["[secret:r7]"] });
    const hidden = concealed(raw);
    expect(reveal(hidden.raw, (name) => hidden.values[name] ?? '"stolen"')).toBe(raw);
  });
});
