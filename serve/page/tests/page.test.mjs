// The pages in a real browser, against the fake server. `npm test`; CHROMIUM names the browser, SCREENSHOTS a folder that
// pictures go to.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { start } from "./fake.mjs";

const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const skip = existsSync(executablePath) ? false : `no browser at ${executablePath}`;
const pictures = process.env.SCREENSHOTS;
let browser;

before(async () => {
  if (!skip) browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
});
after(() => browser?.close());

/** Opens the page of a fresh server in a fresh browser profile; fails if anything went to another host, or against the policy. */
function on(name, work, { server, ...context } = {}) {
  test(name, { skip, timeout: 60_000 }, async () => {
    const fake = await start(server);
    const profile = await browser.newContext({ viewport: { width: 1280, height: 800 }, acceptDownloads: true, ...context });
    const page = await profile.newPage();
    const faults = [];
    page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
    page.on("console", (m) => /Content Security Policy|Trusted/i.test(m.text()) && faults.push(m.text()));
    page.on("request", (r) => /^(blob|data):/.test(r.url()) || r.url().startsWith(fake.address) || faults.push(`foreign: ${r.url()}`));
    try {
      await page.goto(fake.address);
      await page.waitForSelector(".composer textarea");
      await work(page, fake, profile);
      assert.deepEqual(faults, []);
    } finally {
      await profile.close();
      await fake.close();
    }
  });
}

const field = (page) => page.getByRole("textbox", { name: "Message" });
const answers = (page) => page.locator(".message.assistant");
const idle = (page) => page.getByRole("button", { name: "Send", exact: true }).waitFor();

async function say(page, text, wait = true) {
  await field(page).fill(text);
  await field(page).press("Enter");
  if (wait) {
    await page.getByRole("button", { name: "Stop" }).waitFor({ timeout: 1000 }).catch(() => undefined);
    await idle(page);
  }
}

const lastAnswer = (page) => answers(page).last().locator(".markdown").last().innerText();

async function picture(page, name) {
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  await page.waitForTimeout(250);
  await page.screenshot({ path: `${pictures}/${name}.png` });
}

on("an answer streams in, with its speed and what it takes of the context", async (page, fake) => {
  await say(page, "slow", false);
  await page.waitForFunction(() => document.querySelector(".message.assistant .markdown")?.textContent.length > 20);
  const early = (await lastAnswer(page)).length;
  await page.waitForTimeout(400);
  assert.ok((await lastAnswer(page)).length > early, "the text grows while the answer is written");
  await page.keyboard.press("Escape");
  await idle(page);
  await say(page, "hello");
  assert.equal(await lastAnswer(page), "Answer 2 to: hello");
  assert.match(await answers(page).last().locator(".figures").innerText(), /tokens.*tokens\/s/s);
  assert.match(await page.locator(".context").innerText(), /\d+ \/ 8,192/);
  const { messages, stream } = fake.requests[1];
  assert.ok(stream);
  assert.deepEqual(messages.map((m) => m.role), ["user", "assistant", "user"]);
});

on("Escape and the button stop an answer, which can be gone on with", async (page, fake) => {
  await say(page, "slow", false);
  await page.waitForSelector(".message.assistant .markdown");
  await page.getByRole("button", { name: "Stop" }).click();
  await idle(page);
  const stopped = await lastAnswer(page);
  await page.waitForTimeout(200);
  assert.equal(await lastAnswer(page), stopped);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.waitForFunction(() => document.querySelector(".message.assistant .markdown").textContent.includes("goes on."));
  assert.ok((await lastAnswer(page)).startsWith(stopped.trimEnd()));
  assert.equal(fake.requests[1].messages.at(-1).role, "assistant");
});

on("another answer is a branch, and the arrows switch", async (page) => {
  await say(page, "hello");
  await answers(page).last().hover();
  await page.getByRole("button", { name: "Write another answer" }).click();
  await page.getByLabel("Version 2 of 2").waitFor();
  await idle(page);
  assert.equal(await lastAnswer(page), "Answer 2 to: hello");
  await page.getByRole("button", { name: "Version before" }).click();
  assert.equal(await lastAnswer(page), "Answer 1 to: hello");
  await page.reload();
  await page.getByLabel("Version 1 of 2").waitFor();
  assert.equal(await lastAnswer(page), "Answer 1 to: hello");
});

