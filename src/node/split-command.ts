/** Splits a command into words like a shell, with quotes and backslashes but without expansion. */
export function splitCommand(text: string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const char = text[at] as string;
    if (char === "\\" && quote !== "'" && at + 1 < text.length) {
      const next = text[++at] as string;
      const escapes = quote === "" || next === '"' || next === "\\";
      word = (word ?? "") + (escapes ? next : char + next);
    } else if (quote !== "" ? char === quote : char === "'" || char === '"') {
      quote = quote === "" ? char : "";
      word ??= "";
    } else if (quote === "" && /\s/.test(char)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      word = (word ?? "") + char;
    }
  }
  if (quote !== "") throw new Error(`the command lacks a closing ${quote}: ${text}`);
  if (word !== undefined) words.push(word);
  if (words.length === 0) throw new Error("the command is empty");
  return words;
}
