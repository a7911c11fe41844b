#!/bin/sh
# What the container runs: the repository it was told about, if its directory is empty, then the host.
set -eu
if [ -n "${GIT_URL:-}" ] && [ -z "$(ls -A "$ACP_EDGE_ROOT")" ]; then
  git clone --quiet ${GIT_REF:+--branch "$GIT_REF"} -- "$GIT_URL" "$ACP_EDGE_ROOT"
fi
exec acp-edge host
