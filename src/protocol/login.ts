import { z } from "zod";

/** The token becomes the value of a cookie. */
export const LOGIN_REQUEST = z.object({
  token: z
    .string()
    .max(8192)
    .regex(/^[\w.-]+$/, "not a token"),
});
export type LoggedIn = {
  tenant: string;
  subject: string;
  workspaces: readonly string[];
  scopes: readonly string[];
  expiresAt: string;
};

/** The answer of `GET /api/login`: the OpenID providers at which people log in. */
export const LOGIN_PROVIDERS = z.object({
  providers: z.array(
    z.object({
      name: z.string(),
      issuer: z.url(),
      /** Where a browser begins. */
      url: z.url(),
      /** The public client of the command. Null: the command cannot log in at this provider. */
      commandClientId: z.string().nullable(),
      scopes: z.array(z.string()),
      /** The token that the gateway reads. */
      token: z.enum(["id", "access"]),
    }),
  ),
});
export type LoginProviders = z.infer<typeof LOGIN_PROVIDERS>;
