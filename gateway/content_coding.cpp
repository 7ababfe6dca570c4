#include "gateway/content_coding.hpp"

#include "gateway/http.hpp"

#include <brotli/decode.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

namespace verbatim::gateway {

namespace {

Error broken(std::string_view coding) {
  return {Errc::invalid_input, "not whole " + std::string(coding), "content-encoding", ""};
}
Error too_large() { return {Errc::out_of_range, "decodes to too much", "content-encoding", ""}; }

constexpr std::string_view kGzipMagic = "\x1f\x8b";
constexpr unsigned kGzipSaysMore =
    0x1c;  // extra fields, a name, a comment (RFC 1952 section 2.3.1)

bool says_more(std::string_view member) {
  return member.starts_with(kGzipMagic) && member.size() > 3 &&
         (static_cast<unsigned char>(member[3]) & kGzipSaysMore) != 0;
}

/// `window`: zlib's windowBits: 15 + 32 finds gzip and zlib by itself, -15 is raw deflate.
Result<std::string> inflate_all(std::string_view bytes, std::size_t bytes_max, int window,
                                Beside beside) {
  z_stream stream{};
  if (inflateInit2(&stream, window) != Z_OK) return broken("deflate");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  std::array<char, 32768> piece;
  int status = Z_OK;
  const auto rest = [&] { return bytes.substr(bytes.size() - stream.avail_in); };
  if (beside == Beside::refused && says_more(bytes)) return broken("gzip");
  while (status == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = piece.size();
    status = inflate(&stream, Z_NO_FLUSH);
    out.append(piece.data(), piece.size() - stream.avail_out);
    if (out.size() > bytes_max) return too_large();
    if (status == Z_BUF_ERROR) break;  // the input is cut
    const bool goes_on =
        status == Z_STREAM_END && bytes.starts_with(kGzipMagic) && rest().starts_with(kGzipMagic);
    if (!goes_on) continue;
    if (beside == Beside::refused && says_more(rest())) return broken("gzip");
    status = inflateReset(&stream);
  }
  if (status != Z_STREAM_END || stream.avail_in != 0) return broken("deflate");
  return out;
}

Result<std::string> unbrotli(std::string_view bytes, std::size_t bytes_max) {
  const std::unique_ptr<BrotliDecoderState, void (*)(BrotliDecoderState*)> state(
      BrotliDecoderCreateInstance(nullptr, nullptr, nullptr), BrotliDecoderDestroyInstance);
  const auto* next_in = reinterpret_cast<const std::uint8_t*>(bytes.data());
  std::size_t avail_in = bytes.size();
  std::string out;
  std::array<std::uint8_t, 32768> piece;
  for (;;) {
    std::uint8_t* next_out = piece.data();
    std::size_t avail_out = piece.size();
    const BrotliDecoderResult result = BrotliDecoderDecompressStream(
        state.get(), &avail_in, &next_in, &avail_out, &next_out, nullptr);
    out.append(reinterpret_cast<const char*>(piece.data()), piece.size() - avail_out);
    if (out.size() > bytes_max) return too_large();
    if (result == BROTLI_DECODER_RESULT_SUCCESS && avail_in == 0) return out;
    if (result != BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT) return broken("br");
  }
}

/// RFC 8878 section 3.1.2: 0x184D2A50 to 0x184D2A5F, little-endian.
bool is_skippable_frame(std::string_view bytes) {
  return bytes.size() >= 4 && (static_cast<unsigned char>(bytes[0]) & 0xF0) == 0x50 &&
         bytes.substr(1, 3) == "\x2a\x4d\x18";
}

Result<std::string> unzstd(std::string_view bytes, std::size_t bytes_max, Beside beside) {
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                             ZSTD_freeDStream);
  // RFC 9659: HTTP's zstd has windows of at most 8 MiB; a larger one would be memory for the asking.
  ZSTD_DCtx_setParameter(stream.get(), ZSTD_d_windowLogMax, 23);
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  std::string out;
  std::array<char, 32768> piece;
  std::size_t left = 1;
  bool frame_begins = true;
  while (in.pos < in.size || left != 0) {
    if (frame_begins && beside == Beside::refused && is_skippable_frame(bytes.substr(in.pos))) {
      return broken("zstd");
    }
    ZSTD_outBuffer piece_out{piece.data(), piece.size(), 0};
    const std::size_t before = in.pos;
    left = ZSTD_decompressStream(stream.get(), &piece_out, &in);
    if (ZSTD_isError(left) != 0) return broken("zstd");
    out.append(piece.data(), piece_out.pos);
    if (out.size() > bytes_max) return too_large();
    frame_begins = left == 0;
    if (piece_out.pos == 0 && in.pos == before) break;  // no progress: the input is cut
  }
  if (left != 0) return broken("zstd");
  return out;
}

Result<std::string> decode_one(std::string_view coding, std::string_view bytes,
                               std::size_t bytes_max, Beside beside) {
  if (same_word(coding, "gzip") || same_word(coding, "x-gzip")) {
    return inflate_all(bytes, bytes_max, 15 + 32, beside);
  }
  if (same_word(coding, "deflate")) {
    // Named deflate, meant as zlib, sent as either.
    auto out = inflate_all(bytes, bytes_max, 15 + 32, beside);
    if (out || out.error().code != Errc::invalid_input) return out;
    return inflate_all(bytes, bytes_max, -15, beside);
  }
  if (same_word(coding, "br")) return unbrotli(bytes, bytes_max);
  if (same_word(coding, "zstd")) return unzstd(bytes, bytes_max, beside);
  return Error{Errc::unsupported, "content coding '" + std::string(coding.substr(0, 32)) + "'",
               "content-encoding", ""};
}

}  // namespace

Result<std::string> decode_content(std::string_view coding, std::string_view bytes,
                                   std::size_t bytes_max, Beside beside) {
  std::vector<std::string_view> codings;  // in the order applied
  while (!coding.empty()) {
    const std::size_t comma = std::min(coding.find(','), coding.size());
    std::string_view one = coding.substr(0, comma);
    while (!one.empty() && one.front() == ' ') one.remove_prefix(1);
    while (!one.empty() && one.back() == ' ') one.remove_suffix(1);
    if (!one.empty() && !same_word(one, "identity")) codings.push_back(one);
    coding.remove_prefix(std::min(comma + 1, coding.size()));
  }
  if (codings.size() > 4) {
    return Error{Errc::unsupported, "more than four content codings", "content-encoding", ""};
  }
  std::string current(bytes);
  for (auto each = codings.rbegin(); each != codings.rend(); ++each) {
    auto next = decode_one(*each, current, bytes_max, beside);
    if (!next) return next.error();
    current = std::move(*next);
  }
  return current;
}

}  // namespace verbatim::gateway
