/** Variables that describe where a program runs. None of them is a secret. */
const PLAIN =
  /^(PATH|HOME|USER|LOGNAME|SHELL|TERM|COLORTERM|TZ|TMPDIR|TMP|TEMP|LANG|LANGUAGE|LC_.*|XDG_.*|SSL_CERT_(FILE|DIR)|NODE_EXTRA_CA_CERTS|(HTTPS?|ALL|NO)_PROXY|SystemRoot|ComSpec|PATHEXT|APPDATA|LOCALAPPDATA|USERPROFILE)$/i;

export function isPlainVariable(name: string): boolean {
  return PLAIN.test(name);
}

/** The part of an environment that a program may see without learning any secret. */
export function plainEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => isPlainVariable(name)));
}
