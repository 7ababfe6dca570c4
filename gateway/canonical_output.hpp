#pragma once
// One recorded answer in either shape: the stored bytes where the shape is the one it was first
// asked for, else rebuilt (a stream from a whole answer, a whole answer from a stream).

#include "gateway/answer_memory.hpp"
#include "gateway/dialect.hpp"
#include "schema/error.hpp"

#include <string>
#include <string_view>

namespace verbatim::gateway {

/// How a client wants an answer.
struct AnswerShape {
  bool stream = false;
  bool include_usage = false;             ///< OpenAI streams: a usage chunk at the end
  std::string_view accept_encoding = "";  ///< stored bytes may be compressed
};

struct ShapedAnswer {
  ResponseHead head;
  std::string body;
};

/// `unsupported` if the stored answer cannot be given in this shape without loss; ask the upstream
/// then.
[[nodiscard]] Result<ShapedAnswer> answer_in_shape(Api api, const StoredAnswer& stored,
                                                   const AnswerShape& shape,
                                                   std::size_t decoded_bytes_max);

/// A whole OpenAI answer (chat or completions) as the stream it could have been. `invalid_input` if
/// `whole` is not such an answer.
[[nodiscard]] Result<std::string> openai_stream_of(Api api, std::string_view whole,
                                                   bool include_usage);
/// The reverse.
[[nodiscard]] Result<std::string> openai_whole_of(Api api, std::string_view stream);
/// A whole Anthropic message as its stream, and the reverse.
[[nodiscard]] Result<std::string> anthropic_stream_of(std::string_view whole);
[[nodiscard]] Result<std::string> anthropic_whole_of(std::string_view stream);

}  // namespace verbatim::gateway
