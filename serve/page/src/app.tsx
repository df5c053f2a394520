// The chat.
import { signal } from "@preact/signals";
import { render } from "preact";
import { useEffect } from "preact/hooks";
import { keyWanted } from "./api/client";
import { announcement, running } from "./store/answers";
import { connect } from "./store/server";
import { set, settings } from "./store/settings";
import { current, load, show, shown } from "./store/state";
import { titleOf } from "./store/conversation";
import { Chat } from "./view/chat";
import { attach, named } from "./view/composer";
import { Header } from "./view/header";
import { KeyDialog } from "./view/key";
import { Palette } from "./view/palette";
import { SettingsDialog } from "./view/settings";
import { Sidebar } from "./view/sidebar";

const open = signal<"" | "settings" | "palette">("");
const dragging = signal(false);
const narrow = () => matchMedia("(max-width: 48rem)").matches;

function onKey(event: KeyboardEvent) {
  const command = event.ctrlKey || event.metaKey;
  if (command && event.key.toLowerCase() === "k") {
    event.preventDefault();
    if (!keyWanted.value) open.value = open.value === "palette" ? "" : "palette";
  } else if (command && event.shiftKey && event.key.toLowerCase() === "o") {
    event.preventDefault();
    show("");
  } else if (event.key === "Escape" && !event.defaultPrevented && !document.querySelector("dialog[open], [role=menu]")) {
    if (narrow() && settings.value.sidebar) set({ sidebar: false });
    else running.value.get(shown.value)?.stop();
  }
}

/** Files may be dropped anywhere. */
function onDrag(event: DragEvent) {
  if (!event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  if (event.type === "drop") void attach([...event.dataTransfer.files]);
  dragging.value = event.type === "dragover" || (event.type === "dragleave" && event.relatedTarget !== null);
}

function App() {
  useEffect(() => {
    const drags = ["dragover", "dragleave", "drop"] as const;
    addEventListener("keydown", onKey);
    drags.forEach((name) => addEventListener(name, onDrag));
    return () => {
      removeEventListener("keydown", onKey);
      drags.forEach((name) => removeEventListener(name, onDrag));
    };
  }, []);
  const conversation = current.value;
  document.title = conversation ? `${titleOf(conversation)} · Pumex` : "Pumex";
  return (
    <div class={`page ${settings.value.sidebar ? "with-sidebar" : ""}`}>
      <a class="skip" href="#messages" onClick={skip}>
        Skip to the conversation
      </a>
      {settings.value.sidebar && (
        <>
          <Sidebar onSearch={() => (open.value = "palette")} onChosen={() => narrow() && set({ sidebar: false })} />
          <button type="button" class="shade" aria-label="Hide the conversations" onClick={() => set({ sidebar: false })} />
        </>
      )}
      <div class="column">
        <Header onSettings={() => (open.value = "settings")} />
        <Chat />
      </div>
      {open.value === "settings" && <SettingsDialog onClose={() => (open.value = "")} />}
      {open.value === "palette" && <Palette onClose={() => (open.value = "")} />}
      {keyWanted.value && <KeyDialog />}
      {dragging.value && <div class="drop">Drop {named() && `${named()}, or `}files to add them as text</div>}
      <p class="hidden" role="status">
        {announcement.value}
      </p>
    </div>
  );
}

/** The address names a conversation, so the link must not change it. */
function skip(event: Event) {
  event.preventDefault();
  document.getElementById("messages")?.focus();
}

if (narrow()) set({ sidebar: false });
void connect();
await load();
render(<App />, document.getElementById("app")!);
