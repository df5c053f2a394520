// The line above the conversation: its name, the model, and ways to everything else.
import { useSignal } from "@preact/signals";
import { titleOf } from "../store/conversation";
import { describe, models, shortName } from "../store/server";
import { set, settings } from "../store/settings";
import { current, draft, show, update } from "../store/state";
import { Icon, IconButton } from "./icons";
import { NameField } from "./sidebar";
import { ThemeButton } from "./theme";

export function Header({ onSettings }: { onSettings: () => void }) {
  const naming = useSignal(false);
  const conversation = current.value;
  return (
    <header class="top">
      {!settings.value.sidebar && (
        <>
          <IconButton icon="menu" label="Show the conversations" onClick={() => set({ sidebar: true })} />
          <IconButton icon="plus" label="New conversation" onClick={() => show("")} />
        </>
      )}
      <div class="name">
        {conversation && naming.value ? (
          <NameField conversation={conversation} onDone={() => (naming.value = false)} />
        ) : conversation ? (
          <button type="button" class="title" title="Rename" onClick={() => (naming.value = true)}>
            {titleOf(conversation)}
          </button>
        ) : null}
      </div>
      <ModelChoice />
      <a class="icon-button" href="status" aria-label="What the server does" title="What the server does">
        <Icon name="pulse" />
      </a>
      <ThemeButton />
      <IconButton icon="settings" label="Settings" onClick={onSettings} />
    </header>
  );
}

/** Shown where there is a choice. */
function ModelChoice() {
  if (models.value.length < 2) return null;
  const conversation = current.value;
  const chosen = conversation ? conversation.model : draft.value.model;
  const known = models.value.some((m) => m.id === chosen);
  const choose = (model: string) => {
    draft.value = { ...draft.value, model };
    if (conversation) update(conversation.id, (c) => ({ ...c, model }));
    describe(model).catch(() => undefined);
  };
  return (
    <label class="model">
      <span class="hidden">Model</span>
      <select value={known ? chosen : models.value[0].id} onChange={({ currentTarget }) => choose(currentTarget.value)}>
        {models.value.map(({ id }) => (
          <option key={id} value={id}>
            {shortName(id)}
          </option>
        ))}
      </select>
      <Icon name="chevron" />
    </label>
  );
}
