/** Variables that describe the system a program runs on. None is a key; only a proxy's URL may contain a password. */
const PLAIN =
  /^(PATH|HOME|USER|LOGNAME|SHELL|TERM|COLORTERM|TZ|TMPDIR|TMP|TEMP|LANG|LANGUAGE|LC_.*|XDG_.*|SSL_CERT_(FILE|DIR)|NODE_EXTRA_CA_CERTS|(HTTPS?|ALL|NO)_PROXY|SystemRoot|ComSpec|PATHEXT|APPDATA|LOCALAPPDATA|USERPROFILE)$/i;

export function isPlainVariable(name: string): boolean {
  return PLAIN.test(name);
}

/** The part of an environment that any program may see. */
export function plainEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => isPlainVariable(name)));
}
