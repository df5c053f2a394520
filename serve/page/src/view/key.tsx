// Asked for when the server refuses requests without a key.
import { useSignal } from "@preact/signals";
import { keyWanted, storeKey, storedKey } from "../api/client";
import { connect, connection } from "../store/server";
import { Dialog } from "./dialog";

export function KeyDialog() {
  const key = useSignal("");
  const busy = useSignal(false);
  const refused = useSignal(storedKey() !== "");
  const enter = async (event: Event) => {
    event.preventDefault();
    storeKey(key.value.trim());
    busy.value = true;
    await connect();
    busy.value = false;
    refused.value = connection.value === "locked";
    if (!refused.value) keyWanted.value = false;
  };
  return (
    <Dialog title="This server asks for a key" class="small">
      <form class="key" onSubmit={enter}>
        <label>
          <span class="label">API key</span>
          <input
            type="password"
            autofocus
            autocomplete="current-password"
            value={key.value}
            aria-invalid={refused.value}
            onInput={({ currentTarget }) => {
              key.value = currentTarget.value;
              refused.value = false;
            }}
          />
        </label>
        <p class={refused.value ? "wrong" : "faint"} role={refused.value ? "alert" : undefined}>
          {refused.value ? "The server does not take this key." : "It is kept in this browser and sent to this server only."}
        </p>
        <div class="row end">
          <button type="submit" class="primary" disabled={!key.value.trim() || busy.value}>
            Enter
          </button>
        </div>
      </form>
    </Dialog>
  );
}
