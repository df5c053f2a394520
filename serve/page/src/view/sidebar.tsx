// All conversations, newest first, with what can be done with each.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import * as answers from "../store/answers";
import type { Conversation } from "../store/conversation";
import { titleOf } from "../store/conversation";
import { set } from "../store/settings";
import { newestFirst, put, remove, rename, show, shown } from "../store/state";
import { download, exported, fileName, imported } from "../store/transfer";
import { Dialog } from "./dialog";
import { Icon, IconButton, Logo } from "./icons";

interface Props {
  onSearch: () => void;
  onChosen: () => void;
}

export function Sidebar({ onSearch, onChosen }: Props) {
  const go = (id: string) => {
    show(id);
    onChosen();
  };
  return (
    <nav class="sidebar" aria-label="Conversations">
      <header>
        <Logo />
        <strong>Pumex</strong>
        <IconButton icon="menu" label="Hide the conversations" onClick={() => set({ sidebar: false })} />
      </header>
      <div class="entries">
        <button type="button" class="entry" onClick={() => go("")} aria-current={shown.value === "" ? "page" : undefined}>
          <Icon name="plus" /> New conversation
        </button>
        <button type="button" class="entry" onClick={onSearch}>
          <Icon name="search" /> Search <kbd>Ctrl K</kbd>
        </button>
      </div>
      <div class="list">
        {groups(newestFirst.value).map(([title, conversations]) => (
          <section key={title} aria-label={title}>
            <h2>{title}</h2>
            <ul>
              {conversations.map((c) => (
                <Row key={c.id} conversation={c} onChosen={() => go(c.id)} />
              ))}
            </ul>
          </section>
        ))}
        {newestFirst.value.length === 0 && <p class="faint empty">Conversations are kept in this browser only.</p>}
      </div>
      <Transfer />
    </nav>
  );
}

const DAY = 86_400_000;

function groups(conversations: Conversation[]): [string, Conversation[]][] {
  const midnight = new Date().setHours(0, 0, 0, 0);
  const titles: [string, number][] = [
    ["Today", midnight],
    ["Yesterday", midnight - DAY],
    ["The last seven days", midnight - 7 * DAY],
    ["Earlier", -Infinity],
  ];
  const found = titles.map(([title]) => [title, []] as [string, Conversation[]]);
  for (const c of conversations) found[titles.findIndex(([, from]) => c.updated >= from)][1].push(c);
  return found.filter(([, list]) => list.length);
}

function Row({ conversation, onChosen }: { conversation: Conversation; onChosen: () => void }) {
  const naming = useSignal(false);
  const open = useSignal(false);
  const deleting = useSignal(false);
  const menu = useRef<HTMLLIElement>(null);
  const busy = answers.running.value.has(conversation.id);
  const title = titleOf(conversation);

  useEffect(() => {
    if (!open.value) return;
    const close = (event: Event) => {
      if (event instanceof KeyboardEvent ? event.key === "Escape" : !menu.current?.contains(event.target as Node)) open.value = false;
    };
    addEventListener("pointerdown", close);
    addEventListener("keydown", close);
    menu.current?.querySelector<HTMLElement>('[role="menuitem"]')?.focus();
    return () => {
      removeEventListener("pointerdown", close);
      removeEventListener("keydown", close);
    };
  }, [open.value]);

  if (naming.value) return <li><NameField conversation={conversation} onDone={() => (naming.value = false)} /></li>;
  const act = (action: () => void) => () => {
    open.value = false;
    action();
  };
  return (
    <li ref={menu} class={shown.value === conversation.id ? "shown" : ""}>
      <button
        type="button"
        class="entry"
        aria-current={shown.value === conversation.id ? "page" : undefined}
        onClick={onChosen}
        onDblClick={() => (naming.value = true)}
      >
        <span class="title">{title}</span>
        {busy && <i class="busy" aria-label="An answer is being written" />}
      </button>
      <button
        type="button"
        class="icon-button more"
        aria-label={`What to do with ${title}`}
        aria-haspopup="menu"
        aria-expanded={open.value}
        onClick={() => (open.value = !open.value)}
      >
        <Icon name="more" />
      </button>
      {open.value && (
        <div class="menu" role="menu" onKeyDown={moveInMenu}>
          <button type="button" role="menuitem" onClick={act(() => (naming.value = true))}>
            <Icon name="edit" /> Rename
          </button>
          <button
            type="button"
            role="menuitem"
            onClick={act(() => download(fileName([conversation]), exported([conversation])))}
          >
            <Icon name="download" /> Export
          </button>
          <button type="button" role="menuitem" class="danger" onClick={act(() => (deleting.value = true))}>
            <Icon name="bin" /> Delete
          </button>
        </div>
      )}
      {deleting.value && (
        <Dialog title="Delete this conversation?" class="small" onClose={() => (deleting.value = false)}>
          <p>“{title}” will be gone from this browser.</p>
          <div class="row end">
            <button type="button" onClick={() => (deleting.value = false)}>
              Cancel
            </button>
            <button
              type="button"
              class="primary danger"
              onClick={() => {
                answers.running.value.get(conversation.id)?.stop();
                remove(conversation.id);
              }}
            >
              Delete
            </button>
          </div>
        </Dialog>
      )}
    </li>
  );
}

function moveInMenu(event: KeyboardEvent) {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  if (!step) return;
  event.preventDefault();
  const items = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('[role="menuitem"]')];
  const at = items.indexOf(document.activeElement as HTMLElement);
  items[(at + step + items.length) % items.length].focus();
}

export function NameField({ conversation, onDone }: { conversation: Conversation; onDone: () => void }) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current!.select(), []);
  const keep = (name: string) => {
    if (name.trim() !== titleOf(conversation)) rename(conversation.id, name);
    onDone();
  };
  return (
    <input
      ref={field}
      class="name"
      aria-label="Name of the conversation"
      defaultValue={titleOf(conversation)}
      onBlur={({ currentTarget }) => keep(currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === "Enter") keep(event.currentTarget.value);
        if (event.key === "Escape") {
          event.stopPropagation();
          onDone();
        }
      }}
    />
  );
}

function Transfer() {
  const picker = useRef<HTMLInputElement>(null);
  const complaint = useSignal("");
  const read = async (file: File | undefined) => {
    if (!file) return;
    try {
      imported(await file.text()).forEach((c) => put(c));
      complaint.value = "";
    } catch (error) {
      complaint.value = error instanceof Error ? error.message : "The file could not be read.";
    }
  };
  const all = newestFirst.value;
  return (
    <footer>
      {complaint.value && <p role="alert">{complaint.value}</p>}
      <input
        ref={picker}
        type="file"
        accept="application/json,.json"
        hidden
        onChange={({ currentTarget }) => {
          void read(currentTarget.files?.[0]);
          currentTarget.value = "";
        }}
      />
      <button type="button" class="entry" onClick={() => picker.current!.click()}>
        <Icon name="upload" /> Import
      </button>
      <button type="button" class="entry" disabled={!all.length} onClick={() => download(fileName(all), exported(all))}>
        <Icon name="download" /> Export all
      </button>
    </footer>
  );
}
