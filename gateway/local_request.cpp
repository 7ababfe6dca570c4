#include "gateway/local_request.hpp"

#include "schema/bytes.hpp"
#include "schema/ordered_json.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace verbatim::gateway {

namespace {

using local_engine::Engine;
using local_engine::GenerationRequest;
using local_engine::TokenId;
using Ordered = nlohmann::ordered_json;

constexpr std::int64_t kChoicesMax = 128;
constexpr std::size_t kStopsMax = 16;

Error bad(std::string what) { return {Errc::invalid_input, std::move(what), "", ""}; }
Error unsupported(std::string_view name) {
  return {Errc::unsupported, "'" + std::string(name) + "' is not supported by the local engine", "",
          ""};
}

/// Reads members; keeps the first fault.
class Members {
 public:
  explicit Members(const Ordered& object) : object_(object) {}

  /// The member, or null when it is absent or null.
  [[nodiscard]] const Ordered* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  void number(const char* name, double& to, double min, double max) {
    const Ordered* value = find(name);
    if (value == nullptr) return;
    if (!value->is_number()) return fail(bad("'" + std::string(name) + "' must be a number"));
    const double number = value->get<double>();
    if (!(number >= min && number <= max)) {
      return fail(bad("'" + std::string(name) + "' must be from " + ecmascript_number(min) +
                      " to " + ecmascript_number(max)));
    }
    to = number;
  }
  void integer(const char* name, std::int64_t& to, std::int64_t min, std::int64_t max) {
    const Ordered* value = find(name);
    if (value == nullptr) return;
    const bool fits = value->is_number_integer() &&
                      !(value->is_number_unsigned() &&
                        value->get<std::uint64_t>() >
                            static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    if (!fits || value->get<std::int64_t>() < min || value->get<std::int64_t>() > max) {
      return fail(bad("'" + std::string(name) + "' must be an integer from " + std::to_string(min) +
                      " to " + std::to_string(max)));
    }
    to = value->get<std::int64_t>();
  }
  void flag(const char* name, bool& to) {
    const Ordered* value = find(name);
    if (value == nullptr) return;
    if (!value->is_boolean()) return fail(bad("'" + std::string(name) + "' must be true or false"));
    to = value->get<bool>();
  }
  void fail(Error error) {
    if (!fault_) fault_ = std::move(error);
  }
  [[nodiscard]] const std::optional<Error>& fault() const { return fault_; }

 private:
  const Ordered& object_;
  std::optional<Error> fault_;
};

/// What would change the answer and is not done here.
std::optional<Error> find_unsupported(const Members& members) {
  static constexpr std::array<const char*, 9> kNever = {
      "functions", "function_call", "audio",       "prediction", "web_search_options",
      "suffix",    "thinking",      "mcp_servers", "guided_json"};
  for (const char* name : kNever) {
    const Ordered* value = members.find(name);
    if (value == nullptr) continue;
    const bool off = value->is_object() && value->value("type", "") == "disabled";
    if (!off && *value != "") return unsupported(name);
  }
  if (const Ordered* tools = members.find("tools"); tools != nullptr && !tools->empty()) {
    return unsupported("tools");
  }
  if (const Ordered* format = members.find("response_format"); format != nullptr) {
    if (!format->is_object() || format->value("type", "") != "text") {
      return unsupported("response_format");
    }
  }
  if (const Ordered* kinds = members.find("modalities"); kinds != nullptr) {
    if (*kinds != Ordered::array({"text"})) return unsupported("modalities");
  }
  return std::nullopt;
}

void read_seed(Members& members, LocalQuestion& question) {
  const Ordered* seed = members.find("seed");
  if (seed == nullptr) return;
  if (seed->is_number_unsigned()) {
    question.seed = seed->get<std::uint64_t>();
  } else if (seed->is_number_integer()) {
    question.seed = static_cast<std::uint64_t>(seed->get<std::int64_t>());
  } else {
    members.fail(bad("'seed' must be an integer of at most 64 bits"));
  }
}

void read_stop(Members& members, const char* name, GenerationRequest& request) {
  const Ordered* stop = members.find(name);
  if (stop == nullptr) return;
  const Ordered list = stop->is_array() ? *stop : Ordered::array({*stop});
  for (const Ordered& text : list) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty()) {
      return members.fail(bad("'" + std::string(name) + "' must be texts, none of them empty"));
    }
    request.stop.push_back(text.get<std::string>());
  }
  if (request.stop.size() > kStopsMax) members.fail(bad("more than 16 stop sequences"));
}