on("an edited message is a branch with answers of its own", async (page, fake) => {
  await say(page, "first");
  await say(page, "second");
  await page.locator(".message.user").first().hover();
  await page.locator(".message.user").first().getByRole("button", { name: "Edit" }).click();
  await page.getByRole("textbox", { name: "Edit the message" }).fill("instead");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll(".message.user").length === 1);
  await idle(page);
  assert.equal(await lastAnswer(page), "Answer 3 to: instead");
  assert.deepEqual(fake.requests[2].messages, [{ role: "user", content: "instead" }]);
  await page.getByRole("button", { name: "Version before" }).click();
  assert.equal(await answers(page).count(), 2);
  assert.equal(await lastAnswer(page), "Answer 2 to: second");
});

on("an edited answer is kept beside the original and is what the model gets", async (page, fake) => {
  await say(page, "hello");
  await answers(page).last().hover();
  await answers(page).last().getByRole("button", { name: "Edit" }).click();
  await page.getByRole("textbox", { name: "Edit the answer" }).fill("My own words.");
  await page.getByRole("button", { name: "Keep" }).click();
  await page.getByLabel("Version 2 of 2").waitFor();
  await say(page, "and then?");
  assert.equal(fake.requests[1].messages[1].content, "My own words.");
});

on("conversations are there after a reload, can be renamed, searched and deleted", async (page) => {
  await say(page, "The capital of Atlantis");
  await page.getByRole("button", { name: "New conversation" }).first().click();
  await say(page, "Something else");
  await page.reload();
  await page.waitForSelector(".message.assistant");
  assert.equal(await lastAnswer(page), "Answer 2 to: Something else");
  const rows = page.locator(".sidebar li");
  assert.equal(await rows.count(), 2);

  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Search conversations" }).fill("atlantis");
  assert.equal(await page.getByRole("option").count(), 2); // a new one, and the one found
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector(".message.user .plain")?.textContent.includes("Atlantis"));

  await page.getByRole("button", { name: /What to do with The capital/ }).click();
  await page.getByRole("menuitem", { name: "Rename" }).click();
  await page.getByRole("textbox", { name: "Name of the conversation" }).fill("Islands");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "What to do with Islands" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".sidebar li").length === 1);
  await page.reload();
  await page.waitForSelector(".sidebar li");
  assert.equal(await rows.count(), 1);
});

on("an exported conversation comes back as it was", async (page) => {
  await say(page, "Keep this");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export all" }).click(),
  ]);
  const path = await download.path();
  assert.equal(JSON.parse(readFileSync(path, "utf8")).conversations.length, 1);
  const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.getByRole("button", { name: "Import" }).click()]);
  await chooser.setFiles(path);
  await page.waitForFunction(() => document.querySelectorAll(".sidebar li").length === 2);
  await page.locator(".sidebar li .entry").nth(1).click();
  assert.equal(await lastAnswer(page), "Answer 1 to: Keep this");
});

on("hostile text stays text", async (page) => {
  await say(page, "hostile");
  await page.waitForFunction(() => document.querySelector(".message.assistant").textContent.includes("The end of it."));
  await page.waitForTimeout(300);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  const found = await page.locator(".message.assistant .answer").evaluate((root) => ({
    elements: [...root.querySelectorAll("script, img, iframe, form, style, object, link, svg:not(.icon)")].map((e) => e.outerHTML),
    handlers: [...root.querySelectorAll("*")].flatMap((e) => e.getAttributeNames()).filter((name) => name.startsWith("on")),
    links: [...root.querySelectorAll("[href]")].map((e) => e.getAttribute("href")),
  }));
  assert.deepEqual(found.elements, []);
  assert.deepEqual(found.handlers, []);
  assert.ok(found.links.every((href) => /^https?:/.test(href)), String(found.links));
  const { text } = await page.evaluate(() => ({ text: document.querySelector(".message.assistant").textContent }));
  assert.ok(text.includes("<script>window.hacked = 1</script>"), "tags are shown as they were written");
  // A message and a title of one's own are text, too.
  await say(page, "<img src=x onerror=window.hacked=20>");
  assert.equal(await page.evaluate(() => window.hacked), undefined);
});

