// The conversation shown: its messages, which stay at the end while they grow unless the reader has moved away from it.
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import * as answers from "../store/answers";
import { path } from "../store/conversation";
import { connection, connect, contextSize, models, props, shortName } from "../store/server";
import { current, draft, shown } from "../store/state";
import { Composer, writeDraft } from "./composer";
import { Icon, IconButton, Logo } from "./icons";
import { MessageView } from "./message";

/** Nearer to the end than this is at the end, in pixels. */
const AT_END = 48;

const atEnd = signal(true);

export function Chat() {
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const conversation = current.value;
  const state = answers.running.value.get(shown.value);
  const messages = conversation ? path(conversation) : [];
  const toEnd = () => scroller.current!.scrollTo({ top: scroller.current!.scrollHeight });

  useEffect(() => {
    const box = scroller.current!;
    let top = 0;
    const onScroll = () => {
      // Only who moves up leaves the end: a text that grew in the meantime is further away, too.
      if (box.scrollHeight - box.scrollTop - box.clientHeight < AT_END) atEnd.value = true;
      else if (box.scrollTop < top) atEnd.value = false;
      top = box.scrollTop;
    };
    const observer = new ResizeObserver(() => {
      if (atEnd.value) toEnd();
      else onScroll();
    });
    box.addEventListener("scroll", onScroll, { passive: true });
    observer.observe(content.current!);
    observer.observe(box);
    return () => {
      box.removeEventListener("scroll", onScroll);
      observer.disconnect();
    };
  }, []);

  // Another conversation, or a new message of one's own, is shown from its end.
  const asked = messages.findLast((m) => m.role === "user")?.id;
  useLayoutEffect(() => {
    atEnd.value = true;
    toEnd();
  }, [shown.value, asked]);

  return (
    <main class={messages.length ? "" : "fresh"}>
      <div class="scroller" ref={scroller} tabIndex={-1} id="messages">
        <div class="content" ref={content} role="log" aria-live="off" aria-label="Conversation">
          {messages.length === 0 ? <Welcome /> : null}
          {messages.map((message, i) => (
            <MessageView
              key={message.id}
              conversation={conversation!}
              message={message}
              growing={state?.message === message.id}
              busy={state !== undefined}
              last={i === messages.length - 1}
              progress={state?.message === message.id ? state.progress : undefined}
            />
          ))}
          {messages.at(-1)?.role === "user" && !state && (
            <div class="failure">
              <p>This message has no answer.</p>
              <button type="button" onClick={() => answers.answer(conversation!.id, messages.at(-1)!.id)}>
                Answer it
              </button>
            </div>
          )}
        </div>
      </div>
      <div class="dock">
        {!atEnd.value && <IconButton icon="down" label="To the end" class="to-end" onClick={toEnd} />}
        <Notice />
        <Composer />
      </div>
    </main>
  );
}

const SUGGESTIONS = [
  "Explain how a hash table works, with an example in Python.",
  "Write a short story that begins with a locked door.",
  "What should I look at when I compare two savings accounts?",
];

function Welcome() {
  const name = draft.value.model || models.value[0]?.id || props.value.model_alias || "";
  return (
    <section class="welcome">
      <Logo />
      <h1>What is on your mind?</h1>
      <p class="faint">
        {connection.value === "ready" && name ? shortName(name) : "\u00a0"}
        {contextSize.value > 0 && ` · ${contextSize.value.toLocaleString("en")} tokens of context`}
      </p>
      <div class="suggestions">
        {SUGGESTIONS.map((text) => (
          <button type="button" key={text} onClick={() => writeDraft(text)}>
            {text}
          </button>
        ))}
      </div>
    </section>
  );
}

/** What stands in the way of answers, where something does. */
function Notice() {
  if (connection.value === "loading") {
    return (
      <p class="notice" role="status">
        <i class="busy" /> The model is being loaded.
      </p>
    );
  }
  if (connection.value !== "down") return null;
  return (
    <p class="notice" role="alert">
      <Icon name="warning" /> The server cannot be reached.
      <button type="button" onClick={() => void connect()}>
        Try again
      </button>
    </p>
  );
}
