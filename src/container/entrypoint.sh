#!/bin/sh
# Clones GIT_URL if the workspace's directory is empty, and then runs the host.
set -eu
if [ -n "${GIT_URL:-}" ] && [ -z "$(ls -A "$ACP_EDGE_ROOT")" ]; then
  git clone --quiet ${GIT_REF:+--branch "$GIT_REF"} -- "$GIT_URL" "$ACP_EDGE_ROOT"
fi
exec acp-edge host
