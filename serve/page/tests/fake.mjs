// A server that answers as `pumex serve` does, from a script: what the last message says decides what comes back.
// `node tests/fake.mjs [PORT]` runs it by hand.
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { replyTo } from "./replies.mjs";

const page = fileURLToPath(new URL("..", import.meta.url));
const POLICY = readFileSync(join(page, "policy.txt"), "utf8").trim();
const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};
const N_CTX = 8192;

/** Starts it on a free port of this machine. `fake.requests` has every chat request's body. */
export async function start({ key, models = ["tiny-chat-Q4_K_M.gguf"], port = 0, metrics = true, modalities = {} } = {}) {
  const fake = { requests: [], refuse: undefined, status: {}, counters: { prompt: 0, cached: 0, predicted: 0, steps: 0 } };
  const server = createServer((request, response) => {
    handle(request, response).catch((error) => response.destroy(error));
  });

  const isLoaded = (url) => (fake.status[url.searchParams.get("model")]?.value ?? "loaded") === "loaded";

  async function handle(request, response) {
    const url = new URL(request.url, "http://host");
    const json = (body, status = 200, headers = {}) => {
      response.writeHead(status, { "content-type": "application/json", ...headers });
      response.end(JSON.stringify(body));
    };
    const refuse = (status, message, type) => json({ error: { code: status, message, type } }, status);
    if (url.pathname === "/" || url.pathname === "/status" || url.pathname.startsWith("/page/")) return file(url.pathname, response);
    if (key && request.headers.authorization !== `Bearer ${key}`) return refuse(401, "Invalid API Key", "authentication_error");
    if (fake.refuse) return refuse(...fake.refuse);
    switch (url.pathname) {
      case "/v1/models":
        return json({ object: "list", data: models.map((id) => ({ id, object: "model", owned_by: "pumex", status: fake.status[id] ?? { value: "loaded" } })) });
      case "/props":
        return json({ ...props(url.searchParams.get("model") ?? models[0]), modalities });
      case "/slots":
        return json(isLoaded(url) ? slots(fake.counters) : []);
      case "/metrics":
        if (!metrics) return refuse(501, "This server does not support metrics endpoint. Start it with `--metrics`", "not_supported_error");
        response.writeHead(200, { "content-type": "text/plain; version=0.0.4" });
        return response.end(metricsText(fake.counters));
      case "/v1/chat/completions":
        return chat(request, response, refuse);
      default:
        return refuse(404, "File Not Found", "not_found_error");
    }
  }

  async function chat(request, response, refuse) {
    let text = "";
    for await (const piece of request) text += piece;
    const body = JSON.parse(text);
    fake.requests.push(body);
    const reply = replyTo(body, fake.requests.length);
    if (reply.status) return refuse(reply.status, reply.message, reply.type);
    const begin = performance.now();
    const promptTokens = Math.ceil(text.length / 5);
    const about = { id: "chatcmpl-1", object: "chat.completion.chunk", model: models[0] };
    const send = (choice, more = {}) => response.write(`data: ${JSON.stringify({ ...about, ...choice, ...more })}\n\n`);
    const delta = (delta, finish = null) => ({ choices: [{ index: 0, delta, finish_reason: finish }] });
    const timings = (n) => ({
      cache_n: 12,
      prompt_n: promptTokens,
      prompt_ms: 40,
      prompt_per_second: promptTokens / 0.04,
      predicted_n: n,
      predicted_ms: performance.now() - begin,
      predicted_per_second: (n - 1) / ((performance.now() - begin) / 1000) || 0,
    });
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
    fake.counters.prompt += promptTokens;
    fake.counters.cached += 12;
    for (const processed of reply.progress ?? []) {
      send({ choices: [] }, { prompt_progress: { total: 100, cache: 0, processed } });
      await pause(250);
    }
    send(delta({ role: "assistant", content: null }));
    let n = 0;
    for (const piece of reply.deltas) {
      if (response.destroyed) return;
      if (piece === "break" || piece === "error") await pause(200); // what came before it arrives first
      if (piece === "break") return response.destroy();
      if (piece === "error") return response.end(`data: ${JSON.stringify({ error: { code: 500, message: "device lost" } })}\n\n`);
      send(delta(piece), { timings: timings(++n) });
      fake.counters.predicted++;
      fake.counters.steps++;
      if (reply.pause) await pause(reply.pause);
      else if (n % 50 === 0) await pause(1);
    }
    send(delta({}, reply.finish ?? "stop"));
    send({ choices: [] }, { usage: { prompt_tokens: promptTokens, completion_tokens: n }, timings: timings(n) });
    response.end("data: [DONE]\n\n");
  }

  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  fake.address = `http://127.0.0.1:${server.address().port}/`;
  fake.close = () => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve)));
  return fake;
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function file(path, response) {
  const name = path === "/" ? "index.html" : path === "/status" ? "status.html" : normalize(path.slice("/page/".length));
  try {
    const bytes = readFileSync(join(page, "dist", name));
    response.writeHead(200, { "content-type": TYPES[extname(name)] ?? "text/plain", "content-security-policy": POLICY });
    response.end(bytes);
  } catch {
    response.writeHead(404);
    response.end();
  }
}