void read_logit_bias(Members& members, const Engine& engine, GenerationRequest& request) {
  const Ordered* bias = members.find("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) return members.fail(bad("'logit_bias' must be an object"));
  for (const auto& [key, value] : bias->items()) {
    TokenId id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool known = error == std::errc() && end == key.data() + key.size() && id >= 0 &&
                       static_cast<std::size_t>(id) < engine.vocab_size();
    if (!known || !value.is_number() || std::abs(value.get<double>()) > 100) {
      return members.fail(bad("'logit_bias' maps token ids to numbers from -100 to 100"));
    }
    request.sampling.logit_bias[id] = value.get<double>();
  }
}

/// The members that all APIs share.
void read_sampling(Members& members, const Engine& engine, LocalQuestion& question,
                   GenerationRequest& request, double temperature_max) {
  auto& sampling = request.sampling;
  sampling.temperature = 1;  // what is absent is the API's default, never 0
  members.number("temperature", sampling.temperature, 0, temperature_max);
  members.number("top_p", sampling.top_p, 0, 1);
  if (sampling.top_p == 0) members.fail(bad("'top_p' must be above 0"));
  members.number("min_p", sampling.min_p, 0, 1);
  members.number("frequency_penalty", sampling.frequency_penalty, -2, 2);
  members.number("presence_penalty", sampling.presence_penalty, -2, 2);
  members.number("repetition_penalty", sampling.repetition_penalty, 0.01, 100);
  std::int64_t top_k = 0;
  members.integer("top_k", top_k, -1, std::int64_t{1} << 31);
  sampling.top_k = top_k < 0 ? 0 : static_cast<std::uint32_t>(top_k);
  members.flag("ignore_eos", request.ignore_eos);
  members.flag("stream", question.stream);
  read_seed(members, question);
  read_logit_bias(members, engine, request);
  sampling.seed = question.seed;
}

void read_tokens_max(Members& members, std::initializer_list<const char*> names,
                     std::int64_t fallback, GenerationRequest& request) {
  std::int64_t tokens_max = fallback;
  for (const char* name : names) {
    members.integer(name, tokens_max, 1, std::numeric_limits<std::int32_t>::max());
  }
  request.tokens_max = static_cast<std::uint32_t>(
      std::min<std::int64_t>(tokens_max, std::numeric_limits<std::int32_t>::max()));
}

void read_stream_options(Members& members, LocalQuestion& question) {
  const Ordered* options = members.find("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) return members.fail(bad("'stream_options' must be an object"));
  Members inner(*options);
  inner.flag("include_usage", question.include_usage);
  if (inner.fault()) members.fail(*inner.fault());
}

/// Text of a message's content: a string, or parts of which each is text. Pictures and the like are
/// refused.
Result<std::string> text_of_content(const Ordered& content) {
  if (content.is_null()) return std::string();
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return bad("a message's 'content' must be a text or a list of parts");
  std::string text;
  for (const Ordered& part : content) {
    const std::string type = part.is_object() ? part.value("type", std::string()) : std::string();
    if (type != "text") return unsupported(type.empty() ? "content part" : type);
    if (!part.contains("text") || !part["text"].is_string()) {
      return bad("a part of type 'text' must have a member 'text' that is a text");
    }
    text += part["text"].get<std::string>();
  }
  return text;
}

/// The messages with every content as one text, in the order given.
Result<Ordered> plain_messages(const Ordered* messages) {
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return bad("'messages' must be a list with at least one message");
  }
  Ordered out = Ordered::array();
  for (const Ordered& message : *messages) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
      return bad("each message needs a 'role'");
    }
    auto text = text_of_content(message.value("content", Ordered()));
    if (!text) return text.error();
    Ordered plain = message;
    plain["content"] = *text;
    out.push_back(std::move(plain));
  }
  // By name: ordered_json converts from anything, so a plain return is ambiguous.
  return Result<Ordered>(boost::system::in_place_value, std::move(out));
}

std::string special_text(const Engine& engine, std::optional<TokenId> id) {
  return id ? engine.tokenizer()->token_text(*id) : std::string();
}

