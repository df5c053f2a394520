// The client `openai` for JavaScript. PUMEX_ADDRESS and PUMEX_EMBEDDER name servers; test_javascript.py starts them and runs this.
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";

const at = (address) => new OpenAI({ baseURL: `${address}/v1`, apiKey: "none", maxRetries: 0, timeout: 60_000 });
const client = at(process.env.PUMEX_ADDRESS);
const messages = [{ role: "user", content: "In the beginning" }];
const schema = {
  type: "object",
  properties: { city: { type: "string", enum: ["Bonn", "Rome"] }, warm: { type: "boolean" } },
  required: ["city", "warm"],
  additionalProperties: false,
};
const tools = [{ type: "function", function: { name: "weather", description: "The weather.", parameters: schema } }];
const ask = (options) => client.chat.completions.create({ model: "demo", messages, max_tokens: 24, temperature: 0, ...options });

function checkArguments({ city, warm, ...rest }) {
  assert.ok(["Bonn", "Rome"].includes(city) && typeof warm === "boolean");
  assert.deepEqual(rest, {});
}

test("a chat is answered, and a stream has the same text", async () => {
  const whole = await ask({});
  assert.equal(whole.usage.completion_tokens, 24);
  let text = "";
  let usage;
  for await (const chunk of await ask({ stream: true, stream_options: { include_usage: true } })) {
    text += chunk.choices[0]?.delta?.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(usage.completion_tokens, 24);
});

test("a function that must be called is, whole and streamed", async () => {
  const answer = await ask({ tools, tool_choice: "required", max_tokens: 600, parallel_tool_calls: false });
  assert.equal(answer.choices[0].finish_reason, "tool_calls");
  checkArguments(JSON.parse(answer.choices[0].message.tool_calls[0].function.arguments));
  const stream = client.chat.completions.stream({ model: "demo", messages, tools, tool_choice: "required", max_tokens: 600, parallel_tool_calls: false });
  const message = await stream.finalMessage();
  assert.equal(message.tool_calls[0].function.name, "weather");
  checkArguments(JSON.parse(message.tool_calls[0].function.arguments));
});

test("an answer follows a schema", async () => {
  const response_format = { type: "json_schema", json_schema: { name: "answer", strict: true, schema } };
  checkArguments(JSON.parse((await ask({ response_format, max_tokens: 600, parallel_tool_calls: false })).choices[0].message.content));
});

test("a response streams its text", async () => {
  let text = "";
  const stream = await client.responses.create({ model: "demo", input: "In the beginning", max_output_tokens: 12, temperature: 0, stream: true });
  for await (const event of stream) if (event.type === "response.output_text.delta") text += event.delta;
  assert.ok(text.length > 0);
});

test("texts become vectors", async () => {
  const { data } = await at(process.env.PUMEX_EMBEDDER).embeddings.create({ model: "demo", input: ["light", "darkness"] });
  assert.equal(data.length, 2);
  const length = data[0].embedding.reduce((sum, x) => sum + x * x, 0);
  assert.ok(Math.abs(length - 1) < 1e-3);
});

test("a wrong field is named, and an answer can be left", async () => {
  await assert.rejects(ask({ temperature: "warm" }), (error) => error instanceof OpenAI.BadRequestError && /temperature/.test(error.message));
  const stream = await ask({ stream: true, max_tokens: 1000 });
  for await (const _ of stream) break;
});