function props(model) {
  return {
    model_path: `/models/${model}`,
    model_alias: model,
    total_slots: 4,
    build_info: "pumex 0.1.0",
    default_generation_settings: {
      n_ctx: N_CTX,
      params: {
        temperature: 0.800000011920929, top_k: 40, top_p: 0.949999988079071, min_p: 0.0500000007450581, n_predict: -1, seed: -1,
        repeat_penalty: 1, repeat_last_n: 64, presence_penalty: 0, frequency_penalty: 0, dry_multiplier: 0, dry_base: 1.75,
        dry_allowed_length: 2, dry_penalty_last_n: 64, dry_sequence_breakers: ["\n", ":", '"', "*"], typical_p: 1, top_n_sigma: -1,
        xtc_probability: 0, xtc_threshold: 0.1, dynatemp_range: 0, dynatemp_exponent: 1, mirostat: 0, mirostat_tau: 5, mirostat_eta: 0.1,
        adaptive_target: -1, adaptive_decay: 0.9, min_keep: 0, n_keep: 0, ignore_eos: false, cache_prompt: true,
        samplers: ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"],
      },
    },
  };
}

function slots({ predicted }) {
  return [0, 1, 2, 3].map((id) => ({
    id,
    n_ctx: N_CTX,
    is_processing: id < 2,
    id_task: id < 3 ? 40 + id : -1,
    n_prompt_tokens: [1200, 6100, 300, 0][id],
    n_prompt_tokens_processed: [1200, 4096, 300, 0][id],
    next_token: [{ has_next_token: id === 0, n_remain: id === 0 ? 400 : -1, n_decoded: id === 0 ? 80 + (predicted % 400) : 0 }],
  }));
}

function metricsText(counters) {
  const time = Date.now() / 1000;
  counters.begin ??= time;
  const since = time - counters.begin;
  const wave = 1 + 0.3 * Math.sin(since / 2);
  const lines = {
    "llamacpp:prompt_tokens_total": ["counter", "Number of prompt tokens processed.", Math.round(since * 900 * wave)],
    "llamacpp:prompt_tokens_cached_total": ["counter", "Number of prompt tokens found in the cache.", Math.round(since * 2100)],
    "llamacpp:tokens_predicted_total": ["counter", "Number of generation tokens processed.", Math.round(since * 240 * wave)],
    "llamacpp:n_decode_total": ["counter", "Total number of llama_decode() calls.", Math.round(since * 120)],
    "llamacpp:requests_processing": ["gauge", "Number of requests processing.", 2],
    "llamacpp:requests_deferred": ["gauge", "Number of requests deferred.", Math.round(2 + 2 * Math.sin(since))],
    "llamacpp:n_busy_slots_per_decode": ["gauge", "Average number of busy slots per decode call.", 1.8],
    "vllm:kv_cache_usage_perc": ["gauge", "Share of the cache's blocks that are used.", 0.37 + 0.05 * Math.sin(since)],
    "pumex:blocks_used": ["gauge", "Blocks of the cache that running requests hold.", 95],
    "pumex:blocks_cached": ["gauge", "Blocks that are kept for prompts to come.", 210],
    "pumex:blocks_total": ["gauge", "Blocks of the cache.", 1024],
    "process_resident_memory_bytes": ["gauge", "Resident memory size in bytes.", 734003200],
  };
  return Object.entries(lines)
    .map(([name, [type, help, value]]) => `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${name} ${value}\n`)
    .join("");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const fake = await start({ port: Number(process.argv[2] ?? 8088), models: ["tiny-chat-Q4_K_M.gguf", "other-8b-Q6_K.gguf"] });
  console.log(fake.address);
}
