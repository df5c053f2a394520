// Settings: the system prompt, the sampler, and the look.
import { useSignal } from "@preact/signals";
import { storeKey, storedKey } from "../api/client";
import { defaultText, fault, GROUPS, type Option } from "../store/sampling";
import { connect, props } from "../store/server";
import { set, settings } from "../store/settings";
import { current, draft, update } from "../store/state";
import { Dialog } from "./dialog";
import { Icon } from "./icons";
import { chooseTheme, theme } from "./theme";

export function SettingsDialog({ onClose }: { onClose: () => void }) {
  const changed = Object.values(settings.value.overrides).filter((text) => text !== "").length;
  return (
    <Dialog title="Settings" class="settings" onClose={onClose}>
      <div class="body">
        <SystemPrompt />
        {GROUPS.map((group, i) => (
          <details class="group" key={group.title} open={i === 0}>
            <summary>
              <Icon name="chevron" />
              {group.title}
            </summary>
            <div class="fields">
              {group.options.map((option) => (
                <Field key={option.name} option={option} />
              ))}
            </div>
          </details>
        ))}
        <Look />
        <Key />
      </div>
      <footer class="row">
        <button type="button" disabled={!changed} onClick={() => set({ overrides: {} })}>
          Back to the server's defaults
        </button>
        <button type="button" class="primary" onClick={onClose}>
          Done
        </button>
      </footer>
    </Dialog>
  );
}

function SystemPrompt() {
  const conversation = current.value;
  const text = conversation ? conversation.system : (draft.value.system ?? settings.value.system);
  const write = (system: string) => {
    if (conversation) update(conversation.id, (c) => ({ ...c, system }), true);
    else draft.value = { ...draft.value, system };
  };
  return (
    <section class="system">
      <label>
        <span class="label">System prompt of this conversation</span>
        <textarea
          rows={3}
          value={text}
          placeholder="What the model should be and heed"
          onInput={({ currentTarget }) => write(currentTarget.value)}
        />
      </label>
      <button type="button" disabled={text === settings.value.system} onClick={() => set({ system: text })}>
        Use for new conversations
      </button>
    </section>
  );
}

function Field({ option }: { option: Option }) {
  const text = settings.value.overrides[option.name] ?? "";
  const standard = defaultText(option, props.value.default_generation_settings?.params);
  const wrong = fault(option, text);
  const write = (value: string) => {
    const overrides = { ...settings.value.overrides };
    if (value === "") delete overrides[option.name];
    else overrides[option.name] = value;
    set({ overrides });
  };
  const id = `option-${option.name}`;
  const common = {
    id,
    "aria-describedby": `${id}-hint`,
    "aria-invalid": wrong !== undefined,
    placeholder: standard,
    value: text,
    onInput: ({ currentTarget }: { currentTarget: { value: string } }) => write(currentTarget.value),
  };
  const wide = option.kind !== "number" && option.kind !== "switch";
  return (
    <div class={`field ${wide ? "wide" : ""} ${text ? "changed" : ""}`}>
      <label for={id}>{option.label}</label>
      {option.kind === "number" ? (
        <input {...common} type="number" inputMode="decimal" min={option.min} max={option.max} step={option.step} />
      ) : option.kind === "switch" ? (
        <select {...common} onChange={({ currentTarget }) => write(currentTarget.value)}>
          <option value="">{{ true: "Yes, as the server", false: "No, as the server" }[standard] ?? "As the server"}</option>
          <option value="true">Yes</option>
          <option value="false">No</option>
        </select>
      ) : (
        <textarea {...common} rows={option.kind === "list" ? 2 : 3} spellcheck={false} />
      )}
      <p id={`${id}-hint`} class={wrong ? "wrong" : "faint"}>
        {wrong ?? option.hint}
      </p>
    </div>
  );
}

function Look() {
  return (
    <section class="look">
      <fieldset>
        <legend class="label">Theme</legend>
        {(["system", "light", "dark"] as const).map((name) => (
          <label key={name}>
            <input type="radio" name="theme" checked={theme.value.chosen === name} onChange={() => chooseTheme(name)} />
            <span>
              <Icon name={name === "system" ? "screen" : name === "light" ? "sun" : "moon"} />
              {name === "system" ? "System" : name === "light" ? "Light" : "Dark"}
            </span>
          </label>
        ))}
      </fieldset>
      <label class="check">
        <input
          type="checkbox"
          checked={settings.value.showReasoning}
          onChange={({ currentTarget }) => set({ showReasoning: currentTarget.checked })}
        />
        Show reasoning unfolded
      </label>
    </section>
  );
}

function Key() {
  const key = useSignal(storedKey());
  if (!key.value) return null;
  return (
    <section class="row">
      <span class="faint">An API key is kept in this browser.</span>
      <button
        type="button"
        onClick={() => {
          storeKey("");
          key.value = "";
          void connect();
        }}
      >
        Forget it
      </button>
    </section>
  );
}
