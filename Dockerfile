# syntax=docker/dockerfile:1
# An image of a host with `acp-edge`, git and agents. The environment configures the host, see `acp-edge host --help`.
#   docker build --build-arg AGENTS="@agentclientprotocol/claude-agent-acp opencode-ai" -t acp-edge-host .

FROM node:24-bookworm-slim AS package
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
# esbuild is all the bundle needs, and it runs without its install script.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY README.md tsconfig.json ./
COPY src src
RUN npm pack --pack-destination /

FROM node:24-bookworm-slim
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates git tini \
 && rm -rf /var/lib/apt/lists/*

# npm packages of the catalogue's agents, separated by spaces.
ARG AGENTS=""
COPY --from=package /acp-edge-*.tgz /tmp/
RUN npm install --global --no-audit --no-fund /tmp/acp-edge-*.tgz ${AGENTS} \
 && rm -rf /tmp/acp-edge-*.tgz /root/.npm
COPY --chmod=755 src/container/entrypoint.sh /usr/local/bin/acp-edge-host

RUN install --directory --owner=node --group=node /workspace
USER node
ENV ACP_EDGE_ROOT=/workspace
WORKDIR /workspace
VOLUME /workspace

# tini reaps what agents leave behind and passes SIGTERM on: the host drains.
ENTRYPOINT ["tini", "--", "acp-edge-host"]