/// Refused before it is encoded: a text that is longer than the context whatever its tokens are.
std::optional<Error> find_too_long(const Engine& engine, std::string_view text) {
  const auto bytes_max = engine.tokenizer()->text_bytes_per_token_max();
  if (!bytes_max || text.size() / *bytes_max <= engine.context_max()) return std::nullopt;
  return bad("the prompt of " + std::to_string(text.size()) +
             " bytes is longer than the model's context of " +
             std::to_string(engine.context_max()) + " tokens");
}

/// Renders the chat and encodes it. The template writes BOS itself where the model wants one, so
/// none is added.
Result<std::vector<TokenId>> chat_prompt(const Engine& engine, Ordered messages,
                                         std::int64_t now_us) {
  const auto chat_template = engine.chat_template();
  if (!chat_template || !engine.tokenizer()) return bad("this model has no chat template");
  local_engine::RenderInput input;
  input.messages = std::move(messages);
  input.add_generation_prompt = true;
  input.variables["bos_token"] = special_text(engine, engine.tokenizer()->bos());
  input.variables["eos_token"] = special_text(engine, engine.tokenizer()->eos());
  input.now_us = now_us;
  const auto text = chat_template->render(input);
  if (!text) return text.error();
  if (auto too_long = find_too_long(engine, *text)) return *too_long;
  return engine.tokenizer()->encode(*text, {/*add_special=*/false, /*parse_special=*/true});
}

/// Every choice of one prompt.
void add_choices(LocalQuestion& question, const GenerationRequest& shape,
                 std::vector<TokenId> prompt_ids, std::int64_t n) {
  question.prompt_tokens += prompt_ids.size();
  for (std::int64_t i = 0; i < n; ++i) {
    GenerationRequest request = shape;
    request.prompt_ids = prompt_ids;
    request.sampling.choice = static_cast<std::uint32_t>(question.choices.size());
    question.choices.push_back(std::move(request));
  }
}

// ---- the three APIs

Result<LocalQuestion> read_chat(const Ordered& body, const Engine& engine, std::int64_t now_us,
                                LocalQuestion question) {
  Members members(body);
  GenerationRequest shape;
  read_sampling(members, engine, question, shape, 2);
  read_stop(members, "stop", shape);
  read_stream_options(members, question);
  read_tokens_max(members, {"max_tokens", "max_completion_tokens"},
                  static_cast<std::int64_t>(engine.context_max()), shape);
  members.flag("logprobs", question.logprobs);
  std::int64_t n = 1, top = 0;
  members.integer("n", n, 1, kChoicesMax);
  members.integer("top_logprobs", top, 0, 20);
  if (top > 0 && !question.logprobs) members.fail(bad("'top_logprobs' needs 'logprobs': true"));
  shape.top_logprobs = static_cast<std::uint32_t>(top);
  if (members.fault()) return *members.fault();
  auto messages = plain_messages(members.find("messages"));
  if (!messages) return messages.error();
  auto ids = chat_prompt(engine, std::move(*messages), now_us);
  if (!ids) return ids.error();
  add_choices(question, shape, std::move(*ids), n);
  return question;
}

/// One prompt of the completions API: a text, or token ids.
Result<std::vector<TokenId>> completion_prompt(const Ordered& prompt, const Engine& engine,
                                               std::string& text) {
  if (prompt.is_string()) {
    text = prompt.get<std::string>();
    if (!engine.tokenizer()) return bad("this model has no tokenizer: give token ids");
    if (auto too_long = find_too_long(engine, text)) return *too_long;
    return engine.tokenizer()->encode(text, {/*add_special=*/true, /*parse_special=*/true});
  }
  std::vector<TokenId> ids;
  for (const Ordered& id : prompt) {
    if (!id.is_number_integer() || id < 0 || id >= static_cast<std::int64_t>(engine.vocab_size())) {
      return bad("'prompt' holds something that is no token id of this model");
    }
    ids.push_back(id.get<TokenId>());
  }
  if (engine.tokenizer()) text = engine.tokenizer()->decode(ids, /*skip_special=*/true);
  return ids;
}

