#!/bin/sh
# Clones GIT_URL if the workspace's directory is empty, and then runs the host, or the program that the arguments name.
# A private repository needs GIT_TOKEN. git asks this script for it (GIT_ASKPASS), so the token is in no URL, no command
# line and no .git/config; the host and its agents do not inherit it. The host gets its own token by a descriptor: a
# process can read the environment with which its ancestors were started.
set -eu

# Runs a command as the user that agents run as.
as_agent() {
  if [ "$(id -u)" = 0 ] && [ -n "${ACP_EDGE_AGENT_USER:-}" ]; then
    home=$(getent passwd "$ACP_EDGE_AGENT_USER" | cut -d: -f6)
    set -- env HOME="$home" USER="$ACP_EDGE_AGENT_USER" "$@"
    set -- --inh-caps=-all --bounding-set=-all --no-new-privs -- "$@"
    set -- --reuid="$ACP_EDGE_AGENT_USER" --regid="$(id -g "$ACP_EDGE_AGENT_USER")" --init-groups "$@"
    set -- setpriv "$@"
  fi
  exec "$@"
}

if [ -n "${GIT_ASKS:-}" ]; then
  # Only the repository's own server is told, not a server that it redirects to.
  server=${GIT_URL#*://}
  server=${server%%/*}
  case "${1:-}" in
    *"//$server'"* | *"@$server'"*) ;;
    *) exit 1 ;;
  esac
  case "$1" in
    Username*) printf '%s\n' "${GIT_USERNAME:-x-access-token}" ;;
    *) printf '%s\n' "$GIT_TOKEN" ;;
  esac
  exit
fi

# A new volume belongs to root.
if [ "$(id -u)" = 0 ] && [ -n "${ACP_EDGE_AGENT_USER:-}" ] && [ -z "$(ls -A "$ACP_EDGE_ROOT")" ]; then
  chown "$ACP_EDGE_AGENT_USER:$(id -g "$ACP_EDGE_AGENT_USER")" "$ACP_EDGE_ROOT"
fi

if [ -n "${GIT_URL:-}" ] && [ -z "$(ls -A "$ACP_EDGE_ROOT")" ]; then
  (
    unset ACP_EDGE_HOST_TOKEN
    export GIT_URL GIT_TERMINAL_PROMPT=0
    if [ -n "${GIT_TOKEN:-}" ]; then
      GIT_ASKPASS=$(readlink -f "$0")
      export GIT_ASKPASS GIT_ASKS=1
    fi
    as_agent git -c credential.helper= clone --quiet ${GIT_REF:+--branch "$GIT_REF"} -- "$GIT_URL" "$ACP_EDGE_ROOT"
  )
fi
unset GIT_TOKEN GIT_USERNAME

if [ -n "${ACP_EDGE_HOST_TOKEN:-}" ]; then
  # A short document is a pipe, which is empty as soon as the host has read it.
  exec 9<<END
$ACP_EDGE_HOST_TOKEN
END
  export ACP_EDGE_HOST_TOKEN_FD=9
fi
unset ACP_EDGE_HOST_TOKEN

case "${1:--}" in
  -*) set -- acp-edge host "$@" ;;
esac
# The first process of a container reaps what agents leave behind, and passes SIGTERM on: the host drains.
if [ "$$" = 1 ]; then set -- tini -- "$@"; fi
exec "$@"
