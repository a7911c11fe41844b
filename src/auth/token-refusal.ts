/** Why a token is refused, for the audit log only. The bearer is known if the token's signature is valid. */
export type TokenRefusal = { reason: string; bearer?: { tenant: string; subject: string } };
