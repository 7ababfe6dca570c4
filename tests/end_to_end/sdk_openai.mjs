// The official openai SDK against the gateway with the demo model: sdk_openai.mjs MODULE BASE_URL
// Asserts what an application relies on; prints one JSON value a line for the test that started it to check
// against the log.
import assert from "node:assert/strict";

const [module, baseURL] = process.argv.slice(2);
const { default: OpenAI } = await import(module);
const client = new OpenAI({ baseURL, apiKey: "sk-test-openai", maxRetries: 0 });
const tell = (name, response, more = {}) =>
  console.log(JSON.stringify({
    name, status: response.status, record: response.headers.get("x-verbatim-record"),
    cache: response.headers.get("x-verbatim-cache"), ...more }));
const ask = { model: "demo", max_tokens: 24, messages: [{ role: "user", content: "Who are you?" }] };

// Chat, whole.
const chat = await client.chat.completions.create({ ...ask, temperature: 0 }).withResponse();
assert.equal(chat.data.object, "chat.completion");
assert.equal(chat.data.choices.length, 1);
assert.equal(chat.data.choices[0].message.role, "assistant");
assert.ok(chat.data.choices[0].message.content.length > 5);
assert.ok(["stop", "length"].includes(chat.data.choices[0].finish_reason));
assert.equal(chat.data.usage.prompt_tokens + chat.data.usage.completion_tokens, chat.data.usage.total_tokens);
const text = chat.data.choices[0].message.content;
tell("chat", chat.response, { text });

// The same, streamed, with usage.
const stream = await client.chat.completions
  .create({ ...ask, temperature: 0, stream: true, stream_options: { include_usage: true } }).withResponse();
let streamed = "", usage = null, finish = null;
const ids = new Set();
for await (const chunk of stream.data) {
  ids.add(chunk.id);
  streamed += chunk.choices[0]?.delta?.content ?? "";
  finish = chunk.choices[0]?.finish_reason ?? finish;
  if (chunk.usage) usage = chunk.usage;
}
assert.equal(streamed, text);
assert.equal(finish, chat.data.choices[0].finish_reason);
assert.deepEqual(usage && usage.total_tokens, chat.data.usage.total_tokens);
assert.equal(ids.size, 1);
tell("chat stream", stream.response, { text: streamed });

// The helper, which is stricter about the order of events.
const helper = client.chat.completions.stream({ ...ask, temperature: 0 });
assert.equal((await helper.finalChatCompletion()).choices[0].message.content, text);

// A seed makes sampling repeatable; another user keeps the cache out of it.
const seeded = [];
for (const user of ["a", "b"]) {
  const answer = await client.chat.completions
    .create({ ...ask, temperature: 1.3, top_p: 0.95, seed: 42, user }).withResponse();
  seeded.push(answer.data.choices[0].message.content);
  tell("seeded", answer.response, { text: seeded.at(-1) });
}
assert.equal(seeded[0], seeded[1]);

// Several choices, each with log-probabilities.
const several = await client.chat.completions
  .create({ ...ask, temperature: 1.3, seed: 5, n: 2, logprobs: true, top_logprobs: 3 }).withResponse();
assert.deepEqual(several.data.choices.map((c) => c.index), [0, 1]);
for (const choice of several.data.choices) {
  const content = choice.logprobs.content;
  assert.ok(content.length > 0);
  for (const token of content) {
    assert.ok(token.logprob <= 0);
    assert.equal(token.top_logprobs.length, 3);
    assert.ok(token.top_logprobs[0].logprob >= token.top_logprobs[1].logprob);
    assert.equal(Buffer.from(token.bytes).toString(), token.token);
  }
}
tell("n=2", several.response);

// The completions API.
const completion = await client.completions
  .create({ model: "demo", prompt: "Once upon a time", max_tokens: 16, temperature: 0 }).withResponse();
assert.equal(completion.data.object, "text_completion");
assert.ok(completion.data.choices[0].text.length > 0);
tell("completion", completion.response);
let completionStreamed = "";
const completionStream = await client.completions
  .create({ model: "demo", prompt: "Once upon a time", max_tokens: 16, temperature: 0, stream: true }).withResponse();
for await (const chunk of completionStream.data) completionStreamed += chunk.choices[0]?.text ?? "";
assert.equal(completionStreamed, completion.data.choices[0].text);
tell("completion stream", completionStream.response);

// Models.
const models = [];
for await (const model of client.models.list()) models.push(model.id);
assert.deepEqual(models, ["demo"]);
assert.equal((await client.models.retrieve("demo")).id, "demo");

// Errors are the SDK's own classes, with a message and a code.
const fails = async (promise, type, status) => {
  const error = await promise.then(() => assert.fail("no error"), (e) => e);
  assert.ok(error instanceof type, `${error}`);
  assert.equal(error.status, status);
  assert.ok(error.message.length > 10);
  console.log(JSON.stringify({ name: "error", status, record: error.headers.get("x-verbatim-record"),
    code: error.code, message: error.message }));
  return error;
};
const unknown = await fails(client.chat.completions.create({ ...ask, model: "none" }), OpenAI.NotFoundError, 404);
assert.equal(unknown.code, "model_not_found");
await fails(client.chat.completions.create({ model: "demo", messages: "x" }), OpenAI.BadRequestError, 400);
await fails(client.models.retrieve("none"), OpenAI.NotFoundError, 404);

// An application that stops reading.
const aborted = await client.completions
  .create({ model: "demo", prompt: "Once upon a time", max_tokens: 480, temperature: 1, stream: true, ignore_eos: true })
  .withResponse();
for await (const _ of aborted.data) break;
tell("aborted", aborted.response);
