#pragma once
// Chat templates: the Jinja subset that real templates use, with Hugging Face's semantics
// (trim_blocks, lstrip_blocks, loop controls, tojson without HTML escaping, a frozen clock).

#include "schema/canonical_json.hpp"
#include "schema/digest.hpp"
#include "schema/error.hpp"

#include <cstdint>
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

class ChatTemplate {
 public:
  /// `invalid_input` names line and column.
  [[nodiscard]] static Result<std::shared_ptr<const ChatTemplate>> parse(std::string source);
  virtual ~ChatTemplate() = default;
  /// `invalid_input`: the template's own raise_exception message, or a fault with line and column. Bounded
  /// time and output (16 MiB): a hostile template ends with an error.
  [[nodiscard]] virtual Result<std::string> render(const RenderInput& input) const = 0;
  [[nodiscard]] virtual Digest sha256() const = 0;
};

}  // namespace verbatim::local_engine
