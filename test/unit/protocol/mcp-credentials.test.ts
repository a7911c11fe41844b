import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Concealed,
  conceal,
  countConcealed,
  hasMcpServers,
  longestValue,
  reveal,
} from "../../../src/protocol/mcp-credentials.ts";

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
        expect(countConcealed(hidden.raw)).toBe(Object.keys(hidden.values).length);
        expect(restored(hidden)).toBe(raw);
      }),
    );
  });

  test("leave a message without them as it is", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue(), (value, params) => {
        const raw = JSON.stringify({ ...value, params });
        fc.pre(!hasMcpServers(JSON.parse(raw) as Record<string, unknown>));
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
  });
});