on("markdown, code, formulas and tables are set", async (page) => {
  await say(page, "markdown");
  await page.waitForSelector(".katex-display");
  await page.waitForSelector("figure.code .hljs-keyword");
  const answer = answers(page).last();
  assert.equal(await answer.locator("h2").innerText(), "A hash table");
  assert.equal(await answer.locator(".katex").count(), 3);
  assert.equal(await answer.locator("table tbody tr").count(), 2);
  assert.match(await answer.locator(".markdown").innerText(), /costs \$5 or \$6 to try/);
  await page.evaluate(() => (navigator.clipboard.writeText = async (text) => void (window.copied = text)));
  await answer.getByRole("button", { name: "Copy" }).first().click();
  await page.waitForFunction(() => window.copied);
  assert.match(await page.evaluate(() => window.copied), /^class Table:[\s\S]*\(key, value\)$/);
});

on("a text that grows ends as one that came whole", async (page) => {
  await say(page, "markdown");
  await page.waitForSelector(".katex-display");
  const streamed = await answers(page).last().locator(".markdown").innerHTML();
  await page.reload();
  await page.waitForSelector(".katex-display");
  await page.waitForSelector(".hljs-keyword");
  assert.equal(await answers(page).last().locator(".markdown").innerHTML(), streamed);
});

on("reasoning is folded", async (page) => {
  await say(page, "think");
  const fold = page.locator(".reasoning");
  assert.equal(await fold.getAttribute("open"), null);
  await fold.locator("summary").click();
  await fold.getByText("So I weigh this against that").waitFor();
  assert.equal(await lastAnswer(page), "I have thought about it: yes.".trim());
});

on("a call is shown, and its result goes back to the model", async (page, fake) => {
  await say(page, "weather");
  const call = page.locator(".call");
  assert.equal(await call.getByRole("heading").innerText(), "weather");
  assert.match(await call.locator("code").innerText(), /"city": "Bonn"/);
  await call.getByRole("textbox").fill("rain");
  await page.getByRole("button", { name: "Send the result" }).click();
  await page.waitForFunction(() => document.body.textContent.includes("The function says: rain."));
  const [, called, result] = fake.requests[1].messages;
  assert.deepEqual(called.tool_calls, [
    { id: "call_1", type: "function", function: { name: "weather", arguments: '{"city": "Bonn", "days": 3}' } },
  ]);
  assert.deepEqual(result, { role: "tool", content: "rain", tool_call_id: "call_1" });
});

on("a refusal stands in its place and can be tried again", async (page) => {
  await say(page, "refuse this once");
  assert.match(await page.locator(".failure").innerText(), /exceeds the available context size/);
  await page.getByRole("button", { name: "Try again" }).click();
  await page.waitForFunction(() => document.body.textContent.includes("Answer 2 to: refuse this once"));
  assert.equal(await page.locator(".failure").count(), 0);
  assert.equal(await answers(page).count(), 1);
});

for (const [word, message] of [
  ["break", /connection broke off|cannot be reached|network error/i],
  ["device", /device lost/],
]) {
  on(`an answer that ends by "${word}" keeps its text and says why it is not whole`, async (page) => {
    await say(page, word);
    assert.match(await page.locator(".failure").innerText(), message);
    assert.equal(await lastAnswer(page), "This begins well");
  });
}

on("a long prompt shows how far it is", async (page) => {
  await say(page, "progress", false);
  await page.waitForFunction(() => /Reading the conversation: (25|50|75) %/.test(document.querySelector(".waiting")?.textContent ?? ""));
  await idle(page);
  assert.equal(await lastAnswer(page), "The prompt was long.");
});

on("options of the sampler are sent if they were set, and a system prompt is", async (page, fake) => {
  await page.getByRole("button", { name: "Settings" }).click();
  await picture(page, "settings");
  assert.equal(await page.getByLabel("Temperature", { exact: true }).getAttribute("placeholder"), "0.8");
  await page.getByLabel("Temperature", { exact: true }).fill("0.3");
  await page.getByLabel("Top-k").fill("-7"); // out of range
  await page.getByLabel("Stop texts").fill("END\n\\n\\n");
  await page.getByLabel("System prompt of this conversation").fill("Be brief.");
  await page.getByRole("button", { name: "Done" }).click();
  await say(page, "hello");
  const { messages, ...body } = fake.requests[0];
  assert.equal(messages[0].content, "Be brief.");
  assert.equal(body.temperature, 0.3);
  assert.deepEqual(body.stop, ["END", "\n\n"]);
  assert.ok(!("top_k" in body) && !("min_p" in body));
});

