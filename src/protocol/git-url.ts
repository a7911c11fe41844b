/** The address of a git repository. Credentials belong in secrets: addresses are shown, logged and written to disk. */

const NAMES = { token: "GIT_TOKEN", username: "GIT_USERNAME" } as const;

export const GIT_CREDENTIALS_REFUSED = `The address must contain no user, password, query or fragment, because every reader sees it. For a private repository store the token as the workspace's secret ${NAMES.token}, and the user name, if the server wants a particular one, as ${NAMES.username}`;

/** Whether the address has a part that can be a credential. Git servers need neither a query nor a fragment. */
export function hasGitCredentials(url: string): boolean {
  const { username, password, search, hash } = new URL(url);
  return username !== "" || password !== "" || search !== "" || hash !== "";
}

/** The address as readers see it. The marks are no valid part of a setting, so they cannot be stored by mistake. */
export function maskGitUrl(url: string): string {
  const { protocol, username, password, search, hash } = new URL(url);
  const { host, pathname } = new URL(url);
  const user = username === "" && password === "" ? "" : "redacted@";
  return `${protocol}//${user}${host}${pathname}${search === "" && hash === "" ? "" : "?redacted"}`;
}

/**
 * The variables by which a container clones a repository. Earlier builds accepted credentials in the address: they
 * leave it here, and serve like secrets.
 */
export function gitVariables(url: string, secrets: Readonly<Record<string, string>>): Record<string, string> {
  const { protocol, host, pathname, username, password } = new URL(url);
  const user = decode(username);
  const token = secrets[NAMES.token] ?? (password === "" ? user : decode(password));
  const name = secrets[NAMES.username] ?? (secrets[NAMES.token] === undefined ? user : "");
  return {
    GIT_URL: `${protocol}//${host}${pathname}`,
    ...(token === "" ? {} : { [NAMES.token]: token }),
    ...(token === "" || name === "" ? {} : { [NAMES.username]: name }),
  };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
