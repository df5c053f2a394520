// A message while it is edited, in its place.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Attachment, Message } from "../store/conversation";

interface Props {
  message: Message;
  busy: boolean;
  onClose: () => void;
  /** A user's message goes to the model as a branch of its own. */
  onSend: (text: string, files: Attachment[]) => void;
  /** An answer is kept as it is now. */
  onKeep: (text: string) => void;
}

export function Editor({ message, busy, onClose, onSend, onKeep }: Props) {
  const [text, setText] = useState(message.content);
  const area = useRef<HTMLTextAreaElement>(null);
  const asks = message.role === "user";
  const files = message.files ?? [];
  useLayoutEffect(() => grow(area.current!), [text]);
  useLayoutEffect(() => {
    area.current!.focus();
    area.current!.setSelectionRange(text.length, text.length);
  }, []);
  const done = () => {
    if (busy || (!text.trim() && !files.length)) return;
    onClose();
    if (asks) onSend(text, files);
    else onKeep(text);
  };
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        done();
      }}
    >
      <textarea
        ref={area}
        aria-label={asks ? "Edit the message" : "Edit the answer"}
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") {
            event.stopPropagation();
            onClose();
          } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing && asks) {
            event.preventDefault();
            done();
          }
        }}
      />
      <div class="row">
        <span class="faint">{asks ? "The message as it was stays beside this one." : "The answer as it was stays beside this one."}</span>
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button type="submit" class="primary" disabled={busy}>
          {asks ? "Send" : "Keep"}
        </button>
      </div>
    </form>
  );
}

/** Makes a field as high as its text, within what its style allows. */
export function grow(area: HTMLTextAreaElement) {
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight}px`;
}