Result<LocalQuestion> read_completion(const Ordered& body, const Engine& engine,
                                      LocalQuestion question) {
  Members members(body);
  GenerationRequest shape;
  shape.continues_text = true;
  read_sampling(members, engine, question, shape, 2);
  read_stop(members, "stop", shape);
  read_stream_options(members, question);
  read_tokens_max(members, {"max_tokens"}, 16, shape);  // the API's default
  members.flag("echo", question.echo);
  std::int64_t n = 1, top = -1, best_of = 1;
  members.integer("n", n, 1, kChoicesMax);
  members.integer("logprobs", top, 0, 20);
  best_of = n;
  members.integer("best_of", best_of, 1, kChoicesMax);
  if (best_of != n) members.fail(unsupported("best_of"));
  question.logprobs = top >= 0;
  if (question.echo && question.logprobs) members.fail(unsupported("echo with logprobs"));
  shape.top_logprobs = static_cast<std::uint32_t>(std::max<std::int64_t>(top, 0));
  if (members.fault()) return *members.fault();

  const Ordered* prompt = members.find("prompt");
  if (prompt == nullptr) return bad("'prompt' is missing");
  const bool one =
      prompt->is_string() || (prompt->is_array() && !prompt->empty() && (*prompt)[0].is_number());
  if (!one && (!prompt->is_array() || prompt->empty())) {
    return bad("'prompt' must be a text, token ids, or a list of either");
  }
  const Ordered prompts = one ? Ordered::array({*prompt}) : *prompt;
  if (prompts.size() * static_cast<std::size_t>(n) > static_cast<std::size_t>(kChoicesMax)) {
    return bad("more than 128 answers asked for at once");
  }
  for (const Ordered& each : prompts) {
    if (!each.is_string() && !each.is_array()) return bad("'prompt' mixes other things in");
    std::string text;
    auto ids = completion_prompt(each, engine, text);
    if (!ids) return ids.error();
    for (std::int64_t i = 0; i < n; ++i) question.prompt_texts.push_back(text);
    add_choices(question, shape, std::move(*ids), n);
  }
  return question;
}

Result<LocalQuestion> read_messages(const Ordered& body, const Engine& engine, std::int64_t now_us,
                                    LocalQuestion question) {
  Members members(body);
  GenerationRequest shape;
  read_sampling(members, engine, question, shape, 1);
  read_stop(members, "stop_sequences", shape);
  if (members.find("max_tokens") == nullptr) members.fail(bad("'max_tokens' is missing"));
  read_tokens_max(members, {"max_tokens"}, 1, shape);
  if (members.fault()) return *members.fault();
  auto messages = plain_messages(members.find("messages"));
  if (!messages) return messages.error();
  if (const Ordered* system = members.find("system"); system != nullptr) {
    auto text = text_of_content(*system);
    if (!text) return text.error();
    if (!text->empty()) {
      messages->insert(messages->begin(), Ordered{{"role", "system"}, {"content", *text}});
    }
  }
  auto ids = chat_prompt(engine, std::move(*messages), now_us);
  if (!ids) return ids.error();
  add_choices(question, shape, std::move(*ids), 1);
  return question;
}

Result<LocalQuestion> understand(Api api, const Ordered& json, const Engine& engine,
                                 LocalQuestion question) {
  if (auto refused = find_unsupported(Members(json))) return *refused;
  const std::int64_t now_us = question.now_us;
  if (json.contains("model") && json["model"].is_string()) question.model = json["model"];
  switch (api) {
    case Api::openai_chat:
      return read_chat(json, engine, now_us, std::move(question));
    case Api::openai_completions:
      return read_completion(json, engine, std::move(question));
    case Api::anthropic_messages:
      return read_messages(json, engine, now_us, std::move(question));
    default:
      return unsupported(api_name(api));
  }
}

}  // namespace

Result<LocalQuestion> read_local_request(Api api, std::string_view body, const Engine& engine,
                                         std::int64_t now_us, std::uint64_t fresh_seed) {
  if (!is_utf8(body)) return bad("the body is not valid UTF-8");
  const auto parsed = parse_ordered_json(body);
  if (!parsed) return bad("the body: " + parsed.error().what);
  const Ordered& json = *parsed;
  if (!json.is_object()) return bad("the body must be a JSON object");
  LocalQuestion question;
  question.now_us = now_us;
  question.seed = fresh_seed;
  try {
    return understand(api, json, engine, std::move(question));
  } catch (const Ordered::exception&) {
    // A member of another type than the API's, at a place that nothing above looks at by hand.
    return bad("a member of the body has the wrong type");
  }
}

}  // namespace verbatim::gateway
