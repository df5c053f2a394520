// The page of what the server does: figures with their last two minutes, slots, and all that /metrics tells.
import { total } from "../api/metrics";
import { shortName } from "../store/server";
import type { Model } from "../api/types";
import { choose, chosen, metrics, models, props, series, slots, trouble, type Series, type Slot } from "../store/watch";
import { Icon, Logo } from "./icons";
import { Sparkline } from "./sparkline";
import { ThemeButton } from "./theme";

export function Status() {
  const { model_alias, model_path, build_info, default_generation_settings } = props.value;
  const model = shortName(current()?.id ?? (model_alias || model_path || ""));
  const [word, mood] = trouble.value.server ? [trouble.value.server, "bad"] : stateOf(current());
  const context = default_generation_settings?.n_ctx;
  return (
    <div class="status">
      <header class="top">
        <a class="home" href="./">
          <Logo />
          <strong>Pumex</strong>
        </a>
        <span class="faint build">{build_info}</span>
        <a class="icon-button" href="./" aria-label="To the conversations" title="To the conversations">
          <Icon name="chat" />
        </a>
        <ThemeButton />
      </header>
      <main>
        <h1>
          {model || "Status"}
          <span class={`state ${mood}`} role="status">
            {word}
          </span>
        </h1>
        <p class="faint">
          {context ? `${context.toLocaleString("en")} tokens of context in each of ${props.value.total_slots} slots` : "\u00a0"}
        </p>
        <Models />
        {trouble.value.metrics && !trouble.value.server ? (
          <p class="notice">Figures are not shown: {trouble.value.metrics}</p>
        ) : (
          <Figures />
        )}
        <Slots />
        <All />
      </main>
    </div>
  );
}

/** The model that is shown, where there are several; else the only one. */
const current = () => (models.value.length > 1 ? models.value.find((m) => m.id === chosen.value) : models.value[0]);

/** What a model does, in a word, and the class of its mark. */
function stateOf(model: Model | undefined): [string, string] {
  if (model?.status?.failed) return ["Failed", "bad"];
  switch (model?.status?.value) {
    case "loading":
      return ["Loading", "busy-state"];
    case "sleeping":
      return ["Sleeping", "quiet"];
    case "unloaded":
      return ["Not loaded", "quiet"];
    default:
      return ["Running", ""];
  }
}

/** All models, of which one is shown. */
function Models() {
  if (models.value.length < 2) return null;
  return (
    <section aria-label="Models">
      <ul class="models">
        {models.value.map((model) => {
          const [word, mood] = stateOf(model);
          return (
            <li key={model.id}>
              <button type="button" aria-pressed={model.id === chosen.value} onClick={() => choose(model.id)}>
                <span class="model-name">{shortName(model.id)}</span>
                <span class={`state ${mood}`}>{word}</span>
              </button>
            </li>
          );
        })}
      </ul>
      {current()?.status?.error && <p class="notice">{current()!.status!.error}</p>}
    </section>
  );
}

const percent = (v: number) => `${(100 * v).toFixed(0)} %`;
const plain = (v: number) => (v >= 100 ? Math.round(v).toLocaleString("en") : v.toFixed(v >= 10 || v === 0 ? 0 : 1));
const whole = (v: number) => Math.round(v).toLocaleString("en");

const CARDS: { name: Series; title: string; unit: string; format: (v: number) => string; most?: number }[] = [
  { name: "generated", title: "Generated", unit: "tokens/s", format: plain },
  { name: "prompt", title: "Prompts", unit: "tokens/s", format: plain },
  { name: "steps", title: "Steps", unit: "per second", format: plain },
  { name: "running", title: "Running", unit: "requests", format: whole },
  { name: "waiting", title: "Queue", unit: "requests", format: whole },
  { name: "cache", title: "Cache in use", unit: "", format: percent, most: 1 },
  { name: "hits", title: "Found in the cache", unit: "of prompts", format: percent, most: 1 },
];

function Figures() {
  return (
    <section class="cards" aria-label="Figures">
      {CARDS.map(({ name, title, unit, format, most }) => {
        const values = series.value[name];
        const last = values.at(-1);
        return (
          <article class="card" key={name} aria-label={title}>
            <h2>{title}</h2>
            <p>
              <strong>{last === undefined ? "–" : format(last)}</strong> <span class="faint">{unit}</span>
            </p>
            <Sparkline values={values} most={most} />
          </article>
        );
      })}
      <Memory />
    </section>
  );
}

