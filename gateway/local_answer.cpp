#include "gateway/local_answer.hpp"

#include "schema/clock.hpp"

#include <algorithm>

namespace verbatim::gateway {

namespace {

using local_engine::FinishReason;
using local_engine::GenerationResult;
using local_engine::TokenInfo;
using Ordered = nlohmann::ordered_json;

/// Model output can hold any bytes; JSON cannot. What is not UTF-8 becomes U+FFFD.
std::string dump(const Ordered& value) {
  return value.dump(-1, ' ', false, Ordered::error_handler_t::replace);
}

std::string_view openai_finish(FinishReason finish) {
  return finish == FinishReason::length ? "length" : "stop";
}

std::string_view anthropic_stop(const GenerationResult& result) {
  if (result.finish == FinishReason::length) return "max_tokens";
  return result.stop_sequence.empty() ? "end_turn" : "stop_sequence";
}

std::size_t output_tokens(const std::vector<LocalChoice>& choices) {
  std::size_t total = 0;
  for (const LocalChoice& choice : choices) total += choice.result.tokens.size();
  return total;
}

Ordered bytes_of(std::string_view text) {
  Ordered bytes = Ordered::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

}  // namespace

std::string local_fingerprint(const local_engine::Engine& engine) {
  return local_fingerprint(local_engine::build_id(), engine.profile(),
                           engine.fingerprint().weights_sha256.hex());
}

std::string local_fingerprint(std::string_view build, std::string_view profile,
                              std::string_view weights_sha256) {
  std::string what(build);
  what.append("\n").append(profile).append("\n").append(weights_sha256);
  return "fp_" + sha256(what).hex().substr(0, 16);
}

LocalAnswer::LocalAnswer(Api api, const LocalQuestion& question, const local_engine::Engine& engine,
                         std::string_view record_id, std::int64_t now_us, std::string fingerprint)
    : api_(api),
      question_(question),
      engine_(engine),
      created_s_(now_us / 1'000'000),
      fingerprint_(std::move(fingerprint)) {
  id_ = api == Api::openai_chat ? "chatcmpl-" : api == Api::openai_completions ? "cmpl-" : "msg_";
  id_.append(record_id);
}

Ordered LocalAnswer::head(std::string_view object) const {
  return {{"id", id_},
          {"object", object},
          {"created", created_s_},
          {"model", question_.model},
          {"system_fingerprint", fingerprint_}};
}

std::string LocalAnswer::event(const Ordered& data, std::string_view name) const {
  std::string out;
  if (!name.empty()) out.append("event: ").append(name).append("\n");
  return out.append("data: ").append(dump(data)).append("\n\n");
}

std::string LocalAnswer::token_text(local_engine::TokenId id) const {
  return engine_.tokenizer() ? engine_.tokenizer()->decode({id}, /*skip_special=*/false)
                             : std::string();
}

/// The end of sequence is a token of the output, but none of the text.
bool LocalAnswer::shows(const TokenInfo& token) const {
  return std::find(engine_.eos_ids().begin(), engine_.eos_ids().end(), token.id) ==
         engine_.eos_ids().end();
}

Ordered LocalAnswer::usage(const std::vector<LocalChoice>& choices) const {
  const std::size_t output = output_tokens(choices);
  if (api_ == Api::anthropic_messages) {
    return {{"input_tokens", question_.prompt_tokens}, {"output_tokens", output}};
  }
  return {{"prompt_tokens", question_.prompt_tokens},
          {"completion_tokens", output},
          {"total_tokens", question_.prompt_tokens + output}};
}

Ordered LocalAnswer::chat_logprob(const TokenInfo& token) const {
  const std::string text = token_text(token.id);
  Ordered top = Ordered::array();
  for (const auto& [id, logprob] : token.top) {
    const std::string other = token_text(id);
    top.push_back({{"token", other}, {"logprob", logprob}, {"bytes", bytes_of(other)}});
  }
  return {{"token", text},
          {"logprob", token.logprob},
          {"bytes", bytes_of(text)},
          {"top_logprobs", std::move(top)}};
}

Ordered LocalAnswer::chat_logprobs(const std::vector<TokenInfo>& tokens) const {
  if (!question_.logprobs) return nullptr;
  Ordered content = Ordered::array();
  for (const TokenInfo& token : tokens) {
    if (shows(token)) content.push_back(chat_logprob(token));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Ordered LocalAnswer::completion_logprobs(const std::vector<TokenInfo>& tokens) const {
  if (!question_.logprobs) return nullptr;
  Ordered texts = Ordered::array(), logprobs = Ordered::array(), tops = Ordered::array(),
          offsets = Ordered::array();
  std::size_t offset = 0;
  for (const TokenInfo& token : tokens) {
    if (!shows(token)) continue;
    Ordered top = Ordered::object();
    for (const auto& [id, logprob] : token.top) top[token_text(id)] = logprob;
    texts.push_back(token_text(token.id));
    logprobs.push_back(token.logprob);
    tops.push_back(std::move(top));
    offsets.push_back(offset);
    offset += token.text.size();
  }
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

// ---- whole

Ordered LocalAnswer::whole_choice(std::size_t index, const LocalChoice& choice) const {
  const GenerationResult& result = choice.result;
  Ordered out = {{"index", index}};
  if (api_ == Api::openai_chat) {
    out["message"] = {{"role", "assistant"}, {"content", result.text}, {"refusal", nullptr}};
    out["logprobs"] = chat_logprobs(result.tokens);
  } else {
    out["text"] = (question_.echo ? question_.prompt_texts[index] : "") + result.text;
    out["logprobs"] = completion_logprobs(result.tokens);
  }
  out["finish_reason"] = openai_finish(result.finish);
  return out;
}

std::string LocalAnswer::whole(const std::vector<LocalChoice>& choices) const {
  if (api_ == Api::anthropic_messages) {
    const GenerationResult& result = choices.front().result;
    const Ordered stop_sequence =
        result.stop_sequence.empty() ? Ordered() : Ordered(result.stop_sequence);
    return dump({{"id", id_},
                 {"type", "message"},
                 {"role", "assistant"},
                 {"model", question_.model},
                 {"content", Ordered::array({{{"type", "text"}, {"text", result.text}}})},
                 {"stop_reason", anthropic_stop(result)},
                 {"stop_sequence", stop_sequence},
                 {"usage", usage(choices)}});
  }
  Ordered out = head(api_ == Api::openai_chat ? "chat.completion" : "text_completion");
  out["choices"] = Ordered::array();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    out["choices"].push_back(whole_choice(i, choices[i]));
  }
  out["usage"] = usage(choices);
  return dump(out);
}

// ---- streams

Ordered LocalAnswer::chunk(Ordered choice) const {
  Ordered out = head(api_ == Api::openai_chat ? "chat.completion.chunk" : "text_completion");
  out["choices"] = Ordered::array({std::move(choice)});
  if (question_.include_usage) out["usage"] = nullptr;
  return out;
}

std::string LocalAnswer::begin() const {
  std::string out;
  if (api_ == Api::anthropic_messages) {
    const Ordered message = {
        {"id", id_},
        {"type", "message"},
        {"role", "assistant"},
        {"model", question_.model},
        {"content", Ordered::array()},
        {"stop_reason", nullptr},
        {"stop_sequence", nullptr},
        {"usage", {{"input_tokens", question_.prompt_tokens}, {"output_tokens", 0}}}};
    const Ordered block = {{"type", "text"}, {"text", ""}};
    out = event({{"type", "message_start"}, {"message", message}}, "message_start");
    out += event({{"type", "content_block_start"}, {"index", 0}, {"content_block", block}},
                 "content_block_start");
    return out;
  }
  for (std::size_t i = 0; i < question_.choices.size(); ++i) {
    if (api_ == Api::openai_chat) {
      out += event(chunk({{"index", i},
                          {"delta", {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}}},
                          {"logprobs", nullptr},
                          {"finish_reason", nullptr}}));
    } else if (question_.echo) {
      out += event(chunk({{"index", i},
                          {"text", question_.prompt_texts[i]},
                          {"logprobs", nullptr},
                          {"finish_reason", nullptr}}));
    }
  }
  return out;
}

std::string LocalAnswer::piece(std::size_t index, std::string_view text,
                               const TokenInfo* token) const {
  const bool told = token != nullptr && question_.logprobs && shows(*token);
  if (text.empty() && !told) return "";
  if (api_ == Api::anthropic_messages) {
    return event({{"type", "content_block_delta"},
                  {"index", 0},
                  {"delta", {{"type", "text_delta"}, {"text", text}}}},
                 "content_block_delta");
  }
  const std::vector<TokenInfo> tokens =
      told ? std::vector<TokenInfo>{*token} : std::vector<TokenInfo>{};
  if (api_ == Api::openai_chat) {
    return event(chunk({{"index", index},
                        {"delta", {{"content", text}}},
                        {"logprobs", told ? chat_logprobs(tokens) : Ordered()},
                        {"finish_reason", nullptr}}));
  }
  return event(chunk({{"index", index},
                      {"text", text},
                      {"logprobs", told ? completion_logprobs(tokens) : Ordered()},
                      {"finish_reason", nullptr}}));
}

std::string LocalAnswer::finish(std::size_t index, const LocalChoice& choice) const {
  const GenerationResult& result = choice.result;
  // What was held back because it could have become a stop sequence.
  std::string out;
  if (choice.given < result.text.size()) {
    out = piece(index, std::string_view(result.text).substr(choice.given), nullptr);
  }
  if (api_ == Api::anthropic_messages) {
    return out + event({{"type", "content_block_stop"}, {"index", 0}}, "content_block_stop");
  }
  Ordered last = {{"index", index}};
  if (api_ == Api::openai_chat) {
    last["delta"] = Ordered::object();
  } else {
    last["text"] = "";
  }
  last["logprobs"] = nullptr;
  last["finish_reason"] = openai_finish(result.finish);
  return out + event(chunk(std::move(last)));
}

std::string LocalAnswer::end(const std::vector<LocalChoice>& choices) const {
  if (api_ == Api::anthropic_messages) {
    const GenerationResult& result = choices.front().result;
    const Ordered stop_sequence =
        result.stop_sequence.empty() ? Ordered() : Ordered(result.stop_sequence);
    return event({{"type", "message_delta"},
                  {"delta",
                   {{"stop_reason", anthropic_stop(result)}, {"stop_sequence", stop_sequence}}},
                  {"usage", {{"output_tokens", output_tokens(choices)}}}},
                 "message_delta") +
           event({{"type", "message_stop"}}, "message_stop");
  }
  std::string out;
  if (question_.include_usage) {
    Ordered last = head(api_ == Api::openai_chat ? "chat.completion.chunk" : "text_completion");
    last["choices"] = Ordered::array();
    last["usage"] = usage(choices);
    out = event(last);
  }
  return out + "data: [DONE]\n\n";
}

// ---- for the record

namespace {

/// Those that computed the output, each once: "cuda", or "cuda,avx512" of answers that were moved on their way.
std::string backends_of(const local_engine::Engine& engine,
                        const std::vector<LocalChoice>& choices) {
  std::vector<std::string> names;
  for (const LocalChoice& choice : choices) {
    for (const std::string& name : choice.result.backends) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text.empty() ? engine.backend() : text;
}

}  // namespace

Json describe_engine(const local_engine::Engine& engine, const std::vector<LocalChoice>& choices) {
  Json out = {{"numerics_profile", engine.profile()},
              {"backend", backends_of(engine, choices)},
              {"build", local_engine::build_id()},
              {"weights_sha256", engine.fingerprint().weights_sha256.hex()},
              {"answer_format", kAnswerFormat},
              {"choices", Json::array()}};
  for (const LocalChoice& choice : choices) {
    out["choices"].push_back({{"tokens", choice.result.tokens.size()}});
  }
  return out;
}

std::string tokens_content(const LocalQuestion& question, const std::vector<LocalChoice>& choices) {
  Json out = {{"choices", Json::array()}, {"now", format_rfc3339(question.now_us)}};
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto& request = question.choices[i];
    const auto& sampling = request.sampling;
    Json each = {{"prompt_ids", request.prompt_ids},
                 {"output_ids", Json::array()},
                 {"row_digest8", Json::array()},
                 {"logits_digest", choices[i].result.logits_digest.hex()},
                 {"ignore_eos", request.ignore_eos}};
    for (const TokenInfo& token : choices[i].result.tokens) {
      each["output_ids"].push_back(token.id);
      each["row_digest8"].push_back(to_hex(token.row_digest8));
    }
    each["finish"] = choices[i].result.finish == FinishReason::cancelled
                         ? "cancelled"
                         : openai_finish(choices[i].result.finish);
    each["sampling"] = {{"temperature", ecmascript_number(sampling.temperature)},
                        {"seed", std::to_string(sampling.seed)},
                        {"choice", std::to_string(sampling.choice)},
                        {"top_k", std::to_string(sampling.top_k)},
                        {"top_p", ecmascript_number(sampling.top_p)},
                        {"min_p", ecmascript_number(sampling.min_p)},
                        {"repetition_penalty", ecmascript_number(sampling.repetition_penalty)},
                        {"frequency_penalty", ecmascript_number(sampling.frequency_penalty)},
                        {"presence_penalty", ecmascript_number(sampling.presence_penalty)}};
    for (const auto& [id, bias] : sampling.logit_bias) {
      each["sampling"]["logit_bias"][std::to_string(id)] = ecmascript_number(bias);
    }
    out["choices"].push_back(std::move(each));
  }
  return out.dump();
}

std::string layers_content(const std::vector<LocalChoice>& choices, std::size_t bytes_max) {
  Json out = {{"v", 1}, {"choices", Json::array()}};
  bool any = false;
  for (const LocalChoice& choice : choices) {
    const auto& digests = choice.result.layer_digests;
    const auto kept = digests ? digests->within(bytes_max / choices.size()) : std::nullopt;
    out["choices"].push_back(kept ? kept->json() : Json());
    any = any || kept;
  }
  return any ? out.dump() : "";
}

std::string fingerprint_content(const std::vector<LocalChoice>& choices) {
  std::string bytes;
  for (const LocalChoice& choice : choices)
    bytes += local_engine::encode_fingerprint(choice.result.top_activations);
  return bytes;
}

Json describe_usage(const LocalQuestion& question, const std::vector<LocalChoice>& choices) {
  return {{"input_tokens", question.prompt_tokens}, {"output_tokens", output_tokens(choices)}};
}

namespace {

Ordered model_entry(bool anthropic, const std::string& name) {
  if (anthropic) {
    return {{"type", "model"},
            {"id", name},
            {"display_name", name},
            {"created_at", "1970-01-01T00:00:00Z"}};
  }
  return {{"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "verbatim"}};
}

}  // namespace

std::string models_body(bool anthropic, const std::vector<std::string>& names) {
  Ordered data = Ordered::array();
  for (const std::string& name : names) data.push_back(model_entry(anthropic, name));
  if (!anthropic) return dump({{"object", "list"}, {"data", std::move(data)}});
  return dump({{"data", std::move(data)},
               {"has_more", false},
               {"first_id", names.empty() ? Ordered() : Ordered(names.front())},
               {"last_id", names.empty() ? Ordered() : Ordered(names.back())}});
}

std::string model_body(bool anthropic, const std::string& name) {
  return dump(model_entry(anthropic, name));
}

}  // namespace verbatim::gateway
