// What the server does, live.
import { render } from "preact";
import { keyWanted } from "./api/client";
import { watch } from "./store/watch";
import { KeyDialog } from "./view/key";
import { Status } from "./view/status";

function App() {
  return (
    <>
      <Status />
      {keyWanted.value && <KeyDialog />}
    </>
  );
}

watch();
render(<App />, document.getElementById("app")!);
