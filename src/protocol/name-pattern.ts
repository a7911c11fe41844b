/**
 * A pattern is a name with at most one `*`, which matches any text. With one `*` a match takes two comparisons, in SQL
 * too, so nobody can write a pattern that is slow to match.
 */
export function isPattern(text: string): boolean {
  return text.indexOf("*") === text.lastIndexOf("*");
}

export function matchesPattern(pattern: string, name: string): boolean {
  const star = pattern.indexOf("*");
  if (star < 0) return pattern === name;
  const [before, after] = [pattern.slice(0, star), pattern.slice(star + 1)];
  return name.length >= before.length + after.length && name.startsWith(before) && name.endsWith(after);
}
