// The pages in a real browser, against `pumex serve` with the demo model. PUMEX names the program.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const program = process.env.PUMEX ?? `${process.env.CARGO_TARGET_DIR ?? `${root}target`}/release/pumex`;
const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const missing = [program, executablePath].find((path) => !existsSync(path));
const skip = missing ? `no ${missing}` : false;
let browser;

before(async () => {
  if (!skip) browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
});
after(() => browser?.close());

/** Starts a server on a free port; its address and what ends it. */
async function serve(...flags) {
  const demo = flags.includes("--models-dir") ? [] : ["-m", `${root}assets/demo.gguf`];
  const model = [...demo, "--chat-template-file", `${root}tests/clients/chat.jinja`];
  const server = spawn(program, ["serve", ...model, "--device", "cpu", "--port", "0", "--metrics", ...flags]);
  let said = "";
  const address = await new Promise((found, failed) => {
    server.stderr.on("data", (text) => {
      said += text;
      const listening = /listening on (http:\S+)\n/.exec(said);
      if (listening) found(`${listening[1]}/`);
    });
    server.on("exit", () => failed(new Error(`the server ended: ${said}`)));
  });
  return { address, end: () => server.kill() };
}

function on(name, flags, work) {
  test(name, { skip, timeout: 120_000 }, async () => {
    const server = await serve(...flags);
    const profile = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    const page = await profile.newPage();
    const faults = [];
    page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
    page.on("console", (m) => /Content Security Policy|Trusted/i.test(m.text()) && faults.push(m.text()));
    page.on("request", (r) => /^(blob|data):/.test(r.url()) || r.url().startsWith(server.address) || faults.push(`foreign: ${r.url()}`));
    try {
      await page.goto(server.address);
      await page.waitForSelector(".composer textarea");
      await work(page, server.address);
      assert.deepEqual(faults, []);
    } finally {
      await profile.close();
      server.end();
    }
  });
}

const field = (page) => page.getByRole("textbox", { name: "Message" });
const answers = (page) => page.locator(".message.assistant");
const idle = (page) => page.getByRole("button", { name: "Send", exact: true }).waitFor();
const lastAnswer = (page) => answers(page).last().locator(".markdown").last().innerText();

async function until(holds) {
  while (!(await holds())) await new Promise((done) => setTimeout(done, 50));
}

on("answers stream and have branches, and the status page shows what the server does", ["-np", "2", "-n", "40"], async (page, address) => {
  const ask = async (path) => (await fetch(address + path)).json();
  await field(page).fill("In the beginning");
  await field(page).press("Enter");
  await page.waitForFunction(() => document.querySelector(".message.assistant .figures")?.textContent.includes("tokens/s"));
  await idle(page);
  const first = await lastAnswer(page);
  assert.ok(first.length > 20, first);
  await answers(page).last().hover();
  await page.getByRole("button", { name: "Write another answer" }).click();
  await page.getByLabel("Version 2 of 2").waitFor();
  await idle(page);
  await field(page).fill("And then?");
  await field(page).press("Enter");
  await page.waitForFunction(() => document.querySelectorAll(".message.assistant").length === 2);
  await idle(page);
  await until(async () => (await ask("slots")).every((slot) => !slot.is_processing));
  await page.goto(`${address}status`);
  await page.waitForFunction(() => document.querySelector('[aria-label="Steps"] polyline'), undefined, { timeout: 30_000 });
  assert.equal(await page.locator(".slots li").count(), 2);
  assert.match(await page.locator('[aria-label="Memory"]').innerText(), /Process\s+[\d.]+ MiB/);
});

on("a page that is closed ends its answer", ["-np", "1", "-c", "65536"], async (page, address) => {
  const ask = async (path) => (await fetch(address + path)).json();
  await field(page).fill("In the beginning");
  await field(page).press("Enter");
  await until(async () => (await ask("slots"))[0].is_processing || (await answers(page).count()) > 0);
  await page.goto("about:blank");
  await until(async () => !(await ask("slots"))[0].is_processing);
});

const folder = mkdtempSync(`${tmpdir()}/pumex-page-`);
for (const name of ["one", "two"]) copyFileSync(`${root}assets/demo.gguf`, `${folder}/${name}.gguf`);
after(() => rmSync(folder, { recursive: true }));

on("several models are talked to by name, sleep, and wake", ["--models-dir", folder, "--sleep-idle-seconds", "1", "-n", "8"], async (page, address) => {
  const model = (name) => page.getByRole("button", { name });
  await page.getByRole("combobox").selectOption("two");
  await field(page).fill("In the beginning");
  await field(page).press("Enter");
  await page.waitForFunction(() => document.querySelector(".message.assistant .figures")?.textContent.includes("two"));
  await page.getByText(/ \/ 2,048$/).waitFor();
  await page.goto(`${address}status`);
  await model("one Not loaded").waitFor();
  await model("two Sleeping").click();
  await page.getByText("The next request wakes it").waitFor();
  const body = JSON.stringify({ model: "two", prompt: "And", n_predict: 4 });
  const answer = await page.evaluate(async (body) => (await fetch("/completion", { method: "POST", body })).json(), body);
  assert.equal(answer.tokens_predicted, 4);
  await model("two Running").waitFor();
  await page.locator(".slots li").first().waitFor();
  await model("two Sleeping").waitFor();
});