on("a dropped file is sent as text, and what is no text is refused", async (page, fake) => {
  const drop = (name, bytes) =>
    page.evaluate(
      ([name, bytes]) => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(bytes)], name));
        document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
      },
      [name, bytes],
    );
  await drop("notes.txt", [...Buffer.from("one\ntwo ``` three\n")]);
  await page.waitForSelector(".attached li");
  await drop("picture.png", [0x89, 0x50, 0, 0xff]);
  assert.match(await page.locator(".complaint").innerText(), /picture\.png is no text/);
  await say(page, "Sum up");
  assert.equal(fake.requests[0].messages[0].content, "File: notes.txt\n````\none\ntwo ``` three\n````\n\nSum up");
});

/** Pictures of 1 x 1 pixels, and the head of a sound. */
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";
const WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

on("pictures and sounds go beside the text, are shown, kept and sent again", async (page, fake) => {
  const add = page.locator('input[type=file][accept="image/*,audio/*"]');
  const file = (name, mimeType, base64) => ({ name, mimeType, buffer: Buffer.from(base64, "base64") });
  await add.setInputFiles([file("a.png", "image/png", PNG), file("a.wav", "audio/wav", WAV)]);
  await page.waitForSelector(".attached .sound");
  await add.setInputFiles(file("a.png", "image/png", PNG));
  await page.waitForFunction(() => document.querySelectorAll(".attached img").length === 2);
  await page.getByRole("button", { name: "Take a 2.png out" }).click();
  await add.setInputFiles(file("b.png", "image/png", Buffer.from("no picture").toString("base64")));
  await page.getByText("b.png is no picture that this browser can read.").waitFor();
  await add.setInputFiles(file("c.aiff", "audio/aiff", WAV));
  await page.getByText("c.aiff is no WAV, MP3, FLAC or Ogg.").waitFor();
  await say(page, "What is this?");
  const expected = [
    { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } },
    { type: "input_audio", input_audio: { data: WAV, format: "wav" } },
    { type: "text", text: "What is this?" },
  ];
  assert.deepEqual(fake.requests[0].messages.at(-1).content, expected);
  const width = () => page.locator(".bubble img.picture").evaluate((img) => img.naturalWidth);
  await page.reload();
  await page.waitForSelector(".bubble .sound");
  assert.equal(await width(), 1);
  await say(page, "And now?");
  assert.deepEqual(fake.requests[1].messages[0].content, expected);
}, { server: { modalities: { vision: true, audio: true } } });

/** Draws a landscape on the page; PNG in base64. */
const landscape = () => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 480, height: 300 });
  const pen = canvas.getContext("2d");
  const sky = pen.createLinearGradient(0, 0, 0, 200);
  [["#f7c59f", 0], ["#ef7b45", 1]].forEach(([colour, at]) => sky.addColorStop(at, colour));
  const fill = (colour, draw) => {
    pen.fillStyle = colour;
    pen.beginPath();
    draw();
    pen.fill();
  };
  fill(sky, () => pen.rect(0, 0, 480, 200));
  fill("#ffe8c2", () => pen.arc(360, 150, 28, 0, 7));
  const slope = (points) => points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  fill("#5e4b56", () => slope([[0, 200], [150, 60], [210, 120], [260, 80], [420, 200]]));
  fill("#7a9cc6", () => pen.rect(0, 200, 480, 100));
  fill("#6f88ad", () => slope([[0, 200], [150, 280], [210, 246], [260, 268], [420, 200]]));
  return canvas.toDataURL("image/png").split(",")[1];
};

on("a picture stands in the conversation above what is asked about it", async (page, fake) => {
  const buffer = Buffer.from(await page.evaluate(landscape), "base64");
  const add = page.locator('input[type=file][accept="image/*,audio/*"]');
  await add.setInputFiles({ name: "lake.png", mimeType: "image/png", buffer });
  await page.waitForSelector(".attached img");
  await say(page, "What is in this picture?");
  assert.equal(fake.requests[0].messages.at(-1).content[0].image_url.url, `data:image/png;base64,${buffer.toString("base64")}`);
  assert.match(await lastAnswer(page), /mountain/);
  const shown = await page.locator(".bubble img.picture").evaluate((img) => [img.naturalWidth, img.naturalHeight]);
  assert.deepEqual(shown, [480, 300]);
  await picture(page, "media");
}, { server: { modalities: { vision: true, audio: true } }, viewport: { width: 1120, height: 680 } });

