// One message with what can be done with it.
import { Component } from "preact";
import { useState } from "preact/hooks";
import * as answers from "../store/answers";
import type { Conversation, Message } from "../store/conversation";
import * as tree from "../store/conversation";
import { shortName } from "../store/server";
import { settings } from "../store/settings";
import { put } from "../store/state";
import { copy } from "../text/rendered";
import { CallList } from "./calls";
import { Editor } from "./editor";
import { Medium } from "./attached";
import { Icon, IconButton } from "./icons";
import { Markdown } from "./markdown";

interface Props {
  conversation: Conversation;
  message: Message;
  /** Whether it is being written. */
  growing: boolean;
  /** Whether anything is being written in the conversation. */
  busy: boolean;
  last: boolean;
  /** Share of the prompt that is computed. */
  progress?: number;
}

/** The conversation changes with every piece; a message is shown anew only if something of its own changed. */
export class MessageView extends Component<Props> {
  shouldComponentUpdate(next: Props) {
    const siblings = (p: Props) => tree.children(p.conversation, p.message.parent).length;
    const same = (["message", "growing", "busy", "last", "progress"] as const).every((name) => this.props[name] === next[name]);
    return !same || siblings(this.props) !== siblings(next);
  }

  render(props: Props) {
    return <MessageBody {...props} />;
  }
}

/** The conversation as it is now, which is later than the one a view was made with. */
const latest = (conversation: Conversation) => answers.latest(conversation.id) ?? conversation;

function MessageBody(props: Props) {
  const { conversation, message, growing, busy } = props;
  const [editing, setEditing] = useState(false);
  if (message.role === "tool") return <ToolResult message={message} />;
  const who = message.role === "user" ? "You" : "Answer";
  return (
    <article class={`message ${message.role}`} aria-label={who} data-id={message.id} aria-busy={growing}>
      {editing ? (
        <Editor
          message={message}
          busy={busy}
          onClose={() => setEditing(false)}
          onSend={(text, files) => answers.sendInstead(latest(conversation), message, text, files)}
          onKeep={(text) => answers.keepEdited(latest(conversation), message, text)}
        />
      ) : message.role === "user" ? (
        <UserText message={message} />
      ) : (
        <AnswerText {...props} />
      )}
      {!editing && <Actions {...props} onEdit={() => setEditing(true)} />}
    </article>
  );
}

function UserText({ message }: { message: Message }) {
  return (
    <div class="bubble">
      {message.files?.map((file) =>
        file.kind ? <Medium file={file} key={file.name} /> : (
        <details class="file" key={file.name}>
          <summary>
            <Icon name="file" />
            {file.name}
            <span class="faint">{size(file.text.length)}</span>
          </summary>
          <pre tabIndex={0}>{file.text}</pre>
        </details>
        ),
      )}
      {message.content && <p class="plain">{message.content}</p>}
    </div>
  );
}

function AnswerText({ conversation, message, growing, busy, last, progress }: Props) {
  const empty = !message.content && !message.reasoning && !message.calls?.length;
  return (
    <div class="answer">
      {message.reasoning && <Reasoning message={message} growing={growing && !message.content && !message.calls?.length} />}
      {growing && empty && (
        <p class="waiting" role="status">
          <i />
          {progress === undefined ? "Waiting for the first word" : `Reading the conversation: ${Math.round(progress * 100)} %`}
        </p>
      )}
      {message.content && <Markdown text={message.content} whole={!growing} />}
      {message.calls && <CallList conversation={conversation} message={message} open={last && !growing && !busy} />}
      {message.error && (
        <div class="failure" role="alert">
          <Icon name="warning" />
          <p>{message.error}</p>
          <button type="button" disabled={busy} onClick={() => retry(latest(conversation), message)}>
            Try again
          </button>
        </div>
      )}
      {!growing && empty && !message.error && (
        <p class="faint">{message.finish === "stop" ? "An empty answer." : "Stopped before the first word."}</p>
      )}
    </div>
  );
}

/** An answer that failed before its first word gives way to the next; one with text stays beside it. */
function retry(conversation: Conversation, message: Message) {
  if (!message.content && !message.reasoning && !message.calls?.length) {
    put(tree.remove(conversation, message.id));
    answers.answer(conversation.id, message.parent);
  } else {
    answers.regenerate(conversation, message);
  }
}

