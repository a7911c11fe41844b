/** The rows of the ACP compatibility kit with a published agent; only its model is a stand-in. */
import { fileURLToPath } from "node:url";
import { afterAll } from "vitest";
import { ModelStandIn } from "../model-stand-in/server.ts";
import { tckSuite } from "./suite.ts";

const QWEN = fileURLToPath(new URL("../../../node_modules/.bin/qwen", import.meta.url));

const model = await ModelStandIn.start();
afterAll(() => model[Symbol.asyncDispose]());

tckSuite(
  {
    id: "qwen-code",
    // Qwen Code says that all its logins need a terminal, so the client is shown none; this one works without.
    login: "openai",
    prompts: {
      hello: "hello [[say 3]]",
      hold: "[[hold]]",
      read: "[[read README.md]]",
      run: "[[run ls]]",
      ask: "Which of two options? [[say 1]]",
    },
  },
  {
    command: ["node", QWEN, "--acp"],
    // The suite ignores keys in the environment of this machine.
    env: (home) => ({
      HOME: home,
      OPENAI_API_KEY: "sk-stand-in",
      OPENAI_BASE_URL: `${model.url}/v1`,
      OPENAI_MODEL: "stand-in",
      DASHSCOPE_API_KEY: "",
    }),
  },
);
