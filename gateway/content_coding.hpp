#pragma once
// Content codings (RFC 9110 section 8.4.1) undone, for the gateway's own reading only: clients get
// the bytes that the upstream sent.

#include "schema/error.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace verbatim::gateway {

/// What a coded body may say beside its data, where no decoder gives it out: a name, a comment or extra fields of a gzip
/// member, zstd's skippable frames. (Brotli's metadata blocks cannot be told by its library.)
enum class Beside { passed_over, refused };

/// Undoes gzip (all of its members, RFC 1952 section 2.2), deflate (zlib or raw), br and zstd (all of its frames), and
/// lists of them. `unsupported` for another coding; `invalid_input` if the bytes are not so coded, are cut, go on behind
/// the end, or say something beside that is refused; `out_of_range` beyond `bytes_max`.
[[nodiscard]] Result<std::string> decode_content(std::string_view coding, std::string_view bytes,
                                                 std::size_t bytes_max,
                                                 Beside beside = Beside::passed_over);

}  // namespace verbatim::gateway
