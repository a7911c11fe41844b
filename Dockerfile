# syntax=docker/dockerfile:1
# An image of a host with `acp-edge`, git and agents. The environment configures the host, see `acp-edge host --help`.
#   docker build --build-arg AGENTS="@agentclientprotocol/claude-agent-acp@0.99.1 opencode-ai@1.18.33" -t acp-edge-host .
# Add the digest of the image that you have checked: --build-arg NODE_IMAGE=node:24.21.0-bookworm-slim@sha256:…
ARG NODE_IMAGE=node:24.21.0-bookworm-slim

FROM ${NODE_IMAGE} AS package
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
# esbuild is all the bundle needs, and it runs without its install script.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY README.md tsconfig.json ./
COPY src src
RUN npm pack --pack-destination /

# Install scripts of agents run as an ordinary user, in a stage of which only the files are kept.
FROM ${NODE_IMAGE} AS agents
# npm packages of the catalogue's agents with their versions, separated by spaces.
ARG AGENTS=""
USER node
RUN mkdir -p /home/node/agents/bin /home/node/agents/lib/node_modules \
 && if [ -n "${AGENTS}" ]; then npm install --global --prefix /home/node/agents --no-audit --no-fund ${AGENTS}; fi

FROM ${NODE_IMAGE}
RUN apt-get update \
 && apt-get install --yes --no-install-recommends bubblewrap ca-certificates git tini \
 && rm -rf /var/lib/apt/lists/*
COPY --from=agents --chown=root:root /home/node/agents/lib/node_modules /usr/local/lib/node_modules
COPY --from=agents --chown=root:root /home/node/agents/bin /usr/local/bin
RUN --mount=from=package,target=/package \
    npm install --global --ignore-scripts --no-audit --no-fund /package/acp-edge-*.tgz && rm -rf /root/.npm
COPY --chmod=755 src/container/entrypoint.sh /usr/local/bin/acp-edge-host

# The host runs as root and changes to this user for each agent, who therefore cannot read the host's token.
RUN usermod --login agent --move-home --home /home/agent node && groupmod --new-name agent node \
 && install --directory --owner=agent --group=agent /workspace
ENV ACP_EDGE_ROOT=/workspace ACP_EDGE_AGENT_USER=agent
WORKDIR /workspace

# The script replaces itself by tini, so that no process keeps the environment with the token.
ENTRYPOINT ["acp-edge-host"]
