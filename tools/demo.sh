#!/usr/bin/env bash
# The demo: starts the server on the small model, lets it greet and read a document in streams, completes a tool
# call, prints the speed and stops the server. Ends non-zero when any of it failed.
# usage: tools/demo.sh PROGRAM MODEL
set -euo pipefail

program="${1:?usage: tools/demo.sh PROGRAM MODEL}"
model="${2:?usage: tools/demo.sh PROGRAM MODEL}"
log="$(mktemp)"
server=""

finish() {
  status=$?
  if [[ -n "$server" ]]; then
    kill -INT "$server" 2> /dev/null || true
    wait "$server" || { echo "demo: the server did not stop cleanly" >&2; status=1; }
  fi
  ((status == 0)) || { echo "demo: failed; the server's log:" >&2; cat "$log" >&2; }
  rm -f "$log"
  exit "$status"
}
trap finish EXIT

step() { printf '\n== %s\n' "$1"; }
fail() { echo "demo: $1" >&2; exit 1; }

step "lily serve --model $model"
"$program" serve --model "$model" --port 0 2> "$log" &
server=$!
for _ in $(seq 300); do
  url="$(sed -n 's/.*listening on \(http[^ ]*\).*/\1/p' "$log")"
  [[ -n "$url" ]] && curl -fsS "$url/health" 2> /dev/null | jq -e '.status == "ok"' > /dev/null && break
  kill -0 "$server" 2> /dev/null || { wait "$server" || true; server=""; fail "the server ended"; }
  sleep 0.1
done
curl -fsS "$url/health" | jq -e '.status == "ok"' > /dev/null || fail "the server is not ready"
name="$(curl -fsS "$url/v1/models" | jq -r '.data[0].id')"
echo "$url serves $name"

# say WANTED TEXT [DOCUMENT]: prints each piece of the answer as it arrives; it must hold WANTED.
say() {
  local request answer="" line piece
  echo "user: $2"
  printf 'lily: '
  request="$(jq -n --arg model "$name" --arg text "$2" --arg document "${3:-}" '{model: $model, stream: true,
    temperature: 0, max_tokens: 200,
    messages: [{role: "user", content: (if $document == "" then $text else $document + "\n\n" + $text end)}]}')"
  while IFS= read -r line; do
    [[ "$line" == "data: [DONE]" ]] && { answer+=" "; break; }
    [[ "$line" == data:* ]] || continue
    piece="$(jq -r '.choices[0].delta.content // empty' <<< "${line#data: }")"
    printf '%s' "$piece"
    answer+="$piece"
  done < <(curl -fsSN "$url/v1/chat/completions" -H 'Content-Type: application/json' -d "$request")
  echo
  [[ "$answer" == *"$1"* ]] || fail "the streamed answer does not hold \"$1\": $answer"
}

step "Streamed answers"
say "How can I help?" "Hello"
say "Lily" "Who are you?"
say "I am a small model" "Wie wird morgen das Wetter in Hamburg?"

document="$(cat "$model/demo/library.txt")"
step "A document: $model/demo/library.txt"
echo "$document"
echo
say "B12" "What is the room of Tom Berg?" "$document"
say "7731" "What is the code of the front door?" "$document"
say "is not in the text" "What is the phone of Maria Lang?" "$document"

step "A tool call"
tools='[{"type": "function", "function": {"name": "find_contact",
  "description": "Find a contact by name.", "parameters": {"type": "object",
  "properties": {"name": {"type": "string", "description": "name of the person"}}, "required": ["name"]}}}]'
messages='[{"role": "user", "content": "What is the phone number of Anna Keller?"}]'
ask() {
  jq -n --arg model "$name" --argjson messages "$messages" --argjson tools "$tools" \
    '{model: $model, messages: $messages, tools: $tools, temperature: 0, max_tokens: 300}' |
    curl -fsS "$url/v1/chat/completions" -H 'Content-Type: application/json' -d @-
}
echo "user: $(jq -r '.[0].content' <<< "$messages")"
reply="$(ask)"
[[ "$(jq -r '.choices[0].finish_reason' <<< "$reply")" == tool_calls ]] || fail "no tool call: $reply"
call="$(jq -c '.choices[0].message.tool_calls[0]' <<< "$reply")"
echo "lily calls: $(jq -r '.function.name + " " + .function.arguments' <<< "$call")"
[[ "$(jq -r '.function.arguments | fromjson | .name' <<< "$call")" == "Anna Keller" ]] || fail "wrong call: $call"

result='{"name": "Anna Keller", "phone": "555-0142"}'
echo "tool: $result"
messages="$(jq -c --argjson reply "$reply" --arg result "$result" \
  '. + [$reply.choices[0].message, {role: "tool", tool_call_id: $reply.choices[0].message.tool_calls[0].id,
        content: $result}]' <<< "$messages")"
reply="$(ask)"
answer="$(jq -r '.choices[0].message.content' <<< "$reply")"
echo "lily: $answer"
[[ "$answer" == *555-0142* ]] || fail "the answer does not use the tool's result: $answer"

step "Speed (tokens a second)"
"$program" bench --model "$model" --prompt 512 --decode 64

printf '\nTalk with it yourself: %s chat --model %s\n' "$program" "$model"