on("a model that takes no pictures is offered none", async (page, fake) => {
  assert.equal(await page.locator(".composer input[type=file][accept]").count(), 0);
  await page.locator(".composer input[type=file]").setInputFiles({ name: "a.png", mimeType: "image/png", buffer: Buffer.from(PNG, "base64") });
  await page.getByText("a.png: this model takes no pictures.").waitFor();
  assert.equal(await page.locator(".attached").count(), 0);
  assert.equal(fake.requests.length, 0);
});

on("a key is asked for, and a wrong one again", async (page, fake) => {
  const key = page.getByLabel("API key");
  await key.fill("wrong");
  await page.getByRole("button", { name: "Enter" }).click();
  await page.getByText("The server does not take this key.").waitFor();
  await key.fill("secret");
  await page.getByRole("button", { name: "Enter" }).click();
  await key.waitFor({ state: "detached" });
  await say(page, "hello");
  assert.equal(await lastAnswer(page), "Answer 1 to: hello");
  assert.ok(!(await page.content()).includes("secret"));
}, { server: { key: "secret" } });

on("where there are several models one is chosen for each conversation", async (page, fake) => {
  await page.getByLabel("Model").selectOption("b-8b.gguf");
  await say(page, "hello");
  assert.equal(fake.requests[0].model, "b-8b.gguf");
  await page.reload();
  await page.waitForSelector(".message.assistant");
  assert.equal(await page.getByLabel("Model").inputValue(), "b-8b.gguf");
}, { server: { models: ["a-1b.gguf", "b-8b.gguf"] } });

on("the end stays in sight unless the reader moves away from it", async (page) => {
  await say(page, "long 1500", false);
  const distance = () => page.locator(".scroller").evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight);
  await page.waitForFunction(() => document.querySelectorAll(".markdown h3").length > 5);
  assert.ok((await distance()) < 200);
  await page.locator(".scroller").hover();
  await page.mouse.wheel(0, -900);
  await page.waitForTimeout(300);
  const top = await page.locator(".scroller").evaluate((box) => box.scrollTop);
  await idle(page);
  assert.equal(await page.locator(".scroller").evaluate((box) => box.scrollTop), top);
  await page.getByRole("button", { name: "To the end" }).click();
  await page.waitForTimeout(200);
  assert.ok((await distance()) < 48);
});

on("an answer of 10,000 tokens leaves its finished blocks alone", async (page) => {
  await page.evaluate(() => {
    // Counts how often the first block of the answer is made again.
    window.made = 0;
    new MutationObserver((changes) => {
      for (const change of changes) {
        for (const node of change.addedNodes) if (node.nodeType === 1 && node.tagName === "H3" && node.textContent === "Part 1") window.made++;
      }
    }).observe(document.body, { childList: true, subtree: true });
  });
  await say(page, "long 10000", false);
  await page.waitForFunction(() => document.querySelector(".message.assistant")?.textContent.includes("The end."), undefined, { timeout: 30_000 });
  assert.ok((await page.evaluate(() => window.made)) <= 3);
  assert.ok((await answers(page).last().locator("h3").count()) > 100);
});

on("everything is reached by keys, in the order in which it stands", async (page) => {
  await say(page, "hello");
  await page.getByRole("button", { name: "New conversation" }).first().focus();
  const names = [];
  for (let i = 0; i < 18; i++) {
    names.push(await page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent.trim()));
    await page.keyboard.press("Tab");
  }
  const wanted = ["New conversation", "Search Ctrl K", "hello", "Export all", "Settings", "Copy", "Message"];
  const at = wanted.map((name) => names.indexOf(name));
  assert.ok(at.every((i, n) => i >= 0 && (n === 0 || i > at[n - 1])), `${names}`);
  await field(page).press("ArrowUp");
  assert.equal(await page.getByRole("textbox", { name: "Edit the message" }).inputValue(), "hello");
  await page.keyboard.press("Escape");
  await field(page).fill("two");
  await field(page).press("Shift+Enter");
  assert.equal(await field(page).inputValue(), "two\n");
});

for (const colorScheme of ["light", "dark"]) {
  on(`the ${colorScheme} theme follows the system, and the switch overrules it`, async (page) => {
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    await picture(page, `${colorScheme}-new`);
    await say(page, "Explain how a hash table works, please");
    await page.waitForSelector(".katex-display");
    await picture(page, `${colorScheme}-chat`);
    await page.locator(".scroller").evaluate((box) => box.scrollTo(0, 0));
    await picture(page, `${colorScheme}-chat-top`);
    const contrast = await page.evaluate(contrasts);
    assert.ok(contrast.every(([, ratio]) => ratio >= 4.5), JSON.stringify(contrast));
    const before = await ground();
    await page.getByRole("button", { name: colorScheme === "light" ? "Dark theme" : "Light theme" }).click();
    assert.notEqual(await ground(), before);
    await page.reload();
    await page.waitForSelector(".message");
    assert.notEqual(await ground(), before);
  }, { colorScheme });
}

