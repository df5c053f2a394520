// The field where messages are written, with files, pictures and sounds beside them.
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import * as answers from "../store/answers";
import type { Attachment } from "../store/conversation";
import { path } from "../store/conversation";
import * as media from "../store/media";
import { connection, contextSize, hears, sees } from "../store/server";
import { current, shown } from "../store/state";
import { Medium } from "./attached";
import { grow } from "./editor";
import { Icon, IconButton } from "./icons";
import { size } from "./message";

const LARGEST_FILE = 4 << 20;

const text = signal("");
const files = signal<Attachment[]>([]);
const complaint = signal("");

/** Reads pictures and sounds where the model takes them, and other files as text; what is neither is refused by name. */
export async function attach(list: Iterable<File>) {
  complaint.value = "";
  for (const file of list) {
    const kind = media.kindOf(file);
    if (kind && !(kind === "image" ? sees.value : hears.value)) {
      complaint.value = `${file.name}: this model takes no ${kind === "image" ? "pictures" : "sounds"}.`;
      continue;
    }
    if (kind) {
      try {
        put(await media.read(file, kind));
      } catch (error) {
        complaint.value = error instanceof Error ? error.message : `${file.name} cannot be read.`;
      }
      continue;
    }
    if (file.size > LARGEST_FILE) {
      complaint.value = `${file.name} is over ${LARGEST_FILE >> 20} MB.`;
      continue;
    }
    try {
      const bytes = await file.arrayBuffer();
      const read = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
      if (read.includes("\0")) throw new Error();
      put({ name: file.name, text: read });
    } catch {
      complaint.value = `${file.name} is no text.`;
    }
  }
}

/** Puts a file beside the message; a text takes the place of one of its name. Phones give all that they take the same name. */
function put(file: Attachment) {
  const others = file.kind ? files.value : files.value.filter((f) => f.name !== file.name);
  const dot = file.name.lastIndexOf(".");
  const [stem, end] = dot > 0 ? [file.name.slice(0, dot), file.name.slice(dot)] : [file.name, ""];
  let name = file.name;
  for (let n = 2; others.some((f) => f.name === name); n++) name = `${stem} ${n}${end}`;
  files.value = [...others, { ...file, name }];
}

export function writeDraft(draft: string) {
  text.value = draft;
  document.querySelector<HTMLTextAreaElement>(".composer textarea")?.focus();
}

function send() {
  const busy = answers.running.value.has(shown.value);
  if (busy || (!text.value.trim() && !files.value.length) || connection.value === "locked") return;
  const [content, attached] = [text.value, files.value];
  text.value = "";
  files.value = [];
  complaint.value = "";
  answers.send(content, attached);
}

export function Composer() {
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const camera = useRef<HTMLInputElement>(null);
  const takes = [sees.value && "image/*", hears.value && "audio/*"].filter(Boolean).join(",");
  const state = answers.running.value.get(shown.value);
  const pointerIsFine = matchMedia("(pointer: fine)").matches;
  useLayoutEffect(() => grow(area.current!), [text.value]);
  useEffect(() => {
    if (pointerIsFine) area.current!.focus(); // on a phone that would open the keyboard
  }, [shown.value]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && pointerIsFine) {
      event.preventDefault();
      send();
    } else if (event.key === "ArrowUp" && !text.value) {
      const own = document.querySelectorAll<HTMLButtonElement>('.message.user [aria-label="Edit"]:not(:disabled)');
      if (own.length) {
        event.preventDefault();
        own[own.length - 1].click();
      }
    }
  };

  const onPaste = (event: ClipboardEvent) => {
    const pasted = event.clipboardData?.files;
    if (pasted?.length) {
      event.preventDefault();
      void attach(pasted);
    }
  };

  return (
    <form
      class="composer"
      aria-label="Message"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {complaint.value && (
        <p class="complaint" role="alert">
          {complaint.value}
        </p>
      )}
      {files.value.length > 0 && (
        <ul class="attached" aria-label="Files">
          {files.value.map((file) => (
            <li key={file.name}>
              {file.kind ? (
                <Medium file={file} />
              ) : (
                <>
                  <Icon name="file" />
                  <span>{file.name}</span>
                  <span class="faint">{size(file.text.length)}</span>
                </>
              )}
              <IconButton
                icon="close"
                label={`Take ${file.name} out`}
                onClick={() => (files.value = files.value.filter((f) => f !== file))}
              />
            </li>
          ))}
        </ul>
      )}
      <textarea
        ref={area}
        rows={1}
        aria-label="Message"
        placeholder="Write a message"
        value={text.value}
        onInput={({ currentTarget }) => (text.value = currentTarget.value)}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
      />
      <div class="row">
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          onChange={({ currentTarget }) => {
            void attach([...(currentTarget.files ?? [])]);
            currentTarget.value = "";
          }}
        />
        <IconButton icon="clip" label="Add files as text" onClick={() => picker.current!.click()} />
        {takes && (
          <>
            <input
              ref={camera}
              type="file"
              accept={takes}
              multiple
              hidden
              onChange={({ currentTarget }) => {
                void attach([...(currentTarget.files ?? [])]);
                currentTarget.value = "";
              }}
            />
            <IconButton icon="picture" label={`Add ${named()}`} onClick={() => camera.current!.click()} />
          </>
        )}
        <Context />
        {state ? (
          <button type="button" class="send" aria-label="Stop" title="Stop (Esc)" onClick={state.stop}>
            <Icon name="stop" />
          </button>
        ) : (
          <button
            type="submit"
            class="send"
            aria-label="Send"
            title="Send (Enter)"
            disabled={(!text.value.trim() && !files.value.length) || connection.value === "locked"}
          >
            <Icon name="send" />
          </button>
        )}
      </div>
    </form>
  );
}

/** What the model takes beside text, in words. */
export function named(): string {
  return [sees.value && "pictures", hears.value && "sounds"].filter(Boolean).join(" and ");
}

/** How much of the context the conversation takes. */
function Context() {
  const conversation = current.value;
  const last = conversation && path(conversation).findLast((m) => m.timings);
  const t = last?.timings;
  const used = t ? (t.cache_n ?? 0) + t.prompt_n + t.predicted_n : 0;
  const all = contextSize.value;
  if (!used || !all) return <span class="context" />;
  const share = Math.min(1, used / all);
  const label = `${used.toLocaleString("en")} of ${all.toLocaleString("en")} tokens of the context`;
  return (
    <span class={`context ${share > 0.9 ? "nearly-full" : ""}`} title={label} role="img" aria-label={label}>
      <svg viewBox="0 0 20 20" aria-hidden="true">
        <circle cx="10" cy="10" r="8" pathLength="100" />
        <circle cx="10" cy="10" r="8" pathLength="100" stroke-dasharray={`${share * 100} 100`} />
      </svg>
      <span class="count">
        {used.toLocaleString("en")} / {all.toLocaleString("en")}
      </span>
    </span>
  );
}
