// Calls of functions: what the model calls, and, where it waits for them, fields for the results.
import { useState } from "preact/hooks";
import type { Call } from "../api/types";
import * as answers from "../store/answers";
import type { Conversation, Message } from "../store/conversation";
import { Markdown } from "./markdown";
import { Icon } from "./icons";

interface Props {
  conversation: Conversation;
  message: Message;
  /** Whether results may be given: it is the last message. */
  open: boolean;
}

export function CallList({ conversation, message, open }: Props) {
  const calls = message.calls ?? [];
  const [results, setResults] = useState<string[]>([]);
  const send = () => answers.sendResults(answers.latest(conversation.id) ?? conversation, message, results);
  return (
    <form
      class="calls"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {calls.map((call, i) => (
        <section class="call" key={i} aria-label={`Call of ${call.name}`}>
          <h3>
            <Icon name="tool" />
            {call.name}
          </h3>
          <Markdown text={fenced(pretty(call))} whole />
          {open && (
            <label>
              Result
              <textarea
                rows={2}
                value={results[i] ?? ""}
                placeholder="What the function gives back"
                onInput={({ currentTarget }) => setResults(Object.assign([...results], { [i]: currentTarget.value }))}
              />
            </label>
          )}
        </section>
      ))}
      {open && (
        <button type="submit" class="primary" disabled={calls.some((_, i) => !results[i]?.trim())}>
          {calls.length > 1 ? "Send the results" : "Send the result"}
        </button>
      )}
    </form>
  );
}

function pretty(call: Call): string {
  try {
    return JSON.stringify(JSON.parse(call.arguments), null, 2);
  } catch {
    return call.arguments; // not whole yet
  }
}

function fenced(text: string): string {
  const fence = "`".repeat(Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length)) + 1);
  return `${fence}json\n${text}\n${fence}`;
}
