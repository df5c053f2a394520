// Ctrl+K: a field that finds conversations by what was said in them, and begins a new one.
import { useSignal } from "@preact/signals";
import type { Conversation } from "../store/conversation";
import { titleOf } from "../store/conversation";
import { newestFirst, show } from "../store/state";
import { Dialog } from "./dialog";
import { Icon } from "./icons";

const MOST = 40;

export function Palette({ onClose }: { onClose: () => void }) {
  const query = useSignal("");
  const at = useSignal(0);
  const found = search(newestFirst.value, query.value.trim());
  const entries = [{ id: "", title: "New conversation", excerpt: "" }, ...found];
  const chosen = Math.min(at.value, entries.length - 1);
  const open = (id: string) => {
    show(id);
    onClose();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      at.value = (chosen + step + entries.length) % entries.length;
      document.getElementById(`found-${at.value}`)?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault();
      open(entries[chosen].id);
    }
  };
  return (
    <Dialog title="Search" class="palette" bare onClose={onClose}>
      <label class="query">
        <Icon name="search" />
        <input
          autofocus
          role="combobox"
          aria-label="Search conversations"
          aria-expanded="true"
          aria-controls="found"
          aria-activedescendant={`found-${chosen}`}
          placeholder="Search conversations"
          value={query.value}
          onInput={({ currentTarget }) => {
            query.value = currentTarget.value;
            at.value = currentTarget.value.trim() ? 1 : 0;
          }}
          onKeyDown={onKeyDown}
        />
      </label>
      <ul id="found" role="listbox" aria-label="Conversations">
        {entries.map((entry, i) => (
          <li
            key={entry.id}
            id={`found-${i}`}
            role="option"
            aria-selected={i === chosen}
            onPointerMove={() => (at.value = i)}
            onClick={() => open(entry.id)}
          >
            {entry.id === "" && <Icon name="plus" />}
            <span class="title">{entry.title}</span>
            {entry.excerpt && <span class="excerpt">{entry.excerpt}</span>}
          </li>
        ))}
      </ul>
      {query.value.trim() && !found.length && <p class="faint">Nothing is found.</p>}
    </Dialog>
  );
}

/** Conversations whose title or messages have every word. */
function search(conversations: Conversation[], query: string) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (const conversation of conversations) {
    if (found.length === MOST) break;
    const title = titleOf(conversation);
    const texts = [title, ...Object.values(conversation.messages).map((m) => m.content)];
    const lower = texts.map((text) => text.toLowerCase());
    if (!words.every((word) => lower.some((text) => text.includes(word)))) continue;
    const byTitle = words.every((word) => lower[0].includes(word));
    const within = byTitle ? -1 : lower.findIndex((text, i) => i > 0 && text.includes(words[0]));
    found.push({ id: conversation.id, title, excerpt: within > 0 ? excerpt(texts[within], lower[within].indexOf(words[0])) : "" });
  }
  return found;
}

function excerpt(text: string, at: number): string {
  const from = Math.max(0, at - 30);
  const part = text.slice(from, at + 70).replace(/\s+/g, " ").trim();
  return `${from > 0 ? "…" : ""}${part}${at + 70 < text.length ? "…" : ""}`;
}
