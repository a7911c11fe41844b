import { expect, test } from "vitest";
import { abilitiesOf, CLIENT_ABILITIES } from "../../../src/protocol/client-abilities.ts";

test("a client has the abilities that it offers with true or an object", () => {
  const clientCapabilities = {
    elicitation: { form: {}, url: {} },
    session: { configOptions: { boolean: {} }, notices: {}, compaction: {} },
    plan: {},
    _meta: { terminal_output: true },
  };
  expect(abilitiesOf({ clientCapabilities })).toEqual(CLIENT_ABILITIES);
});

test.each([undefined, {}, { clientCapabilities: null }, { clientCapabilities: { elicitation: null } }])(
  "a client without an offer has none: %j",
  (params) => expect(abilitiesOf(params)).toEqual([]),
);

test.each([null, false, 0, "yes"])("%j is no offer", (value) => {
  const clientCapabilities = { elicitation: { form: value }, plan: value, _meta: { terminal_output: value } };
  expect(abilitiesOf({ clientCapabilities })).toEqual([]);
});
