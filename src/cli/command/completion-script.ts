import type { Command } from "commander";

/** The completions after some words of a command line: subcommands, options, and values of an argument. */
export type Branch = { words: string; next: { name: string; summary: string }[] };

/** The command tree as a flat list. `extra` is the help text of commands that parse their own options. */
export function branches(command: Command, words = "", extra: Record<string, string> = {}): Branch[] {
  const visible = command.commands.filter((one) => !(one as Command & { _hidden?: boolean })._hidden);
  const values = command.registeredArguments.flatMap((argument) => argument.argChoices ?? []);
  const options = command.options.flatMap(({ long, description }) =>
    long ? [{ name: long, summary: description }] : [],
  );
  // Options that commander does not know are read from the help text.
  const own = [...(extra[words] ?? "").matchAll(/^ {2}(--[\w-]+)(?: \S+)* {2,}(\S.*)$/gm)];
  return [
    {
      words,
      next: [
        ...visible.map((one) => ({ name: one.name(), summary: one.summary() || one.description() })),
        ...values.map((name) => ({ name, summary: "" })),
        ...options,
        ...own.map(([, name = "", summary = ""]) => ({ name, summary })),
      ],
    },
    ...visible.flatMap((one) => branches(one, `${words} ${one.name()}`.trim(), extra)),
  ];
}

/** The script finds the deepest command that the words name, and offers that command's completions. */
export function bashScript(tree: readonly Branch[]): string {
  const cases = tree
    .map(({ words, next }) => `    "${words}") echo "${next.map(({ name }) => name).join(" ")}" ;;`)
    .join("\n");
  return `# acp-edge completion for bash: eval "$(acp-edge completion bash)"
_acp_edge_words() {
  case "$1" in
${cases}
    *) return 1 ;;
  esac
}
_acp_edge() {
  local path="" word next at
  for ((at = 1; at < COMP_CWORD; at++)); do
    word="\${COMP_WORDS[at]}"
    next="\${path:+$path }$word"
    _acp_edge_words "$next" >/dev/null && path="$next"
  done
  COMPREPLY=($(compgen -W "$(_acp_edge_words "$path")" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _acp_edge acp-edge`;
}

/** zsh can run completions for bash. */
export function zshScript(tree: readonly Branch[]): string {
  return `#compdef acp-edge
# acp-edge completion for zsh: eval "$(acp-edge completion zsh)"
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
${bashScript(tree).split("\n").slice(1).join("\n")}`;
}

export function fishScript(tree: readonly Branch[]): string {
  const lines = tree.flatMap(({ words, next }) => {
    const when = words === "" ? "__fish_use_subcommand" : condition(words.split(" "), next);
    return next.map(({ name, summary }) => {
      const what = name.startsWith("--") ? `-l ${name.slice(2)}` : `-a ${name}`;
      return `complete -c acp-edge -n ${quote(when)} ${what}${summary ? ` -d ${quote(summary)}` : ""}`;
    });
  });
  return `# acp-edge completion for fish: acp-edge completion fish | source\n${lines.join("\n")}`;
}

/** True when all words are present, and no word that leads to a deeper command. */
function condition(words: readonly string[], next: Branch["next"]): string {
  const further = next.filter(({ name }) => !name.startsWith("--")).map(({ name }) => name);
  const seen = words.map((word) => `__fish_seen_subcommand_from ${word}`).join("; and ");
  return further.length === 0 ? seen : `${seen}; and not __fish_seen_subcommand_from ${further.join(" ")}`;
}

function quote(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
