// llama.cpp (by node-llama-cpp, no GPU) behind OpenAI's completions API, honest or cheating:
//   node llama_server.mjs '{"model": "model.gguf", ...}'
// Prints the port that it listens on. Options, all but `model` with a default:
//   kv           element type of the KV cache, F16 or F32
//   flash        flash attention, true or false
//   batch        tokens in one batch at most
//   temperature  sample at this one, whatever the request says
//   penalty      repetition penalty over the last 64 tokens of prompt and answer, set unasked as Ollama does; 1 is none
//   before       put this text before every prompt
//   word         put this word in the place of the answer's middle one
import http from "node:http";
import {getLlama} from "node-llama-cpp";

const options = {kv: "F16", flash: false, batch: 256, temperature: 0, penalty: 1, before: "", word: "", ...JSON.parse(process.argv[2])};
const llama = await getLlama({gpu: false, build: "never", logLevel: "error", maxThreads: 1});
const model = await llama.loadModel({modelPath: options.model});
const context = await model.createContext({
  contextSize: 512, batchSize: options.batch, sequences: 1, threads: 1, flashAttention: options.flash,
  experimentalKvCacheKeyType: options.kv, experimentalKvCacheValueType: options.kv,
});
const sequence = context.getSequence();

async function complete(prompt, tokens_max) {
  await sequence.clearHistory();
  const ids = [model.tokens.bos, ...model.tokenize(options.before + prompt)];
  const output = [];
  let finish = "length";
  const sampling = {temperature: options.temperature, seed: 7, topK: 0, topP: 1, yieldEogToken: true};
  if (options.penalty !== 1) {
    sampling.repeatPenalty = {punishTokens: () => [...ids, ...output].slice(-64), maxPunishTokens: 64, penalty: options.penalty};
  }
  for await (const token of sequence.evaluate(ids, sampling)) {
    if (model.isEogToken(token)) {
      finish = "stop";
      break;
    }
    output.push(token);
    if (output.length >= tokens_max) break;
  }
  const text = model.detokenize([...ids, ...output]).slice(model.detokenize(ids).length);
  return {text: options.word ? edited(text) : text, finish};
}

function edited(text) {
  const words = text.split(" ");
  words[Math.floor(words.length / 2)] = options.word;
  return words.join(" ");
}

// One after the other: there is one sequence.
let turn = Promise.resolve();
const server = http.createServer((request, response) => {
  let body = "";
  request.on("data", (piece) => (body += piece));
  request.on("end", () => {
    turn = turn.then(async () => {
      const asked = JSON.parse(body);
      const {text, finish} = await complete(asked.prompt, asked.max_tokens ?? 16);
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({id: "cmpl-1", object: "text_completion", created: 0, model: asked.model,
                                   choices: [{index: 0, text, logprobs: null, finish_reason: finish}]}));
    });
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