/** Contrast of each kind of text with the page's ground. */
function contrasts() {
  const channel = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (hex) => {
    const [r, g, b] = [1, 3, 5].map((i) => channel(parseInt(hex.slice(i, i + 2), 16) / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  const names = ["--text", "--soft", "--faint", "--accent", "--danger", "--red", "--orange", "--green", "--blue", "--violet", "--grey"];
  return names.map((name) => {
    const grounds = ["--ground", ...(name.length < 8 && !["--text", "--soft"].includes(name) ? ["--code"] : [])];
    const ratio = (ground) => {
      const [a, b] = [light(value(name)), light(value(ground))].sort((x, y) => y - x);
      return (a + 0.05) / (b + 0.05);
    };
    return [name, Math.min(...grounds.map(ratio))];
  });
}

on("on a phone nothing is wider than the screen", async (page) => {
  const fits = async () => assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  await fits();
  await picture(page, "phone-new");
  await field(page).fill("markdown");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.waitForSelector("blockquote");
  await idle(page);
  await fits();
  await picture(page, "phone-chat");
  await page.getByRole("button", { name: "Show the conversations" }).click();
  await picture(page, "phone-conversations");
  await page.locator(".shade").click({ position: { x: 380, y: 400 } });
  assert.equal(await page.locator(".sidebar").count(), 0);
  await page.getByRole("button", { name: "Settings" }).click();
  await fits();
  await picture(page, "phone-settings");
}, { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true });

for (const colorScheme of ["light", "dark"]) {
  on(`the status page is live (${colorScheme})`, async (page, fake) => {
    await page.goto(`${fake.address}status`);
    await page.waitForFunction(() => document.querySelector('[aria-label="Steps"] polyline'), undefined, { timeout: 10_000 });
    assert.match(await page.locator('[aria-label="Cache in use"] strong').innerText(), /\d+ %/);
    assert.match(await page.locator('[aria-label="Memory"]').innerText(), /Process\s+700 MiB/);
    assert.equal(await page.locator(".slots li").count(), 4);
    assert.match(await page.locator(".slots li").first().innerText(), /Writing, \d+ tokens/);
    assert.match(await page.locator(".slots li").nth(1).innerText(), /Reading 67 %/);
    await page.locator(".all summary").click();
    assert.match(await page.locator(".all table").innerText(), /llamacpp:prompt_tokens_total/);
    if (pictures) await page.waitForTimeout(15_000);
    await page.locator(".all summary").click();
    await picture(page, `${colorScheme}-status`);
    fake.refuse = [503, "Loading model", "unavailable_error"];
    await page.waitForFunction(() => document.querySelector(".slots") === null, undefined, { timeout: 5000 });
  }, { colorScheme });
}

on("the status page shows where each of several models is, and the one that is chosen", async (page, fake) => {
  fake.status = { "b.gguf": { value: "sleeping" }, "c.gguf": { value: "unloaded", failed: true, exit_code: 1, error: "no such weights" } };
  await page.goto(`${fake.address}status`);
  const of = (name) => page.getByRole("button", { name });
  await of("a Running").waitFor();
  assert.equal(await of("a Running").getAttribute("aria-pressed"), "true");
  assert.equal(await page.locator(".slots li").count(), 4);
  await of("b Sleeping").click();
  await page.getByText("The next request wakes it").waitFor();
  assert.equal(await page.getByRole("status").innerText(), "Sleeping");
  fake.status = { ...fake.status, "b.gguf": { value: "loaded" } };
  await of("b Running").waitFor();
  await page.locator(".slots li").first().waitFor();
  await of("c Failed").click();
  await page.getByText("no such weights").waitFor();
  await picture(page, "models-status");
}, { server: { models: ["a.gguf", "b.gguf", "c.gguf"] } });

on("a server without figures says how to have them", async (page, fake) => {
  await page.goto(`${fake.address}status`);
  await page.getByText("Start it with `--metrics`").waitFor();
  assert.equal(await page.locator(".slots li").count(), 4);
}, { server: { metrics: false } });
