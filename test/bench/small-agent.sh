#!/bin/sh
# An agent that costs next to nothing, so that a thousand of them fit on one machine. A prompt gets 20 updates.
update='{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"update"}}}}'
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
while IFS= read -r line; do
  id=${line#*\"id\":}
  id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*) answer "$id" '{"protocolVersion":1,"agentCapabilities":{}}' ;;
    *'"method":"session/new"'*) answer "$id" '{"sessionId":"s"}' ;;
    *'"method":"session/prompt"'*)
      count=0
      while [ "$count" -lt 20 ]; do
        printf '%s\n' "$update"
        count=$((count + 1))
      done
      answer "$id" '{"stopReason":"end_turn"}'
      ;;
  esac
done
