#pragma once
// Content codings (RFC 9110 section 8.4.1) undone, for the gateway's own reading only: clients get
// the bytes that the upstream sent.

#include "schema/error.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace verbatim::gateway {

/// Undoes gzip, deflate (zlib or raw), br and zstd, and lists of them. `unsupported` for another
/// coding; `invalid_input` if the bytes are not so coded or are cut; `out_of_range` beyond
/// `bytes_max`.
[[nodiscard]] Result<std::string> decode_content(std::string_view coding, std::string_view bytes,
                                                 std::size_t bytes_max);

}  // namespace verbatim::gateway