function Reasoning({ message, growing }: { message: Message; growing: boolean }) {
  const seconds = Math.round((message.reasoningMs ?? 0) / 1000);
  const title = growing ? "Thinking" : seconds > 0 ? `Thought for ${seconds} s` : "Thoughts";
  const [open, setOpen] = useState(settings.value.showReasoning);
  return (
    <details class="reasoning" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Icon name="chevron" />
        <span class={growing ? "shimmer" : ""}>{title}</span>
      </summary>
      {open && <Markdown text={message.reasoning!} whole={!growing} />}
    </details>
  );
}

function ToolResult({ message }: { message: Message }) {
  return (
    <article class="message tool" aria-label="Result of a call">
      <details class="file">
        <summary>
          <Icon name="tool" />
          Result
          <span class="faint">{size(message.content.length)}</span>
        </summary>
        <pre tabIndex={0}>{message.content}</pre>
      </details>
    </article>
  );
}

function Actions({ conversation, message, growing, busy, last, onEdit }: Props & { onEdit: () => void }) {
  const [copied, setCopied] = useState(false);
  const onCopy = async () => {
    if (!(await copy(message.content))) return;
    setCopied(true);
    setTimeout(() => setCopied(false), 1600);
  };
  const cutOff = ["length", "stopped", "interrupted"].includes(message.finish ?? "") || (message.error && message.content);
  return (
    <footer class={`actions ${growing ? "held" : ""} ${last ? "last" : ""}`}>
      <Branches conversation={conversation} message={message} busy={busy} />
      <IconButton icon={copied ? "check" : "copy"} label={copied ? "Copied" : "Copy"} onClick={onCopy} />
      <IconButton icon="edit" label="Edit" onClick={onEdit} disabled={busy} />
      {message.role === "assistant" && (
        <IconButton
          icon="again"
          label="Write another answer"
          disabled={busy}
          onClick={() => answers.regenerate(latest(conversation), message)}
        />
      )}
      {message.role === "assistant" && cutOff && last && (
        <IconButton icon="play" label="Continue" disabled={busy} onClick={() => answers.goOn(latest(conversation), message)} />
      )}
      <IconButton
        icon="bin"
        label="Delete with all that follows"
        disabled={busy}
        onClick={() => put(tree.remove(latest(conversation), message.id))}
      />
      {message.role === "assistant" && <Figures message={message} growing={growing} />}
    </footer>
  );
}

function Branches({ conversation, message, busy }: { conversation: Conversation; message: Message; busy: boolean }) {
  const siblings = tree.children(conversation, message.parent);
  if (siblings.length < 2) return null;
  const at = siblings.findIndex((m) => m.id === message.id);
  const go = (to: number) => put(tree.choose(latest(conversation), siblings[to].id));
  return (
    <span class="branches" role="group" aria-label="Versions">
      <IconButton icon="left" label="Version before" disabled={busy || at === 0} onClick={() => go(at - 1)} />
      <span class="count" aria-label={`Version ${at + 1} of ${siblings.length}`}>
        {at + 1}/{siblings.length}
      </span>
      <IconButton icon="right" label="Version after" disabled={busy || at === siblings.length - 1} onClick={() => go(at + 1)} />
    </span>
  );
}

function Figures({ message, growing }: { message: Message; growing: boolean }) {
  const t = message.timings;
  if (!t || !t.predicted_n) return null;
  const cached = t.cache_n ? `, ${t.cache_n} of ${t.cache_n + t.prompt_n} from the cache` : "";
  const detail =
    `${t.predicted_n} tokens in ${(t.predicted_ms / 1000).toFixed(2)} s; prompt of ${t.cache_n + t.prompt_n} tokens: ` +
    `${t.prompt_n} computed in ${(t.prompt_ms / 1000).toFixed(2)} s${cached}`;
  return (
    <span class="figures" title={detail}>
      {message.model && !growing && <span class="model-name">{shortName(message.model)}</span>}
      <span>{t.predicted_n.toLocaleString("en")} tokens</span>
      {t.predicted_per_second > 0 && <span class="rate">{rate(t.predicted_per_second)} tokens/s</span>}
    </span>
  );
}

export function rate(perSecond: number): string {
  return perSecond >= 100 ? Math.round(perSecond).toLocaleString("en") : perSecond.toFixed(1);
}

export function size(characters: number): string {
  return characters < 1024 ? `${characters} B` : `${(characters / 1024).toFixed(characters < 10240 ? 1 : 0)} kB`;
}
