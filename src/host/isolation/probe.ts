/**
 * A program that runs inside an isolation, and prints `isolated` or what it could do although it must not. It is text,
 * because the published command has no file for it.
 */
export const PROBE = `
const fs = require("node:fs");
const { host, hidden, root, alone } = JSON.parse(process.argv[1]);
const attempt = (action) => { try { return action(); } catch { return undefined; } };
const reads = (path) => {
  const stats = attempt(() => fs.statSync(path));
  if (!stats) return false;
  const content = stats.isDirectory() ? attempt(() => fs.readdirSync(path)) : attempt(() => fs.readFileSync(path));
  const around = content && stats.isDirectory() && (root + "/").startsWith(path + "/");
  return content !== undefined && content.length > (around ? 1 : 0);
};
const stat = attempt(() => fs.readFileSync("/proc/" + host.pid + "/stat", "latin1")) ?? "";
const isHost = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] === host.startedAt;
const problems = [
  isHost && alone && "it sees the host's process",
  isHost && attempt(() => fs.readFileSync("/proc/" + host.pid + "/environ")) && "it reads the host's environment",
  ...["/proc/sys/kernel/core_pattern", "/sys"].map((path) =>
    alone && attempt(() => (fs.accessSync(path, fs.constants.W_OK), true)) && "it writes to " + path),
  ...hidden.map((path) => reads(path) && "it reads " + path),
  !attempt(() => (fs.accessSync(root, fs.constants.R_OK | fs.constants.W_OK), true)) && "it cannot write to " + root,
].filter(Boolean);
console.log(problems.join(", ") || "isolated");
`;
