#pragma once
// Chat templates: the Jinja subset that real templates use, with Hugging Face's semantics
// (trim_blocks, lstrip_blocks, loop controls, tojson without HTML escaping, a frozen clock).

#include "schema/canonical_json.hpp"
#include "schema/digest.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace verbatim::local_engine {

struct RenderInput {  // OrderedJson: as in Python, tojson prints members in the order they came
  OrderedJson messages = OrderedJson::array();
  OrderedJson tools;  ///< null when absent
  bool add_generation_prompt = true;
  OrderedJson variables = OrderedJson::object();  ///< bos_token, eos_token, enable_thinking, ...
  std::int64_t now_us = 0;  ///< what strftime_now sees: the time of the request
};

/// Immutable; may be used from any thread.
class ChatTemplate {
 public:
  /// `invalid_input` names line and column; `unsupported` also the statement that is not supported.
  [[nodiscard]] static Result<std::shared_ptr<const ChatTemplate>> parse(std::string source);
  virtual ~ChatTemplate() = default;
  /// `invalid_input`: the template's own raise_exception message, or a fault with line and column. Bounded
  /// time and output (16 MiB): a hostile template ends with an error.
  [[nodiscard]] virtual Result<std::string> render(const RenderInput& input) const = 0;
  [[nodiscard]] virtual Digest sha256() const = 0;
};

/// The chat template of a model: chat_template.jinja in its folder, else "chat_template" of tokenizer_config.json (a
/// text, or a list of named templates: the one named "default"), or `tokenizer.chat_template` of a .gguf. Null when
/// it has none. Errors as parse(), `unsupported` for a list without a default, `storage_failed`.
[[nodiscard]] Result<std::shared_ptr<const ChatTemplate>> load_chat_template(
    const std::filesystem::path& path);

}  // namespace verbatim::local_engine