/** Memory that the server tells of, whatever its names are, and the blocks of the cache. */
function Memory() {
  const gauges = [...metrics.value.values()].filter((m) => m.type === "gauge");
  const found = gauges.filter((m) => /memory|_bytes$/.test(m.name)).slice(0, 3);
  const blocks = gauges.filter((m) => /^pumex:blocks_/.test(m.name));
  if (!found.length && !blocks.length) return null;
  return (
    <article class="card" aria-label="Memory">
      <h2>Memory</h2>
      <dl>
        {found.map((m) => (
          <div key={m.name}>
            <dt>{memoryName(m.name)}</dt>
            <dd>{bytes(total(metrics.value, m.name)!)}</dd>
          </div>
        ))}
        {blocks.map((m) => (
          <div key={m.name} title={m.help}>
            <dt>{BLOCKS[m.name] ?? m.name}</dt>
            <dd>{total(metrics.value, m.name)!.toLocaleString("en")}</dd>
          </div>
        ))}
      </dl>
    </article>
  );
}

const BLOCKS: Record<string, string> = {
  "pumex:blocks_used": "Blocks in use",
  "pumex:blocks_cached": "Blocks kept",
  "pumex:blocks_total": "Blocks in all",
};

function memoryName(name: string): string {
  if (name === "process_resident_memory_bytes") return "Process";
  const words = name.replace(/^.*:/, "").replace(/_?(bytes|memory)/g, "").replaceAll("_", " ").trim();
  return words ? words[0].toUpperCase() + words.slice(1) : name;
}

function bytes(v: number): string {
  const step = v >= 2 ** 30 ? 3 : v >= 2 ** 20 ? 2 : v >= 1024 ? 1 : 0;
  const scaled = v / 1024 ** step;
  return `${scaled.toFixed(step && scaled < 100 ? 1 : 0)} ${["B", "KiB", "MiB", "GiB"][step]}`;
}

/** Why there are no slots to show. */
function noSlots(): string {
  switch (current()?.status?.value) {
    case "sleeping":
      return "The model sleeps: its memory is free. The next request wakes it.";
    case "unloaded":
      return "The model is not loaded.";
    case "loading":
      return "The model is being loaded.";
    default:
      return "";
  }
}

function Slots() {
  const why = trouble.value.slots || (slots.value.length === 0 && noSlots());
  return (
    <section aria-label="Slots">
      <h2 class="heading">Slots</h2>
      {why ? (
        <p class="notice">{why}</p>
      ) : (
        <ul class="slots">
          {slots.value.map((slot) => (
            <SlotRow key={slot.id} slot={slot} />
          ))}
        </ul>
      )}
    </section>
  );
}

function SlotRow({ slot }: { slot: Slot }) {
  const next = Array.isArray(slot.next_token) ? slot.next_token[0] : slot.next_token;
  const prompt = slot.n_prompt_tokens ?? 0;
  const done = slot.n_prompt_tokens_processed ?? prompt;
  const decoded = next?.n_decoded ?? 0;
  const used = slot.n_held ?? Math.min(done, prompt || done) + decoded;
  const share = (n: number) => `${(100 * Math.min(1, n / Math.max(1, slot.n_ctx))).toFixed(2)}`;
  const reading = slot.is_processing && done < prompt;
  const writing = `Writing, ${decoded.toLocaleString("en")} tokens`;
  const state = !slot.is_processing ? "Idle" : reading ? `Reading ${percent(done / prompt)}` : writing;
  return (
    <li class={slot.is_processing ? "busy-slot" : ""}>
      <span class="number">{slot.id}</span>
      <span class="what">
        {slot.is_processing && <i class="busy" />}
        {state}
      </span>
      <svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
        <rect width="100" height="4" class="ground" />
        <rect width={share(used)} height="4" class="held" />
        <rect x={share(Math.max(0, used - decoded))} width={share(decoded)} height="4" class="written" />
      </svg>
      <span class="faint count">
        {used.toLocaleString("en")} / {slot.n_ctx.toLocaleString("en")}
      </span>
    </li>
  );
}

function All() {
  const all = [...metrics.value.values()];
  if (!all.length) return null;
  return (
    <details class="all group">
      <summary>
        <Icon name="chevron" />
        All figures
      </summary>
      <div class="table">
        <table>
          <tbody>
            {all.flatMap((m) =>
              m.samples.map((s) => (
                <tr key={m.name + s.labels} title={m.help}>
                  <th scope="row">
                    {m.name}
                    <span class="faint">{s.labels}</span>
                  </th>
                  <td>{Number.isInteger(s.value) ? s.value.toLocaleString("en") : Number(s.value.toPrecision(6)).toString()}</td>
                </tr>
              )),
            )}
          </tbody>
        </table>
      </div>
    </details>
  );
}
