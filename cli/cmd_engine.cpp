// verbatim engine ...: the local engine without the gateway, for tests, audits and curiosity.

#include "cli/command.hpp"
#include "cli/engine_bench.hpp"
#include "cli/engine_json.hpp"
#include "cli/fingerprint_files.hpp"
#include "cli/layer_files.hpp"
#include "cli/number_option.hpp"
#include "cli/show_text.hpp"
#include "local_engine/engine.hpp"
#include "local_engine/selfcheck.hpp"
#include "schema/clock.hpp"
#include "schema/ordered_json.hpp"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <random>

namespace verbatim::cli {

namespace {

using local_engine::Engine;
using local_engine::GenerationRequest;
using local_engine::GenerationResult;
using local_engine::RenderInput;

struct GenerateFlags {
  EngineFlags engine;
  std::optional<std::string> prompt;  // an empty one is one: the model's own beginning
  std::string messages, prompt_ids, output_ids;
  std::uint32_t max_tokens = 64, top_k = 0, logprobs = 0;
  double temperature = 0, top_p = 1, min_p = 0;
  std::uint64_t seed = 0;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  std::size_t neighbours = 0;
  LayerFlags layers;
  FingerprintFlags fingerprint;
};

Result<std::shared_ptr<Engine>> load_engine(const EngineFlags& flags) {
  const auto path = model_or_demo(flags.model);
  if (!path) return path.error();
  local_engine::EngineOptions options;
  options.backend = flags.backend;
  options.cuda_fallback = flags.cuda_fallback;
  options.profile = flags.profile;
  options.threads = flags.threads;
  options.prefill_chunk = flags.prefill_chunk;
  options.prefix_cache = !flags.no_prefix_cache;
  auto engine = Engine::load(*path, options);
  if (engine && !(*engine)->fallback_reason().empty())
    std::cerr << "verbatim: the processor computes in place of the device: "
              << one_line((*engine)->fallback_reason()) << '\n';
  return engine;
}

/// The names that templates know: bos_token and eos_token.
void add_special_tokens(const local_engine::Tokenizer& tokenizer, RenderInput& input) {
  if (tokenizer.bos()) input.variables["bos_token"] = tokenizer.token_text(*tokenizer.bos());
  if (tokenizer.eos()) input.variables["eos_token"] = tokenizer.token_text(*tokenizer.eos());
}

Result<OrderedJson> read_json_file(const std::string& path) {
  const auto text = read_input(path);
  if (!text) return text.error();
  auto json = parse_ordered_json(*text);
  if (!json) return Error{json.error().code, json.error().what, path, ""};
  return json;
}

/// An array of messages, or a request's body with one in it.
Result<OrderedJson> read_messages(const std::string& path) {
  auto json = read_json_file(path);
  if (!json) return json;
  OrderedJson messages =
      json->is_object() && json->contains("messages") ? (*json)["messages"] : std::move(*json);
  if (!messages.is_array()) {
    return Error{Errc::invalid_input, "no array of messages", path,
                 "give [{\"role\": \"user\", \"content\": \"...\"}]"};
  }
  return Result<OrderedJson>(boost::system::in_place_value, std::move(messages));
}

Result<std::vector<local_engine::TokenId>> prompt_of_messages(const Engine& engine,
                                                              const std::string& path) {
  if (engine.chat_template() == nullptr || engine.tokenizer() == nullptr) {
    return Error{Errc::unsupported, "the model has no chat template", path,
                 "give --prompt or --prompt-ids"};
  }
  auto messages = read_messages(path);
  if (!messages) return messages.error();
  RenderInput input;
  input.messages = std::move(*messages);
  add_special_tokens(*engine.tokenizer(), input);
  const auto text = engine.chat_template()->render(input);
  if (!text) return text.error();
  // The template writes the special tokens itself: none is added.
  return engine.tokenizer()->encode(*text, {.add_special = false, .parse_special = true});
}

Result<std::vector<local_engine::TokenId>> prompt_of(const Engine& engine,
                                                     const GenerateFlags& flags) {
  if (!flags.prompt_ids.empty()) return parse_ids(flags.prompt_ids);
  if (!flags.messages.empty()) return prompt_of_messages(engine, flags.messages);
  if (!flags.prompt) {
    return Error{Errc::invalid_input, "no prompt", "", "give --prompt, --messages or --prompt-ids"};
  }
  if (engine.tokenizer() == nullptr) {
    return Error{Errc::unsupported, "the model has no tokenizer", flags.engine.model,
                 "give --prompt-ids"};
  }
  return engine.tokenizer()->encode(*flags.prompt, {});
}

Result<GenerationRequest> request_of(const Engine& engine, const GenerateFlags& flags) {
  GenerationRequest request;
  auto ids = prompt_of(engine, flags);
  if (!ids) return ids.error();
  request.prompt_ids = std::move(*ids);
  request.tokens_max = flags.max_tokens;
  request.sampling.temperature = flags.temperature;
  request.sampling.seed = flags.seed;
  request.sampling.top_k = flags.top_k;
  request.sampling.top_p = flags.top_p;
  request.sampling.min_p = flags.min_p;
  request.stop = flags.stop;
  request.ignore_eos = flags.ignore_eos;
  request.top_logprobs = flags.logprobs;
  request.layer_detail = flags.layers.wanted();
  request.top_activations = flags.fingerprint.wanted();
  return request;
}

/// Other requests, random but seeded, that share the batches with the one asked for.
std::vector<std::shared_ptr<local_engine::Generation>> start_neighbours(Engine& engine,
                                                                        std::size_t count) {
  std::mt19937_64 random(count);
  std::vector<std::shared_ptr<local_engine::Generation>> running;
  for (std::size_t i = 0; i < count; ++i) {
    GenerationRequest neighbour;
    const std::size_t length = 1 + random() % 64;
    for (std::size_t j = 0; j < length; ++j) {
      neighbour.prompt_ids.push_back(
          static_cast<local_engine::TokenId>(random() % engine.vocab_size()));
    }
    neighbour.tokens_max = static_cast<std::uint32_t>(1 + random() % 64);
    neighbour.sampling.temperature = 1;
    neighbour.sampling.seed = random();
    neighbour.ignore_eos = true;
    running.push_back(engine.generate(
        neighbour, [](const local_engine::TokenInfo&) {}, [](Result<GenerationResult>) {}));
  }
  return running;
}

void print_result(const Context& context, const Engine& engine, const GenerationRequest& request,
                  const GenerationResult& result,
                  const std::optional<local_engine::FingerprintAgreement>& agreement = {}) {
  if (context.json) {
    OrderedJson json = result_json(engine, request, result);
    if (agreement) json["fingerprint"] = replay::fingerprint_json(*agreement);
    print_json(json);
    return;
  }
  if (agreement) std::cerr << one_line(replay::fingerprint_text(*agreement)) << '\n';
  if (engine.tokenizer() != nullptr) {
    std::cout << many_lines(result.text) << '\n';
  } else {
    std::vector<local_engine::TokenId> ids;
    for (const auto& token : result.tokens) ids.push_back(token.id);
    print_json(ids);
  }
  std::cerr << "logits_digest " << result.logits_digest.hex() << " (" << engine.profile() << ", "
            << engine.backend() << ", " << result.tokens.size() << " tokens)\n";
}

/// What the flags ask for beside the result.
Result<void> write_files(const GenerateFlags& flags, const Engine& engine,
                         const GenerationRequest& request, const GenerationResult& result) {
  if (const auto written = flags.fingerprint.write(result); !written) return written;
  if (!result.layer_digests) return {};
  return write_layer_file(flags.layers.file, engine, request, result);
}

int run_generate(const Context& context, const GenerateFlags& flags) {
  const auto possible = check_outputs({flags.fingerprint.file, flags.layers.file});
  if (!possible) return fail(possible.error());
  const auto engine = load_engine(flags.engine);
  if (!engine) return fail(engine.error());
  const auto request = request_of(**engine, flags);
  if (!request) return fail(request.error());
  const auto neighbours = start_neighbours(**engine, flags.neighbours);
  const auto result = (*engine)->generate_and_wait(*request);
  for (const auto& neighbour : neighbours) neighbour->cancel();
  if (!result) return fail(result.error());
  if (const auto written = write_files(flags, **engine, *request, *result); !written)
    return fail(written.error());
  print_result(context, **engine, *request, *result);
  return kDone;
}

/// A line a token: what was given, and what the engine thinks of it.
void print_scores(const GenerationResult& result) {
  const auto cell = [](std::string text, std::size_t width) {
    text.resize(std::max(width, text.size() + 1), ' ');
    return text;
  };
  const auto number = [](float value) { return OrderedJson(shortest(value)).dump(); };
  std::cout << "token   logprob      deficit      margin       chosen    text\n";
  for (const auto& token : result.tokens) {
    std::cout << cell(std::to_string(token.id), 8) << cell(number(token.logprob), 13)
              << cell(number(token.deficit), 13) << cell(number(token.margin), 13)
              << cell(token.chosen ? "yes" : "no: " + std::to_string(token.best), 10)
              << OrderedJson(token.text).dump(-1, ' ', false, OrderedJson::error_handler_t::replace)
              << '\n';
  }
}

int run_score(const Context& context, const GenerateFlags& flags) {
  const auto possible = check_outputs({flags.fingerprint.file, flags.layers.file});
  if (!possible) return fail(possible.error());
  const auto engine = load_engine(flags.engine);
  if (!engine) return fail(engine.error());
  const auto request = request_of(**engine, flags);
  if (!request) return fail(request.error());
  const auto output = parse_ids(flags.output_ids);
  if (!output) return fail(output.error());
  const auto result = (*engine)->score(*request, *output);
  if (!result) return fail(result.error());
  if (const auto written = write_files(flags, **engine, *request, *result); !written)
    return fail(written.error());
  const auto agreement = flags.fingerprint.check(**engine, *result);
  if (!agreement) return fail(agreement.error());
  if (!context.json) print_scores(*result);
  print_result(context, **engine, *request, *result, *agreement);
  return kDone;
}

struct TokenizeFlags {
  std::string model;
  bool no_special = false, no_parse_special = false, jsonl = false, skip_special = false;
};

Result<std::shared_ptr<const local_engine::Tokenizer>> load_tokenizer(const std::string& model) {
  const auto path = model_or_demo(model);
  if (!path) return path.error();
  return local_engine::Tokenizer::load(*path);
}

/// Calls `each` for every line of stdin as JSON; stops at the first error.
template <class Each>
int for_each_line(Each each) {
  std::string line;
  for (std::uint64_t number = 1; std::getline(std::cin, line); ++number) {
    if (line.empty()) continue;
    const auto json = parse_json(line);
    if (!json)
      return fail(
          Error{json.error().code, json.error().what, "stdin line " + std::to_string(number), ""});
    const Result<void> done = each(line, *json);
    if (!done)
      return fail(
          Error{done.error().code, done.error().what, "stdin line " + std::to_string(number), ""});
  }
  return kDone;
}

int run_tokenize(const TokenizeFlags& flags) {
  const auto tokenizer = load_tokenizer(flags.model);
  if (!tokenizer) return fail(tokenizer.error());
  const local_engine::EncodeOptions options{.add_special = !flags.no_special,
                                            .parse_special = !flags.no_parse_special};
  const auto print_ids = [&](const std::string& text) -> Result<void> {
    const auto ids = (*tokenizer)->encode(text, options);
    if (!ids) return ids.error();
    print_json({{"ids", *ids}});
    return {};
  };
  if (flags.jsonl) {
    return for_each_line([&](const std::string&, const Json& line) -> Result<void> {
      if (!line.is_object() || !line.contains("text") || !line["text"].is_string()) {
        return Error{Errc::invalid_input, "a line has no \"text\"", "", ""};
      }
      return print_ids(line["text"].get<std::string>());
    });
  }
  const auto text = read_text("-");
  if (!text) return fail(text.error());
  const auto done = print_ids(*text);
  return done ? kDone : fail(done.error());
}

int run_detokenize(const TokenizeFlags& flags) {
  const auto tokenizer = load_tokenizer(flags.model);
  if (!tokenizer) return fail(tokenizer.error());
  if (flags.jsonl) {
    return for_each_line([&](const std::string&, const Json& line) -> Result<void> {
      if (!line.is_object() || !line.contains("ids") || !line["ids"].is_array()) {
        return Error{Errc::invalid_input, "a line has no \"ids\"", "", ""};
      }
      std::vector<local_engine::TokenId> ids;
      for (const Json& id : line["ids"]) {
        if (!id.is_number_integer())
          return Error{Errc::invalid_input, "an id is not an integer", "", ""};
        ids.push_back(id.get<local_engine::TokenId>());
      }
      print_json({{"text", (*tokenizer)->decode(ids, flags.skip_special)}});
      return {};
    });
  }
  const auto text = read_text("-");
  if (!text) return fail(text.error());
  std::string list = *text;
  if (const auto open = list.find('['); open != std::string::npos) {
    const auto close = list.find(']', open);
    list = list.substr(open + 1, close == std::string::npos ? close : close - open - 1);
  }
  while (!list.empty() && (list.back() == '\n' || list.back() == ' ')) list.pop_back();
  const auto ids = parse_ids(list);
  if (!ids) return fail(ids.error());
  std::cout << (*tokenizer)->decode(*ids, flags.skip_special);
  return kDone;
}

struct RenderFlags {
  std::string model, template_file, messages, tools, now;
  std::vector<std::string> variables;
  bool add_generation_prompt = false, jsonl = false;
};

Result<std::int64_t> time_or_now(const std::string& text) {
  if (text.empty()) return SystemClock().now_us();
  return parse_rfc3339(text);
}

/// One line of --jsonl: prints {"output":...} or {"raises":...}.
Result<void> render_line(const std::string& text) {
  const auto given = parse_ordered_json(text);
  if (!given) return given.error();
  const OrderedJson& line = *given;
  if (!line.is_object() || !line.contains("template") || !line["template"].is_string()) {
    return Error{Errc::invalid_input, "a line has no \"template\"", "", ""};
  }
  RenderInput input;
  input.messages = line.value("messages", OrderedJson::array());
  input.tools = line.value("tools", OrderedJson());
  input.add_generation_prompt = line.value("add_generation_prompt", false);
  input.variables = line.value("vars", OrderedJson::object());
  const auto now = time_or_now(
      line.contains("now") && line["now"].is_string() ? line["now"].get<std::string>() : "");
  if (!now) return now.error();
  input.now_us = *now;
  const auto parsed = local_engine::ChatTemplate::parse(line["template"].get<std::string>());
  if (!parsed) {
    print_json({{"raises", parsed.error().what}});
    return {};
  }
  const auto output = (*parsed)->render(input);
  print_json(output ? OrderedJson{{"output", *output}}
                    : OrderedJson{{"raises", output.error().what}});
  return {};
}

Result<std::shared_ptr<const local_engine::ChatTemplate>> template_of(const RenderFlags& flags) {
  if (!flags.template_file.empty()) {
    auto source = read_input(flags.template_file);
    if (!source) return source.error();
    return local_engine::ChatTemplate::parse(std::move(*source));
  }
  const auto path = model_or_demo(flags.model);
  if (!path) return path.error();
  auto loaded = local_engine::load_chat_template(*path);
  if (loaded && *loaded == nullptr) {
    return Error{Errc::not_found, "the model has no chat template", path->string(),
                 "give --template FILE"};
  }
  return loaded;
}

Result<RenderInput> render_input(const RenderFlags& flags) {
  RenderInput input;
  auto messages = read_messages(flags.messages);
  if (!messages) return messages.error();
  input.messages = std::move(*messages);
  if (!flags.tools.empty()) {
    auto tools = read_json_file(flags.tools);
    if (!tools) return tools.error();
    input.tools = std::move(*tools);
  }
  input.add_generation_prompt = flags.add_generation_prompt;
  const auto now = time_or_now(flags.now);
  if (!now) return now.error();
  input.now_us = *now;
  if (flags.template_file.empty()) {
    const auto tokenizer = load_tokenizer(flags.model);
    if (tokenizer) add_special_tokens(**tokenizer, input);
  }
  for (const std::string& assignment : flags.variables) {
    const auto pair = split_assignment(assignment);
    if (!pair) return pair.error();
    auto value = parse_ordered_json(pair->second);
    if (!value)
      return Error{Errc::invalid_input, "--var " + pair->first + " is not JSON", "",
                   "quote texts: --var 'name=\"text\"'"};
    input.variables[pair->first] = std::move(*value);
  }
  return Result<RenderInput>(boost::system::in_place_value, std::move(input));
}

int run_render(const RenderFlags& flags) {
  if (flags.jsonl) {
    return for_each_line([](const std::string& text, const Json&) { return render_line(text); });
  }
  if (flags.messages.empty()) return usage("no messages", "give --messages FILE, or --jsonl");
  const auto parsed = template_of(flags);
  if (!parsed) return fail(parsed.error());
  const auto input = render_input(flags);
  if (!input) return fail(input.error());
  const auto output = (*parsed)->render(*input);
  if (!output) {
    std::cerr << one_line(output.error().what) << '\n';
    return kBadFinding;
  }
  std::cout << *output;
  return kDone;
}

int run_selfcheck(const Context& context, const std::string& model, double seconds,
                  bool with_cuda) {
  const auto path = model_or_demo(model);
  if (!path) return fail(path.error());
  const auto report = local_engine::selfcheck(*path, seconds, with_cuda);
  if (!report) return fail(report.error());
  OrderedJson findings = OrderedJson::array();
  for (const auto& finding : report->findings) {
    OrderedJson json = {
        {"check", finding.check}, {"passed", finding.passed}, {"cases", finding.cases}};
    if (!finding.passed) json["first_difference"] = finding.first_difference;
    findings.push_back(std::move(json));
  }
  if (context.json) {
    print_json({{"passed", report->passed},
                {"backends", report->backends},
                {"tokens", report->tokens},
                {"seconds", report->seconds},
                {"findings", std::move(findings)}});
  } else {
    for (const auto& finding : report->findings) {
      std::cout << (finding.passed ? "passed      " : "FAILED      ") << finding.check << " ("
                << finding.cases << " cases)"
                << (finding.passed ? "" : ": " + one_line(finding.first_difference)) << '\n';
    }
  }
  return report->passed ? kDone : kBadFinding;
}

void add_generation_options(CLI::App& command, GenerateFlags& flags) {
  flags.engine.add(command);
  CLI::Option* prompt = command.add_option(
      "--prompt", flags.prompt,
      "text to go on with, as it is; special tokens are added as the tokenizer says");
  CLI::Option* messages = command.add_option(
      "--messages", flags.messages, "JSON file of chat messages, rendered by the model's template");
  CLI::Option* ids = command.add_option("--prompt-ids", flags.prompt_ids, "token ids with commas");
  prompt->excludes(messages)->excludes(ids);
  messages->excludes(ids);
  command.add_option("--temperature", flags.temperature, "0 is greedy")
      ->check(number(0, 1e6))
      ->capture_default_str();
  command.add_option("--seed", flags.seed, "u64; 0 unless given")->check(whole_number(0, kSeedMax));
  command.add_option("--top-k", flags.top_k, "0: off");
  command.add_option("--top-p", flags.top_p, "above 0, to 1; 1: off");
  command.add_option("--min-p", flags.min_p, "0: off")->check(number(0, 1));
  command.add_option("--logprobs", flags.logprobs, "so many highest log-probabilities a token");
  flags.layers.add(command);
  flags.fingerprint.add(command);
}

}  // namespace

void add_engine(CLI::App& app, Context& context) {
  CLI::App* engine = app.add_subcommand("engine", "the local engine by itself");
  engine->require_subcommand(1);
  engine->footer("Example:\n  verbatim engine generate --prompt \"A Merkle tree\" --max-tokens 32");

  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* generate = engine->add_subcommand(
      "generate", "generate tokens; greedy unless --temperature says otherwise");
  add_generation_options(*generate, *flags);
  generate->add_option("--max-tokens", flags->max_tokens, "at most so many")->capture_default_str();
  generate->add_option("--stop", flags->stop, "stop sequences");
  generate->add_flag("--ignore-eos", flags->ignore_eos, "go on after the end of sequence");
  generate
      ->add_option("--neighbours", flags->neighbours,
                   "so many other random requests in the same batches")
      ->check(whole_number(0, 4096));
  add_common(*generate, context,
             "verbatim engine generate --prompt \"The log\" --max-tokens 32 --json");
  generate->callback([&context, flags] { context.exit_code = run_generate(context, *flags); });

  CLI::App* score = engine->add_subcommand(
      "score", "teacher-forced: what the engine thinks of given output tokens");
  add_generation_options(*score, *flags);
  score->add_option("--output-ids", flags->output_ids, "token ids with commas")->required();
  flags->fingerprint.add_check(*score);
  add_common(*score, context, "verbatim engine score --prompt-ids 300,301 --output-ids 302,303");
  score->callback([&context, flags] { context.exit_code = run_score(context, *flags); });

  add_engine_compare(*engine, context);

  auto text = std::make_shared<TokenizeFlags>();
  CLI::App* tokenize = engine->add_subcommand("tokenize", "text on stdin to token ids");
  tokenize->add_option("--model", text->model,
                       "folder, tokenizer.json or .gguf; default: the demo model");
  tokenize->add_flag("--no-special", text->no_special, "add no BOS or EOS");
  tokenize->add_flag("--no-parse-special", text->no_parse_special,
                     "names of special tokens are plain text");
  tokenize->add_flag("--jsonl", text->jsonl, "one {\"text\":...} a line");
  add_common(*tokenize, context, "echo -n Hello | verbatim engine tokenize");
  tokenize->callback([&context, text] { context.exit_code = run_tokenize(*text); });

  CLI::App* detokenize = engine->add_subcommand("detokenize", "token ids on stdin to text");
  detokenize->add_option("--model", text->model,
                         "folder, tokenizer.json or .gguf; default: the demo model");
  detokenize->add_flag("--skip-special", text->skip_special, "leave special tokens out");
  detokenize->add_flag("--jsonl", text->jsonl, "one {\"ids\":[...]} a line");
  add_common(*detokenize, context, "echo 259,260,261 | verbatim engine detokenize");
  detokenize->callback([&context, text] { context.exit_code = run_detokenize(*text); });

  auto render_flags = std::make_shared<RenderFlags>();
  CLI::App* render = engine->add_subcommand("render", "a chat template over messages, exactly");
  render->add_option("--model", render_flags->model, "whose template");
  render->add_option("--template", render_flags->template_file, "a file with a template by itself");
  render->add_option("--messages", render_flags->messages, "JSON file");
  render->add_option("--tools", render_flags->tools, "JSON file");
  render->add_flag("--add-generation-prompt", render_flags->add_generation_prompt);
  render->add_option("--var", render_flags->variables, "NAME=JSON");
  render->add_option("--now", render_flags->now, "what strftime_now sees, RFC 3339");
  render->add_flag("--jsonl", render_flags->jsonl, "one object a line on stdin");
  add_common(*render, context,
             "verbatim engine render --model ./model --messages chat.json --add-generation-prompt");
  render->callback([&context, render_flags] { context.exit_code = run_render(*render_flags); });

  auto check_flags = std::make_shared<EngineFlags>();
  auto seconds = std::make_shared<double>(10);
  auto with_cuda = std::make_shared<bool>(false);
  CLI::App* selfcheck =
      engine->add_subcommand("selfcheck", "batch invariance, decode == prefill, backends agree");
  // It tries every backend of the processor, thread count and chunk itself.
  add_model_option(*selfcheck, check_flags->model);
  selfcheck->add_option("--seconds", *seconds, "time to spend")
      ->check(number(0, 1e6))
      ->capture_default_str();
  selfcheck->add_flag("--cuda", *with_cuda, "the CUDA device too");
  add_common(*selfcheck, context, "verbatim engine selfcheck --seconds 30");
  selfcheck->callback([&context, check_flags, seconds, with_cuda] {
    context.exit_code = run_selfcheck(context, check_flags->model, *seconds, *with_cuda);
  });

  CLI::App* bench = engine->add_subcommand("bench", "tokens a second: prefill, decode, score");
  auto bench_flags = std::make_shared<BenchFlags>();
  check_flags->add(*bench);
  bench_flags->add(*bench);
  add_common(*bench, context, "verbatim engine bench --json");
  bench->callback([&context, check_flags, bench_flags] {
    const auto loaded = load_engine(*check_flags);
    context.exit_code = loaded ? run_bench(context, **loaded, *bench_flags) : fail(loaded.error());
  });
}

}  // namespace verbatim::cli
